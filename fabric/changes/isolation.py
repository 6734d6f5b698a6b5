"""
Ports that a fabric's manager has isolated because of our own fault: found, and given back.

UFM may put a port with many bit errors, or one that flaps, on a list of unhealthy ports; it stays isolated when the
fault is gone. So the list is read before a change, written into the journal, and read again after it: what is new on
it and is an end of the changed cable is returned. Other ports are none of our business, nor is what a person listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from shlex import join
from typing import Any

from fabric.changes.kind import Context
from fabric.changes.look import plainly
from fabric.changes.ports import cable_of
from fabric.changes.procedure import Procedure, pause
from fabric.changes.taking_back import REVERT_PAUSE_S, REVERT_TRIES
from fabric.errors import ChangeError, FabricError, Refused
from fabric.model.change import Change
from fabric.tools import ufm

KEY = "unhealthy"
"""Under which an ``intent`` of the journal holds it."""

BY_HAND = "manual"
"""In UFM's condition of a port that a person has listed."""


class StillIsolated(ChangeError):
    """A port that our fault got isolated could not be given back."""


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """
    UFM's list as it was before a change: *before*, the ports on it as ``<guid>_<number>``.

    *ends* are those of the changed cable, in the same words: a cable that is isolated cannot be found any more. UFM is
    at *url*, asked from the host *via*.
    """

    via: str
    url: str
    ends: tuple[str, ...]
    before: tuple[str, ...]


def list_before(change: Change, context: Context) -> Procedure[Unhealthy | None]:
    """What is on UFM's list now; None where no UFM is asked or no cable of its fabric is changed."""
    settings = context.settings
    if settings.ufm_url is None or settings.via is None or change.scope != "port":
        return None
    before = yield from _listed(settings.via, settings.ufm_url)
    try:
        cable = yield from cable_of(change.component, context)
    except Refused:
        return None
    ends = () if cable.line is None else (cable.line.end, cable.line.peer)
    names = tuple(sorted(ufm.port_name(end.guid, end.port) for end in ends if end is not None))
    listed = tuple(sorted(entry.port for entry in before))
    return Unhealthy(settings.via, settings.ufm_url, names, listed) if names else None


def give_back(list_was: Unhealthy | None) -> Procedure[tuple[str, ...]]:
    """
    Take the ends of the cable off the list that are on it now and were not before; returns them.

    Raises StillIsolated when they stay, ToolError or ExecutorError when UFM cannot be asked.
    """
    if list_was is None:
        return ()
    ours = yield from _ours(list_was)
    if not ours:
        return ()
    said = yield from plainly(list_was.via, ufm.put_healthy(list_was.url, ours))
    if said[2] != 0:
        raise StillIsolated(f"UFM does not take {', '.join(ours)} off its list: {said[1].strip()[:200]}")
    left = yield from _ours(list_was)
    if left:
        raise StillIsolated(f"UFM keeps {', '.join(left)} isolated")
    return ours


def given_back(list_was: Unhealthy | None, *, clock: Callable[[], float]) -> Procedure[str]:
    """The same as often as any undo is tried; returns what is wrong, empty when nothing is."""
    trouble = ""
    for left in range(REVERT_TRIES - 1, -1, -1):
        try:
            yield from give_back(list_was)
        except FabricError as exc:
            trouble = f"undone, but UFM may keep a port isolated: {exc}"
            if left:
                yield from pause(clock() + REVERT_PAUSE_S)
        else:
            return ""
    return trouble


def by_hand(list_was: Unhealthy) -> str:
    """What a person would run, and where, to take the ends of the cable off the list."""
    ends = tuple(end for end in list_was.ends if end not in list_was.before)
    return f"by hand: on {list_was.via}: {join(ufm.put_healthy(list_was.url, ends or list_was.ends))}"


def as_entry(list_was: Unhealthy | None) -> dict[str, Any]:
    """The fields of an ``intent`` that say it."""
    return {} if list_was is None else {KEY: asdict(list_was)}


def from_entry(intent: Mapping[str, Any]) -> Unhealthy | None:
    """What ``as_entry`` wrote; KeyError or TypeError when it is something else."""
    told = intent.get(KEY)
    if told is None:
        return None
    return Unhealthy(str(told["via"]), str(told["url"]), tuple(told["ends"]), tuple(told["before"]))


def _ours(list_was: Unhealthy) -> Procedure[tuple[str, ...]]:
    listed = yield from _listed(list_was.via, list_was.url)
    found = {entry.port for entry in listed if BY_HAND not in entry.condition.casefold()}
    return tuple(sorted((found - set(list_was.before)) & set(list_was.ends)))


def _listed(via: str, url: str) -> Procedure[tuple[ufm.UnhealthyPort, ...]]:
    return ufm.read(*(yield from plainly(via, ufm.get(url))))
