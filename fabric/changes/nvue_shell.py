"""
What a switch with NVUE is asked to look at before it goes on: one constant text for POSIX sh.

A guard's steps are commands; where one of them depends on what the last one brought about, it is a verb of this text.
Values only ever arrive as positional parameters.
"""

from __future__ import annotations

from fabric.model.change import Argv
from fabric.tools.nvue import Setting

NAME = "fabric-nvue"
"""The name ($0) under which the text is started."""

# Lines of `nv config diff` that hold nothing but adaptive routing of the whole switch.
_OWN = "^((- )?(set|unset):|router:|adaptive-routing:|(enable|state):)[^:]*$"

_TEXT = rf"""
LC_ALL=C; export LC_ALL; set -f;
fail() {{ printf '{NAME}: %s\n' "$*" >&2; exit 1; }};
verb=$1; shift;
edits() {{ nv config diff 2>&1 || {{ printf 'nv config diff failed\n'; return 1; }}; }};
others() {{ printf '%s\n' "$1" | sed 's/^ *//' | grep -v -E '{_OWN}' | grep -v '^$'; }};
alone() {{
    waiting=$(edits) || fail "$waiting";
    foreign=$(others "$waiting");
    [ -z "$foreign" ] ||
        fail "this account has edits that were not applied, and they would be applied with ours:" $foreign;
}};
is() {{ nv show router adaptive-routing -o json | grep -E "\"$1\" *: *\"$2\""; }};
unstaged() {{ waiting=$(edits) && ! printf '%s\n' "$waiting" | grep '^ *adaptive-routing:' >/dev/null; }};
case $verb in
stage) ! unstaged || ! is "$1" "$2" >/dev/null || {{ printf 'nothing to undo\n'; exit 0; }} ;;
commit) ! unstaged || {{ printf 'committed\n'; exit 0; }} ;;
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
"""

NVUE_SH = " ".join(line.strip() for line in _TEXT.strip().splitlines())
"""
``sh -c NVUE_SH fabric-nvue VERB ...``; one line, as a guard keeps one command a line.

All but ``seen`` refuse (1, and a reason on stderr) when this account has other edits that it has not applied: a commit
would carry them along. An undo is done all the same where nothing of ours is staged or applied. ``clean``: no edit at
all waits. ``seen KEY VALUE``: adaptive routing is so. ``stage KEY VALUE set|unset``, unless it is so: stage it
(``unset``: its default), and keep what waits to be confirmed; then no timer of ours takes back what somebody else
commits from now on. ``commit MESSAGE``: apply what is staged, if anything is. All may be run twice.
"""


def clean() -> Argv:
    """Nothing of this account waits to be applied."""
    return ("sh", "-c", NVUE_SH, NAME, "clean")


def seen(setting: Setting) -> Argv:
    """The switch says that adaptive routing is so."""
    return ("sh", "-c", NVUE_SH, NAME, "seen", setting.key, setting.value)


def stage(before: Setting, *, explicit: bool) -> Argv:
    """Stage what was seen before, or its default where it was not set; nothing waits to be confirmed then."""
    return ("sh", "-c", NVUE_SH, NAME, "stage", before.key, before.value, "set" if explicit else "unset")


def commit(message: str) -> Argv:
    """Apply what is staged."""
    return ("sh", "-c", NVUE_SH, NAME, "commit", message)
