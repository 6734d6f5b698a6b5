"""The simulated rack behind the Executor protocol: the same command lines, text and samples, in simulated time."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf

from fabric.agent.sampling import tool_row
from fabric.errors import CommandTimeout, HostUnreachable
from fabric.model.probe import Command, CommandResult
from fabric.ports import BATCH_S, Ended, Happening, Lost, Ready, Sampled, Source, Ticket
from fabric.sim.hosts.timeline import Exited
from fabric.sim.tools.sysfs import Readings
from fabric.sim.world import World

CANCELLED = 137  # 128 + SIGKILL
LEAST_PERIOD_S = 0.01
LATENCY_S, CONNECT_S = 0.05, 15.0
_KNOWN_PATTERNS = ("/device/hwmon/hwmon*/", "/device/net/*/")


@dataclass(slots=True, eq=False)
class _Run:
    """One started command until its Ended or Lost; *reason*: why its host is unreachable, None if it is reachable."""

    ticket: Ticket
    command: Command
    at_s: float
    reason: str | None
    pid: int | None = None
    timed_out: bool = False


class MockExecutor:
    """
    An Executor over a simulated World; nothing here waits in real time.

    A command starts LATENCY_S after ``start`` was called; a dead host is given up after CONNECT_S.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._now_s = 0.0
        self._last = 0
        self._open: dict[Ticket, _Run] = {}
        self._by_pid: dict[int, _Run] = {}
        self._starting: deque[_Run] = deque()  # in order of time
        self._limits: list[tuple[float, Ticket]] = []  # deadlines and connect time-outs; stale entries are skipped
        self._ready: list[Happening] = []
        self._samplings = _Samplings(world)

    def now(self) -> float:
        """Simulated seconds."""
        return self._now_s

    def go_on(self, at_s: float) -> None:
        """Let the rack live on until *at_s*."""
        while self._now_s < at_s:
            self.wait(at_s)

    def start(self, command: Command) -> Ticket:
        """Begin a command LATENCY_S from now."""
        self._last = ticket = self._last + 1
        reason = self.world.unreachable(command.host, self._now_s)
        at_s = self._now_s + LATENCY_S
        run = self._open[ticket] = _Run(ticket, command, at_s, reason)
        if reason is None:
            self._starting.append(run)
            heappush(self._limits, (at_s + command.timeout_s, ticket))
        else:
            heappush(self._limits, (self._now_s + CONNECT_S, ticket))
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """End a command (its Ended with 137 arrives at the next ``wait``) or a sampling. A dead host stays Lost."""
        self._samplings.stop(ticket, self._now_s)
        run = self._open.get(ticket)
        if run is None or run.reason is not None:
            return
        if run.pid is not None:
            self.world.kill(run.pid, self._now_s)
            self._take(self._ready)
            return
        self._starting.remove(run)
        del self._open[ticket]
        result = CommandResult(run.command, CANCELLED, "", "", self._now_s, self._now_s)
        self._ready.append(Ended(ticket, result))

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Jump to the next instant at which something happens, or to *until_s*."""
        found = self._ready
        self._ready = []
        unread = len(self._samplings.rows)
        while not found and len(self._samplings.rows) == unread:
            next_s = self._next_s()
            if next_s > until_s or next_s == inf:
                if self._now_s < until_s < inf:
                    self._now_s = until_s
                break
            self._now_s = max(self._now_s, next_s)
            self._step(found)
        return found

    def wake(self) -> None:
        """Do nothing: ``wait`` never blocks here."""

    def start_sampling(self, host: str, sources: Sequence[Source], period_s: float, batch_s: float = BATCH_S) -> Ticket:
        """Begin to sample LATENCY_S from now, and report each row at once. A simulated host expands few patterns."""
        del batch_s
        self._last = ticket = self._last + 1
        lost = self._samplings.start(ticket, host, sources, period_s, self._now_s + LATENCY_S)
        if lost is not None:
            self._ready.append(lost)
        return ticket

    def samples(self) -> Sequence[Sampled]:
        """Return all rows since the last call."""
        rows, self._samplings.rows = self._samplings.rows, []
        return rows

    def _next_s(self) -> float:
        limits = self._limits
        while limits and limits[0][1] not in self._open:
            heappop(limits)
        limit_s = limits[0][0] if limits else inf
        starting_s = self._starting[0].at_s if self._starting else inf
        world_s = self.world.next_s()
        return min(limit_s, starting_s, self._samplings.next_s(), inf if world_s is None else world_s)

    def _step(self, found: list[Happening]) -> None:
        """Process this instant: what the hosts did, then what starts, then what is out of time."""
        self._take(found)
        starting = self._starting
        while starting and starting[0].at_s <= self._now_s:
            run = starting.popleft()
            command = run.command
            run.reason = self.world.unreachable(command.host, self._now_s)
            if run.reason is not None:  # it went away in the last moment
                heappush(self._limits, (self._now_s + CONNECT_S, run.ticket))
                continue
            run.pid = self.world.start(
                command.host, command.argv, dict(command.env) if command.env else {}, self._now_s
            )
            self._by_pid[run.pid] = run
        found.extend(self._samplings.step(self._now_s))
        limits = self._limits
        while limits and limits[0][0] <= self._now_s:
            late = self._open.get(heappop(limits)[1])
            if late is not None:
                self._give_up(late, found)
        if len(limits) > 1000 + 4 * len(self._open):  # deadlines of commands that ended early: keep memory bounded
            self._limits = [entry for entry in limits if entry[1] in self._open]
            heapify(self._limits)

    def _give_up(self, run: _Run, found: list[Happening]) -> None:
        if run.pid is not None:
            run.timed_out = True
            self.world.kill(run.pid, self._now_s)
            self._take(found)
            return
        del self._open[run.ticket]
        error = HostUnreachable(run.command.host, "connect", run.reason or "")
        found.append(Lost(run.ticket, error, self._now_s))

    def _take(self, found: list[Happening]) -> None:
        """Turn the world's events into happenings."""
        for event in self.world.advance(self._now_s):
            if event.pid in self._samplings.by_pid:
                if isinstance(event, Exited):
                    self._samplings.exited(event)
            elif isinstance(event, Exited):
                run = self._by_pid.pop(event.pid)
                del self._open[run.ticket]
                found.append(_ended(run, event))
            elif (run := self._by_pid[event.pid]).command.ready_port == event.port:
                found.append(Ready(run.ticket, event.at_s))

    def close(self) -> None:
        """End everything that runs; afterwards only ``now`` may be called."""
        for pid in list(self._by_pid):
            self.world.kill(pid, self._now_s)
        for ticket in list(self._samplings.open):
            self._samplings.stop(ticket, self._now_s)
        self.world.advance(self._now_s)
        self._samplings.by_pid.clear()
        self._open.clear()
        self._by_pid.clear()
        self._starting.clear()
        self._limits.clear()
        self._ready.clear()


