# What the guard's steps of an nvue commit do: adaptive routing of one switch, told by its own system.
#
# `sh -c TEXT fabric-nvue VERB ...`, in one line, as a guard keeps one command a line: every command ends with a ;.
#
# All but `seen` refuse (1, and a reason on stderr) when this account has other edits that it has not applied: a commit
# would carry them along. An undo is done all the same where nothing of ours is staged or applied. `clean`: no edit at
# all waits. `seen KEY VALUE`: adaptive routing is so. `stage KEY VALUE set|unset`, unless it is so: stage it (`unset`:
# its default), and keep what waits to be confirmed; then no timer of ours takes back what somebody else commits from now
# on. `commit MESSAGE`: apply what is staged, if anything is. All may be run twice.

LC_ALL=C; export LC_ALL; set -f;
# Lines of `nv config diff` that hold nothing but adaptive routing of the whole switch.
own='^((- )?(set|unset):|router:|adaptive-routing:|(enable|state):)[^:]*$';
fail() { printf 'fabric-nvue: %s\n' "$*" >&2; exit 1; };
verb=$1; shift;
edits() { nv config diff 2>&1 || { printf 'nv config diff failed\n'; return 1; }; };
others() { printf '%s\n' "$1" | sed 's/^ *//' | grep -v -E "$own" | grep -v '^$'; };
alone() {
    waiting=$(edits) || fail "$waiting";
    foreign=$(others "$waiting");
    [ -z "$foreign" ] ||
        fail "this account has edits that were not applied, and they would be applied with ours:" $foreign;
};
is() { nv show router adaptive-routing -o json | grep -E "\"$1\" *: *\"$2\""; };
unstaged() { waiting=$(edits) && ! printf '%s\n' "$waiting" | grep '^ *adaptive-routing:' >/dev/null; };
case $verb in
stage) ! unstaged || ! is "$1" "$2" >/dev/null || { printf 'nothing to undo\n'; exit 0; } ;;
commit) ! unstaged || { printf 'committed\n'; exit 0; } ;;
esac;
[ "$verb" = seen ] || alone;
case $verb in
clean)
    [ -z "$waiting" ] || fail "this account has edits that were not applied:" $waiting;
    printf 'nothing waits to be applied\n' ;;
seen)
    is "$1" "$2" || fail "adaptive routing is not $1 $2 after the commit" ;;
stage)
    if [ "$3" = unset ]; then nv unset router adaptive-routing "$1" || fail "it cannot be unset";
    else nv set router adaptive-routing "$1" "$2" || fail "it cannot be set"; fi;
    nv config apply --confirm-yes >/dev/null 2>&1 || printf 'nothing waits to be confirmed\n';
    printf 'staged %s %s\n' "$1" "$2" ;;
commit)
    nv config apply -m "$1" -y || fail "it cannot be applied";
    printf 'committed\n' ;;
*)
    fail "no such verb: $verb" ;;
esac
