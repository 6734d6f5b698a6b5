"""
Ports that a fabric's manager has isolated because of our own fault: found, and given back.

UFM may put a port with many bit errors, or one that flaps, on a list of unhealthy ports; it stays isolated when the
fault is gone. So the list is read before a change, written into the journal, and read again after it: what is new on
it and is an end of the changed cable is returned. Other ports are none of our business, nor is what a person listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import join

from fabric.changes.kind import Context
from fabric.changes.ports import cable_of, plainly
from fabric.changes.procedure import Procedure, pause
from fabric.changes.undo import REVERT_PAUSE_S, REVERT_TRIES
from fabric.errors import ChangeError, FabricError, Refused
from fabric.model.change import Change
from fabric.tools import management

BY_HAND = "manual"
"""In UFM's condition of a port that a person has listed."""


class StillIsolated(ChangeError):
    """A port that our fault got isolated could not be given back."""


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """
    UFM's list as it was before a change: *before*, the ports on it as ``<guid>_<number>``.

    *ends* are those of the changed cable, in the same words: a cable that is isolated cannot be found any more. UFM is
    at *url*, asked from the host *via*; *ca* and *insecure* as ``management.UfmAccess``.
    """

    via: str
    url: str
    ends: tuple[str, ...]
    before: tuple[str, ...]
    ca: str | None = None
    insecure: bool = False

    @property
    def ufm(self) -> management.UfmAccess:
        """Whom to ask."""
        return management.UfmAccess(self.url, self.ca, self.insecure)


def list_before(change: Change, context: Context) -> Procedure[Unhealthy | None]:
    """What is on UFM's list now; None where no UFM is asked or no cable of its fabric is changed."""
    settings = context.settings
    ufm = management.UfmAccess.of(settings)
    if ufm is None or settings.via is None or change.scope != "port":
        return None
    before = yield from _listed(settings.via, ufm)
    try:
        cable = yield from cable_of(change.component, context)
    except Refused:
        return None
    ends = () if cable.line is None else (cable.line.end, cable.line.peer)
    names = tuple(sorted(management.port_name(end.guid, end.port) for end in ends if end is not None))
    listed = tuple(sorted(entry.port for entry in before))
    return Unhealthy(settings.via, ufm.url, names, listed, ufm.ca, ufm.insecure) if names else None


def give_back(
    list_was: Unhealthy | None, *, tries: int = REVERT_TRIES, pause_s: float = REVERT_PAUSE_S
) -> Procedure[tuple[tuple[str, ...], str]]:
    """
    Take the ends of the cable off the list that are on it now and were not before.

    Returns those, and what is wrong, empty when nothing is. It is tried as often as any undo.
    """
    trouble = ""
    for number in range(tries if list_was else 0):
        if number and pause_s:
            now_s = yield from pause(0.0)
            yield from pause(now_s + pause_s)
        assert list_was is not None
        try:
            return (yield from _given_back(list_was)), ""
        except FabricError as exc:
            trouble = str(exc)
    return (), trouble


def _given_back(list_was: Unhealthy) -> Procedure[tuple[str, ...]]:
    ours = yield from _ours(list_was)
    if not ours:
        return ()
    said = yield from plainly(list_was.via, management.put_healthy(list_was.ufm, ours))
    if said[2] != 0:
        raise StillIsolated(f"UFM does not take {', '.join(ours)} off its list: {said[1].strip()[:200]}")
    left = yield from _ours(list_was)
    if left:
        raise StillIsolated(f"UFM keeps {', '.join(left)} isolated")
    return ours


def by_hand(list_was: Unhealthy) -> str:
    """What a person would run, and where, to take the ends of the cable off the list."""
    ends = tuple(end for end in list_was.ends if end not in list_was.before)
    return f"by hand: on {list_was.via}: {join(management.put_healthy(list_was.ufm, ends or list_was.ends))}"


def _ours(list_was: Unhealthy) -> Procedure[tuple[str, ...]]:
    listed = yield from _listed(list_was.via, list_was.ufm)
    found = {entry.port for entry in listed if BY_HAND not in entry.condition.casefold()}
    return tuple(sorted((found - set(list_was.before)) & set(list_was.ends)))


def _listed(via: str, ufm: management.UfmAccess) -> Procedure[tuple[management.UnhealthyPort, ...]]:
    return management.read_unhealthy(*(yield from plainly(via, management.list_unhealthy(ufm))))
