"""
An InfiniBand subnet as one of its hosts sees it: ``iblinkinfo`` tells what is joined with what, how wide and how fast,
``ibqueryerrors`` what each port has counted since ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from fabric.changes.procedure import Ask
from fabric.engine.link_views import SeenLinks, View
from fabric.engine.optics_watch import OpticsAsk
from fabric.model.command import CommandResult
from fabric.model.inventory import Inventory
from fabric.model.sampling import Value
from fabric.model.topology import Rnic, Topology
from fabric.runs.samples import End
from fabric.tools import infiniband, management, mlxlink
from fabric.tools.infiniband import PortLine, switch_name
from fabric.tools.mlxlink import Optics

_PORTS = 254
T = TypeVar("T")
_LINKS, _ERRORS, _DATA = "links", "errors", "data"


Asker = tuple[str, Rnic]
"""A host, and its port out of which it asks."""


def askers_of(inventory: Inventory, hosts: Iterable[str]) -> list[list[Asker]]:
    """
    For each subnet who may ask there, in this order: each host out of its first RNIC in it.

    ``via`` asks out of its ``via_device``, where that is in the subnet. Where it is not known what joins the leaves,
    all of it is one subnet.
    """
    topology, changes = inventory.topology, inventory.changes
    found: dict[int | None, dict[str, Rnic]] = {}
    for name in hosts:
        host = topology.hosts[name]
        stated = changes.via_device if name == changes.via else None
        for rnic in sorted(host.platform.rnics, key=lambda one: one.device != stated):
            found.setdefault(topology.part_of(host, rnic.rail), {}).setdefault(name, rnic)
    return [list(askers.items()) for askers in found.values()]


class Subnet(View):
    """One subnet; adapters and switches of it are all asked by one host."""

    def __init__(self, askers: Sequence[Asker], inventory: Inventory, nodes: Collection[str]) -> None:
        super().__init__([name for name, _ in askers], inventory)
        self._rnics, self._wanted = dict(askers), nodes
        self._links = ""
        self._lines: tuple[PortLine, ...] = ()
        self._ends: Mapping[tuple[int, int], End] = {}

    def questions(self) -> dict[str, Ask]:
        """What grows on a good fabric is asked only at both ends of the run."""
        rnic, changes = self._rnics[self.asker], self.inventory.changes
        program = self.inventory.topology.hosts[self.asker].platform.program
        through = infiniband.through(rnic.device, rnic.port, changes.m_key)
        without = () if self.whole else infiniband.BUSY
        tool = program("ibqueryerrors")
        asked = {
            _LINKS: self.question(infiniband.all_ports(through=through, tool=program("iblinkinfo"))),
            _ERRORS: self.question(infiniband.errors(without=without, through=through, tool=tool)),
        }
        return asked | ({_DATA: self.question(infiniband.data(through=through, tool=tool))} if self.whole else {})

    def optics(self) -> Iterable[OpticsAsk]:
        """Every port that is up: an RNIC's on its own host, a switch's through the fabric; and UFM of all at once."""
        topology, rnic, settings = self.inventory.topology, self._rnics[self.asker], self.inventory.changes
        if (ufm := management.UfmAccess.of(settings)) is not None and settings.via is not None:
            yield OpticsAsk(settings.via, management.ask_telemetry(ufm), self._telemetry)
        for line in self._lines:
            end = self._ends.get((line.end.guid, line.end.port))
            if end is None or line.peer is None or (line.peer.guid, line.peer.port) not in self._ends:
                continue
            host = topology.hosts.get(end[0])
            if host is not None:
                yield self.mlxlink(end, host.name, mlxlink.optics(end[1], tool=host.platform.program("mlxlink")))
            elif line.end.port <= _PORTS:
                tool = topology.hosts[self.asker].platform.program("mlxlink")
                # LIDs are those of its subnet alone
                argv = mlxlink.optics_in_band(line.end.lid, line.end.port, rnic.device, rnic.port, tool=tool)
                yield self.mlxlink(end, self.asker, argv)

    def _telemetry(self, said: CommandResult) -> dict[End, Optics]:
        """What UFM tells of its ends; it names an adapter by the node, ``iblinkinfo`` by the port."""
        found = management.read_telemetry(said.stdout, said.stderr, said.exit_status)
        told = {
            end: found.get((guid, port)) or found.get((guid - port, port)) for (guid, port), end in self._ends.items()
        }
        return {end: optics for end, optics in told.items() if optics is not None}

    def read(self, answers: Mapping[str, CommandResult]) -> SeenLinks:
        """Of links that are joined as before only what was counted is read anew."""
        links, errors = answers[_LINKS], answers[_ERRORS]
        sweep = infiniband.read_errors(errors.stdout, errors.stderr, errors.exit_status)
        data = answers.get(_DATA)
        sent = {} if data is None else infiniband.read_data(data.stdout, data.stderr, data.exit_status)
        if links.stdout != self._links:
            lines = infiniband.read_ports(links.stdout, links.stderr, links.exit_status)
            found = ends_of(lines, self.inventory.topology)
            self._links, self._lines = links.stdout, lines
            self._ends = {port: end for port, end in found.items() if end[0] in self._wanted}
        rows: dict[End, dict[str, Value]] = {}
        for line in self._lines:
            end = self._ends.get((line.end.guid, line.end.port))
            if end is not None and line.end.lid not in sweep.mute:
                read = _of(sweep.counters, line) or {}
                lanes, lane_gbps = line.lanes
                state: dict[str, Value] = {"up": int(line.active)}
                state |= {"width": lanes, "lane_gbps": lane_gbps} if line.active else {}
                names = [name for name in infiniband.COUNTED.values() if self.whole or name != "port_xmit_wait"]
                rows[end] = state | {name: read.get(name, 0) for name in names}
                if (words := _of(sent, line)) is not None:
                    rows[end][infiniband.SENT] = words
        return SeenLinks(tuple(_joined(self._lines, self._ends)), rows)


def ends_of(lines: Iterable[PortLine], topology: Topology) -> dict[tuple[int, int], End]:
    """Which ports of the inventory these are, by GUID and number; a name that two switches have is nobody's."""
    lines = tuple(lines)
    switches = infiniband.switches(lines)
    owners: dict[str, set[int]] = {}
    for line in lines:
        owners.setdefault(switch_name(line.end.description), set()).add(line.end.guid)
    found: dict[tuple[int, int], End] = {}
    for line in lines:
        end = line.end
        name = switch_name(end.description)
        if end.guid in switches and name in topology.switches and len(owners[name]) == 1:
            found[end.guid, end.port] = name, str(end.port)
        elif end.guid not in switches and (adapter := _adapter(end.description, topology)):
            found[end.guid, end.port] = adapter
    return found


def _adapter(description: str, topology: Topology) -> End | None:
    """``gpu001 mlx5_0``, as rdma-ndd writes it, or ``gpu001 HCA-1``, as the kernel does."""
    first, _, second = description.partition(" ")
    host = topology.hosts.get(first) or topology.hosts.get(first.partition(".")[0])
    devices = [] if host is None else [rnic.device for rnic in host.platform.rnics]
    number = second.removeprefix("HCA-")
    if number != second and number.isascii() and number.isdigit() and 0 < int(number) <= len(devices):
        second = devices[int(number) - 1]
    return (host.name, second) if host is not None and second in devices else None


def _of(told: Mapping[tuple[int, int], T], line: PortLine) -> T | None:
    """Of an adapter one tool prints the port's GUID and the other the node's, which is one less for each port."""
    guid, port = line.end.guid, line.end.port
    return told.get((guid, port), told.get((guid - port, port)))


def _joined(lines: Iterable[PortLine], ends: Mapping[tuple[int, int], End]) -> Iterable[tuple[End, End]]:
    for line in lines:
        peer = ends.get((line.peer.guid, line.peer.port)) if line.peer is not None else None
        own = ends.get((line.end.guid, line.end.port))
        if own is not None and peer is not None:
            yield own, peer
