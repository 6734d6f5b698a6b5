"""
Both ends of every cable, read beside the probes: before the first, again and again while they run, and after the last.

On InfiniBand one host of the fabric asks all switches and adapters at once: ``iblinkinfo`` tells what is joined with
what, how wide and how fast, ``ibqueryerrors`` what each port has counted since ever. A host that cannot is not asked
again at once: another one is. A look that fails costs nothing but its time: counters go on counting meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
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
from fabric.model.topology import Topology
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


class LinkWatch(Beside):
    """
    Looks at all links from one of *hosts*, every *every_s* seconds, while another executor does what it is told.

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
        self._topology, self._changes, self._sudo = inventory.topology, inventory.changes, inventory.changes.sudo
        self._hosts, self._at, self._every_s, self._wanted = hosts, 0, every_s, nodes
        self._log = LinkLog(folder, every_s)
        self._due_s, self._tries, self._all = executor.now(), 0, True
        self._again_s = executor.now()
        self._open: dict[Ticket, str] = {}
        self._answers: dict[str, CommandResult] = {}
        self._seen: tuple[str, tuple[PortLine, ...], Mapping[tuple[int, int], End]] = "", (), {}
        self._nodes: tuple[str, ...] = ()
        self._last, self._looks = "", 0
        self._optics = OpticsWatch(executor, self._log)

    def wait(self, until_s: float) -> Sequence[Happening]:
        """As the executor's; also returns, with nothing, when a look at the links ended."""
        if not self._open and self._inner.now() >= self._due_s:
            self._look()
        found = self._inner.wait(min(until_s, inf if self._open else self._due_s))
        return [one for one in found if not self._optics.took(one) and not self._is_ours(one)]

    def finish(self) -> None:
        """Look once more, now: nothing else is under way."""
        self._settle()
        self._all, self._due_s = True, self._inner.now()
        if self._inner.now() - (self._optics.began_s or 0.0) < optics_watch.EVERY_S / 4:
            self._again_s = inf
        self.wait(self._due_s + LOOK_S)
        self._settle()

    def _settle(self) -> None:
        deadline_s = self._inner.now() + OPTICS_S
        while (self._open or self._optics.busy) and self._inner.now() < deadline_s:
            self.wait(deadline_s)

    def end(self) -> None:
        """Write down what was seen."""
        for ticket in self._open:
            self._inner.cancel(ticket)
        self._open.clear()
        self._optics.stop()
        self._log.close()
        super().end()

    def _look(self) -> None:
        """Ask the host whose turn it is; what grows on a good fabric only at both ends of the run."""
        host = self._hosts[self._at % len(self._hosts)]
        self._due_s = self._inner.now() + self._every_s
        self._answers.clear()
        program, through = self._topology.hosts[host].platform.program, self._through(host)
        without = () if self._all else infiniband.BUSY
        asked = {
            _LINKS: infiniband.all_ports(through=through, tool=program("iblinkinfo")),
            _ERRORS: infiniband.errors(without=without, through=through, tool=program("ibqueryerrors")),
        }
        for name, argv in asked.items():
            words = ("sudo", "-n", *argv) if self._sudo else argv
            self._open[self._inner.start(Command(host, words, LOOK_S, output_cap_bytes=_CAP_BYTES))] = name

    def _through(self, host: str) -> infiniband.Words:
        """Out of ``via_device`` of ``via``, of another host out of its first RNIC."""
        rnics = self._topology.hosts[host].platform.rnics
        device = self._changes.via_device if host == self._changes.via else None
        rnic = next((one for one in rnics if device in (None, one.device)), rnics[0])
        return infiniband.through(rnic.device, rnic.port, self._changes.m_key)

    def _is_ours(self, happening: Happening) -> bool:
        name = self._open.get(happening.ticket)
        if name is None:
            return False
        if isinstance(happening, Ended):
            del self._open[happening.ticket]
            self._answers[name] = happening.result
            if not self._open:
                self._judge_look()
        elif isinstance(happening, Lost):
            del self._open[happening.ticket]
            self._give_up(happening.error)
        return True

    def _give_up(self, why: ExecutorError | ToolError) -> None:
        """Ask another host at once, but not for ever."""
        host = self._hosts[self._at % len(self._hosts)]
        for ticket in self._open:
            self._inner.cancel(ticket)
        self._open.clear()
        self._log.failed(f"{host}: {why}"[:300])
        self._at, self._tries = self._at + 1, self._tries + 1
        if self._tries < min(TRIES, len(self._hosts)):
            self._due_s = self._inner.now()
        else:
            self._tries = 0

    def _judge_look(self) -> None:
        try:
            self._take(self._answers[_LINKS], self._answers[_ERRORS])
        except ToolError as exc:
            self._give_up(exc)
        else:
            self._tries, self._all, self._looks = 0, False, self._looks + 1
            self._log.add("", self._answers[_ERRORS].started_s, [("", LOOKS)], [self._looks])
            if self._inner.now() >= self._again_s and not self._optics.busy:
                self._again_s = self._inner.now() + optics_watch.EVERY_S
                via = self._hosts[self._at % len(self._hosts)]
                self._optics.begin(self._asks(via), via=via)

    def _asks(self, via: str) -> Iterable[PortAsk]:
        """Every port that is up: an RNIC's on its own host, a switch's through the fabric."""
        sudo = ("sudo", "-n") if self._sudo else ()
        _, lines, ends = self._seen
        for line in lines:
            end = ends.get((line.end.guid, line.end.port))
            if end is None or line.peer is None or (line.peer.guid, line.peer.port) not in ends:
                continue
            host = self._topology.hosts.get(end[0])
            if host is not None:
                yield PortAsk(end, host.name, (*sudo, *mlxlink.optics(end[1], tool=host.platform.program("mlxlink"))))
            elif line.end.port <= _PORTS:
                tool = self._topology.hosts[via].platform.program("mlxlink")
                label = mlxlink.port_label(line.end.port)
                yield PortAsk(end, via, (*sudo, *mlxlink.optics(f"lid-{line.end.lid}", port=label, tool=tool)))

    def _take(self, links: CommandResult, errors: CommandResult) -> None:
        """Write down what a look found."""
        for result in (links, errors):
            if result.truncated:
                raise ToolError(f"{result.command.argv[0]} printed more than can be kept")
        now = f"{errors.stdout}\0{errors.stderr}"
        if links.stdout == self._seen[0] and now == self._last:
            for node in self._nodes:
                self._log.add(node, errors.started_s, (), ())
            return
        sweep = infiniband.read_errors(errors.stdout, errors.stderr, errors.exit_status)
        if links.stdout != self._seen[0]:
            lines = infiniband.read_ports(links.stdout, links.stderr, links.exit_status)
            found = ends_of(lines, self._topology)
            self._seen = links.stdout, lines, {port: end for port, end in found.items() if end[0] in self._wanted}
        _, lines, ends = self._seen
        self._log.joined(_joined(lines, ends))
        rows: dict[str, dict[tuple[str, str], Value]] = {}
        for line in lines:
            end = ends.get((line.end.guid, line.end.port))
            if end is not None and line.end.lid not in sweep.mute:
                counted = _counted(sweep, line)
                lanes, lane_gbps = line.lanes
                state: dict[str, Value] = {"up": int(line.active)}
                state |= {"width": lanes, "lane_gbps": lane_gbps} if line.active else {}
                names = [name for name in infiniband.COUNTED.values() if self._all or name != "port_xmit_wait"]
                values = state | {name: counted.get(name, 0) for name in names}
                rows.setdefault(end[0], {}).update({(end[1], name): value for name, value in values.items()})
        for node, readings in rows.items():
            self._log.add(node, errors.started_s, list(readings), list(readings.values()))
        self._nodes, self._last = tuple(rows), now


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
