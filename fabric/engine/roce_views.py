"""
RoCE: each switch tells its own ports by NVUE and whom they hear (LLDP); each host its RNICs' state, speed and leaf.

A host's ports count in its own samples; here it says how they stand and where they are plugged in, and not each minute:
its leaf sees the other end of every cable. Where nobody hears anything, LLDP is off, and that is no cable missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from fabric.changes.procedure import Ask
from fabric.engine.link_views import SeenLinks, View
from fabric.engine.optics_watch import OpticsAsk
from fabric.errors import ToolError
from fabric.model.command import CommandResult
from fabric.model.inventory import Inventory
from fabric.model.sampling import Value
from fabric.model.topology import Topology
from fabric.runs.samples import End
from fabric.tools import interfaces, mlxlink, nvue, sysfs
from fabric.tools.interfaces import Neighbour
from fabric.tools.mlxlink import Optics

_PORTS, _HEARD = "ports", "heard"


class SwitchView(View):
    """One switch that its login reaches."""

    def __init__(self, name: str, inventory: Inventory, nodes: Collection[str]) -> None:
        super().__init__([name], inventory)
        self._wanted = nodes
        self._known: set[str] = set()

    def questions(self) -> dict[str, Ask]:
        """Both are read only."""
        return {_PORTS: self.question(nvue.ports()), _HEARD: self.question(nvue.neighbours())}

    def read(self, answers: Mapping[str, CommandResult]) -> SeenLinks:
        """A port in which a cable of the inventory was heard once is told from then on, up or down."""
        said, heard = answers[_PORTS], answers[_HEARD]
        ports = nvue.read_ports(said.stdout, said.stderr, said.exit_status)
        neighbours = nvue.read_neighbours(heard.stdout, heard.stderr, heard.exit_status)
        need_heard(neighbours)
        topology = self.inventory.topology
        heard_at = {port: one for port, one in alone(neighbours).items() if port in ports}
        joined = {
            port: (switch, one.port) for port, one in heard_at.items() if (switch := one.called(topology.switches))
        }
        hosts = [port for port, one in heard_at.items() if one.called(topology.hosts) in self._wanted]
        joined = {port: far for port, far in joined.items() if far[0] in self._wanted}
        self._known.update(joined, hosts)
        rows: dict[End, dict[str, Value]] = {}
        for number in sorted(self._known & ports.keys()):
            port = ports[number]
            speed = {"speed_gbps": port.speed_gbps} if port.up and port.speed_gbps is not None else {}
            rows[self.asker, number] = {"up": int(port.up), **speed, **port.counters}
        return SeenLinks([((self.asker, port), far) for port, far in joined.items()], rows)

    def optics(self) -> Iterable[OpticsAsk]:
        """All modules at once, and the bit errors of one port after the other."""

        def read(said: CommandResult) -> dict[End, Optics]:
            found = nvue.read_optics(said.stdout, said.stderr, said.exit_status)
            return {(self.asker, number): found[number] for number in sorted(self._known & found.keys())}

        yield OpticsAsk(self.asker, self.as_root(nvue.optics()), read)
        for number in sorted(self._known):
            yield OpticsAsk(self.asker, self.as_root(nvue.line_errors(number)), partial(self._line_errors, number))

    def _line_errors(self, number: str, said: CommandResult) -> dict[End, Optics]:
        return {(self.asker, number): nvue.read_line_errors(said.stdout, said.stderr, said.exit_status)}


class HostView(View):
    """One host."""

    seldom = True

    def __init__(self, name: str, inventory: Inventory) -> None:
        super().__init__([name], inventory)
        self._platform = inventory.topology.hosts[name].platform
        self._up: list[str] = []

    def questions(self) -> dict[str, Ask]:
        """The kernel's files of its ports, and lldpd's neighbours."""
        places = sysfs.places([rnic.device for rnic in self._platform.rnics])
        return {_PORTS: self.question(places), _HEARD: self.question(interfaces.neighbours())}

    def read(self, answers: Mapping[str, CommandResult]) -> SeenLinks:
        """Which leaf each RNIC hears; one that hears two is not believed."""
        said, heard = answers[_PORTS], answers[_HEARD]
        _, ports = sysfs.read_places(said.stdout, said.stderr, said.exit_status)
        neighbours = interfaces.read_neighbours(heard.stdout, heard.stderr, heard.exit_status)
        need_heard(neighbours)
        by_interface, topology = alone(neighbours), self.inventory.topology
        cables: list[tuple[End, End]] = []
        rows: dict[End, dict[str, Value]] = {}
        for rnic in self._platform.rnics:
            port = ports.get((rnic.device, rnic.port))
            if port is None:
                continue
            end = self.asker, rnic.device
            speed = {"speed_gbps": port.rate_gbps} if port.active and port.rate_gbps is not None else {}
            rows[end] = {"up": int(port.active), **speed}
            one = by_interface.get(port.netdev or "")
            if one is not None and (leaf := one.called(topology.switches)):
                cables.append((end, (leaf, one.port)))
        self._up = [device for (_, device), row in rows.items() if row["up"]]
        return SeenLinks(cables, rows)

    def optics(self) -> Iterable[OpticsAsk]:
        """Port by port, on the host itself."""
        for device in self._up:
            argv = mlxlink.optics(device, tool=self._platform.program("mlxlink"))
            yield self.mlxlink((self.asker, device), self.asker, argv)


def need_heard(neighbours: Collection[Neighbour]) -> None:
    """Raise ToolError where nobody is heard."""
    if not neighbours:
        raise ToolError("LLDP hears nobody on any port, so it is not known what its cables lead to: is lldpd on?")


def alone(neighbours: Iterable[Neighbour]) -> dict[str, Neighbour]:
    """By interface, where exactly one neighbour is heard."""
    found: dict[str, list[Neighbour]] = {}
    for one in neighbours:
        found.setdefault(one.interface, []).append(one)
    return {interface: ones[0] for interface, ones in found.items() if len(ones) == 1}


def switches_of(topology: Topology, nodes: Collection[str]) -> tuple[list[str], list[str]]:
    """Of the Ethernet switches among these nodes those that a login reaches, and the others."""
    logins = {name: topology.switches[name].login for name in topology.switches if name in nodes}
    reached = [name for name, login in logins.items() if login is not None and login.management == "nvue"]
    return (
        [name for name in reached if name in topology.ethernet_switches],
        [name for name in logins if name in topology.ethernet_switches and name not in reached],
    )
