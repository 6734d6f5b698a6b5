"""A link closed at one end; a flap is the same, closed and opened repeatedly by whoever holds the change."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fabric.changes.cable_fault import DAY_S, CableFault, LastingFault, held_too_long
from fabric.changes.closing import closing_alteration, seen_closed
from fabric.changes.kind import Alters, Context, Cycle, KeyProblem
from fabric.changes.ports import POLL_S, CablePorts, adapter_end, seen_end, until_active
from fabric.changes.procedure import Procedure, pause, pause_for
from fabric.changes.subnet_manager import SETTLE_S as ROUTES_S
from fabric.errors import NotInForce
from fabric.model.change import AdapterEnd, Alteration, Alterations, Change, PortTool, SwitchEnd
from fabric.model.fields.scalars import Span, Whole
from fabric.model.part import Part
from fabric.tools.infiniband import PortState

SETTLE_S = 5.0
"""Both ends must be seen down within this time (seconds; choice: firmware and kernel take well below one)."""


class ClosedLink(CableFault):
    """Some links closed with the tool *by*; a plan has one for each cable."""

    closes: ClassVar[bool] = True

    by: PortTool | None = None
    """The tool that closes the port: ibportstate, mlxlink or ip; else the inventory's port_state."""

    def __str__(self) -> str:
        return f"{self.kind} by {self.by}"

    def decided(self, link: str, context: Context) -> dict[str, Any]:
        """Choose the tool: ``ibportstate`` cannot close an Ethernet port, so ``mlxlink`` takes its place there."""
        usual = context.settings.port_state
        return {"by": self.by or ("mlxlink" if usual == "ibportstate" and context.ethernet(link) else usual)}

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """Yield the tools that run where the port is closed."""
        for name in self.link_names:
            part, by = Part.of(name), self.by or context.settings.port_state
            if by == "ibportstate" or not part.item:
                yield context.settings.via, Alters(("ibportstate", "smpquery", "iblinkinfo"), guarded=True)
            else:
                yield part.host, Alters(tuple(dict.fromkeys((by, "mlxlink"))), guarded=True)

    def through_via(self, component: str) -> bool:
        """Return whether a switch port is closed, which needs ``via``."""
        return self.by == "ibportstate" or super().through_via(component)

    def prepare(self, change: Change, context: Context) -> Procedure[Alterations]:
        """Return one Alteration, at the end that can be opened again, never both. Refused if it would close nothing."""
        cable = yield from self.cable(change, context)
        return ((yield from closing_alteration(self.by or context.settings.port_state, cable, context)),)

    def confirm(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """Check that the closed end says so, and that the other end has no link."""
        for alteration in alterations:
            yield from _confirm(self.by or "", alteration, context, within_s=SETTLE_S)

    def still_in_force(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """Check by one look that both ends are down."""
        for alteration in alterations:
            yield from _confirm(self.by or "", alteration, context, within_s=0.0)

    def recovered(self, change: Change, alterations: Alterations, context: Context, until_s: float) -> Procedure[None]:
        """
        Wait until the closed end is Active again: the link is trained, and the subnet manager has been there.

        A cable between switches carries traffic only when routes are worked out anew, which nothing that a host can
        read shows. For that it waits as long as a sweep takes.
        """
        for alteration in alterations:
            yield from until_active(alteration.ends[0], context, until_s)
            if [type(end) for end in alteration.ends] == [SwitchEnd, SwitchEnd]:
                yield from pause_for(ROUTES_S)

    def cable(self, change: Change, context: Context) -> Procedure[CablePorts]:
        """
        Look up the cable; if tools of the host close it and the fabric cannot be seen, only the RNIC's end is known.
        """
        by_host = self.by != "ibportstate" and "/" in change.component
        if by_host and (context.settings.via is None or context.ethernet(change.component)):
            return CablePorts(change.component, adapter_end(change.component, context), None)
        return (yield from super().cable(change, context))


class LinkDown(LastingFault, ClosedLink):
    """Some links closed."""

    kind: ClassVar[str] = "link_down"
    about: ClassVar[str] = "Some links closed, and opened again when it is over."


class PortFlap(ClosedLink):
    """Some links closed and opened again, once or several times."""

    kind: ClassVar[str] = "port_flap"
    about: ClassVar[str] = "Some links closed for a moment, once or again and again."

    down_s: Annotated[float, Span(0.1, 3600)] = Field(alias="down")
    """How long the port is closed each time."""
    count: Annotated[int, Whole(1, 1000)] = 1
    """How often."""
    period_s: Annotated[float, Span(0.1, DAY_S)] | None = Field(None, alias="period")
    """From one closing to the next; required with a count of two or more."""

    def __str__(self) -> str:
        return f"port_flap {self.count} x {self.down_s:g} s"

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield times that do not fit together."""
        yield from held_too_long(self.down_s, "down", context)
        if self.count == 1 and self.period_s:
            yield ("period",), "'period' goes with a count of two or more"
        elif self.count > 1 and self.period_s is None:
            yield (), f"'period' is required with a count of {self.count}: from one closing to the next"
        elif self.count > 1 and self.steady_s <= self.down_s:
            yield ("period",), f"expected a period above {self.down_s:g}s (down): the port must open in between"
        yield from super().problems(context)

    def params(self, component: str) -> Mapping[str, str | int | float]:
        """Return everything that is asked for."""
        return {"by": self.by or "", "down_s": self.down_s, "count": self.count, "period_s": self.period_s or 0.0}

    @property
    def steady_s(self) -> float:
        """The time from each closing to the next one."""
        return max(self.down_s, self.period_s or 0.0)

    def lasts_s(self, component: str) -> float:
        """Return the time from the first closing to the last opening."""
        return self.down_s + (self.count - 1) * self.steady_s

    def cycles(self, component: str, *, now_s: float) -> Iterator[Cycle]:
        """Yield each closing."""
        return (Cycle(now_s + number * self.steady_s, self.down_s, lifts=True) for number in range(self.count))

    def cut_off(self, *, after: int) -> str:
        """Return how many cycles were done, if not all."""
        return f"cut off after {after} of {self.count} cycles" if after < self.count else ""


def _confirm(by: str, alteration: Alteration, context: Context, *, within_s: float) -> Procedure[None]:
    end, other = alteration.ends[0], next(iter(alteration.ends[1:]), None)
    now_s = yield from pause(0.0)
    until_s = now_s + within_s
    while True:
        here = yield from seen_closed(end, context)
        there = None if other is None else (yield from seen_end(other, context))
        if _down(by, here) and (there is None or not there.up):
            return
        if now_s >= until_s:
            break
        now_s = yield from pause(min(now_s + POLL_S, until_s))
    if within_s and here.up and isinstance(end, AdapterEnd):
        keep = "KEEP_ETH_LINK_UP" if context.ethernet(end.name) else "KEEP_IB_LINK_UP"
        raise NotInForce(f"{end}: the physical link stayed up ({here}): {keep} of the firmware keeps it (mlxconfig)")
    raise NotInForce(f"{end} is {here}" + ("" if there is None else f", {other} is {there}"))


def _down(by: str, here: PortState) -> bool:
    """Return whether an end is down. ``ip`` only takes the light away, so Disabled is not to be expected there."""
    return not here.up if by == "ip" else here.disabled