def _ended(run: _Run, event: Exited) -> Ended | Lost:
    command = run.command
    stdout, out_cut = _capped(event.stdout, command.output_cap_bytes)
    stderr, err_cut = _capped(event.stderr, command.output_cap_bytes)
    if run.timed_out:
        return Lost(run.ticket, CommandTimeout(command.host, command.timeout_s, stdout, stderr), event.at_s)
    result = CommandResult(command, event.exit_status, stdout, stderr, run.at_s, event.at_s, out_cut or err_cut)
    return Ended(run.ticket, result)


def _capped(text: str, cap_bytes: int) -> tuple[str, bool]:
    """Return at most *cap_bytes* of a text, and whether it was cut."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) <= cap_bytes:
        return text, False
    return data[:cap_bytes].decode("utf-8", "ignore"), True


def problem_of(sources: Sequence[Source]) -> str | None:
    """Return why these sources cannot be sampled here, None when they can."""
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
    running: dict[int, tuple[Source, float]] = field(default_factory=dict)  # process id to source and start time


class _Samplings:
    """
    All samplings of a world: *open* by ticket, *by_pid* by running tool; *rows* were not taken yet.

    A sampling whose host goes away is Lost.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.open: dict[Ticket, _Sampling] = {}
        self._due: list[tuple[float, Ticket]] = []  # entries of stopped samplings are skipped
        self.by_pid: dict[int, _Sampling] = {}
        self.rows: list[Sampled] = []

    def start(self, ticket: Ticket, host: str, sources: Sequence[Source], period_s: float, at_s: float) -> Lost | None:
        """Begin at *at_s*; return Lost when that is impossible."""
        reason = self._world.unreachable(host)
        step, problem = ("connect", reason) if reason is not None else ("sampling", problem_of(sources))
        if problem is not None:
            return Lost(ticket, HostUnreachable(host, step, problem), at_s)
        paths = [source.path for source in sources if source.path]
        files = self._world.readings(host, paths) if paths else None
        tools = tuple(source for source in sources if source.argv)
        self.open[ticket] = _Sampling(ticket, host, files, tools, max(LEAST_PERIOD_S, period_s))
        heappush(self._due, (at_s, ticket))
        return None

    def stop(self, ticket: Ticket, now_s: float) -> None:
        """End a sampling, and kill its tools that run. Unknown tickets are ignored."""
        sampling = self.open.pop(ticket, None)
        for pid in list(sampling.running) if sampling is not None else ():
            self._world.kill(pid, now_s)

    def next_s(self) -> float:
        """Return when the next row is due; infinite when none is."""
        while self._due and self._due[0][1] not in self.open:
            heappop(self._due)
        return self._due[0][0] if self._due else inf

    def step(self, now_s: float) -> list[Lost]:
        """Read what is due; samplings that cannot be read any more are ended and returned as Lost."""
        lost: list[Lost] = []
        while self.next_s() <= now_s:
            _, ticket = heappop(self._due)
            sampling = self.open[ticket]
            reason = self._world.unreachable(sampling.host, now_s)
            if reason is not None:
                self.stop(ticket, now_s)
                lost.append(Lost(ticket, HostUnreachable(sampling.host, "sampling", reason), now_s))
                continue
            heappush(self._due, (now_s + sampling.period_s, ticket))
            self._read(sampling, now_s)
        return lost

    def exited(self, event: Exited) -> None:
        """Take the output of a tool that ended; one that failed leaves no row."""
        sampling = self.by_pid.pop(event.pid)
        source, began_s = sampling.running.pop(event.pid)
        if event.exit_status == 0 and sampling.ticket in self.open:
            names, values = tool_row(event.stdout, source.form)
            if names:
                self.rows.append(Sampled(sampling.ticket, tuple(names), (began_s,), (tuple(values),)))

    def _read(self, sampling: _Sampling, now_s: float) -> None:
        row = sampling.files.row(now_s) if sampling.files is not None else None
        if sampling.files is not None and row is not None:
            self.rows.append(Sampled(sampling.ticket, sampling.files.names, (now_s,), (tuple(row),)))
        under_way = [source for source, _ in sampling.running.values()]
        for source in (one for one in sampling.tools if one not in under_way):
            pid = self._world.start(sampling.host, source.argv, {}, now_s)
            sampling.running[pid] = source, now_s
            self.by_pid[pid] = sampling
