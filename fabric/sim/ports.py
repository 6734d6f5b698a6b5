"""The ports of the rack: up or down, with which errors, and what that does to the transfers through them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from math import inf
from typing import TYPE_CHECKING

from fabric.model.inventory import Fault
from fabric.sim.cabling import Cabling, End, Node
from fabric.sim.line_kinds import LineKind, line_kind
from fabric.sim.phy import LinkQuality, link_quality
from fabric.sim.port_counters import Counts, Rates, Tally, traffic_gb
from fabric.sim.uplink_ports import uplink_faults

if TYPE_CHECKING:
    from fabric.sim.rack import Rack
    from fabric.sim.site import Site

# How long a port takes to come back. Choice, "a few seconds": PAM4 links train for seconds, then the subnet manager
# must sweep before an InfiniBand port is Active.
TRAIN_S = 2.5
SWEEP_S = 1.5

POLLING, DISABLED, LINK_UP = 2, 3, 5
"""Physical states, by the numbers of the InfiniBand specification (and of register PAOS)."""
DOWN, INITIALIZING, ACTIVE = 1, 2, 4
"""Logical states, likewise."""

PHYSICAL_TEXT = {POLLING: "Polling", DISABLED: "Disabled", LINK_UP: "LinkUp"}

RAW, EFFECTIVE = 1, 2
"""Kinds of injected errors that this firmware offers: before and after the FEC."""


@dataclass(frozen=True, slots=True)
class Injection:
    """Errors that a port puts into what it sends, at *mantissa* x 10^-*exponent*, until *until_s*."""

    kind: int
    mantissa: int
    exponent: int
    until_s: float

    @property
    def ber(self) -> float:
        """The bit error ratio."""
        return self.mantissa * 10.0**-self.exponent


@lru_cache(maxsize=1024)
def _quality(line: LineKind, rate_gbps: float, injected: tuple[int, float] | None) -> LinkQuality:
    kind, ber = injected or (0, 0.0)
    return link_quality(
        raw_ber=min(0.5, line.raw_ber + (ber if kind == RAW else 0.0)),
        effective_ber=ber if kind == EFFECTIVE else None,
        fec=line.fec,
        plr=line.retries,
        line_rate_gbps=rate_gbps,
    )


class Port:
    """
    One port of an RNIC or switch.

    *site* is the host of an RNIC's port. *broken* ones never come up. *interface_up* is the host's own switch, which
    leaves the cable alone. *turn* counts changes, so that what was planned before the last one is void.
    """

    __slots__ = (
        "admin_up", "broken", "end", "injection", "interface_up", "line", "logical", "node", "physical", "rate_gbps",
        "registers", "site", "tally", "turn",
    )  # fmt: skip

    def __init__(self, node: Node, end: End, *, rate_gbps: float, site: Site | None, broken: bool) -> None:
        self.node = node
        self.end = end
        self.rate_gbps = rate_gbps
        self.line = line_kind(rate_gbps, ethernet=node.ethernet)
        self.site = site
        self.broken = broken
        self.admin_up = self.interface_up = True
        self.physical = POLLING if broken else LINK_UP
        self.logical = DOWN if broken else ACTIVE
        self.injection: Injection | None = None
        self.turn = 0
        self.registers: dict[str, int] = {}  # what was written into registers that change nothing here
        self.tally = Tally(Rates())

    @property
    def active(self) -> bool:
        """Whether data passes."""
        return self.logical == ACTIVE and self.interface_up

    @property
    def kernel_physical(self) -> int:
        """The physical state that its own host's kernel sees: an interface that is off looks disabled."""
        return self.physical if self.interface_up else DISABLED

    @property
    def kernel_logical(self) -> int:
        """The logical state that the kernel sees."""
        return self.logical if self.interface_up else DOWN

    @property
    def kernel_up(self) -> bool:
        """Whether the kernel sees a link."""
        return self.kernel_physical == LINK_UP

    def quality(self) -> LinkQuality:
        """What its errors make of the direction it sends."""
        now = self.injection
        return _quality(self.line, self.rate_gbps, None if now is None else (now.kind, now.ber))


