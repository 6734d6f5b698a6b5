"""The simulated rack behind the executor seam: the same command lines, the same text, simulated time."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf

from fabric.errors import CommandTimeout, HostUnreachable
from fabric.hosts.mock_sampling import MockSamplings
from fabric.hosts.once import begins_s, check_start
from fabric.model.command import Command, CommandResult
from fabric.ports import Ended, Happening, Lost, Ready, Sampled, Source, Ticket
from fabric.sim.hosts.timeline import Exited, Listening
from fabric.sim.world import World

CANCELLED = 137  # 128 + SIGKILL


@dataclass(slots=True, eq=False)
class _Run:
    """One started command until its Ended or Lost; *reason* is why its host is unreachable."""

    ticket: Ticket
    command: Command
    at_s: float
    reason: str | None
    pid: int | None = None
    timed_out: bool = False


class MockExecutor:
    """
    An Executor over a simulated World; nothing here waits in real time.

    A command starts *start_latency_s* after ``start`` was called, or at its own time if that is later; a dead host is
    given up after *connect_timeout_s*.
    """

    def __init__(self, world: World, *, start_latency_s: float = 0.05, connect_timeout_s: float = 15.0) -> None:
        self.world = world
        self._latency_s = start_latency_s
        self._connect_s = connect_timeout_s
        self._now_s = 0.0
        self._last = 0
        self._open: dict[Ticket, _Run] = {}
        self._by_pid: dict[int, _Run] = {}
        self._starting: deque[_Run] = deque()  # in order of time
        self._limits: list[tuple[float, Ticket]] = []  # deadlines and connect time-outs; stale entries are skipped
        self._ready: list[Happening] = []
        self._samplings = MockSamplings(world)

    def now(self) -> float:
        """Simulated seconds."""
        return self._now_s

    def start(self, command: Command) -> Ticket:
        """Begin a command a moment from now."""
        check_start(command, self._now_s)
        self._last = ticket = self._last + 1
        reason = self.world.unreachable(command.host, self._now_s)
        at_s = begins_s(command, self._now_s + self._latency_s)
        run = self._open[ticket] = _Run(ticket, command, at_s, reason)
        if reason is None:
            insort(self._starting, run, key=lambda one: one.at_s)
            heappush(self._limits, (at_s + _patience_s(command), ticket))
        else:
            heappush(self._limits, (self._now_s + self._connect_s, ticket))
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """End a command; its Ended (137) arrives with the next ``wait``. A dead host stays Lost."""
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
        unread = self._samplings.waiting()
        while not found and self._samplings.waiting() == unread:
            next_s = self._next_s()
            if next_s > until_s or next_s == inf:
                if self._now_s < until_s < inf:
                    self._now_s = until_s
                break
            if next_s > self._now_s:
                self._now_s = next_s
            self._step(found)
        return found

    def wake(self) -> None:
        """Nothing here ever blocks."""

    def start_sampling(self, host: str, sources: Sequence[Source], period_s: float) -> Ticket:
        """Begin to sample a moment from now; see ``ports.Sampler``. A simulated host expands few patterns."""
        self._last = ticket = self._last + 1
        lost = self._samplings.start(ticket, host, sources, period_s, self._now_s + self._latency_s)
        if lost is not None:
            self._ready.append(lost)
        return ticket

    def stop_sampling(self, ticket: Ticket) -> None:
        """End a sampling; a row under way is dropped."""
        self._samplings.stop(ticket, self._now_s)

    def samples(self) -> Sequence[Sampled]:
        """All rows since the last call."""
        return self._samplings.taken()

    def _next_s(self) -> float:
        limits = self._limits
        while limits and limits[0][1] not in self._open:
            heappop(limits)
        next_s = limits[0][0] if limits else inf
        if self._starting and self._starting[0].at_s < next_s:
            next_s = self._starting[0].at_s
        next_s = min(next_s, self._samplings.next_s())
        world_s = self.world.next_s()
        return next_s if world_s is None or world_s > next_s else world_s

    def _step(self, found: list[Happening]) -> None:
        """Everything of this instant: what the hosts did, then what starts, then whose time is up."""
        self._take(found)
        starting = self._starting
        while starting and starting[0].at_s <= self._now_s:
            run = starting.popleft()
            command = run.command
            run.reason = self.world.unreachable(command.host, self._now_s)
            if run.reason is not None:  # it went away in the last moment
                heappush(self._limits, (self._now_s + self._connect_s, run.ticket))
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
        if len(limits) > 1000 + 4 * len(self._open):  # long deadlines of short commands: keep memory bounded
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
        """Translate what happened in the world."""
        for event in self.world.advance(self._now_s):
            if self._samplings.owns(event.pid):
                if isinstance(event, Exited):
                    self._samplings.exited(event)
            elif isinstance(event, Exited):
                run = self._by_pid.pop(event.pid)
                del self._open[run.ticket]
                found.append(_timed_out(run, event) if run.timed_out else _ended(run, event))
            else:
                self._listening(event, found)

    def _listening(self, event: Listening, found: list[Happening]) -> None:
        run = self._by_pid[event.pid]
        if run.command.ready_port == event.port:
            found.append(Ready(run.ticket, event.at_s))

    def close(self) -> None:
        """End everything that runs; the executor can be asked nothing more but ``now``."""
        for pid in list(self._by_pid):
            self.world.kill(pid, self._now_s)
        for ticket in self._samplings.tickets():
            self.stop_sampling(ticket)
        self.world.advance(self._now_s)
        self._samplings.forget()
        self._open.clear()
        self._by_pid.clear()
        self._starting.clear()
        self._limits.clear()
        self._ready.clear()


def _ended(run: _Run, event: Exited) -> Ended:
    command = run.command
    cap = command.output_cap_bytes
    stdout, stderr = event.stdout, event.stderr
    truncated = False
    if 4 * len(stdout) > cap or 4 * len(stderr) > cap:  # a character is at most four bytes of UTF-8
        stdout, out_cut = _capped(stdout, cap)
        stderr, err_cut = _capped(stderr, cap)
        truncated = out_cut or err_cut
    result = CommandResult(command, event.exit_status, stdout, stderr, run.at_s, event.at_s, truncated)
    return Ended(run.ticket, result)


def _timed_out(run: _Run, event: Exited) -> Lost:
    command = run.command
    stdout, _ = _capped(event.stdout, command.output_cap_bytes)
    stderr, _ = _capped(event.stderr, command.output_cap_bytes)
    limit_s = None if _patience_s(command) == command.timeout_s else command.inactivity_s
    error = CommandTimeout(command.host, command.timeout_s, stdout, stderr, inactivity_s=limit_s)
    return Lost(run.ticket, error, event.at_s)


def _patience_s(command: Command) -> float:
    """How long a command is waited for: a simulated tool says everything at its end, so until then it is silent."""
    return command.timeout_s if command.inactivity_s is None else min(command.timeout_s, command.inactivity_s)


def _capped(text: str, cap_bytes: int) -> tuple[str, bool]:
    """At most *cap_bytes* of a text, with a mark where it was cut."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) <= cap_bytes:
        return text, False
    kept = data[:cap_bytes].decode("utf-8", "ignore")
    return f"{kept}\n[output cut at {cap_bytes} bytes]\n", True
