"""The ports of the rack: up or down, with which errors, and how that affects the transfers through them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from typing import Protocol

from fabric.model.inventory import Fault, MockSettings
from fabric.sim.faults import WELL
from fabric.sim.hosts import Hosts
from fabric.sim.hosts.timeline import Timeline
from fabric.sim.phy.cabling import UNMARKED, Cabling, End, Mark, Node, marks
from fabric.sim.phy.port import ERRORS, Counts, Logical, Physical, Port, Traffic, traffic_of
from fabric.sim.phy.qos import SELECTIVE, Qos, altered, qos_at
from fabric.sim.phy.quality import (
    CODEWORD_BITS,
    DOWN_SHARE,
    UNWORN,
    Injection,
    Wear,
    bad_codewords,
    full_share,
    line_kind,
    quality_of,
    recoveries_per_s,
)

# How long a port takes to come back. Choice, "a few seconds": PAM4 links train for seconds, then the subnet manager
# must sweep before an InfiniBand port is Active.
TRAIN_S = 2.5
SWEEP_S = 1.5


class BetweenSwitches(Protocol):
    """The network between switches, as the switches' ports use it."""

    def traffic(self, ends: tuple[End, End], at_s: float) -> Traffic:
        """Return what a port between switches (the first of *ends*, then its partner) has sent and received."""

    def ports_changed(self, at_s: float) -> None:
        """Note that a port between switches has changed."""

    def tenant(self, component: str, fault: Fault | None, at_s: float) -> None:
        """Start or, with None, stop the flows of a tenant over cables between switches."""


@dataclass(frozen=True, slots=True)
class Walk:
    """
    The nodes that a walk over all ports finds, each with its ports: the farthest first, the own node last.

    Ports other than those *counting* have counted no error until *clean_until_s*.
    """

    nodes: Sequence[tuple[Node, Sequence[Port]]]
    counting: Sequence[tuple[Node, Sequence[Port]]]
    clean_until_s: float


