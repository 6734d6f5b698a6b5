"""
Both ends of every cable, read beside the probes: before the first, again and again while they run, and after the last.

On InfiniBand one port of each subnet (a rail or a plane that nothing joins with the others is one) asks all switches
and adapters of it at once: ``iblinkinfo`` tells what is joined with what, how wide and how fast, ``ibqueryerrors`` what
each port has counted since ever. A host that cannot is not asked again at once: another one is. A look that fails costs
nothing but its time: counters go on counting meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from fabric.engine import optics_watch
from fabric.engine.optics_watch import OpticsWatch, PortAsk
from fabric.engine.watching import Beside, Watch
from fabric.errors import ExecutorError, StoreError, ToolError
from fabric.model.command import MIB, Command, CommandResult
from fabric.model.inventory import Inventory
from fabric.model.sampling import Value
from fabric.model.scenario import Scenario
from fabric.model.topology import Rnic, Topology
from fabric.ports import Ended, Executor, Happening, Lost, Ticket
from fabric.runs.links import End, LinkLog
from fabric.tools import infiniband, mlxlink
from fabric.tools.infiniband import PortLine, switch_name

LOOK_S = 60.0
"""Deadline of a walk over the whole fabric (a choice: 25 to 38 s were seen where a few nodes were mute)."""

TRIES = 3
"""So many hosts are asked for one look (a choice)."""

OPTICS_S = 600.0
"""So long is waited for the light of all ports after the last probe (a choice)."""

LOOKS = "looks"
"""A reading of nobody's: how often all links were looked at."""

_PORTS = 254
_LINKS, _ERRORS = "links", "errors"
_CAP_BYTES = 64 * MIB  # iblinkinfo prints 200 bytes a port: a hall of 2,048 hosts has 13 MB of it


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


@dataclass(slots=True, eq=False)
class _Subnet:
    """
    One subnet: who may ask, whose *turn* it is after how many *tries*, when, and what was seen last.

    *whole*: the next look reads what grows on a good fabric, too, as the first and the last do.
    """

    askers: Sequence[Asker]
    due_s: float
    turn: int = 0
    tries: int = 0
    looks: int = 0
    whole: bool = True
    answers: dict[str, CommandResult] = field(default_factory=dict)
    links: str = ""
    counted: str = ""
    lines: tuple[PortLine, ...] = ()
    ends: Mapping[tuple[int, int], End] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()

    @property
    def asker(self) -> Asker:
        """Whose turn it is."""
        return self.askers[self.turn % len(self.askers)]


