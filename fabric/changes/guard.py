"""
Calls of the guard on a target, what its answers mean, and how one alteration is taken back, by it or without one.

The argv of each verb is made here; its text is sh/guard.sh.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shlex import join, quote

from fabric.changes import text_of
from fabric.changes.procedure import Procedure, ask, pause_for
from fabric.errors import ChangeError, FabricError, Refused
from fabric.model.change import Alteration, Argv, Check, Lease
from fabric.model.command import CommandResult
from fabric.tools.driver import as_root

MAX_TEXT_BYTES = 120_000
"""The most that fits into one argument of a command on Linux is 131072 bytes (MAX_ARG_STRLEN)."""

_TEXT = text_of("session.sh", "kept.sh", "guard.sh")
GUARD = f'text={quote(_TEXT)}\neval "$text"\n'
"""What ``sh -c`` is given. It carries itself once more, quoted: arm writes it into its folder to be run."""

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_OWNER = re.compile(r"[A-Za-z0-9._:@/-]{1,255}")
_KEPT = ("unit", "folder", "no", "none")
_NOT_POSIX = re.compile(r"\\[a-zA-Z]|\(\?|[*+?}]\?")
_LISTED = re.compile(
    r"change (?P<id>\S+) owner (?P<owner>\S+) state (?P<state>armed|applied|reverted|stuck|torn)"
    r" left (?P<left>\d+\.\d\d) guard (?P<guard>alive|dead) boot (?P<boot>same|other)"
)


class LeaseGone(ChangeError):
    """The lease has run out, its guard is dead, or the change was taken back: nothing was applied or renewed."""


class UnknownChange(ChangeError):
    """The target has no change of this name."""


class StepFailed(ChangeError):
    """A step of an apply ended with an error; what came before it may be in force."""


class NotUndone(ChangeError):
    """An undo failed, or a check after it; the guard, if it lives, keeps trying."""


class GuardMissingTool(ChangeError):
    """The target lacks a program that the guard or the undo needs."""


class GuardCannotWrite(ChangeError):
    """The guard's directory cannot be used: full, read-only, or somebody else's."""


class GuardUnclear(ChangeError):
    """The answer is none of the guard's; it is not known what was done."""


@dataclass(frozen=True, slots=True)
class Armed:
    """
    A guard that waits; *boot_id* is that of the target's running kernel.

    *kept*, of what outlives the target: ``unit`` (it is undone when the target starts anew), ``folder`` (it is told
    then, and undone by ``revert``), ``no`` (nothing can be kept there); of everything else ``none``.
    """

    boot_id: str
    kept: str


@dataclass(frozen=True, slots=True)
class Listed:
    """
    One change that a target (*host*) knows of.

    *state*: ``armed``, ``applied``, ``reverted`` (by its guard), ``stuck`` (its guard cannot undo it and keeps trying),
    ``torn`` (its files are incomplete). *left_s*: seconds until the guard undoes it. Not *same_boot*: the target has
    started anew since it was armed.
    """

    host: str
    guard_id: str
    owner: str
    state: str
    left_s: float
    alive: bool
    same_boot: bool

    @property
    def running(self) -> bool:
        """Its lease runs: who made it is at work, or was until a moment ago."""
        return self.state in ("armed", "applied") and self.alive and self.same_boot and self.left_s > 0

    @property
    def may_be_live(self) -> bool:
        """The fabric may be altered by it. What was only armed alters nothing, and ends with its lease."""
        return self.running or self.state in ("applied", "stuck", "torn")


def steps_text(steps: Iterable[Argv]) -> str:
    """One command a line, quoted for sh. Raises ValueError for what no line can hold."""
    return "\n".join(_line(argv) for argv in steps)


def checks_text(checks: Iterable[Check]) -> str:
    """One check a line: its patterns, ``--``, its argv. Raises ValueError for what no line can hold."""
    lines = []
    for check in checks:
        if "--" in check.patterns or "" in check.patterns:
            raise ValueError(f"a pattern of a check must not be empty or --: {check.patterns!r}")
        for pattern in check.patterns:
            if _NOT_POSIX.search(pattern):
                raise ValueError(f"grep -E does not read this pattern as Python does: {pattern!r}")
        lines.append(_line((*check.patterns, "--", *_runnable(check.argv))))
    return "\n".join(lines)


def _line(words: Argv) -> str:
    if any(mark in word for word in words for mark in "\n\r\0"):
        raise ValueError(f"a line break or NUL in {words!r}")
    return join(_runnable(words))


def _runnable(argv: Argv) -> Argv:
    if not argv or not argv[0]:
        raise ValueError(f"a command without a name: {argv!r}")
    return argv


