"""The simulated hosts together: who is there, who answers, and what chance has in store for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.model.inventory import Fault
from fabric.model.topology import Platform, Topology
from fabric.sim.capacity import Layout
from fabric.sim.faults import HostFaults, faults_by_host
from fabric.sim.hashing import mix64
from fabric.sim.life.passing import Passing
from fabric.sim.life.whims import Whims
from fabric.sim.ports import Ports
from fabric.sim.process import Process
from fabric.sim.routing import BY_DEFAULT, Routing
from fabric.sim.site import Site
from fabric.sim.subnet.nvue_switches import NvueSwitches, switch_host
from fabric.sim.subnet.rerouting import Rerouting
from fabric.sim.subnet.settings import BY_ITSELF, FabricSettings
from fabric.sim.subnet.subnet_managers import SubnetManagers
from fabric.sim.subnet.ufm import Ufm
from fabric.sim.timeline import Timeline

if TYPE_CHECKING:
    from fabric.sim.guard_folder import Held
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
        settings: FabricSettings = BY_ITSELF,
    ) -> None:
        self.topology = topology
        self.timeline = Timeline()
        self.ports = Ports(self)
        self.rerouting = Rerouting(self, faults, routing, settings)
        self.ufm = Ufm(self, there=settings.ufm, isolates=settings.ufm_isolates)
        self.seed_hash = mix64(seed)
        self.noise_cv = noise_cv
        self._faults = faults_by_host(topology, faults)
        self._dead_switches = {fault.component for fault in faults if fault.kind == "broken"} & topology.logins.keys()
        self._passing = Passing(self, faults)
        self.whims = Whims()
        self.silent: dict[int, Process] = {}  # of hosts that hung or went away: they never answer
        self.guards: dict[tuple[str, str], dict[str, Held]] = {}  # by host and directory, then by id
        self.boots: dict[str, int] = {}  # how often a host has started anew
        self._sites: dict[str, Site] = {}
        self._layouts: dict[int, Layout] = {}  # by identity: the topology keeps its platforms alive
        self._names = {host.address: name for name, host in topology.hosts.items()} | {
            name: name for name in topology.hosts
        }
        self.nvue = NvueSwitches(topology, self.timeline, self.rerouting.turn, adaptive=routing.engine == "ar")
        there = tuple(one for one in settings.subnet_managers if self.unreachable(one.host) is None)
        self.managers = SubnetManagers(
            there,
            routing=routing.engine,
            shield=settings.shield,
            timeline=self.timeline,
            program=self.rerouting.program,
        )

    def unreachable(self, host: str) -> str | None:
        """Why no session with the host, or with a switch that has an address, can be had; None when it can."""
        if host in self.topology.logins:
            return "No route to host" if host in self._dead_switches else None
        faults = self._faults.get(host)
        kind = None if faults is None else faults.host_kind
        if host not in self.topology.hosts or kind == "absent":
            return "Name or service not known"
        return "No route to host" if kind == "broken" else None

    def host_kind(self, host: str) -> str | None:
        """``hanging``, ``garbage`` and so on when the host itself is at fault."""
        faults = self._faults.get(host)
        return None if faults is None else faults.host_kind

    def faults_of(self, host: str) -> HostFaults | None:
        """What is wrong with a host now, None when nothing is."""
        return self._faults.get(host)

    def now_has(self, host: str, faults: HostFaults | None) -> None:
        """Note what is wrong with a host from now on; who runs there must be told (``set_fault`` does both)."""
        if faults is None:
            self._faults.pop(host, None)
        else:
            self._faults[host] = faults

    def set_fault(self, component: str, fault: Fault | None, at_s: float) -> None:
        """From now on a component has this fault beside those it always had; None: it is over. ValueError if bad."""
        self._passing.set(component, fault, at_s)

    def site(self, name: str) -> Site:
        """The state of a host, or of a switch with an address, that is there; KeyError for any other."""
        site = self._sites.get(name)
        if site is None:
            login = self.topology.logins.get(name)
            host = self.topology.hosts[name] if login is None else switch_host(name, login)
            site = self._sites[name] = Site(host, self._layout(host.platform), self._faults.get(name))
        return site

    def _layout(self, platform: Platform) -> Layout:
        layout = self._layouts.get(id(platform))
        if layout is None:
            layout = self._layouts[id(platform)] = Layout(platform)
        return layout

    def network(self) -> Network | None:
        """What is above the leaves, made when first asked for: most runs never leave a leaf. None: it limits nobody."""
        return self.rerouting.network()

    def ring(
        self,
        hosts: tuple[str, ...],
        rails: tuple[int, ...],
        *,
        bus_ratio: float,
        adaptive: bool = True,
        service_level: int = 0,
        one_way: bool = False,
    ) -> Ring | None:
        """A ring over these hosts; None where nothing between them is modelled."""
        network = self.network()
        if network is None or not rails:
            return None
        return network.ring(
            hosts, rails, bus_ratio=bus_ratio, adaptive=adaptive, service_level=service_level, one_way=one_way
        )

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
