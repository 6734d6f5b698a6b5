"""Taking back what a run left behind: from its journal, or from what the guards on a host say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fabric.changes.guard import Guard, Listed, UnknownChange
from fabric.changes.isolation import Unhealthy, give_back
from fabric.changes.procedure import Procedure, ask
from fabric.changes.undo import undo_unguarded
from fabric.errors import FabricError
from fabric.model.change import Alteration, Check

TRIES = 3

Report = Callable[[str, str, bool], None]
"""Is told the host, in words what became of one alteration there, and whether it is certain that nothing is left."""

MOST_WORDS = 100
"""A prior state of more characters is cut (choice: a line on a terminal)."""

_PTER = " PTER: "
_NO_ERRORS = "error_type_admin 0"


@dataclass(frozen=True, slots=True)
class Left:
    """One alteration that a journal says may be live."""

    guard: Guard
    guard_id: str
    alteration: Alteration


def left_by(intent: Mapping[str, Any]) -> tuple[Left, ...]:
    """The alterations of an ``intent`` entry, in the order in which they are taken back. KeyError if it is none."""
    guard = Guard(intent["directory"], sudo=intent["sudo"])
    found = [Left(guard, entry["guard_id"], _alteration(entry)) for entry in intent["alterations"]]
    return tuple(reversed(found))


def _alteration(entry: Mapping[str, Any]) -> Alteration:
    return Alteration(
        host=entry["host"],
        apply=tuple(map(tuple, entry["apply"])),
        undo=tuple(map(tuple, entry["undo"])),
        checks=tuple(Check(tuple(check["argv"]), tuple(check["patterns"])) for check in entry["checks"]),
        prior=entry["prior"],
        devices=tuple(entry["devices"]),
        timer_s=entry["timer_s"],
        manual=entry["manual"],
        outlives=entry.get("outlives", False),
    )


def take_back(left: Left, report: Report) -> Procedure[None]:
    """Let the guard undo it, or undo it without one where there is none any more; reads back in either case."""
    host = left.alteration.host
    said, certain = "", False
    for _ in range(TRIES):
        try:
            answer = yield from ask(host, left.guard.revert(left.guard_id), timeout_s=90.0)
            left.guard.read_reverted(answer)
            said, certain = "taken back", True
        except UnknownChange:
            said, certain = yield from _without_guard(left)
        except FabricError as exc:
            said, certain = f"not seen undone: {exc}", False
        if certain:
            break
    report(host, f"{in_words(left.alteration.prior)}: {said}", certain)


def in_words(prior: str) -> str:
    """What was seen before a change, short enough for one line."""
    port, register, fields = prior.partition(_PTER)
    if register:
        prior = f"{port}: no bit errors" if _NO_ERRORS in fields.split(", ") else f"{port}: bit errors of before"
    return prior if len(prior) <= MOST_WORDS else f"{prior[: MOST_WORDS - 1]}…"


def take_off_list(list_was: Unhealthy | None, report: Report) -> Procedure[None]:
    """Return the ports that our own fault has put on UFM's list; says nothing where there are none."""
    if list_was is None:
        return
    for left in range(TRIES - 1, -1, -1):
        try:
            ours = yield from give_back(list_was)
        except FabricError as exc:
            if not left:
                report(list_was.via, f"ports of {', '.join(list_was.ends)} may be isolated still: {exc}", False)
            continue
        if ours:
            report(list_was.via, f"{', '.join(ours)}: taken off UFM's list of unhealthy ports", True)
        return


def _without_guard(left: Left) -> Procedure[tuple[str, bool]]:
    try:
        undone = yield from undo_unguarded(left.alteration, sudo=left.guard.sudo)
    except FabricError as exc:
        return f"no guard is left, and {exc}", False
    return ("undone without a guard" if undone else "nothing of it is left"), True


def take_back_all(host: str, guard: Guard, report: Report) -> Procedure[None]:
    """Let every guard of a host undo what it holds, whoever armed it."""
    try:
        answer = yield from ask(host, guard.list())
        listed = guard.read_list(answer)
    except FabricError as exc:
        report(host, str(exc).removeprefix(f"{host}: "), False)
        return
    if not listed:
        report(host, "no change is held here", True)
    for one in listed:
        yield from _revert_listed(host, guard, one, report)


def _revert_listed(host: str, guard: Guard, one: Listed, report: Report) -> Procedure[None]:
    try:
        answer = yield from ask(host, guard.revert(one.guard_id), timeout_s=90.0)
        guard.read_reverted(answer)
    except FabricError as exc:
        report(host, f"{one.guard_id} of {one.owner}: not seen undone: {exc}", False)
    else:
        report(host, f"{one.guard_id} of {one.owner}: taken back", True)
