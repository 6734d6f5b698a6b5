"""The simulated hosts together: who is there, who answers, and what chance has in store for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.model.inventory import Fault
from fabric.model.topology import Platform, Topology
from fabric.sim.capacity import Layout
from fabric.sim.faults import faults_by_host
from fabric.sim.hashing import mix64
from fabric.sim.ports import Ports
from fabric.sim.routing import BY_DEFAULT, Routing
from fabric.sim.site import Site
from fabric.sim.timeline import Timeline

if TYPE_CHECKING:
    from fabric.sim.network import Network, Ring

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "localhost.localdomain"})


class Rack:
    """What every simulated program can see of the world around it."""

    def __init__(
        self,
        topology: Topology,
        faults: tuple[Fault, ...],
        *,
        seed: int,
        noise_cv: float,
        routing: Routing = BY_DEFAULT,
    ) -> None:
        self.topology = topology
        self._given, self._routing = faults, routing
        self._network_known = False
        self.timeline = Timeline()
        self.ports = Ports(self)
        self.seed_hash = mix64(seed)
        self.noise_cv = noise_cv
        self._faults = faults_by_host(topology, faults)
        self._sites: dict[str, Site] = {}
        self._layouts: dict[int, Layout] = {}  # by identity: the topology keeps its platforms alive
        self._names = {host.address: name for name, host in topology.hosts.items()} | {
            name: name for name in topology.hosts
        }

    def unreachable(self, host: str) -> str | None:
        """Why no session with the host can be had, None when it can."""
        faults = self._faults.get(host)
        kind = None if faults is None else faults.host_kind
        if host not in self.topology.hosts or kind == "absent":
            return "Name or service not known"
        return "No route to host" if kind == "broken" else None

    def host_kind(self, host: str) -> str | None:
        """``hanging``, ``garbage`` and so on when the host itself is at fault."""
        faults = self._faults.get(host)
        return None if faults is None else faults.host_kind

    def site(self, name: str) -> Site:
        """The state of a host that is there; KeyError for any other."""
        site = self._sites.get(name)
        if site is None:
            host = self.topology.hosts[name]
            site = self._sites[name] = Site(host, self._layout(host.platform), self._faults.get(name))
        return site

    def _layout(self, platform: Platform) -> Layout:
        layout = self._layouts.get(id(platform))
        if layout is None:
            layout = self._layouts[id(platform)] = Layout(platform)
        return layout

    def network(self) -> Network | None:
        """What is above the leaves, made when first asked for: most runs never leave a leaf. None: it limits nobody."""
        if not self._network_known:
            from fabric.sim.network import network_of  # numpy takes longer to import than a small run

            self.timeline.sharing.network = network_of(self.topology, self._above(), self._routing)
            self._network_known = True
        return self.timeline.sharing.network

    def change_network(self, faults: tuple[Fault, ...], routing: Routing) -> None:
        """From now on these are the faults above the leaves, and paths are chosen like this."""
        self._given, self._routing = faults, routing
        if self._network_known and self.timeline.sharing.network is not None:
            self.timeline.sharing.network.change(self._above(), routing)
            self.timeline.sharing.network_changed()

    def _above(self) -> tuple[Fault, ...]:
        return (*self._given, *self.ports.between_switches())

    def ports_changed(self) -> None:
        """A port between switches is not what it was: neither is the network above the leaves."""
        self.change_network(self._given, self._routing)

    def ring(self, hosts: tuple[str, ...], rails: tuple[int, ...], *, bus_ratio: float) -> Ring | None:
        """A ring over these hosts; None where nothing between them is modelled."""
        network = self.network()
        return None if network is None or not rails else network.ring(hosts, rails, bus_ratio=bus_ratio)

    def reached(self, site: Site, peer: str) -> Site | None:
        """The host that a program on *site* means by *peer*; None when no such host answers."""
        if peer in LOCAL_NAMES:
            return site
        name = self._names.get(peer)
        return None if name is None or self.unreachable(name) else self.site(name)

    def chance(self, site: Site, command_hash: int) -> int:
        """The 64 bits that decide everything accidental about this start of a command on this host."""
        nth = site.started(command_hash)
        return mix64(self.seed_hash ^ site.name_hash ^ mix64(command_hash + nth))
