"""Calls of the guard on a target, the meaning of its answers, and how an alteration is undone with or without it.

The argv of each verb is made here; the guard's text is sh/guard.sh.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shlex import join, quote

from fabric.changes import text_of
from fabric.changes.procedure import Procedure, ask, pause_for
from fabric.errors import ChangeError, FabricError, Refused
from fabric.model.change import Alteration, Argv, Check, Lease
from fabric.model.probe import CommandResult
from fabric.tools.driver import as_root

MAX_TEXT_BYTES = 120_000
"""Largest argument that is passed; Linux takes 131072 bytes (MAX_ARG_STRLEN)."""

_TEXT = text_of("session.sh", "kept.sh", "guard.sh")
GUARD = f'text={quote(_TEXT)}\neval "$text"\n'
"""The script for ``sh -c``. It holds its text once more, quoted: arm writes that into its folder to be run."""

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
    """A step of an apply ended with an error; the steps before it may be in force."""


class NotUndone(ChangeError):
    """An undo failed, or a check after it; the guard, if it lives, keeps trying."""


class GuardMissingTool(ChangeError):
    """The target lacks a program that the guard or the undo needs."""


class GuardCannotWrite(ChangeError):
    """The guard's directory cannot be used: full, read-only, or somebody else's."""


class GuardUnclear(ChangeError):
    """The answer is not one of the guard's; it is not known what was done."""


@dataclass(frozen=True, slots=True)
class Armed:
    """
    A guard that waits; *boot_id* is that of the target's running kernel.

    *kept*, for an alteration that outlives the target: ``unit`` (undone when the target starts anew), ``folder``
    (listed then, and undone by ``revert``), ``no`` (nothing can be kept there). For any other: ``none``.
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
        """Whether its lease runs: whoever made it is at work, or was until a moment ago."""
        return self.state in ("armed", "applied") and self.alive and self.same_boot and self.left_s > 0

    @property
    def may_be_live(self) -> bool:
        """Whether it may alter the fabric. A change that was only armed alters nothing, and ends with its lease."""
        return self.running or self.state in ("applied", "stuck", "torn")


def steps_text(steps: Iterable[Argv]) -> str:
    """Return one command a line, quoted for sh. Raises ValueError for what no line can hold."""
    return "\n".join(_line(argv) for argv in steps)


def checks_text(checks: Iterable[Check]) -> str:
    """Return one check a line: its patterns, ``--``, its argv. Raises ValueError for what no line can hold."""
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
        """Where a target keeps what outlives it; the guard's text derives it by the same rule."""
        below = self.directory.removeprefix("/run/")
        return f"{self.directory}.kept" if below == self.directory else f"/var/lib/{below}"

    def arm(self, guard_id: str, *, owner: str, lease: Lease, peer: str, what: Alteration) -> Argv:
        """
        Return the call that starts the guard of an alteration. *peer*: the session's address; empty: the default route.

        Raises ValueError for words that cannot be passed on; everything else is checked on the target only.
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
        """Read the answer to arm: the guard holds the change's lease from now on."""
        words = _answer(result, "armed")
        if len(words) != 8 or words[2::2] != ["ttl", "boot", "kept"] or words[7] not in _KEPT:
            raise _unclear(result)
        return Armed(words[5], words[7])

    def apply(self, guard_id: str, steps: Iterable[Argv]) -> Argv:
        """Return the call that runs *steps* under the lease; it may be repeated while the lease lasts."""
        return self._call("apply", _checked_id(guard_id), steps_text(steps))

    def read_applied(self, result: CommandResult) -> None:
        """Read the answer to apply: every step ended with 0, and the lease had not run out by then."""
        _answer(result, "applied")

    def renew(self, guard_id: str, ttl_s: float) -> Argv:
        """Return the call that lets the lease run *ttl_s* from now, but not beyond what was armed."""
        return self._call("renew", _checked_id(guard_id), _seconds(ttl_s))

    def read_renewed(self, result: CommandResult) -> float:
        """Read the answer to renew; return the seconds that are left."""
        words = _answer(result, "renewed")
        if len(words) != 4 or words[2] != "left" or not re.fullmatch(r"\d+\.\d\d", words[3]):
            raise _unclear(result)
        return float(words[3])

    def lift(self, guard_id: str) -> Argv:
        """Return the call that undoes for now; the guard stays, and apply may follow."""
        return self._call("lift", _checked_id(guard_id))

    def read_lifted(self, result: CommandResult) -> None:
        """Read the answer to lift: the undo was done, and its checks hold."""
        _answer(result, "lifted")

    def revert(self, guard_id: str) -> Argv:
        """Return the call that undoes for good and ends the guard; it takes up to 10 s longer than its commands."""
        return self._call("revert", _checked_id(guard_id))

    def read_reverted(self, result: CommandResult) -> bool:
        """Read the answer to revert; return True when the guard had undone the change before."""
        return _answer(result, "reverted")[2:] == ["by-guard"]

    def list(self) -> Argv:
        """Return the call that lists every change that this target knows of."""
        return self._call("list")

    def read_list(self, result: CommandResult) -> tuple[Listed, ...]:
        """Read the answer to list; raises GuardUnclear for a line that is no entry."""
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
    """Return the words of the answer if it is *word* about the change that was asked for; else raise."""
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
    said = f"{result.command.host}: the guard ended with {result.exit_status} and said {output!r}"
    if output.startswith("sudo: "):
        said += ": sudo did not let it begin; fabric check SCENARIO, of one with changes, says what its sudoers lack"
    return GuardUnclear(said)


