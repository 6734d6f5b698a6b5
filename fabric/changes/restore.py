"""Takes back what a run left behind, by its journal or by the guards on a host; also ports that UFM isolated.

UFM may put a port with many bit errors, or one that flaps, on a list of unhealthy ports, where it stays isolated when
the fault is gone. So the list is read before a change, written into the journal, and read again afterwards. A new entry
that is an end of the changed cable is taken off. Other ports, and those that a person listed, are left alone.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from shlex import join
from typing import Any

from pydantic import TypeAdapter

from fabric.changes.guard import REVERT_PAUSE_S, REVERT_S, REVERT_TRIES, Guard, Guarded, revert
from fabric.changes.kind import Context
from fabric.changes.ports import cable_of
from fabric.changes.procedure import Procedure, ask, pause_for, plainly
from fabric.errors import ChangeError, FabricError, Refused
from fabric.model.change import Alteration, Change
from fabric.model.text import cut
from fabric.tools import management

BY_HAND = "manual"
"""Word in UFM's condition of a port that a person has listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnhealthyList(management.UfmAccess):
    """
    Access to UFM and its list before a change: *before* has the ports on it as ``<guid>_<number>``.

    *ends* are those of the changed cable, in the same form: a cable that is isolated cannot be found any more.
    """

    ends: tuple[str, ...]
    before: tuple[str, ...]


def list_before(change: Change, context: Context) -> Procedure[UnhealthyList | None]:
    """Read UFM's list; None where UFM is not used or no cable of its fabric is changed."""
    ufm = management.UfmAccess.of(context.settings)
    if ufm is None or change.scope != "port":
        return None
    before = yield from _listed(ufm)
    try:
        cable = yield from cable_of(change.component, context)
    except Refused:
        return None
    names = tuple(sorted(management.port_name(end.guid, end.port) for end in cable.ends))
    return UnhealthyList(**asdict(ufm), ends=names, before=tuple(sorted(before))) if names else None


def give_back(
    list_was: UnhealthyList, *, tries: int = REVERT_TRIES, pause_s: float = REVERT_PAUSE_S
) -> Procedure[tuple[tuple[str, ...], str]]:
    """
    Take ends of the cable off the list that are on it now and were not before.

    Returns those ends, and what is wrong, empty when nothing is. It is tried as often as any undo.
    """
    trouble = ""
    for number in range(tries):
        if number and pause_s:
            yield from pause_for(pause_s)
        try:
            return (yield from _given_back(list_was)), ""
        except FabricError as exc:
            trouble = str(exc)
    return (), trouble


def _given_back(list_was: UnhealthyList) -> Procedure[tuple[str, ...]]:
    ours = yield from _ours(list_was)
    if not ours:
        return ()
    answer = yield from plainly(list_was.via, management.put_healthy(list_was, ours))
    if answer[2] != 0:
        raise ChangeError(f"UFM does not take {', '.join(ours)} off its list: {answer[1].strip()[:200]}")
    left = yield from _ours(list_was)
    if left:
        raise ChangeError(f"UFM keeps {', '.join(left)} isolated")
    return ours


def isolated_by_hand(list_was: UnhealthyList) -> str:
    """Return what a person would run, and where, to take the ends of the cable off the list."""
    ends = tuple(end for end in list_was.ends if end not in list_was.before)
    return f"by hand: on {list_was.via}: {join(management.put_healthy(list_was, ends or list_was.ends))}"


def _ours(list_was: UnhealthyList) -> Procedure[tuple[str, ...]]:
    listed = yield from _listed(list_was)
    found = {port for port, condition in listed.items() if BY_HAND not in condition.casefold()}
    return tuple(sorted((found - set(list_was.before)) & set(list_was.ends)))


def _listed(ufm: management.UfmAccess) -> Procedure[dict[str, str]]:
    return management.read_unhealthy(*(yield from plainly(ufm.via, management.list_unhealthy(ufm))))


_ALTERATION, _UNHEALTHY = TypeAdapter(Alteration), TypeAdapter(UnhealthyList)

TRIES = 3

Report = Callable[[str, str, bool], None]
"""Is called with the host, the outcome of one alteration in words, and whether certainly nothing is left of it."""

MOST_WORDS = 100
"""Most characters of a prior state; more are cut (choice: a line on a terminal)."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a journal says may be live of one change: its alterations, in the order in which they are taken back."""

    kind: str
    guarded: tuple[Guarded, ...]
    list_was: UnhealthyList | None


def intent_fields(kind: str, guarded: Sequence[Guarded], list_was: UnhealthyList | None) -> dict[str, Any]:
    """Return the fields of an ``intent`` entry."""
    guard = guarded[0].guard if guarded else Guard()
    return {
        "kind": kind,
        "directory": guard.directory,
        "sudo": guard.sudo,
        "alterations": [{"guard_id": one.guard_id, **asdict(one.alteration)} for one in guarded],
        **({} if list_was is None else {"unhealthy": asdict(list_was)}),
    }


def intent_of(entry: Mapping[str, Any]) -> Intent:
    """Read the fields that ``intent_fields`` wrote; KeyError, TypeError or ValueError for anything else."""
    guard = Guard(entry["directory"], sudo=entry["sudo"])
    found = [Guarded(guard, one["guard_id"], _ALTERATION.validate_python(one)) for one in entry["alterations"]]
    listed = entry.get("unhealthy")
    list_was = None if listed is None else _UNHEALTHY.validate_python(listed)
    return Intent(str(entry.get("kind", "")), tuple(reversed(found)), list_was)


def recorded_undo(entry: Mapping[str, Any]) -> str:
    """Return the undo commands of an entry that this version cannot read in full, as far as there are any."""
    undos = [json.dumps(one.get("undo")) for one in entry.get("alterations", ()) if isinstance(one, Mapping)]
    return "; ".join(undos) or "none that can be read"


def take_back(one: Guarded, report: Report) -> Procedure[None]:
    """Have the guard undo an alteration, or undo it without one if the guard is gone; reads back in either case."""
    outcome, certain = yield from revert(one, tries=TRIES, pause_s=0.0)
    report(one.alteration.host, f"{in_words(one.alteration.prior)}: {outcome}", certain)


def in_words(prior: str) -> str:
    """Cut what was seen before a change to one line."""
    return cut(prior, MOST_WORDS)


def take_off_list(list_was: UnhealthyList, report: Report) -> Procedure[None]:
    """Return the ports that our own fault has put on UFM's list; reports nothing where there are none."""
    ours, trouble = yield from give_back(list_was, tries=TRIES, pause_s=0.0)
    if trouble:
        report(list_was.via, f"ports of {', '.join(list_was.ends)} may be isolated still: {trouble}", False)
    elif ours:
        report(list_was.via, f"{', '.join(ours)}: taken off UFM's list of unhealthy ports", True)


def take_back_all(host: str, guard: Guard, report: Report) -> Procedure[None]:
    """Have every guard of a host undo what it holds, whoever armed it."""
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
