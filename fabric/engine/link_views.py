"""Views of links: each subnet, switch or host is a View, with who asks there and what was seen.

A Subnet is an InfiniBand subnet seen by one of its hosts: ``iblinkinfo`` says which ports are joined, how wide and how
fast, ``ibqueryerrors`` what each port has counted in all. On RoCE each switch reports its own ports by NVUE and whom
they hear (LLDP), and each host its RNICs' state, speed and leaf. A host's counters are in its own samples; its view
says only how its ports stand and where they are plugged in, and is taken seldom, since its leaf sees the other end of
every cable. Where nobody hears anything LLDP is off, and no cable counts as missing.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fabric.changes.procedure import Text
from fabric.errors import ToolError
from fabric.model import gathered
from fabric.model.inventory import Inventory
from fabric.model.probe import MIB, Command, CommandResult
from fabric.model.sampling import Value
from fabric.model.topology import Rnic, Topology
from fabric.runs.samples import End
from fabric.tools import infiniband, interfaces, management, mlxlink, nvue, sysfs
from fabric.tools.driver import as_root
from fabric.tools.infiniband import PortLine, switch_name
from fabric.tools.interfaces import Neighbour
from fabric.tools.mlxlink import Optics

LOOK_S = 60.0
"""Deadline of one command of a look (a choice: walks over a fabric with a few mute nodes took 25 to 38 s)."""

_CAP_BYTES = 64 * MIB  # iblinkinfo prints 200 bytes a port: 13 MB for a hall of 2,048 hosts


@dataclass(frozen=True, slots=True)
class OpticsAsk:
    """
    A question for the optics of one port or many: who asks, how, and the reader of the answer (may raise ToolError).
    """

    host: str
    argv: tuple[str, ...]
    read: Callable[[Text], Mapping[End, Optics]]


@dataclass(frozen=True, slots=True)
class SeenLinks:
    """Which ends are joined, and the readings of each end."""

    cables: Sequence[tuple[End, End]]
    rows: Mapping[End, Mapping[str, Value]]


class View(ABC):
    """
    A set of links that is looked at together.

    *turn* selects the asker, *looks* counts the looks, *nodes* were seen in the last one. *whole*: the next look also
    reads counters that grow on a good fabric, as the first and the last do. *seldom*: it looks as seldom as light is
    read.
    """

    seldom = False

    def __init__(self, askers: Sequence[str], inventory: Inventory) -> None:
        self.askers, self.inventory = askers, inventory
        self.turn = self.looks = 0
        self.whole = True
        self.nodes: tuple[str, ...] = ()
        self._before: dict[str, Text] = {}

    @property
    def asker(self) -> str:
        """The host or switch whose turn it is to ask."""
        return self.askers[self.turn % len(self.askers)]

    @abstractmethod
    def questions(self) -> dict[str, Command]:
        """Return the commands of one look, by name."""

    def seen(self, answers: Mapping[str, CommandResult]) -> SeenLinks | None:
        """Return what the answers say, None if they equal the last ones. Raises ToolError for unusable answers."""
        for one in answers.values():
            if one.truncated:
                raise ToolError(f"{one.command.argv[0]} printed more than can be kept")
        texts = {name: (one.stdout, one.stderr, one.exit_status) for name, one in answers.items()}
        if texts == self._before:
            return None
        found = self.read(texts)
        self._before = texts
        return found

    @abstractmethod
    def read(self, answers: Mapping[str, Text]) -> SeenLinks:
        """Parse the answers. Raises ToolError when they are unusable."""

    @abstractmethod
    def optics(self) -> Iterable[OpticsAsk]:
        """Yield the questions for the optics of the ports seen so far."""

    def question(self, argv: tuple[str, ...]) -> Command:
        """Return a command that runs *argv* as root on the present asker."""
        return Command(self.asker, self.as_root(argv), LOOK_S, output_cap_bytes=_CAP_BYTES)

    def as_root(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Put sudo in front where the inventory says so."""
        return as_root(argv, sudo=self.inventory.changes.sudo)

    def one_port(self, end: End, host: str, argv: tuple[str, ...], read: Callable[..., Optics]) -> OpticsAsk:
        """Return a question for one port, asked on *host* and read by a tool's reader."""
        return OpticsAsk(host, self.as_root(argv), lambda text: {end: read(*text)})