REVERT_TRIES = 5
REVERT_PAUSE_S = 2.0
"""Tries, and pause between them (seconds), for an undo that was not seen to work (choices)."""

REVERT_S = 90.0
"""Deadline of one undo (seconds): its guard may have to wait for a tool that hangs, and cuts it at 30."""


BY_GUARD = "taken back by its guard before"
"""Outcome of an undo where the guard had done it."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """One alteration, with its guard on the target."""

    guard: Guard
    guard_id: str
    alteration: Alteration


def revert(one: Guarded, *, tries: int = REVERT_TRIES, pause_s: float = REVERT_PAUSE_S) -> Procedure[tuple[str, bool]]:
    """Undo one alteration and check it; return the outcome, and whether it is certain that nothing is left."""
    outcome = "not tried"
    for number in range(tries):
        if number and pause_s:
            yield from pause_for(pause_s)
        try:
            answer = yield from ask(one.alteration.host, one.guard.revert(one.guard_id), timeout_s=REVERT_S)
            return BY_GUARD if one.guard.read_reverted(answer) else "taken back", True
        except UnknownChange:  # never armed; or its folder is gone, by a reboot or by hand
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
    """Return the commands that a person would run, and where."""
    undone = ((one.alteration.host, one.alteration) for one in reversed(those))
    steps = (f"on {host}: {what.manual or ' && '.join(map(join, what.undo))}" for host, what in undone)
    return f"by hand: {'; '.join(steps)}"


def undo_unguarded(alteration: Alteration, *, sudo: bool) -> Procedure[bool]:
    """
    Check that the state from before is there; if not, run the undo and check again.

    Returns whether something had to be undone. Raises ChangeError when the state is still not there.
    """
    if not (yield from missing(alteration, sudo=sudo)):
        return False
    for argv in alteration.undo:
        yield from ask(alteration.host, as_root(argv, sudo=sudo))
    unmet = yield from missing(alteration, sudo=sudo)
    if unmet:
        raise ChangeError(unmet)
    return True


def missing(alteration: Alteration, *, sudo: bool) -> Procedure[str]:
    """Return the first check of the state from before that fails, with what was seen; empty when all hold."""
    for check in alteration.checks:
        answer = yield from ask(alteration.host, as_root(check.argv, sudo=sudo))
        unmet = _unmet(check, answer)
        if unmet:
            return unmet
    return ""


def _unmet(check: Check, answer: CommandResult) -> str:
    """Return why an answer fails a check; empty when it does not. The guard judges the same with ``grep -E``."""
    what = " ".join(check.argv)
    if answer.exit_status != 0:
        last = (answer.stderr.strip() or answer.stdout.strip() or "no output").splitlines()[-1]
        return f"{what}: exit {answer.exit_status}: {last[:200]}"
    lines = answer.stdout.splitlines()
    for pattern in check.patterns:
        if not any(re.search(pattern, line) for line in lines):
            return f"{what}: no line matches {pattern}"
    return ""