class LinkWatch(Beside):
    """
    Looks at all links of each subnet from one of *hosts*, every *every_s* seconds, while another executor works.

    What is written down are the ends on these *nodes* (hosts and switches).

    ``finish`` takes the last look; ``end`` makes what was seen durable.
    """

    def __init__(
        self,
        executor: Executor,
        folder: Path,
        inventory: Inventory,
        hosts: Sequence[str],
        every_s: float,
        *,
        nodes: Collection[str],
    ) -> None:
        super().__init__(executor)
        self._topology, self._changes = inventory.topology, inventory.changes
        self._sudo = ("sudo", "-n") if inventory.changes.sudo else ()
        self._every_s, self._wanted = every_s, nodes
        self._log = LinkLog(folder, every_s)
        self._again_s = executor.now()
        self._subnets = [_Subnet(askers, executor.now()) for askers in askers_of(inventory, hosts)]
        self._open: dict[Ticket, tuple[_Subnet, str]] = {}
        self._optics = OpticsWatch(executor, self._log)

    def wait(self, until_s: float) -> Sequence[Happening]:
        """As the executor's; also returns, with nothing, when a look at the links ended."""
        idle = self._idle()
        for subnet in idle:
            if self._inner.now() >= subnet.due_s:
                self._look(subnet)
        due_s = min((subnet.due_s for subnet in self._idle()), default=inf)
        found = self._inner.wait(min(until_s, due_s))
        return [one for one in found if not self._optics.took(one) and not self._is_ours(one)]

    def _idle(self) -> list[_Subnet]:
        busy = {id(subnet) for subnet, _ in self._open.values()}
        return [subnet for subnet in self._subnets if id(subnet) not in busy]

    def finish(self) -> None:
        """Look once more, now: nothing else is under way."""
        self._settle()
        now_s = self._inner.now()
        for subnet in self._subnets:
            subnet.whole, subnet.due_s = True, now_s
        if now_s - (self._optics.began_s or 0.0) < optics_watch.EVERY_S / 4:
            self._again_s = inf
        self._settle()

    def _settle(self) -> None:
        """Wait for all looks that are due or under way."""
        until_s = self._inner.now() + OPTICS_S
        while self._inner.now() < until_s and (self._open or self._optics.busy or self._is_due()):
            self.wait(until_s)

    def _is_due(self) -> bool:
        return any(self._inner.now() >= subnet.due_s for subnet in self._idle())

    def end(self) -> None:
        """Write down what was seen."""
        for ticket in self._open:
            self._inner.cancel(ticket)
        self._open.clear()
        self._optics.stop()
        self._log.close()
        super().end()

    def _look(self, subnet: _Subnet) -> None:
        """Ask whose turn it is; what grows on a good fabric only at both ends of the run."""
        host, rnic = subnet.asker
        subnet.due_s = self._inner.now() + self._every_s
        subnet.answers.clear()
        program = self._topology.hosts[host].platform.program
        through = infiniband.through(rnic.device, rnic.port, self._changes.m_key)
        without = () if subnet.whole else infiniband.BUSY
        asked = {
            _LINKS: infiniband.all_ports(through=through, tool=program("iblinkinfo")),
            _ERRORS: infiniband.errors(without=without, through=through, tool=program("ibqueryerrors")),
        }
        for name, argv in asked.items():
            command = Command(host, (*self._sudo, *argv), LOOK_S, output_cap_bytes=_CAP_BYTES)
            self._open[self._inner.start(command)] = subnet, name

    def _is_ours(self, happening: Happening) -> bool:
        subnet, name = self._open.get(happening.ticket, (None, ""))
        if subnet is None:
            return False
        if isinstance(happening, Ended):
            del self._open[happening.ticket]
            subnet.answers[name] = happening.result
            if len(subnet.answers) == 2:
                self._judge_look(subnet)
        elif isinstance(happening, Lost):
            del self._open[happening.ticket]
            self._give_up(subnet, happening.error)
        return True

    def _give_up(self, subnet: _Subnet, why: ExecutorError | ToolError) -> None:
        """Ask another host at once, but not for ever."""
        for ticket in [ticket for ticket, (asked, _) in self._open.items() if asked is subnet]:
            self._inner.cancel(ticket)
            del self._open[ticket]
        self._log.failed(f"{subnet.asker[0]}: {why}"[:300])
        subnet.turn, subnet.tries = subnet.turn + 1, subnet.tries + 1
        if subnet.tries < min(TRIES, len(subnet.askers)):
            subnet.due_s = self._inner.now()
        else:
            subnet.tries = 0

    def _judge_look(self, subnet: _Subnet) -> None:
        try:
            self._take(subnet)
        except ToolError as exc:
            self._give_up(subnet, exc)
        else:
            subnet.tries, subnet.whole, subnet.looks = 0, False, subnet.looks + 1
            looks = max(one.looks for one in self._subnets)
            self._log.add("", subnet.answers[_ERRORS].started_s, [("", LOOKS)], [looks])
        if self._open or self._optics.busy or self._is_due() or self._inner.now() < self._again_s:
            return
        if asks := [ask for one in self._subnets for ask in self._asks(one)]:
            self._again_s = self._inner.now() + optics_watch.EVERY_S
            self._optics.begin(asks, through={one.asker[0] for one in self._subnets})

    def _asks(self, subnet: _Subnet) -> Iterable[PortAsk]:
        """Every port that is up: an RNIC's on its own host, a switch's through the fabric."""
        via, rnic = subnet.asker
        for line in subnet.lines:
            end = subnet.ends.get((line.end.guid, line.end.port))
            if end is None or line.peer is None or (line.peer.guid, line.peer.port) not in subnet.ends:
                continue
            host = self._topology.hosts.get(end[0])
            if host is not None:
                argv = mlxlink.optics(end[1], tool=host.platform.program("mlxlink"))
                yield PortAsk(end, host.name, (*self._sudo, *argv))
            elif line.end.port <= _PORTS:
                tool = self._topology.hosts[via].platform.program("mlxlink")
                # LIDs are those of its subnet alone
                argv = mlxlink.optics_in_band(line.end.lid, line.end.port, rnic.device, rnic.port, tool=tool)
                yield PortAsk(end, via, (*self._sudo, *argv))

    def _take(self, subnet: _Subnet) -> None:
        """Write down what a look found."""
        links, errors = subnet.answers[_LINKS], subnet.answers[_ERRORS]
        for result in (links, errors):
            if result.truncated:
                raise ToolError(f"{result.command.argv[0]} printed more than can be kept")
        counted = f"{errors.stdout}\0{errors.stderr}"
        if (links.stdout, counted) == (subnet.links, subnet.counted):
            for node in subnet.nodes:
                self._log.add(node, errors.started_s, (), ())
            return
        sweep = infiniband.read_errors(errors.stdout, errors.stderr, errors.exit_status)
        if links.stdout != subnet.links:
            lines = infiniband.read_ports(links.stdout, links.stderr, links.exit_status)
            found = ends_of(lines, self._topology)
            subnet.links, subnet.lines = links.stdout, lines
            subnet.ends = {port: end for port, end in found.items() if end[0] in self._wanted}
        self._log.joined(_joined(subnet.lines, subnet.ends))
        rows: dict[str, dict[tuple[str, str], Value]] = {}
        for line in subnet.lines:
            end = subnet.ends.get((line.end.guid, line.end.port))
            if end is not None and line.end.lid not in sweep.mute:
                read = _counted(sweep, line)
                lanes, lane_gbps = line.lanes
                state: dict[str, Value] = {"up": int(line.active)}
                state |= {"width": lanes, "lane_gbps": lane_gbps} if line.active else {}
                names = [name for name in infiniband.COUNTED.values() if subnet.whole or name != "port_xmit_wait"]
                values = state | {name: read.get(name, 0) for name in names}
                rows.setdefault(end[0], {}).update({(end[1], name): value for name, value in values.items()})
        for node, readings in rows.items():
            self._log.add(node, errors.started_s, list(readings), list(readings.values()))
        subnet.nodes, subnet.counted = tuple(rows), counted


