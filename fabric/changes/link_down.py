"""A link closed at one end; a flap is the same, opened and closed again and again by whoever holds the change."""

from __future__ import annotations

from fabric.changes.closing import Seen, closing, seen_closed, seen_end
from fabric.changes.kept_up import refuse_kept_up
from fabric.changes.kind import Context, Counters, Kind
from fabric.changes.ports import AdapterEnd, Cable, End, SwitchEnd, adapter_end, cable_of, end_named, ethernet
from fabric.changes.procedure import Procedure, pause
from fabric.changes.receivers import link_counters
from fabric.changes.subnet_manager import SETTLE_S as ROUTES_S
from fabric.changes.waiting import POLL_S, until_active
from fabric.errors import NotInForce, Refused
from fabric.model.change import Alteration, Change

SETTLE_S = 5.0
"""Both ends must be seen down within so much (seconds; choice: firmware and kernel take well below one)."""


class LinkDown(Kind):
    """Kinds ``link_down`` and ``port_flap``; param *by*, one of fabric.changes.closing.WAYS."""

    def prepare(self, change: Change, context: Context) -> Procedure[tuple[Alteration, ...]]:
        """One Alteration, at the end that can be opened again; never at both. Refused where it would close nothing."""
        cable = yield from self._cable(change, context)
        by = str(change.params["by"])
        alteration = yield from closing(by, cable, context)
        end, _ = _ends(alteration)
        if isinstance(end, AdapterEnd):
            yield from refuse_kept_up(by, end, context)
        return (alteration,)

    def confirm(self, change: Change, alterations: tuple[Alteration, ...], context: Context) -> Procedure[None]:
        """The closed end says so, and the other end has no link."""
        for alteration in alterations:
            yield from _confirm(str(change.params["by"]), alteration, context, within_s=SETTLE_S)

    def still_in_force(self, change: Change, alterations: tuple[Alteration, ...], context: Context) -> Procedure[None]:
        """Both ends are down, at one look."""
        for alteration in alterations:
            yield from _confirm(str(change.params["by"]), alteration, context, within_s=0.0)

    def counters(self, change: Change, context: Context) -> Procedure[Counters]:
        """How often both ends have counted the link as down; empty while it is down."""
        try:
            cable = yield from self._cable(change, context)
        except Refused:
            return {}
        found: dict[str, float] = {}
        for end in (cable.lower, cable.upper):
            if end is not None:
                found |= yield from link_counters(end, context)
        return found

    def recovered(
        self, change: Change, alterations: tuple[Alteration, ...], context: Context, until_s: float
    ) -> Procedure[float]:
        """
        Wait until the end that was closed is Active again: the link is trained and the subnet manager has been.

        A cable between switches is used again only when routes have been worked out anew, which nothing that a host can
        read shows: for that it waits as long as a sweep takes.
        """
        del change
        now_s = yield from pause(0.0)
        for alteration in alterations:
            end, other = _ends(alteration)
            now_s = yield from until_active(end, context, until_s)
            if isinstance(end, SwitchEnd) and isinstance(other, SwitchEnd):
                now_s = yield from pause(now_s + ROUTES_S)
        return now_s

    def _cable(self, change: Change, context: Context) -> Procedure[Cable]:
        """With tools of the host itself the fabric need not be seen, though it is where it can be."""
        by_host = change.params["by"] != "ibportstate" and "/" in change.component
        if by_host and (context.settings.via is None or ethernet(change.component, context)):
            return Cable(change.component, adapter_end(change.component, context), None)
        return (yield from cable_of(change.component, context))


def _ends(alteration: Alteration) -> tuple[End, End | None]:
    """The end that is closed and the other one, as the Alteration's *prior* names them."""
    first, _, rest = alteration.prior.partition("; other end ")
    return end_named(first.rpartition(": ")[0]), end_named(rest) if rest else None


def _confirm(by: str, alteration: Alteration, context: Context, *, within_s: float) -> Procedure[None]:
    end, other = _ends(alteration)
    now_s = yield from pause(0.0)
    until_s = now_s + within_s
    while True:
        here = yield from seen_closed(by, alteration, end, context)
        there = None if other is None else (yield from seen_end(other, context))
        if _down(by, here) and (there is None or not there.up):
            return
        if now_s >= until_s:
            break
        now_s = yield from pause(min(now_s + POLL_S, until_s))
    if within_s and here.up and isinstance(end, AdapterEnd):
        keep = "KEEP_ETH_LINK_UP" if ethernet(end.name, context) else "KEEP_IB_LINK_UP"
        raise NotInForce(f"{end}: the physical link stayed up ({here}): {keep} of the firmware keeps it (mlxconfig)")
    raise NotInForce(f"{end} is {here}" + ("" if there is None else f", {other} is {there}"))


def _down(by: str, here: Seen) -> bool:
    """``ip`` leaves the port open and takes its light away, so that Disabled is not to be expected."""
    return not here.up if by == "ip" else here.closed
