"""Taking back what a run left behind: from its journal, or from what the guards on a host say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from fabric.changes.guard import Guard
from fabric.changes.isolation import Unhealthy, give_back
from fabric.changes.procedure import Procedure, ask
from fabric.changes.undo import REVERT_S, Guarded, revert
from fabric.errors import FabricError
from fabric.model.change import Alteration

_ALTERATION, _UNHEALTHY = TypeAdapter(Alteration), TypeAdapter(Unhealthy)

TRIES = 3

Report = Callable[[str, str, bool], None]
"""Is told the host, in words what became of one alteration there, and whether it is certain that nothing is left."""

MOST_WORDS = 100
"""A prior state of more characters is cut (choice: a line on a terminal)."""

_PTER = " PTER: "
_NO_ERRORS = "error_type_admin 0"


@dataclass(frozen=True, slots=True)
class Intent:
    """What a journal says may be live of one change: its alterations, in the order in which they are taken back."""

    kind: str
    guarded: tuple[Guarded, ...]
    list_was: Unhealthy | None


def intent_fields(kind: str, guarded: Sequence[Guarded], list_was: Unhealthy | None) -> dict[str, Any]:
    """The fields of an ``intent`` entry that say it."""
    guard = guarded[0].guard if guarded else Guard()
    return {
        "kind": kind,
        "directory": guard.directory,
        "sudo": guard.sudo,
        "alterations": [{"guard_id": one.guard_id, **asdict(one.alteration)} for one in guarded],
        **({} if list_was is None else {"unhealthy": asdict(list_was)}),
    }


def intent_of(entry: Mapping[str, Any]) -> Intent:
    """What ``intent_fields`` wrote; KeyError, TypeError or ValueError if it is something else."""
    guard = Guard(entry["directory"], sudo=entry["sudo"])
    found = [Guarded(guard, one["guard_id"], _ALTERATION.validate_python(one)) for one in entry["alterations"]]
    listed = entry.get("unhealthy")
    list_was = None if listed is None else _UNHEALTHY.validate_python(listed)
    return Intent(str(entry.get("kind", "")), tuple(reversed(found)), list_was)


def undo_told(entry: Mapping[str, Any]) -> str:
    """The undo commands that an entry holds which is not as this version writes it, as far as there are any."""
    told = [json.dumps(one.get("undo")) for one in entry.get("alterations", ()) if isinstance(one, Mapping)]
    return "; ".join(told) or "none that can be read"


def take_back(one: Guarded, report: Report) -> Procedure[None]:
    """Let the guard undo it, or undo it without one where there is none any more; reads back in either case."""
    said, certain = yield from revert(one, tries=TRIES, pause_s=0.0)
    report(one.alteration.host, f"{in_words(one.alteration.prior)}: {said}", certain)


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
    ours, trouble = yield from give_back(list_was, tries=TRIES, pause_s=0.0)
    if trouble:
        report(list_was.via, f"ports of {', '.join(list_was.ends)} may be isolated still: {trouble}", False)
    elif ours:
        report(list_was.via, f"{', '.join(ours)}: taken off UFM's list of unhealthy ports", True)


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
        try:
            answer = yield from ask(host, guard.revert(one.guard_id), timeout_s=REVERT_S)
            guard.read_reverted(answer)
            became = "taken back"
        except FabricError as exc:
            became = f"not seen undone: {exc}"
        report(host, f"{one.guard_id} of {one.owner}: {became}", became == "taken back")