class Ports:
    """
    Every port, each made when first asked for: a world in which nobody asks pays nothing.

    *uplinks*, and *watch*, which is called with a port that sends other errors than before, are set when the rack is
    built.
    """

    uplinks: BetweenSwitches
    watch: Callable[[Port, float], None]

    def __init__(self, hosts: Hosts, timeline: Timeline, mock: MockSettings) -> None:
        self._hosts, self._timeline, self._mock = hosts, timeline, mock
        self._ports: dict[End, Port] = {}
        self._reached: dict[End, list[Node]] = {}
        self._walks: dict[End, Walk] = {}
        self.walked: dict[End, str] = {}
        """The output of a walk over all ports by the port it began at; valid until any port changes."""

    @cached_property
    def cabling(self) -> Cabling:
        """Return which port is plugged into which."""
        return Cabling(self._hosts.topology, self._mock.faults)

    @property
    def known(self) -> tuple[Port, ...]:
        """Return the ports that were asked for so far."""
        return tuple(self._ports.values())

    def at(self, end: End) -> Port:
        """Return the port at one end of a cable; raises KeyError when no cable can be there."""
        port = self._ports.get(end)
        if port is None:
            node, far = self.cabling.nodes[end[0]], self.cabling.peers.get(end)
            site = None if node.host is None else self._hosts.site(node.host)
            broken, mark = self._dead(end) or self._dead(far), self._marks.get(end, UNMARKED)
            rate_gbps, copper = self.cabling.rates_gbps[end], "copper" in self._mock.site
            line = line_kind(rate_gbps, ethernet=node.ethernet, copper=copper and not self.cabling.is_trunk(end))
            port = self._ports[end] = Port(node, end, rate_gbps, line, site, broken, mark, mark.wear)
            if broken:
                port.physical, port.logical = Physical.POLLING, Logical.DOWN
            port.tally.rates, port.tally.loss = self._rates(port)
        return port

    def qos(self, port: Port) -> Qos:
        """Return how the port is set for RoCE."""
        return altered(qos_at(port.node, port.mark, self._mock), port.registers)

    @cached_property
    def _marks(self) -> Mapping[End, Mark]:
        """Return what is wrong with cables for ever."""
        return marks(self.cabling, self._mock.faults)

    def has_link(self, end: End) -> bool:
        """Return whether management packets pass a cable's end; does not make its port."""
        port = self._ports.get(end)
        if port is not None:
            return port.logical != Logical.DOWN
        return not (self._dead(end) or self._dead(self.cabling.peers.get(end)))

    def _dead(self, end: End | None) -> bool:
        """Return whether a fault keeps this end from ever coming up."""
        if end is None:
            return False
        node = self.cabling.nodes[end[0]]
        if node.host is None:
            return self._marks.get(end, UNMARKED).cut
        return self._hosts.faults.get(node.host, WELL).gone(node.device)

    def reached(self, start: Port) -> list[Node]:
        """Return the nodes that management packets sent from a port find, its own node first."""
        if start.end not in self._reached:
            self._reached[start.end] = self.cabling.reached(start.end, self.has_link)
        return self._reached[start.end]

    def walk(self, start: Port, at_s: float) -> Walk:
        """Return what a walk from a port finds now."""
        found = self._walks.get(start.end)
        if found is None or at_s >= found.clean_until_s:
            nodes = [
                (node, [self.at(end) for end in self.cabling.ends(node)]) for node in reversed(self.reached(start))
            ]
            until_s = {port.end: port.tally.clean_until_s for _, ports in nodes for port in ports}
            counting = [(node, [port for port in ports if until_s[port.end] <= at_s]) for node, ports in nodes]
            clean_s = min((one for one in until_s.values() if one > at_s), default=inf)
            found = Walk(nodes, [both for both in counting if both[1]], clean_s)
            self._walks[start.end] = found
        return found

    def of_adapter(self, host: str, device: str) -> Port:
        """Return an RNIC's port."""
        return self.at(self.cabling.adapter_end(host, device))

    def peer(self, port: Port) -> Port | None:
        """Return the port at the other end of the cable; None where the topology names none."""
        end = self.cabling.peers.get(port.end)
        return None if end is None else self.at(end)

    def both(self, port: Port) -> tuple[Port, ...]:
        """Return a port and its partner, where it has one."""
        peer = self.peer(port)
        return (port,) if peer is None else (port, peer)

    def disable(self, port: Port, at_s: float) -> None:
        """Close a port; the other end loses its partner and looks for a new one."""
        port.admin_up = False
        self._drop(port, at_s)

    def enable(self, port: Port, at_s: float) -> None:
        """Let a closed port look for its partner again; an open port stays as it is."""
        if not port.admin_up:
            port.admin_up = True
            self._drop(port, at_s)
            self._train(port, at_s)

    def set_interface(self, port: Port, at_s: float, *, up: bool) -> None:
        """Switch the host's interface on or off: nothing passes while it is off, though the cable stays lit."""
        port.interface_up = up
        self._update_both_ends(port, at_s)

    def write(self, port: Port, registers: Mapping[str, int], at_s: float) -> None:
        """Set registers of a port; running transfers feel it at once."""
        port.registers |= registers
        self._update_both_ends(port, at_s)
        self._timeline.sharing.network_changed()

    def inject(self, port: Port, injection: Injection | None, at_s: float) -> None:
        """Make a port send errors; None ends that."""
        port.injection = injection
        self._update_both_ends(port, at_s)
        if bad_codewords(port.line, port.injection) > DOWN_SHARE:
            self.hold(port, ERRORS, at_s)
        else:
            self.release(port, ERRORS, at_s)
        self.watch(port, at_s)
        if injection is not None and injection.until_s < inf:
            over = partial(self.inject, port, None)
            self._timeline.at(injection.until_s, lambda now_s: over(now_s) if port.injection is injection else None)

    def counts(self, port: Port, at_s: float) -> Counts:
        """Return the counters of a port."""
        return port.tally.read(at_s, self.traffic(port, at_s))

    def traffic(self, port: Port, at_s: float) -> Traffic:
        """
        Return the traffic of a port; for a switch port it is what its partner counts, or what the network above knows.
        """
        if port.site is not None:
            return traffic_of(port.site, port.node.device, at_s)
        peer = self.peer(port)
        if peer is None:
            return Traffic()
        if peer.site is None:
            return self.uplinks.traffic((port.end, peer.end), at_s)
        theirs = traffic_of(peer.site, peer.node.device, at_s)  # how long they waited says nothing about us
        return Traffic(theirs.received_gb, theirs.sent_gb)

    def set_cable_fault(self, end: End, at_s: float, *, broken: bool, wear: Wear) -> None:
        """Let a fault come over a cable, or leave it: whether the cable is broken now, and how worn."""
        port = self.at(end)
        ends = self.both(port)
        for one in ends:
            one.wear = one.mark.wear if wear is UNWORN else wear
        if broken == port.broken:
            self._update_both_ends(port, at_s)
            return
        for one in ends:
            one.broken = broken
        if broken:
            port.tally.counts.downed += port.logical != Logical.DOWN
            self._drop(port, at_s)
        elif all(one.admin_up for one in ends):
            self._train(port, at_s)

    def hold(self, port: Port, reason: str, at_s: float) -> None:
        """
        Keep a port down for a reason; with ERRORS the link goes down by itself, and its receiver tries to recover.
        """
        if reason in port.held:
            return
        port.held.add(reason)
        peer = self.peer(port)
        failed = reason == ERRORS and port.logical != Logical.DOWN
        if failed:
            port.tally.counts.downed += 1
            for one in self.both(port):
                one.tally.counts.recovered += 1
        self._drop(port, at_s)
        if failed and peer is not None:
            peer.physical = Physical.RECOVERY

    def release(self, port: Port, reason: str, at_s: float) -> None:
        """Drop a reason to keep a port down; it trains when no other reason is left."""
        if reason in port.held:
            port.held.discard(reason)
            self._drop(port, at_s)
            self._train(port, at_s)

    def _drop(self, port: Port, at_s: float) -> None:
        """Take the link down at both ends; an end that did not close itself counts it."""
        for one in self.both(port):
            if one is not port and one.logical != Logical.DOWN:
                one.tally.counts.downed += 1
            one.epoch += 1
            one.logical = Logical.DOWN
            one.physical = Physical.POLLING if one.admin_up else Physical.DISABLED
            self._update_both_ends(one, at_s)

    def _train(self, port: Port, at_s: float) -> None:
        """Bring both ends up after a while, unless one is closed, broken or changed before."""
        ends = self.both(port)
        epochs = [one.epoch for one in ends]

        def advance(now_s: float, *, logical: Logical) -> None:
            if all(one.can_train for one in ends) and epochs == [one.epoch for one in ends]:
                for one in ends:
                    one.physical, one.logical = Physical.LINK_UP, logical
                    self._update_both_ends(one, now_s)

        if port.node.ethernet:
            self._timeline.at(at_s + TRAIN_S, partial(advance, logical=Logical.ACTIVE))
        else:  # without a subnet manager's visit it is only Initializing
            self._timeline.at(at_s + TRAIN_S, partial(advance, logical=Logical.INITIALIZING))
            self._timeline.at(at_s + TRAIN_S + SWEEP_S, partial(advance, logical=Logical.ACTIVE))

    def _rates(self, port: Port) -> tuple[Counts, float]:
        """
        Return the errors that a port receives a second (those of its partner, while the link is up), and the lost
        fraction.
        """
        if not port.up:
            return Counts(age_s=1.0), 0.0
        end = self.cabling.peers.get(port.end)
        if end is not None and end in self._marks:
            self.at(end)  # makes its port: errors that it sends are received here
        sender = port if end is None else self._ports.get(end)  # an unmade port sends no injected errors
        if sender is None or sender is port:
            quality = quality_of(port.line, port.rate_gbps, None, port.wear)
        else:
            quality = sender.quality()
        bits = port.rate_gbps * 1e9
        raw, effective, symbol = (bits * ber for ber in (quality.raw_ber, quality.effective_ber, quality.symbol_ber))
        full = bits / CODEWORD_BITS * full_share(quality.raw_ber, port.line.fec)
        recoveries = 0.0 if sender is None else recoveries_per_s(sender.line, sender.injection)
        return Counts(1.0, bits, raw, effective, symbol, recovered=recoveries, full=full), quality.loss

    def _update_both_ends(self, port: Port, at_s: float) -> None:
        """Update counters and transfers at both ends of the cable after a port has changed."""
        for known in (self._reached, self._walks, self.walked):
            known.clear()
        peer = self.peer(port)
        for one in self.both(port):
            one.tally.set_rates(*self._rates(one), at_s, received_gb=self.traffic(one, at_s).received_gb)
            if one.site is not None:
                self._update_capacities(one, self.peer(one), at_s)
        if port.site is None and peer is not None and peer.site is None:
            self.uplinks.ports_changed(at_s)

    def _update_capacities(self, port: Port, peer: Port | None, at_s: float) -> None:
        """Update the capacities of an RNIC's cable, and end the transfers on it when they just went away."""
        site, device = port.site, port.node.device
        assert site is not None
        index, selective = site.layout.index, port.node.ethernet and bool(port.registers.get(SELECTIVE))
        for way, sender in (("out", port), ("in", peer)):
            left = sender.quality().kept(selective=selective) if sender is not None and sender.errs else 1.0
            left = left if port.active else 0.0
            resource = index[f"{device}:{way}"]
            site.limit_capacity("port", resource, left * site.capacities[resource] if left < 1.0 else None)
        if port.active:
            site.down.discard(device)
        elif device not in site.down:
            site.down.add(device)
            for flow in site.through({index[f"{device}:{way}"] for way in ("tx", "rx", "out", "in")}):
                flow.lost(site, at_s)
        self._timeline.sharing.dirty[site] = None
