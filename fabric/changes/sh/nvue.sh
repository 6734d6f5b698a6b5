# The guard's steps of an nvue commit: each sets one key of one switch, by the switch's own system.
#
# `sh -c TEXT fabric-nvue VERB PATH ...`, in one line, because a guard keeps one command a line: every command ends with
# a ;. PATH is the key's place in NVUE's tree, words with a blank between them; HOW is set or unset (left to its
# default).
#
# All verbs but `seen` refuse (exit 1, and a reason on stderr) when this account has other edits that it has not
# applied: a commit would carry them along. An undo still succeeds if nothing of ours is staged or applied. `clean`:
# check that no edit at all waits. `seen KEY VALUE HOW`: check the key. `stage KEY VALUE HOW`: unless the key is so
# already, stage it, and confirm a commit that waits to be confirmed; from then on no timer of ours rolls back what
# somebody else commits. `commit MESSAGE`: apply what is staged, if anything is. All may be run twice.
#
# Adaptive routing is checked in what the switch shows. Keys below qos, whose JSON form is documented nowhere in public,
# are checked in the applied configuration, as commands.

LC_ALL=C; export LC_ALL; set -f;
fail() { printf 'fabric-nvue: %s\n' "$*" >&2; exit 1; };
verb=$1; path=$2; shift 2;
# Lines of `nv config diff` that hold nothing but this path and its keys; the path's second word is in no other one.
words=$(printf '%s' "$path" | sed 's/ /|/g');
own="^((- )?(set|unset):|($words):|(enable|state|ecn|tx|rx):)[^:]*\$";
below=${path#* }; below=${below%% *};
edits() { nv config diff 2>&1 || { printf 'nv config diff failed\n'; return 1; }; };
others() { printf '%s\n' "$1" | sed "s/^ *//; s/'//g" | grep -v -E "$own" | grep -v '^$'; };
alone() {
    waiting=$(edits) || fail "$waiting";
    foreign=$(others "$waiting");
    [ -z "$foreign" ] ||
        fail "this account has edits that were not applied, and they would be applied with ours:" $foreign;
};
is() {
    case $path in
    qos*) configured "$1" "$2" "$3" ;;
    *) nv show $path -o json | grep -E "\"$1\" *: *\"$2\"" ;;
    esac;
};
configured() {
    lines=$(nv config show -o commands) && printf '%s\n' "$lines" | grep '^ *nv set ' >/dev/null || return 1;
    case $3 in
    unset)
        ! printf '%s\n' "$lines" | grep "^ *nv set $path $1 " >/dev/null && printf 'nv unset %s %s\n' "$path" "$1" ;;
    *) printf '%s\n' "$lines" | grep "^ *nv set $path $1 $2 *\$" ;;
    esac;
};
unstaged() { waiting=$(edits) && ! printf '%s\n' "$waiting" | grep "^ *$below:" >/dev/null; };
case $verb in
stage) ! unstaged || ! is "$1" "$2" "$3" >/dev/null || { printf 'nothing to undo\n'; exit 0; } ;;
commit) ! unstaged || { printf 'committed\n'; exit 0; } ;;
esac;
[ "$verb" = seen ] || alone;
case $verb in
clean)
    [ -z "$waiting" ] || fail "this account has edits that were not applied:" $waiting;
    printf 'nothing waits to be applied\n' ;;
seen)
    is "$1" "$2" "$3" || fail "$path $1 is not $2 after the commit" ;;
stage)
    if [ "$3" = unset ]; then nv unset $path "$1" || fail "it cannot be unset";
    else nv set $path "$1" "$2" || fail "it cannot be set"; fi;
    nv config apply --confirm-yes >/dev/null 2>&1 || printf 'nothing waits to be confirmed\n';
    printf 'staged %s %s\n' "$1" "$2" ;;
commit)
    nv config apply -m "$1" -y || fail "it cannot be applied";
    printf 'committed\n' ;;
*)
    fail "no such verb: $verb" ;;
esac