def _counted(sweep: infiniband.ErrorSweep, line: PortLine) -> Mapping[str, int]:
    """Of an adapter one tool prints the port's GUID and the other the node's, which is one less for each port."""
    guid, port = line.end.guid, line.end.port
    return sweep.counters.get((guid, port)) or sweep.counters.get((guid - port, port)) or {}


def _joined(lines: Iterable[PortLine], ends: Mapping[tuple[int, int], End]) -> Iterable[tuple[End, End]]:
    for line in lines:
        peer = ends.get((line.peer.guid, line.peer.port)) if line.peer is not None else None
        own = ends.get((line.end.guid, line.end.port))
        if own is not None and peer is not None:
            yield own, peer


def watching(executor: Executor, folder: Path, scenario: Scenario, inventory: Inventory) -> Executor:
    """The executor to run with: one that samples on the scenario's hosts and looks at all links where it says so."""
    topology, settings = inventory.topology, scenario.sample
    if settings is None:
        return executor
    watch = Watch(executor, folder, settings, sudo=inventory.changes.sudo)
    watch.begin([topology.hosts[name] for name in scenario.hosts])
    asked = dict.fromkeys((*((inventory.changes.via,) if inventory.changes.via else ()), *scenario.hosts))
    platforms = {name: topology.hosts[name].platform for name in asked}
    able = [name for name, one in platforms.items() if one.link_layer == "infiniband" and one.rnics]
    if not able or not settings.counters:
        return watch
    links = topology.links_between(scenario.hosts)
    nodes = {name.partition("/")[0] if "/" in name else name for link in links for name in (link.a, link.b)}
    try:
        return LinkWatch(watch, folder, inventory, able, settings.links_s, nodes=nodes)
    except BaseException:
        with suppress(StoreError):  # the first error counts; what was opened must not stay open
            watch.end()
        raise


def stop_watching(executor: Executor) -> None:
    """The last look is taken, and what was seen is on disk when this returns; nothing is done where nothing looks."""
    if isinstance(executor, LinkWatch):
        executor.finish()
    if isinstance(executor, Beside):
        executor.end()