@dataclass(frozen=True, slots=True)
class Guard:
    """
    The guards that keep their changes in *directory* of a target; with *sudo* they are called through ``sudo -n``.

    Every ``read_`` raises one of the ChangeErrors of this module, or Refused, for an answer other than success.
    """

    directory: str = "/run/fabric-guard"
    sudo: bool = False

    @property
    def kept_directory(self) -> str:
        """Where a target keeps what outlives it; the guard's text finds it by the same rule."""
        below = self.directory.removeprefix("/run/")
        return f"{self.directory}.kept" if below == self.directory else f"/var/lib/{below}"

    def arm(self, guard_id: str, *, owner: str, lease: Lease, peer: str, what: Alteration) -> Argv:
        """
        Start the guard of an alteration. *peer*: the address the session comes from; empty: by the default route.

        Raises ValueError for words that cannot be carried; nothing else is checked here but on the target.
        """
        if not _OWNER.fullmatch(owner):
            raise ValueError(f"an owner is letters, digits and ._:@/-, not {owner!r}")
        for device in what.devices:
            if not device or "," in device:
                raise ValueError(f"no device is named {device!r}")
        if not what.undo:
            raise ValueError("an alteration without an undo cannot be guarded")
        undo, checks = steps_text(what.undo), checks_text(what.checks)
        ttl, hold = _seconds(lease.ttl_s), _seconds(lease.max_hold_s)
        devices, kept = ",".join(what.devices), "kept" if what.outlives else ""
        return self._call("arm", _checked_id(guard_id), owner, ttl, hold, peer, devices, undo, checks, kept)

    def read_armed(self, result: CommandResult) -> Armed:
        """The guard holds the change's lease from now on."""
        words = _answer(result, "armed")
        if len(words) != 8 or words[2::2] != ["ttl", "boot", "kept"] or words[7] not in _KEPT:
            raise _unclear(result)
        return Armed(words[5], words[7])

    def apply(self, guard_id: str, steps: Iterable[Argv]) -> Argv:
        """Run *steps* under the lease; may be called again while the lease lasts."""
        return self._call("apply", _checked_id(guard_id), steps_text(steps))

    def read_applied(self, result: CommandResult) -> None:
        """Every step ended with 0, and the lease had not run out when the last one did."""
        _answer(result, "applied")

    def renew(self, guard_id: str, ttl_s: float) -> Argv:
        """Let the lease run *ttl_s* from now, but not beyond what was armed."""
        return self._call("renew", _checked_id(guard_id), _seconds(ttl_s))

    def read_renewed(self, result: CommandResult) -> float:
        """The seconds that are left."""
        words = _answer(result, "renewed")
        if len(words) != 4 or words[2] != "left":
            raise _unclear(result)
        return float(words[3])

    def lift(self, guard_id: str) -> Argv:
        """Undo for now; the guard stays, and apply may follow."""
        return self._call("lift", _checked_id(guard_id))

    def read_lifted(self, result: CommandResult) -> None:
        """The undo was done and its checks hold."""
        _answer(result, "lifted")

    def revert(self, guard_id: str) -> Argv:
        """Undo for good, and end the guard; takes up to 10 s longer than its commands do."""
        return self._call("revert", _checked_id(guard_id))

    def read_reverted(self, result: CommandResult) -> bool:
        """Undone, and its checks hold; True when the guard had undone it before."""
        return _answer(result, "reverted")[2:] == ["by-guard"]

    def list(self) -> Argv:
        """Every change this target knows of."""
        return self._call("list")

    def read_list(self, result: CommandResult) -> tuple[Listed, ...]:
        """One entry a change; raises GuardUnclear for a line that is none."""
        if result.exit_status != 0:
            raise _error(result)
        found, host = [], result.command.host
        for line in result.stdout.splitlines():
            match = _LISTED.fullmatch(line)
            if match is None or result.truncated:
                raise _unclear(result)
            state, alive, same = match["state"], match["guard"] == "alive", match["boot"] == "same"
            found.append(Listed(host, match["id"], match["owner"], state, float(match["left"]), alive, same))
        return tuple(found)

    def _call(self, verb: str, *words: str) -> Argv:
        for word in words:
            size = len(word.encode("utf-8", "surrogateescape"))
            if size > MAX_TEXT_BYTES or "\0" in word:
                raise ValueError(f"an argument of guard {verb} holds a NUL or {size} bytes; {MAX_TEXT_BYTES} fit")
        return as_root(("sh", "-c", GUARD, "fabric-guard", self.directory, verb, *words), sudo=self.sudo)


def _checked_id(guard_id: str) -> str:
    if not _ID.fullmatch(guard_id):
        raise ValueError(f"a guard's id is up to 128 of A-Z a-z 0-9 . _ - and begins with no dot, not {guard_id!r}")
    return guard_id


def _seconds(seconds: float) -> str:
    if not 0 < seconds < 1e6:
        raise ValueError(f"{seconds!r} s is no time that a lease can last")
    return f"{seconds:.2f}"


def _last_line(result: CommandResult) -> str:
    return next((line for line in reversed(result.stdout.splitlines()) if line.strip()), "")


