"""
Ports that a fabric's manager has isolated because of our own fault: found, and given back.

UFM may put a port with many bit errors, or one that flaps, on a list of unhealthy ports; it stays isolated when the
fault is gone. So the list is read before a change and after it, and what is new on it and is an end of the changed
cable is returned. Other ports are none of our business.
"""

from __future__ import annotations

from fabric.changes.kind import Context
from fabric.changes.look import plainly
from fabric.changes.ports import cable_of
from fabric.changes.procedure import Procedure
from fabric.errors import ChangeError, Refused
from fabric.model.change import Change
from fabric.tools import ufm


class StillIsolated(ChangeError):
    """A port that our fault got isolated could not be given back."""


def isolated(context: Context) -> Procedure[frozenset[str]]:
    """The ports on the list, as ``<guid>_<number>``; none where the inventory names no UFM."""
    settings = context.settings
    if settings.ufm_url is None or settings.via is None:
        return frozenset()
    said = yield from plainly(settings.via, ufm.get(settings.ufm_url))
    return frozenset(entry.port for entry in ufm.read(*said))


def ends_of(change: Change, context: Context) -> Procedure[frozenset[str]]:
    """Both ends of the changed cable, as UFM names ports; none where no UFM is asked or no cable is changed."""
    if context.settings.ufm_url is None or change.scope != "port":
        return frozenset()
    try:
        cable = yield from cable_of(change.component, context)
    except Refused:
        return frozenset()
    ends = () if cable.line is None else (cable.line.end, cable.line.peer)
    return frozenset(ufm.port_name(end.guid, end.port) for end in ends if end is not None)


def give_back(ends: frozenset[str], before: frozenset[str], context: Context) -> Procedure[None]:
    """
    Return those of *ends* that are isolated now and were not *before*; raises StillIsolated when they stay.

    *ends* are those of the cable, found before it was changed: a cable that is isolated cannot be found any more.
    """
    settings = context.settings
    ours = ((yield from isolated(context)) - before) & ends
    if not ours or settings.ufm_url is None or settings.via is None:
        return
    said = yield from plainly(settings.via, ufm.put_healthy(settings.ufm_url, tuple(sorted(ours))))
    if said[2] != 0:
        raise StillIsolated(f"UFM does not take {', '.join(sorted(ours))} off its list: {said[1].strip()[:200]}")
    left = ((yield from isolated(context)) - before) & ends
    if left:
        raise StillIsolated(f"UFM keeps {', '.join(sorted(left))} isolated")