class Ports:
    """Every port, made when first asked for: a world in which nobody asks pays nothing."""

    def __init__(self, rack: Rack) -> None:
        self._rack = rack
        self._cabling: Cabling | None = None
        self._ports: dict[End, Port] = {}

    @property
    def cabling(self) -> Cabling:
        """Which port is plugged into which."""
        if self._cabling is None:
            self._cabling = Cabling(self._rack.topology)
        return self._cabling

    def at(self, end: End) -> Port:
        """The port at one end of a cable; KeyError when no cable can be there."""
        port = self._ports.get(end)
        if port is None:
            node = self.cabling.nodes[end[0]]
            site = None if node.host is None else self._rack.site(node.host)
            broken = self._dead(end) or self._dead(self.cabling.peers.get(end))
            rate_gbps = self.cabling.rates_gbps[end]
            port = self._ports[end] = Port(node, end, rate_gbps=rate_gbps, site=site, broken=broken)
            port.tally.rates = self._rates(port)
        return port

    def has_link(self, end: End) -> bool:
        """Whether management packets pass a cable's end; does not make its port."""
        port = self._ports.get(end)
        if port is not None:
            return port.logical != DOWN
        return not (self._dead(end) or self._dead(self.cabling.peers.get(end)))

    def _dead(self, end: End | None) -> bool:
        """Whether a fault keeps this end from ever coming up."""
        node = None if end is None else self.cabling.nodes[end[0]]
        if node is None or node.host is None:
            return False
        if self._rack.unreachable(node.host) is not None:
            return True
        faults = self._rack.site(node.host).faults
        return faults is not None and faults.troubles.get(node.device) in ("broken", "absent")

    def of_adapter(self, host: str, device: str) -> Port:
        """An RNIC's port."""
        return self.at(self.cabling.adapter_end(host, device))

    def peer(self, port: Port) -> Port | None:
        """The port at the other end of the cable; None where the topology names none."""
        end = self.cabling.peers.get(port.end)
        return None if end is None else self.at(end)

    def between_switches(self) -> tuple[Fault, ...]:
        """What the ports between switches that were asked for take from the network above the leaves."""
        return () if self._cabling is None else uplink_faults(self._cabling, self._ports.values())

    def disable(self, port: Port, at_s: float) -> None:
        """Close a port; the other end loses its partner and looks for a new one."""
        port.tally.counts.intentional += port.admin_up
        port.admin_up = False
        self._drop(port, at_s)

    def enable(self, port: Port, at_s: float) -> None:
        """Let a closed port look for its partner again; one that is open stays as it is."""
        if not port.admin_up:
            port.admin_up = True
            self._drop(port, at_s)
            self._train(port, at_s)

    def bounce(self, port: Port, at_s: float) -> None:
        """Take a link down and let it come up again at once; opens a closed port."""
        port.tally.counts.intentional += port.logical != DOWN
        port.admin_up = True
        self._drop(port, at_s)
        self._train(port, at_s)

    def set_interface(self, port: Port, at_s: float, *, up: bool) -> None:
        """The host's own switch: nothing passes while it is off, though the cable stays lit."""
        port.interface_up = up
        self._tell(port, at_s)

    def inject(self, port: Port, injection: Injection | None, at_s: float) -> None:
        """Let a port send errors; None ends that."""
        port.injection = injection
        self._tell(port, at_s)
        if injection is not None and injection.until_s < inf:
            self._rack.timeline.at(injection.until_s, lambda now_s: self._expire(port, injection, now_s))

    def _expire(self, port: Port, injection: Injection, at_s: float) -> None:
        if port.injection is injection:
            self.inject(port, None, at_s)

    def counts(self, port: Port, at_s: float, *, view: str) -> Counts:
        """Its counters as one view sees them; each view is cleared on its own."""
        return port.tally.read(at_s, view=view, traffic=self._traffic(port, at_s))

    def clear(self, port: Port, at_s: float, *, view: str) -> None:
        """Start a view's counters at 0."""
        port.tally.clear(at_s, view=view, traffic=self._traffic(port, at_s))

    def _traffic(self, port: Port, at_s: float) -> tuple[float, float]:
        """Of ports between switches nothing is known: 0."""
        if port.site is not None:
            return traffic_gb(port.site, port.node.device, at_s)
        peer = self.peer(port)
        if peer is None or peer.site is None:
            return 0.0, 0.0
        sent_gb, received_gb = traffic_gb(peer.site, peer.node.device, at_s)
        return received_gb, sent_gb

    def _drop(self, port: Port, at_s: float) -> None:
        """Both ends lose the link; an end that did not close itself counts it."""
        peer = self.peer(port)
        for one in (port,) if peer is None else (port, peer):
            if one is not port and one.logical != DOWN:
                one.tally.counts.downed += 1
            one.turn += 1
            one.logical = DOWN
            one.physical = POLLING if one.admin_up else DISABLED
            self._tell(one, at_s)

    def _train(self, port: Port, at_s: float) -> None:
        """In a while both ends are up, unless one is closed, broken or changed before."""
        peer = self.peer(port)
        ends = (port,) if peer is None else (port, peer)
        turns = [one.turn for one in ends]
        # Without a subnet manager's visit an InfiniBand port is only Initializing.
        steps = [(TRAIN_S, ACTIVE)] if port.node.ethernet else [(TRAIN_S, INITIALIZING), (TRAIN_S + SWEEP_S, ACTIVE)]

        def advance(now_s: float, *, logical: int) -> None:
            fit = all(one.admin_up and not one.broken for one in ends)
            if fit and turns == [one.turn for one in ends]:
                for one in ends:
                    one.physical, one.logical = LINK_UP, logical
                    self._tell(one, now_s)

        for after_s, logical in steps:
            self._rack.timeline.at(at_s + after_s, partial(advance, logical=logical))

    def _rates(self, port: Port) -> Rates:
        """What a port receives a second: its partner's errors, while the link is up."""
        if port.physical != LINK_UP:
            return Rates()
        end = self.cabling.peers.get(port.end)
        sender = port if end is None else self._ports.get(end)  # one not asked for yet sends no injected errors
        quality = _quality(port.line, port.rate_gbps, None) if sender in (None, port) else sender.quality()
        bits = port.rate_gbps * 1e9
        return Rates(bits, bits * quality.raw_ber, bits * quality.effective_ber, bits * quality.symbol_ber)

    def _tell(self, port: Port, at_s: float) -> None:
        """Counters and transfers follow what a port has become, at its own end and at the other."""
        peer = self.peer(port)
        for one in (port,) if peer is None else (port, peer):
            one.tally.turn(self._rates(one), at_s)
            if one.site is not None:
                self._dent(one, self.peer(one), at_s)
        if port.site is None and peer is not None and peer.site is None:
            self._rack.ports_changed()

    def _dent(self, port: Port, peer: Port | None, at_s: float) -> None:
        """The capacities of an RNIC's cable, and the transfers on it when they just went away."""
        site, device = port.site, port.node.device
        assert site is not None
        index = site.layout.index
        if port.active:
            site.down.discard(device)
            for way, sender in (("out", port), ("in", peer)):
                left = 1.0 if sender is None else sender.quality().goodput_factor
                site.dents.pop(index[f"{device}:{way}"], None)
                if sender is not None and sender.injection is not None and left < 1.0:
                    site.dents[index[f"{device}:{way}"]] = left * site.capacities[index[f"{device}:{way}"]]
        else:
            for way in ("out", "in"):
                site.dents[index[f"{device}:{way}"]] = 0.0
            if device not in site.down:
                site.down.add(device)
                used = {index[f"{device}:{way}"] for way in ("tx", "rx", "out", "in")}
                for flow in list(site.flows):
                    if flow.live and any(where is site and used.intersection(has) for where, has, _ in flow.shares):
                        flow.lost(site, at_s)
        self._rack.timeline.sharing.dirty[site] = None
