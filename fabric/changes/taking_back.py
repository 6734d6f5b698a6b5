"""Taking an alteration back while its run lives: by its guard, or without one where the target knows of none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from shlex import join

from fabric.changes.guard import Guard, UnknownChange
from fabric.changes.procedure import Procedure, ask, pause
from fabric.changes.undo import undo_unguarded
from fabric.errors import ChangeError, ExecutorError
from fabric.model.change import Alteration

REVERT_TRIES = 5
REVERT_PAUSE_S = 2.0
"""An undo that could not be seen to work is tried again so often, with this pause (seconds; choices)."""

REVERT_S = 90.0
"""Deadline of one undo (seconds): its guard may have to wait for a tool that hangs, and cuts it at 30."""


@dataclass(frozen=True, slots=True)
class Armed:
    """One alteration, with the name of its guard on the target."""

    guard_id: str
    alteration: Alteration


def revert(armed: Armed, guard: Guard, *, clock: Callable[[], float]) -> Procedure[str]:
    """Undo one alteration and see it undone; returns what is wrong, empty when nothing is."""
    host, trouble = armed.alteration.host, ""
    for left in range(REVERT_TRIES - 1, -1, -1):
        try:
            answer = yield from ask(host, guard.revert(armed.guard_id), timeout_s=REVERT_S)
            guard.read_reverted(answer)
        except UnknownChange:  # never armed; or its folder is gone, with a reboot or by somebody's hand
            return (yield from _unguarded(armed.alteration, guard))
        except (ExecutorError, ChangeError) as exc:
            trouble = f"{host}: not seen undone: {exc}"
            if left:
                yield from pause(clock() + REVERT_PAUSE_S)
        else:
            return ""
    return trouble


def _unguarded(alteration: Alteration, guard: Guard) -> Procedure[str]:
    try:
        yield from undo_unguarded(alteration, sudo=guard.sudo)
    except (ExecutorError, ChangeError) as exc:
        return f"{alteration.host}: not seen undone: {exc}"
    return ""


def by_hand(armed: Sequence[Armed]) -> str:
    """What a person would run, and where."""
    steps = (f"on {one.alteration.host}: {_typed(one.alteration)}" for one in reversed(armed))
    return f"by hand: {'; '.join(steps)}"


def _typed(alteration: Alteration) -> str:
    return alteration.manual or " && ".join(map(join, alteration.undo))
