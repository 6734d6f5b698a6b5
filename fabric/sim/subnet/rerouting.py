"""The network's own time line: a link goes down or comes back, and after a while the routes know."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fabric.model.inventory import Fault
from fabric.sim.flows import Act
from fabric.sim.routing import Forwarding, Routing, forwarding_at_start
from fabric.sim.subnet.settings import SHIELD_S, FabricSettings

if TYPE_CHECKING:
    from fabric.sim.network import Network
    from fabric.sim.rack import Rack


class Rerouting:
    """
    Who reacts when, to what happens above the leaves.

    A switch with SHIELD moves the routes of a dead port after SHIELD_S. The subnet manager begins to sweep when it is
    told of a change, or has read other settings; what it saw then is in the switches *sm_reroute_s* later, all at once.
    Adaptive routing needs neither: its packets go where links are up. On Ethernet there is no subnet manager; the
    switches' routing protocol takes the same time (choice).
    """

    def __init__(self, rack: Rack, faults: tuple[Fault, ...], routing: Routing, settings: FabricSettings) -> None:
        self._rack = rack
        self._faults, self._routing, self._settings = faults, routing, settings
        self._programs = 0
        self._made = self._looks = False
        self.forwarding = forwarding_at_start(routing, shield=settings.shield)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What the inventory says is wrong."""
        return self._faults

    @property
    def is_adaptive_by_inventory(self) -> bool:
        """Whether the switches were said to route adaptively; on Ethernet the RNICs have a say too."""
        return self._routing.engine == "ar"

    def network(self) -> Network | None:
        """What is above the leaves, made when first asked for: most runs never leave a leaf. None: it limits nobody."""
        sharing = self._rack.timeline.sharing
        if not self._made:
            from fabric.sim.network import network_of  # numpy takes longer to import than a small run

            sharing.network = network_of(self._rack.topology, self._faults, self._routing, self.forwarding)
            self._made = True
        return sharing.network

    def ports_changed(self, at_s: float) -> None:
        """A port between switches is not what it was; however many change in one instant, the links are seen once."""
        if not self._looks:
            self._looks = True
            self._rack.timeline.at(at_s, self._look)

    def _look(self, at_s: float) -> None:
        """See which links are down, and let those react that do."""
        self._looks = False
        network = self.network()
        if network is None:
            return
        before = network.down
        network.set_ports(self._rack.ports.between_switches(network.net), at_s)
        self._rack.timeline.sharing.network_changed()
        if network.down == before:
            return
        gone = network.down
        self._later(SHIELD_S, at_s, lambda now_s: network.shield(gone, now_s))
        if self._rack.managers.sweeps:
            after_s = self._settings.sm_reroute_s
            self._later(after_s, at_s, lambda now_s: network.program(self.forwarding, gone, now_s))

    def program(self, forwarding: Forwarding, at_s: float) -> None:
        """A subnet manager begins to sweep with these settings; one that did so before and is not done gives up."""
        self._programs += 1
        number = self._programs
        network = self._rack.timeline.sharing.network
        gone = frozenset() if network is None else network.down

        def done(now_s: float) -> None:
            if number != self._programs:
                return
            self.forwarding = forwarding
            made = self._rack.timeline.sharing.network
            if made is not None:
                # One that was made meanwhile had no port go down before: then this sweep saw all there is.
                made.program(forwarding, gone if made is network else made.down, now_s)
                self._rack.timeline.sharing.network_changed()

        self._rack.timeline.at(at_s + self._settings.sm_reroute_s, done)

    def turn(self, adaptive: bool, at_s: float) -> None:
        """The switches of an Ethernet fabric route adaptively from now on, or no longer do: no manager, no sweep."""
        engine = "ecmp" if self.is_adaptive_by_inventory else self.forwarding.engine
        self.forwarding = replace(self.forwarding, engine=engine, adaptive=adaptive)
        made = self._rack.timeline.sharing.network
        if made is not None:
            made.program(self.forwarding, made.known.routed, at_s)
            self._rack.timeline.sharing.network_changed()

    def _later(self, after_s: float, at_s: float, act: Act) -> None:
        def acted(now_s: float) -> None:
            act(now_s)
            self._rack.timeline.sharing.network_changed()

        self._rack.timeline.at(at_s + after_s, acted)
