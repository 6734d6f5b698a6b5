"""
How a subnet manager's configuration file is edited on its own host: one constant text for POSIX sh.

Values only ever arrive as positional parameters. The file is replaced by renaming a whole, synced copy over it, so that
whoever reads it, and whatever happens meanwhile (a full disk, a crash), finds the old one or the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from fabric.model.change import Argv
from fabric.tools import opensm_conf

NOTHING = "nothing to restore"
"""What ``restore`` says when there is no backup: the file is what it was."""

_TEXT = r"""
LC_ALL=C; export LC_ALL; umask 077; set -f;
fail() { printf 'fabric-conf: %s\n' "$1" >&2; exit 1; };
synced() { sync -- "$1" 2>/dev/null || sync; };
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
    awk '
        BEGIN {
            for (i = 1; i < ARGC; i++) {
                at = index(ARGV[i], "="); key = substr(ARGV[i], 1, at - 1);
                wanted[key] = substr(ARGV[i], at + 1); order[i] = key;
            }
            count = ARGC; ARGC = 1;
        }
        $1 in wanted { print $1 " " wanted[$1]; done[$1] = 1; next; }
        { print; }
        END {
            for (i = 1; i < count; i++) if (!(order[i] in done)) {
                print order[i] " " wanted[order[i]]; done[order[i]] = 1;
            }
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
restore)
    [ -e "$backup" ] || { printf 'nothing to restore: %s\n' "$config"; exit 0; };
    mv -f -- "$backup" "$config" || fail "$config: cannot be replaced";
    synced "$folder";
    printf 'restored %s\n' "$config" ;;
drop)
    rm -f -- "$backup" "$backup.new" "$new" || fail "$backup: cannot be removed";
    printf 'dropped %s\n' "$backup" ;;
*)
    fail "no such verb: $verb" ;;
esac
"""

CONF_SH = " ".join(line.strip() for line in _TEXT.strip().splitlines())
"""
``sh -c CONF_SH fabric-conf VERB CONFIG BACKUP [key=value...]``; one line, as a guard keeps one command a line.

Says one line on stdout, or exits 1 with a reason on stderr.

``set`` copies CONFIG to BACKUP if there is none yet and gives each key its value (mode and owner stay; a key that is
missing gets a line). ``restore`` puts BACKUP back over CONFIG. ``drop`` removes BACKUP. Each may be run twice; two
that run at the same time in one folder wait for each other.
"""


def edit(config: str, backup: str, values: Mapping[str, str]) -> Argv:
    """Give keys their values; ValueError when a key or value would not stay on its line."""
    return ("sh", "-c", CONF_SH, "fabric-conf", "set", config, backup, *opensm_conf.settings(values))


def restore(config: str, backup: str) -> Argv:
    """Put back what was there before the first ``edit``."""
    return ("sh", "-c", CONF_SH, "fabric-conf", "restore", config, backup)


def drop(config: str, backup: str) -> Argv:
    """Forget what was there before."""
    return ("sh", "-c", CONF_SH, "fabric-conf", "drop", config, backup)


def backup_of(config: str, change_id: str) -> str:
    """Where the file as it was is kept: beside it, named by the change."""
    return f"{config}.fabric-{sha256(change_id.encode()).hexdigest()[:12]}"