_PORTS_MOST = 254
T = TypeVar("T")
_LINKS, _ERRORS, _DATA = "links", "errors", "data"


Asker = tuple[str, Rnic]
"""A host, and the RNIC through which it asks."""


def askers_of(inventory: Inventory, hosts: Iterable[str]) -> list[list[Asker]]:
    """Return the possible askers of each subnet, in order; each host asks through its way out there."""
    found: dict[int | None, dict[str, Rnic]] = {}
    for name in hosts:
        for part, rnic in inventory.ways_out(name).items():
            found.setdefault(part, {})[name] = rnic
    return [list(askers.items()) for askers in found.values()]


class Subnet(View):
    """One InfiniBand subnet, whose adapters and switches are all asked by one host."""

    def __init__(self, askers: Sequence[Asker], inventory: Inventory, nodes: Collection[str]) -> None:
        super().__init__([name for name, _ in askers], inventory)
        self._rnics, self._wanted = dict(askers), nodes
        self._links: Text | None = None
        self._lines: tuple[PortLine, ...] = ()
        self._ends: Mapping[tuple[int, int], End] = {}
        self._foreign = set[tuple[int, int]]()

    def questions(self) -> dict[str, Command]:
        """Return the queries of one look; counters that grow on a good fabric are queried only in *whole* looks."""
        rnic, changes = self._rnics[self.asker], self.inventory.changes
        through = infiniband.through(rnic.device, rnic.port, changes.m_key)
        without = () if self.whole else infiniband.BUSY
        asked = {
            _LINKS: self.question(infiniband.all_ports(through=through)),
            _ERRORS: self.question(infiniband.errors(without=without, through=through)),
        }
        return asked | ({_DATA: self.question(infiniband.data(through=through))} if self.whole else {})

    def _of_cables(self, lines: Iterable[PortLine], found: Mapping[tuple[int, int], End]) -> Iterator[tuple[int, int]]:
        """
        Yield the ports of wanted nodes, by GUID and number, except those whose cable was seen to lead to other nodes.

        A port without a partner may be either; once it is yielded it always is.
        """
        for line in lines:
            number = line.end.guid, line.end.port
            far = None if line.peer is None else found.get((line.peer.guid, line.peer.port))
            if far is not None and far[0] not in self._wanted and number not in self._ends:
                self._foreign.add(number)
            if number in found and found[number][0] in self._wanted and number not in self._foreign:
                yield number

    def optics(self) -> Iterable[OpticsAsk]:
        """Yield a question for each port that is up, on its own host or through the fabric, and one for all to UFM."""
        topology, rnic, settings = self.inventory.topology, self._rnics[self.asker], self.inventory.changes
        if (ufm := management.UfmAccess.of(settings)) is not None:
            yield OpticsAsk(ufm.via, management.ask_telemetry(ufm), self._telemetry)
        for line in self._lines:
            end = self._ends.get((line.end.guid, line.end.port))
            if end is None or line.peer is None or (line.peer.guid, line.peer.port) not in self._ends:
                continue
            host = topology.hosts.get(end[0])
            if host is not None:
                argv = mlxlink.optics(end[1])
                yield self.one_port(end, host.name, argv, mlxlink.read_optics)
            elif line.end.port <= _PORTS_MOST:
                # LIDs are valid in their own subnet only
                argv = mlxlink.optics_in_band(line.end.lid, line.end.port, rnic.device, rnic.port)
                yield self.one_port(end, self.asker, argv, mlxlink.read_optics)

    def _telemetry(self, text: Text) -> dict[End, Optics]:
        """Read UFM's telemetry by end; UFM names an adapter by the node's GUID, ``iblinkinfo`` by the port's."""
        found = management.read_telemetry(*text)
        by_end = {
            end: found.get((guid, port)) or found.get((guid - port, port)) for (guid, port), end in self._ends.items()
        }
        return {end: optics for end, optics in by_end.items() if optics is not None}

    def read(self, answers: Mapping[str, Text]) -> SeenLinks:
        """Read the counters; parse the list of links again only if it changed."""
        sweep = infiniband.read_errors(*answers[_ERRORS])
        sent = infiniband.read_data(*answers[_DATA]) if _DATA in answers else {}
        if answers[_LINKS] != self._links:
            lines = infiniband.read_ports(*answers[_LINKS])
            found = ends_of(lines, self.inventory.topology)
            self._links, self._lines = answers[_LINKS], lines
            self._ends = {number: found[number] for number in self._of_cables(lines, found)}
        rows: dict[End, dict[str, Value]] = {}
        for line in self._lines:
            end = self._ends.get((line.end.guid, line.end.port))
            if end is not None and line.end.lid not in sweep.mute:
                read = _of(sweep.counters, line) or {}
                lanes, lane_gbps = line.lanes
                state: dict[str, Value] = {"up": int(line.state.active)}
                state |= {"width": lanes, "lane_gbps": lane_gbps} if line.state.active else {}
                names = [name for name in infiniband.COUNTED.values() if self.whole or name != infiniband.WAIT]
                rows[end] = state | {name: read.get(name, 0) for name in names}
                if (words := _of(sent, line)) is not None:
                    rows[end][infiniband.SENT] = words
        return SeenLinks(tuple(_joined(self._lines, self._ends)), rows)


