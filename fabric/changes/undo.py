"""Taking an alteration back: by its guard, or without one where the target knows of none any more; then looking."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import join

from fabric.changes.guard import Guard, UnknownChange
from fabric.changes.procedure import Procedure, ask, pause
from fabric.errors import ChangeError, FabricError
from fabric.model.change import Alteration, Argv, Check
from fabric.model.command import CommandResult

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
    said = "not tried"
    for number in range(tries):
        if number and pause_s:
            now_s = yield from pause(0.0)
            yield from pause(now_s + pause_s)
        try:
            answer = yield from ask(one.alteration.host, one.guard.revert(one.guard_id), timeout_s=REVERT_S)
            one.guard.read_reverted(answer)
            return "taken back", True
        except UnknownChange:  # never armed; or its folder is gone, with a reboot or by somebody's hand
            try:
                undone = yield from undo_unguarded(one.alteration, sudo=one.guard.sudo)
            except FabricError as exc:
                said = f"not seen undone: no guard is left, and {exc}"
            else:
                return ("undone without a guard" if undone else "nothing of it is left"), True
        except FabricError as exc:
            said = f"not seen undone: {exc}"
    return said, False


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
        yield from ask(alteration.host, _as_root(argv, sudo=sudo))
    unmet = yield from missing(alteration, sudo=sudo)
    if unmet:
        raise StillLive(unmet)
    return True


def missing(alteration: Alteration, *, sudo: bool) -> Procedure[str]:
    """The first check of the state from before that does not hold, with what was seen; empty when all do."""
    for check in alteration.checks:
        answer = yield from ask(alteration.host, _as_root(check.argv, sudo=sudo))
        said = _unmet(check, answer)
        if said:
            return said
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


def _as_root(argv: Argv, *, sudo: bool) -> Argv:
    return ("sudo", "-n", *argv) if sudo else argv