def _answer(result: CommandResult, word: str) -> list[str]:
    """The words of the answer, when it is *word* about the change that was asked for; else raises."""
    if result.exit_status != 0:
        raise _error(result)
    words = _last_line(result).split()
    asked = result.command.argv
    guard_id = asked[asked.index("fabric-guard") + 3]
    if words[:2] != [word, guard_id]:
        raise _unclear(result)
    return words


_ERRORS: dict[int, tuple[str, type[ChangeError], str]] = {
    71: ("failed", StepFailed, "a step ended with {}"),
    72: ("unknown", UnknownChange, "no change {} is known here"),
    73: ("busy", Refused, "another change is held here: {}"),
    74: ("unwritable", GuardCannotWrite, "the guard cannot write: {}"),
    75: ("gone", LeaseGone, "the lease of {} is gone"),
    76: ("not-undone", NotUndone, "{} is not undone"),
    77: ("forbidden", Refused, "{}: the guard refuses to touch it"),
    78: ("missing", GuardMissingTool, "there is no {}"),
}


def _error(result: CommandResult) -> ChangeError:
    word, kind, sentence = _ERRORS.get(result.exit_status, ("", ChangeError, ""))
    first, _, rest = _last_line(result).partition(" ")
    if not word or first != word:
        return _unclear(result)
    detail = result.stderr.strip()
    message = f"{result.command.host}: {sentence.format(rest)}"
    return kind(f"{message}: {detail[-1000:]}" if detail else message)


def _unclear(result: CommandResult) -> GuardUnclear:
    output = (result.stderr.strip() or result.stdout.strip() or "nothing")[-300:]
    return GuardUnclear(f"{result.command.host}: the guard ended with {result.exit_status} and said {output!r}")


REVERT_TRIES = 5
REVERT_PAUSE_S = 2.0
"""An undo that could not be seen to work is tried again so often, with this pause (seconds; choices)."""

REVERT_S = 90.0
"""Deadline of one undo (seconds): its guard may have to wait for a tool that hangs, and cuts it at 30."""


class StillLive(ChangeError):
    """The undo was run and what was seen before is not there again."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """One alteration, with its guard on the target."""

    guard: Guard
    guard_id: str
    alteration: Alteration


def revert(one: Guarded, *, tries: int = REVERT_TRIES, pause_s: float = REVERT_PAUSE_S) -> Procedure[tuple[str, bool]]:
    """Undo one alteration and see it undone; what became of it, and whether it is certain that nothing is left."""
    outcome = "not tried"
    for number in range(tries):
        if number and pause_s:
            yield from pause_for(pause_s)
        try:
            answer = yield from ask(one.alteration.host, one.guard.revert(one.guard_id), timeout_s=REVERT_S)
            one.guard.read_reverted(answer)
            return "taken back", True
        except UnknownChange:  # never armed; or its folder is gone, with a reboot or by somebody's hand
            try:
                undone = yield from undo_unguarded(one.alteration, sudo=one.guard.sudo)
            except FabricError as exc:
                outcome = f"not seen undone: no guard is left, and {exc}"
            else:
                return ("undone without a guard" if undone else "nothing of it is left"), True
        except FabricError as exc:
            outcome = f"not seen undone: {exc}"
    return outcome, False


def by_hand(those: Sequence[Guarded]) -> str:
    """What a person would run, and where."""
    undone = ((one.alteration.host, one.alteration) for one in reversed(those))
    steps = (f"on {host}: {what.manual or ' && '.join(map(join, what.undo))}" for host, what in undone)
    return f"by hand: {'; '.join(steps)}"


def undo_unguarded(alteration: Alteration, *, sudo: bool) -> Procedure[bool]:
    """
    See that the state from before is there; where it is not, run the undo and look again.

    Returns whether something had to be undone. Raises StillLive when it is not there after that.
    """
    if not (yield from missing(alteration, sudo=sudo)):
        return False
    for argv in alteration.undo:
        yield from ask(alteration.host, as_root(argv, sudo=sudo))
    unmet = yield from missing(alteration, sudo=sudo)
    if unmet:
        raise StillLive(unmet)
    return True


def missing(alteration: Alteration, *, sudo: bool) -> Procedure[str]:
    """The first check of the state from before that does not hold, with what was seen; empty when all do."""
    for check in alteration.checks:
        answer = yield from ask(alteration.host, as_root(check.argv, sudo=sudo))
        unmet = _unmet(check, answer)
        if unmet:
            return unmet
    return ""


def _unmet(check: Check, answer: CommandResult) -> str:
    """Why an answer does not meet a check; empty when it does. The guard judges the same with ``grep -E``."""
    what = " ".join(check.argv)
    if answer.exit_status != 0:
        last = (answer.stderr.strip() or answer.stdout.strip() or "no output").splitlines()[-1]
        return f"{what}: exit {answer.exit_status}: {last[:200]}"
    lines = answer.stdout.splitlines()
    for pattern in check.patterns:
        if not any(re.search(pattern, line) for line in lines):
            return f"{what}: no line matches {pattern}"
    return ""
