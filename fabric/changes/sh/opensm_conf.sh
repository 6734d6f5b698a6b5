# Edits a subnet manager's configuration file on its own host.
#
# `sh -c TEXT fabric-conf VERB CONFIG BACKUP [key=value...]`, in one line, because a guard keeps one command a line:
# every command ends with a ;. Values only ever arrive as positional parameters. The file is replaced by renaming a
# whole, synced copy over it, so that every reader, whatever happens meanwhile (a full disk, a crash), finds the old
# file or the new one. The script prints one line on stdout, or exits 1 with a reason on stderr.
#
# `set` copies CONFIG to BACKUP if there is none yet and gives each key its value (mode and owner stay; a missing key
# gets a line). `undo` restores the lines of the keys byte for byte from BACKUP, and touches no others: changes of other
# keys may come and go meanwhile, in any order. Without a BACKUP, `key=value` gives the old value, and `key` says that
# there was none. `absent` succeeds when no line has one of the keys. `show` prints the file and then `# fabric-conf:
# whole`. `drop` removes BACKUP. Each may be run twice; two calls that run at the same time in one folder wait for each
# other. Whether the last line ends with a line break stays as it was.

LC_ALL=C; export LC_ALL; umask 077; set -f;
fail() { printf 'fabric-conf: %s\n' "$1" >&2; exit 1; };
synced() { sync -- "$1" 2>/dev/null || sync; };
ended() { [ -s "$1" ] && [ "$(tail -c 1 -- "$1" | wc -l)" -eq 0 ] && echo 0 || echo 1; };
lines_of() {
    only=$1; shift;
    awk -v only="$only" '
        BEGIN { for (i = 1; i < ARGC; i++) { key = ARGV[i]; sub(/=.*/, "", key); wanted[key] = 1; } ARGC = 1; }
        ($1 in wanted) == only { print; }' "$@";
};
verb=$1 config=$2 backup=$3; shift 3;
folder=${config%/*}; [ "$folder" = "$config" ] && folder=.;
new=$config.fabric-new;
[ -d "$folder" ] || fail "$folder: no such folder";
exec 9<"$folder" && flock -w 20 9 || fail "$folder: somebody else edits here";
case $verb in
set)
    [ -L "$config" ] && fail "$config: a symbolic link; name the file itself";
    [ -f "$config" ] || fail "$config: no such file";
    trap 'rm -f -- "$new" "$backup.new"' EXIT;
    if [ ! -e "$backup" ]; then
        cp -p -- "$config" "$backup.new" && cmp -s -- "$config" "$backup.new" && synced "$backup.new" &&
            mv -f -- "$backup.new" "$backup" || fail "$backup: cannot be written";
        synced "$folder";
    fi;
    cp -p -- "$config" "$new" || fail "$new: cannot be written";
    awk -v ended="$(ended "$config")" '
        function out(line) { printf "%s%s", (lines++ ? "\n" : ""), line; }
        BEGIN {
            for (i = 1; i < ARGC; i++) {
                at = index(ARGV[i], "="); key = substr(ARGV[i], 1, at - 1);
                wanted[key] = substr(ARGV[i], at + 1); order[i] = key;
            }
            count = ARGC; ARGC = 1;
        }
        $1 in wanted { out($1 " " wanted[$1]); done[$1] = 1; next; }
        { out($0); }
        END {
            for (i = 1; i < count; i++) if (!(order[i] in done)) {
                out(order[i] " " wanted[order[i]]); done[order[i]] = 1;
            }
            if (lines && ended) printf "\n";
        }
    ' "$@" <"$config" >"$new" || fail "$new: cannot be written";
    was=$(awk 'END { print NR; }' <"$config"); is=$(awk 'END { print NR; }' <"$new");
    [ "${is:-0}" -ge "${was:-1}" ] || fail "$new: is not whole";
    for word in "$@"; do
        key=${word%%=*};
        got=$(awk -v key="$key" '
            $1 == key { sub(/^[ \t]*[^ \t]+[ \t]+/, ""); last = $0; } END { print last; }' <"$new");
        [ "$got" = "${word#*=}" ] || fail "$new: is not whole";
    done;
    synced "$new";
    mv -f -- "$new" "$config" || fail "$config: cannot be replaced";
    synced "$folder";
    printf 'set %s\n' "$config" ;;
undo)
    [ -L "$config" ] && fail "$config: a symbolic link; name the file itself";
    [ -f "$config" ] || fail "$config: no such file";
    trap 'rm -f -- "$new"' EXIT;
    kept=; [ ! -e "$backup" ] || kept=$backup;
    cp -p -- "$config" "$new" || fail "$new: cannot be written";
    awk -v ended="$(ended "$config")" '
        function out(line) { printf "%s%s", (lines++ ? "\n" : ""), line; }
        function key_of(line) { sub(/^[ \t]+/, "", line); sub(/[ \t].*/, "", line); return line; }
        function value_of(line) { sub(/^[ \t]*[^ \t]+[ \t]*/, "", line); sub(/[ \t]+$/, "", line); return line; }
        BEGIN {
            kept = ARGV[1];
            for (i = 2; i < ARGC; i++) {
                at = index(ARGV[i], "="); key = at ? substr(ARGV[i], 1, at - 1) : ARGV[i];
                order[i] = key; had[key] = 0;
                if (at && kept == "") { had[key] = 1; was[key, 1] = key " " substr(ARGV[i], at + 1); }
            }
            count = ARGC; ARGC = 1;
            while (kept != "" && (getline line < kept) > 0) {
                key = key_of(line); if (key in had) was[key, ++had[key]] = line;
            }
        }
        $1 in had {
            nth = ++seen[$1];
            if (nth > had[$1]) next;
            out(kept == "" && value_of($0) == value_of(was[$1, nth]) ? $0 : was[$1, nth]); next;
        }
        { out($0); }
        END {
            for (i = 2; i < count; i++) {
                key = order[i];
                for (nth = seen[key] + 1; nth <= had[key]; nth++) out(was[key, nth]);
                seen[key] = had[key];
            }
            if (lines && ended) printf "\n";
        }
    ' "$kept" "$@" <"$config" >"$new" || fail "$new: cannot be written";
    [ "$(lines_of 0 "$@" <"$config" | cksum)" = "$(lines_of 0 "$@" <"$new" | cksum)" ] || fail "$new: is not whole";
    [ -z "$kept" ] || [ "$(lines_of 1 "$@" <"$kept" | cksum)" = "$(lines_of 1 "$@" <"$new" | cksum)" ] ||
        fail "$new: is not whole";
    if cmp -s -- "$config" "$new"; then printf 'nothing to undo: %s\n' "$config"; exit 0; fi;
    synced "$new";
    mv -f -- "$new" "$config" || fail "$config: cannot be replaced";
    synced "$folder";
    printf 'undone %s\n' "$config" ;;
absent)
    [ -f "$config" ] || fail "$config: no such file";
    [ -z "$(lines_of 1 "$@" <"$config")" ] || fail "$config: has a key that was not there before";
    printf 'absent %s\n' "$config" ;;
show)
    [ -f "$config" ] || fail "$config: no such file";
    cat -- "$config" && printf '\n# %s\n' 'fabric-conf: whole' ;;
drop)
    rm -f -- "$backup" "$backup.new" "$new" || fail "$backup: cannot be removed";
    printf 'dropped %s\n' "$backup" ;;
*)
    fail "no such verb: $verb" ;;
esac