def ends_of(lines: Iterable[PortLine], topology: Topology) -> dict[tuple[int, int], End]:
    """Return the inventory's port for each GUID and port number; a name that two switches share is left out."""
    lines = tuple(lines)
    switches = infiniband.switches(lines)
    owners = Counter(name for name, _ in {(switch_name(line.end.description), line.end.guid) for line in lines})
    found: dict[tuple[int, int], End] = {}
    for line in lines:
        end = line.end
        name = switch_name(end.description)
        if end.guid in switches and name in topology.switches and owners[name] == 1:
            found[end.guid, end.port] = name, str(end.port)
        elif end.guid not in switches and (adapter := _adapter(end.description, topology)):
            found[end.guid, end.port] = adapter
    return found


def _adapter(description: str, topology: Topology) -> End | None:
    """Return an RNIC for ``gpu001 mlx5_0``, as rdma-ndd writes it, or ``gpu001 HCA-1``, as the kernel does."""
    first, _, second = description.partition(" ")
    host = topology.hosts.get(first) or topology.hosts.get(first.partition(".")[0])
    devices = [] if host is None else [rnic.device for rnic in host.platform.rnics]
    number = second.removeprefix("HCA-")
    if number != second and number.isascii() and number.isdigit() and 0 < int(number) <= len(devices):
        second = devices[int(number) - 1]
    return (host.name, second) if host is not None and second in devices else None


def _of(by_port: Mapping[tuple[int, int], T], line: PortLine) -> T | None:
    """Look up a port: for an adapter one tool prints the port's GUID, the other the node's (GUID minus port number)."""
    guid, port = line.end.guid, line.end.port
    return by_port.get((guid, port), by_port.get((guid - port, port)))


def _joined(lines: Iterable[PortLine], ends: Mapping[tuple[int, int], End]) -> Iterable[tuple[End, End]]:
    for line in lines:
        peer = ends.get((line.peer.guid, line.peer.port)) if line.peer is not None else None
        own = ends.get((line.end.guid, line.end.port))
        if own is not None and peer is not None:
            yield own, peer


_WORD_BYTES = 4  # unit of InfiniBand's data counters; used for all ports
_PORTS, _HEARD = "ports", "heard"


