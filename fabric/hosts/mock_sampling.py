"""Sampling on simulated hosts: their files at once, and their tools as programs, once a period in simulated time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from fabric.agent.sampling import tool_row
from fabric.errors import HostUnreachable
from fabric.ports import Lost, Sampled, Source, Ticket
from fabric.probes.sources import OPTICS, PFC, darkest_lanes, pfc_sums
from fabric.sim.hosts.timeline import Exited
from fabric.sim.tools.sysfs import Readings
from fabric.sim.world import World

LEAST_PERIOD_S = 0.01
_KNOWN_PATTERNS = ("/device/hwmon/hwmon*/", "/device/net/*/")


def problem_of(sources: Sequence[Source]) -> str | None:
    """Why these sources cannot be sampled here, None when they can."""
    for source in sources:
        rest = source.path
        for pattern in _KNOWN_PATTERNS:
            rest = rest.replace(pattern, "/")
        if "*" in rest:
            return f"simulated hosts expand no such patterns, name each file: {source.path}"
    return None


@dataclass(slots=True)
class _Sampling:
    """One sampling of one host; a tool is not started again while it runs."""

    ticket: Ticket
    host: str
    files: Readings | None
    tools: tuple[Source, ...]
    period_s: float
    running: dict[int, tuple[Source, float]] = field(default_factory=dict)  # by process: when it was started


class MockSamplings:
    """Every sampling of a world. What a host that went away would have said is Lost."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: dict[Ticket, _Sampling] = {}
        self._due: list[tuple[float, Ticket]] = []  # entries of what was stopped are skipped
        self._by_pid: dict[int, _Sampling] = {}
        self._sampled: list[Sampled] = []

    def start(self, ticket: Ticket, host: str, sources: Sequence[Source], period_s: float, at_s: float) -> Lost | None:
        """Begin at *at_s*; Lost when this cannot be."""
        reason = self._world.unreachable(host)
        step, problem = ("connect", reason) if reason is not None else ("sampling", problem_of(sources))
        if problem is not None:
            return Lost(ticket, HostUnreachable(host, step, problem), at_s)
        paths = [source.path for source in sources if source.path]
        files = self._world.readings(host, paths) if paths else None
        tools = tuple(source for source in sources if source.argv)
        self._open[ticket] = _Sampling(ticket, host, files, tools, max(LEAST_PERIOD_S, period_s))
        heappush(self._due, (at_s, ticket))
        return None

    def stop(self, ticket: Ticket, now_s: float) -> None:
        """End it; a tool under way is killed."""
        sampling = self._open.pop(ticket, None)
        for pid in list(sampling.running) if sampling is not None else ():
            self._world.kill(pid, now_s)

    def tickets(self) -> list[Ticket]:
        """Those that were not stopped."""
        return list(self._open)

    def waiting(self) -> int:
        """How many rows nobody has taken yet."""
        return len(self._sampled)

    def taken(self) -> list[Sampled]:
        """All rows since this was last asked."""
        sampled, self._sampled = self._sampled, []
        return sampled

    def next_s(self) -> float:
        """When something is due; infinite when never."""
        while self._due and self._due[0][1] not in self._open:
            heappop(self._due)
        return self._due[0][0] if self._due else inf

    def step(self, now_s: float) -> list[Lost]:
        """Read what is due; what cannot be read any more is ended and Lost."""
        lost: list[Lost] = []
        while self.next_s() <= now_s:
            _, ticket = heappop(self._due)
            sampling = self._open[ticket]
            reason = self._world.unreachable(sampling.host, now_s)
            if reason is not None:
                self.stop(ticket, now_s)
                lost.append(Lost(ticket, HostUnreachable(sampling.host, "sampling", reason), now_s))
                continue
            heappush(self._due, (now_s + sampling.period_s, ticket))
            self._read(sampling, now_s)
        return lost

    def owns(self, pid: int) -> bool:
        """Whether a process is a sampled tool."""
        return pid in self._by_pid

    def exited(self, event: Exited) -> None:
        """A tool has ended; one that failed leaves no row."""
        sampling = self._by_pid.pop(event.pid)
        source, began_s = sampling.running.pop(event.pid)
        if event.exit_status == 0 and sampling.ticket in self._open:
            names, values = tool_row(_as_scripted(source, event.stdout), source.form)
            if names:
                self._sampled.append(Sampled(sampling.ticket, tuple(names), (began_s,), (tuple(values),)))

    def forget(self) -> None:
        """The executor was closed."""
        self._by_pid.clear()

    def _read(self, sampling: _Sampling, now_s: float) -> None:
        row = sampling.files.row(now_s) if sampling.files is not None else None
        if sampling.files is not None and row is not None:
            self._sampled.append(Sampled(sampling.ticket, sampling.files.names, (now_s,), (tuple(row),)))
        under_way = [source for source, _ in sampling.running.values()]
        for source in _not_in(sampling.tools, under_way):
            pid = self._world.start(sampling.host, self._program(sampling.host, source), {}, now_s)
            sampling.running[pid] = source, now_s
            self._by_pid[pid] = sampling

    def _program(self, host: str, source: Source) -> tuple[str, ...]:
        """Simulated hosts have no shell: of the scripts that are sampled they run the one program, the rest is here."""
        if OPTICS in source.argv:
            return ("mlxlink", "-d", source.argv[-1], "-m")
        if PFC in source.argv:
            return ("ethtool", "-S", self._world.interface(host, source.argv[-1]))
        return source.argv


def _as_scripted(source: Source, stdout: str) -> str:
    """What the script of a source makes of what its program printed."""
    if OPTICS in source.argv:
        return darkest_lanes(source.argv[-1], stdout)
    return pfc_sums(source.argv[-1], stdout) if PFC in source.argv else stdout


def _not_in(tools: Iterable[Source], under_way: Sequence[Source]) -> list[Source]:
    return [source for source in tools if source not in under_way]
