"""The network above the leaves over time: a link goes down or comes back, and after a while the routes follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Topology
from fabric.sim.hosts.site import Act, Ring
from fabric.sim.hosts.timeline import Timeline
from fabric.sim.net.managers import Forwarding, conf_text, forwarding_of, settings_of
from fabric.sim.phy import Ports
from fabric.sim.phy.cabling import End
from fabric.sim.phy.port import Traffic
from fabric.sim.phy.qos import Qos

if TYPE_CHECKING:
    from fabric.sim.net.network import Network


SHIELD_S = 3e-3
"""
How long a switch with SHIELD needs to move the routes of a dead port.

Milliseconds: the vendor says 5,000 times faster than the subnet manager; no number is published.
"""


WITHDRAWN_S, JOINED_S = 14e-3, 1.2
"""How long BGP needs when a link loses its carrier, and when a link comes back (FRR in the lab's box: measured)."""


class Rerouting:
    """
    The network above the leaves, and who reacts to its changes, and when.

    A switch with SHIELD moves the routes of a dead port after SHIELD_S. The subnet manager begins to sweep when it is
    told of a change, or has read other settings; what it saw then is in the switches ``sm_reroute`` later, all at once.
    Adaptive routing needs neither: its packets go where links are up. On Ethernet there is no subnet manager: the
    switches' routing protocol does it.
    """

    def __init__(self, topology: Topology, timeline: Timeline, ports: Ports, mock: MockSettings, *, seed: int) -> None:
        self._topology, self._timeline, self._ports = topology, timeline, ports
        self._mock, self._seed = mock, seed
        self.queued = topology.ethernet and mock.congestion == "dcqcn"
        """Whether pairs of hosts share the network by its queues."""
        self.pauses = mock.pfc or not self.queued
        self._sweeps_begun = 0
        self._looks = False
        self._made: Network | None = None
        self.sweeps: Callable[[], bool] = lambda: True  # whether a subnet manager sweeps
        self.switched: Callable[[], tuple[bool, bool]] = lambda: (True, True)  # whether switches mark, and pause
        self.forwarding = forwarding_of(settings_of(conf_text(mock)), mock.routing)  # until it is changed
        ports.uplinks = self

    @cached_property
    def network(self) -> Network | None:
        """
        Return the network above the leaves; None: it limits nobody. Made when first asked for: most runs stay below a
        leaf.
        """
        from fabric.sim.net.network import Network, network_of

        made: Callable[..., Network] = Network
        if self.queued:
            from fabric.sim.net.queued import QueuedNetwork

            made = partial(QueuedNetwork, qos=self._qos, switched=self.switched)
        self._made = network_of(self._topology, self._mock, self.forwarding, seed=self._seed, made=made)
        self._timeline.sharing.network = self._made
        return self._made

    def _qos(self, host: str, device: str) -> Qos:
        """
        Return how an RNIC is set now; without a lossless class it reports nothing and does as the mock's settings say.
        """
        qos = self._ports.qos(self._ports.of_adapter(host, device))
        return qos if qos.dscp is not None else replace(qos, pfc=True, answers=True, slows=True)

    def ring(self, ring: Ring) -> Ring | None:
        """Return the same ring; None where no network between its hosts is modelled."""
        return ring if ring.rails and self.network is not None else None

    def dead_edge(self, ring: Ring | None) -> tuple[str, str, int] | None:
        """
        Return sender, receiver and rail of the first edge of a ring that carries nothing now; None when all carry.
        """
        return None if ring is None or self._made is None else self._made.dead_edge(ring)

    def traffic(self, ends: tuple[End, End], at_s: float) -> Traffic:
        """Return what a port between switches (the first of *ends*, then its partner) has sent and received."""
        return Traffic() if self._made is None else self._made.traffic(self._ports.cabling, ends, at_s)

    def counted(self, host: str, device: str, name: str, at_s: float) -> int:
        """Return a port's counter of congestion, by mlx5's name of the counter; 0 where no queues are modelled."""
        return self._made.counted(host, device, name, at_s) if self._made is not None else 0

    def tenant(self, component: str, fault: Fault | None, at_s: float) -> None:
        """Start or, with None, stop the flows of a tenant over cables between switches."""
        from fabric.sim.net.links import link_faults  # imports numpy, as the network does

        network = self.network
        if network is not None:
            one = None if fault is None else next(link_faults(network.net, (fault,)))
            network.tenants.set(component, one, at_s)
            self._timeline.sharing.network_changed()

    def ports_changed(self, at_s: float) -> None:
        """
        Note that a port between switches changed; however many change in one instant, the links are looked at once.
        """
        if not self._looks:
            self._looks = True
            self._timeline.at(at_s, self._look)

    def _look(self, at_s: float) -> None:
        """See which links are down, and schedule the reactions to that."""
        self._looks = False
        network = self.network
        if network is None:
            return
        before = network.down
        network.set_ports(self._ports.cabling, self._ports.known, at_s)
        self._timeline.sharing.network_changed()
        if network.down == before:
            return
        gone = network.down
        self._later(SHIELD_S, at_s, lambda now_s: network.shield(gone, now_s))
        if self._topology.ethernet:  # BGP
            wait_s = WITHDRAWN_S if gone - before else JOINED_S
            self._later(wait_s, at_s, lambda now_s: network.program(self.forwarding, network.down, now_s))
        elif self.sweeps():
            self._later(self._mock.sm_reroute_s, at_s, lambda now_s: network.program(self.forwarding, gone, now_s))

    def begin_sweep(self, forwarding: Forwarding, at_s: float) -> None:
        """Begin a sweep of a subnet manager with these settings; an earlier sweep that is not done is given up."""
        self._sweeps_begun += 1
        number = self._sweeps_begun
        network = self._made
        gone = frozenset() if network is None else network.down

        def done(now_s: float) -> None:
            if number != self._sweeps_begun:
                return
            self.forwarding = forwarding
            if self._made is not None:
                # A network made meanwhile had no port go down before, so this sweep saw all its ports.
                self._made.program(forwarding, gone if self._made is network else self._made.down, now_s)
                self._timeline.sharing.network_changed()

        self._timeline.at(at_s + self._mock.sm_reroute_s, done)

    def set_adaptive(self, adaptive: bool, at_s: float) -> None:
        """Make the switches of an Ethernet fabric route adaptively from now on, or stop that; no manager, no sweep."""
        if adaptive == self.forwarding.adaptive:
            return
        engine = "ecmp" if self._mock.routing == "ar" else self.forwarding.engine
        self.forwarding = replace(self.forwarding, engine=engine, adaptive=adaptive)
        if self._made is not None:
            self._made.program(self.forwarding, self._made.known.routed, at_s)
            self._timeline.sharing.network_changed()

    def _later(self, after_s: float, at_s: float, act: Act) -> None:
        def acted(now_s: float) -> None:
            act(now_s)
            self._timeline.sharing.network_changed()

        self._timeline.at(at_s + after_s, acted)