class SwitchView(View):
    """One Ethernet switch that can be reached by its login."""

    def __init__(self, name: str, inventory: Inventory, nodes: Collection[str]) -> None:
        super().__init__([name], inventory)
        self._wanted = nodes
        self._known: set[str] = set()

    def questions(self) -> dict[str, Command]:
        """Return two queries, for ports and neighbours; both only read."""
        return {_PORTS: self.question(nvue.PORTS), _HEARD: self.question(nvue.NEIGHBOURS)}

    def read(self, answers: Mapping[str, Text]) -> SeenLinks:
        """
        Read ports and neighbours; a port that once heard a cable of the inventory is reported from then on, up or down.
        """
        ports, neighbours = nvue.read_ports(*answers[_PORTS]), nvue.read_neighbours(*answers[_HEARD])
        topology = self.inventory.topology
        heard_at = {port: one for port, one in alone(neighbours).items() if port in ports}
        joined = {
            port: (switch, one.port)
            for port, one in heard_at.items()
            if (switch := one.called(topology.switches)) in self._wanted
        }
        hosts = [port for port, one in heard_at.items() if one.called(topology.hosts) in self._wanted]
        self._known.update(joined, hosts)
        rows: dict[End, dict[str, Value]] = {}
        for number in sorted(self._known & ports.keys()):
            port = ports[number]
            speed = {"speed_gbps": port.speed_gbps} if port.up and port.speed_gbps is not None else {}
            sent: dict[str, int] = {}
            if self.whole and port.sent_bytes is not None:
                sent[infiniband.SENT] = port.sent_bytes // _WORD_BYTES
            rows[self.asker, number] = {"up": int(port.up), **speed, **port.counters, **sent}
        return SeenLinks([((self.asker, port), far) for port, far in joined.items()], rows)

    def optics(self) -> Iterable[OpticsAsk]:
        """Yield one question for all modules, then one for the bit errors of each port."""

        def read(text: Text) -> dict[End, Optics]:
            found = nvue.read_optics(*text)
            return {(self.asker, number): found[number] for number in sorted(self._known & found.keys())}

        yield OpticsAsk(self.asker, self.as_root(nvue.OPTICS), read)
        for number in sorted(self._known):
            end = self.asker, number
            yield self.one_port(end, self.asker, nvue.line_errors(number), nvue.read_line_errors)


class HostView(View):
    """One host with its own ports (RoCE)."""

    seldom = True

    def __init__(self, name: str, inventory: Inventory) -> None:
        super().__init__([name], inventory)
        self._platform = inventory.topology.hosts[name].platform
        self._up: list[tuple[str, str]] = []

    def questions(self) -> dict[str, Command]:
        """Return queries for the kernel's files about its ports and for lldpd's neighbours."""
        places = sysfs.places([rnic.device for rnic in self._platform.rnics])
        return {_PORTS: self.question(places), _HEARD: self.question(interfaces.NEIGHBOURS)}

    def read(self, answers: Mapping[str, Text]) -> SeenLinks:
        """Read the state of each RNIC and the leaf it hears; an RNIC that hears two neighbours gets no leaf."""
        ports = sysfs.read_places(*answers[_PORTS])
        neighbours = interfaces.read_neighbours(*answers[_HEARD])
        by_interface, topology = alone(neighbours), self.inventory.topology
        cables: list[tuple[End, End]] = []
        rows: dict[End, dict[str, Value]] = {}
        up = []
        for rnic in self._platform.rnics:
            port = ports.get((rnic.device, rnic.port))
            if port is None:
                continue
            end = self.asker, rnic.device
            speed = {"speed_gbps": port.rate_gbps} if port.active and port.rate_gbps is not None else {}
            rows[end] = {"up": int(port.active), **speed}
            if port.active:
                up.append((rnic.device, port.netdev or ""))
            one = by_interface.get(port.netdev or "")
            if one is not None and (leaf := one.called(topology.switches)):
                cables.append((end, (leaf, one.port)))
        self._up = up
        return SeenLinks(cables, rows)

    def optics(self) -> Iterable[OpticsAsk]:
        """Yield questions port by port, on the host itself; only ethtool knows at which light a module warns."""
        for device, interface in self._up:
            end = self.asker, device
            argv = mlxlink.optics(device)
            yield self.one_port(end, self.asker, argv, mlxlink.read_optics)
            if interface:
                argv = interfaces.module(interface)
                yield self.one_port(end, self.asker, argv, interfaces.read_module)


def alone(neighbours: Collection[Neighbour]) -> dict[str, Neighbour]:
    """Return the neighbour of each interface that hears exactly one. Raises ToolError if nobody is heard at all."""
    if not neighbours:
        raise ToolError("LLDP hears nobody on any port, so it is not known what its cables lead to: is lldpd on?")
    heard = gathered((one.interface, one) for one in neighbours)
    return {interface: ones[0] for interface, ones in heard.items() if len(ones) == 1}


def switches_of(topology: Topology, nodes: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the Ethernet switches among these nodes that a login reaches, and those that none reaches."""
    asked = [name for name in topology.switches if name in nodes and name in topology.ethernet_switches]
    logins = ((name, topology.switches[name].login) for name in asked)
    reached = [name for name, login in logins if login is not None and login.management == "nvue"]
    return reached, [name for name in asked if name not in reached]
