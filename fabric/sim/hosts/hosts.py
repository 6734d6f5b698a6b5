"""The simulated hosts together: who is there, who answers, and what chance has in store for whom."""

from __future__ import annotations

from fabric.model.inventory import Fault
from fabric.model.topology import Host, Login, Platform, Topology
from fabric.sim.faults import HostFaults, faults_by_host
from fabric.sim.hashing import mix64
from fabric.sim.hosts.capacity import Layout
from fabric.sim.hosts.site import Site

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "localhost.localdomain"})

_SWITCH = Platform("switch", (), (), 1, (), "ethernet", "switch")


def _switch_host(name: str, login: Login) -> Host:
    """A switch as a machine on which commands run: no RNIC, no GPU."""
    return Host(name, _SWITCH, login.address, None, ())


class Hosts:
    """Every host, and every switch that has an address; *faults* are those from the beginning."""

    def __init__(self, topology: Topology, faults: tuple[Fault, ...], *, seed: int) -> None:
        self.topology = topology
        self._faults = faults_by_host(topology, faults)
        self._dead_switches = {fault.component for fault in faults if fault.kind == "broken"} & topology.logins.keys()
        self._seed_hash = mix64(seed)
        self._sites: dict[str, Site] = {}
        self._layouts: dict[int, Layout] = {}  # by identity: the topology keeps its platforms alive
        self._names = {host.address: name for name, host in topology.hosts.items()} | {
            name: name for name in topology.hosts
        }

    def unreachable(self, host: str) -> str | None:
        """Why no session with the host, or with a switch that has an address, can be had; None when it can."""
        if host in self.topology.logins:
            return "No route to host" if host in self._dead_switches else None
        kind = self.kind(host)
        if host not in self.topology.hosts or kind == "absent":
            return "Name or service not known"
        return "No route to host" if kind == "broken" else None

    def kind(self, host: str) -> str | None:
        """``hanging``, ``garbage`` and so on when the host itself is at fault."""
        faults = self._faults.get(host)
        return None if faults is None else faults.host_kind

    def faults_of(self, host: str) -> HostFaults | None:
        """What is wrong with a host now, None when nothing is."""
        return self._faults.get(host)

    def now_has(self, host: str, faults: HostFaults | None) -> None:
        """Note what is wrong with a host from now on; who runs there must be told (``life.passing`` does both)."""
        if faults is None:
            self._faults.pop(host, None)
        else:
            self._faults[host] = faults

    @property
    def seen(self) -> tuple[Site, ...]:
        """Those that a command has reached."""
        return tuple(self._sites.values())

    def site(self, name: str) -> Site:
        """The state of a host, or of a switch with an address, that is there; KeyError for any other."""
        site = self._sites.get(name)
        if site is None:
            login = self.topology.logins.get(name)
            host = self.topology.hosts[name] if login is None else _switch_host(name, login)
            site = self._sites[name] = Site(host, self._layout(host.platform), self._faults.get(name))
        return site

    def _layout(self, platform: Platform) -> Layout:
        layout = self._layouts.get(id(platform))
        if layout is None:
            layout = self._layouts[id(platform)] = Layout(platform)
        return layout

    def reached(self, site: Site, peer: str) -> Site | None:
        """The host that a program on *site* means by *peer*; None when no such host answers."""
        if peer in LOCAL_NAMES:
            return site
        name = self._names.get(peer)
        return None if name is None or self.unreachable(name) else self.site(name)

    def chance(self, site: Site, command_hash: int) -> int:
        """The 64 bits that decide everything accidental about this start of a command on this host."""
        nth = site.started(command_hash)
        return mix64(self._seed_hash ^ site.name_hash ^ mix64(command_hash + nth))
