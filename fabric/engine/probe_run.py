"""One probe while it runs: servers first, then its clients, until every command it started has answered."""

import heapq
import re
from dataclasses import dataclass, field, replace

from fabric.engine.deadlines import TIMES
from fabric.errors import CommandTimeout, ExecutorError, HostUnreachable, SessionLost
from fabric.model.command import Command, CommandResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, NamedPart, Probe, ProbeCommands, ProbeResult, Reading
from fabric.model.topology import Topology
from fabric.ports import Ended, Executor, Happening, Lost, Ready, Ticket
from fabric.probes.kinds import KINDS

WORDS = ("echo", "present")
"""What each host is asked to say; any program that is everywhere would do."""

NAME_WORDS = ("uname", "-n")
"""What each host is asked for its own name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\n", re.ASCII)

ANSWER_S = 15.0
"""A host that does not answer within this is missing (seconds); a choice, as long as a connection may take."""


def roll_call_problem(result: CommandResult, names: dict[str, str]) -> str:
    """
    What is wrong with a host's answer to the roll call, empty when it is there; *names* is given its name for itself.

    A tool that runs on several hosts is started on one, and what it says of a host that froze or died reads like a bad
    fabric: a time-out, a broken connection. Who does not answer is to blame, and nothing is said of the fabric. A host
    that was asked for its name is there whatever it says.
    """
    host, said = result.command.host, result.stdout
    if result.command.argv == NAME_WORDS:
        if result.exit_status == 0 and _NAME.fullmatch(said):
            names[host] = said.rstrip("\n")
        return ""
    if (result.exit_status, said) == (0, f"{WORDS[1]}\n"):
        return ""
    return f"{host}: {' '.join(WORDS)}: exit {result.exit_status}: {(said or result.stderr)[:80]!r}"


SERVER_READY_S = 15.0
"""A server that does not listen within this is given up (seconds)."""

SERVER_END_S = 10.0
"""After its clients ended well, a server gets this long to end by itself (seconds)."""

SERVER_END_AFTER_FAILURE_S = 2.0
"""After all clients ended and one of them failed, a server gets this long to say why (seconds)."""


@dataclass(slots=True, eq=False)
class ProbeRun:
    """
    A small state machine, driven by what the executor reports and by one deadline.

    It is ``done`` when every command it started has ended or is lost, so nothing is left running when its claims are
    released. *limit_s*: no client gets more time than this (seconds), where that is less than its kind allows.
    *names*: what hosts call themselves, as far as any was asked; those of its own are added where its output needs it.
    *missing*: the first host that did not answer as it must when it was asked afterwards, and what it did instead.
    """

    probe: Probe
    topology: Topology
    executor: Executor
    attempt: int = 1
    limit_s: float | None = None
    names: dict[str, str] = field(default_factory=dict)
    deadline_s: float | None = None
    tickets: list[Ticket] = field(default_factory=list)
    missing: tuple[str, str] | None = None
    _read: Reading | None = None
    _commands: ProbeCommands = field(init=False)
    _open: dict[Ticket, Command] = field(default_factory=dict)
    _ready: int = 0
    _client_ticket: Ticket | None = None
    _client: CommandResult | None = None
    _servers: list[CommandResult] = field(default_factory=list)
    _beside: dict[Ticket, CommandResult | None] = field(default_factory=dict)
    _counters: set[Ticket] = field(default_factory=set)
    _before: list[CommandResult] = field(default_factory=list)
    _after: list[CommandResult] = field(default_factory=list)
    _outputs: list[CommandResult] = field(default_factory=list)
    _cancelled: set[Ticket] = field(default_factory=set)
    _error: ExecutorError | None = None
    _late: str = ""
    _late_host: str = ""
    _called: bool = False  # the roll
    _started_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._commands = ProbeCommands((), Command(self.probe.hosts[0], (), 0.0))
        self._started_s = self.executor.now()

    @property
    def done(self) -> bool:
        """Nothing of it is left running."""
        return not self._open

    @property
    def lost_midway(self) -> bool:
        """A session was lost under it, and that is all that is known: no tool has answered."""
        client_answered = self._client is not None and self._client_ticket not in self._cancelled
        return isinstance(self._error, SessionLost) and not client_answered and not self._servers

    @property
    def outputs(self) -> tuple[CommandResult, ...]:
        """Everything its commands printed, client first."""
        return tuple(self._outputs) if self._client is None else (self._client, *self._outputs)

    def begin(self) -> list[Ticket]:
        """Start the servers, or the client at once when there are none; returns the tickets to listen for."""
        try:
            self._commands = KINDS[self.probe.kind].commands(self.probe, self.topology)
        except MemoryError:
            raise  # the next one would have none either
        except Exception as exc:  # noqa: BLE001 - a crash of ours is an ERROR of this probe, never of the run
            self._late = f"its command cannot be built: {type(exc).__name__}: {exc}"
            self._late_host = self.probe.hosts[0]
            return []
        client, *beside = (self._within_limit(one) for one in (self._commands.client, *self._commands.beside))
        self._commands = replace(self._commands, client=client, beside=tuple(beside))
        return self._read_counters() or self._begin()

    def _within_limit(self, client: Command) -> Command:
        if self.limit_s is None or self.limit_s >= client.timeout_s:
            return client
        return replace(client, timeout_s=self.limit_s)

    def _read_counters(self) -> list[Ticket]:
        tickets = [self._start(command) for command in self._commands.counters]
        self._counters.update(tickets)
        return tickets

    def _begin(self) -> list[Ticket]:
        if not self._commands.servers:
            return self._start_clients()
        self.deadline_s = self.executor.now() + SERVER_READY_S
        return [self._start(command) for command in self._commands.servers]

    def take(self, happening: Happening) -> list[Ticket]:
        """Move on by one happening; returns the tickets of what that made start: the client, or the roll call."""
        if isinstance(happening, Ready):
            self._ready += 1
            if self._ready == len(self._commands.servers) and self._may_start_client():
                self.deadline_s = None
                return self._start_clients()
            return []
        if happening.ticket in self._counters:
            return self._counted(happening)
        if self._called:
            self._answered(happening)
        elif isinstance(happening, Ended):
            self._ended(happening.ticket, happening.result)
        else:
            self._lost(happening)
        once = len(self._counters) == len(self._commands.counters)
        tickets = self._read_counters() if not self._open and once and self._measured() and not self._late else []
        if tickets:
            return tickets
        return self._call_the_roll() if self._is_doubtful() else []

    def _counted(self, happening: Happening) -> list[Ticket]:
        """Counters were read, or could not be; after the first reading of all of them the rest begins."""
        first = self._client_ticket is None
        del self._open[happening.ticket]
        if isinstance(happening, Ended) and happening.ticket not in self._cancelled:
            (self._before if first else self._after).append(happening.result)
            self._outputs.append(happening.result)
        elif isinstance(happening, Lost) and first and self._error is None:
            self._error = happening.error
        if self._open:
            return []
        if first:
            return self._begin() if self._error is None and not self._late else []
        return self._call_the_roll() if self._is_doubtful() else []

    def _is_doubtful(self) -> bool:
        """
        It ended badly on several hosts, and it is not known yet whether they are all there.

        Or its output has names that may be what its hosts call themselves.
        """
        if self._open or self._called or self._late or isinstance(self._error, HostUnreachable):
            return False
        reading = self._reading()
        return reading.ask_names or (len(self.probe.hosts) > 1 and reading.outcome is not None)

    def _call_the_roll(self) -> list[Ticket]:
        """Ask its hosts for one word, or for their names."""
        words = NAME_WORDS if self._reading().ask_names else WORDS
        self._called, self._read = True, None
        return [self._start(Command(host, words, ANSWER_S)) for host in self.probe.hosts]

    def _answered(self, happening: Ended | Lost) -> None:
        command = self._open.pop(happening.ticket)
        if happening.ticket in self._cancelled:
            return
        if isinstance(happening, Ended):
            self._outputs.append(happening.result)
            why = roll_call_problem(happening.result, self.names)
        else:
            why = str(happening.error)
        if why and self.missing is None:
            self.missing = command.host, why

    def overdue(self) -> None:
        """The deadline passed: end what is still running."""
        self.deadline_s = None
        if self._client_ticket is None:
            self._late = f"the server did not listen within {SERVER_READY_S:g} s"
            self._late_host = self._commands.servers[0].host
        elif self._measured() and not self._late:
            self._late = f"the server did not end within {SERVER_END_S:g} s of its client: another may have answered"
            self._late_host = self._commands.servers[0].host
        self._cancel_open()

    def abandon(self, host: str, reason: str) -> None:
        """A host of this probe is out of the run: do not wait for its deadline."""
        if self._error is None and not self._late:
            self._late, self._late_host = f"given up: {reason}", host
        self.deadline_s = None
        self._cancel_open()

    def result(self) -> ProbeResult:
        """How it ended."""
        reading = self._reading()
        return ProbeResult(
            probe_id=self.probe.probe_id,
            attempt=self.attempt,
            measurements=reading.measurements,
            outcome=reading.outcome,
            reason=reading.reason,
            started_s=self._started_s,
            ended_s=self.executor.now(),
            error_host=self._error_host() if reading.outcome is Outcome.ERROR else None,
            named=reading.named or self._silent(),
            failure=reading.failure,
        )

    def _reading(self) -> Reading:
        if self.missing is not None:
            return Reading((), Outcome.ERROR, f"asked after it ended badly: {self.missing[1]}")
        if self._error is not None:
            return Reading((), Outcome.ERROR, f"{self._error}{self._why_so_soon()}")
        if self._late:
            return Reading((), Outcome.ERROR, f"{self._late_host}: {self._late}")
        if self._read is None or not self.done:
            beside = [result for result in self._beside.values() if result is not None]
            answered = Answered(self._servers, self._client, self.names, beside, self._before, self._after)
            try:
                self._read = KINDS[self.probe.kind].read(self.probe, self.topology, answered)
            except MemoryError:
                raise
            except Exception as exc:  # noqa: BLE001 - a crash of ours is an ERROR of this probe, never of the run
                self._read = Reading((), Outcome.ERROR, f"reading the output failed: {type(exc).__name__}: {exc}")
        return self._read

    def _why_so_soon(self) -> str:
        """That a deadline was shorter than the planned one."""
        if not isinstance(self._error, CommandTimeout) or self._commands.client.timeout_s != self.limit_s:
            return ""
        return f", which is more than {TIMES:g} times what it took in earlier rounds"

    def _error_host(self) -> str | None:
        """Whose the error is; of several hosts that all answered afterwards nobody knows, but for the one that hung."""
        if self._called and len(self.probe.hosts) > 1:
            return self._hung() if self.missing is None else self.missing[0]
        if isinstance(self._error, HostUnreachable | CommandTimeout):
            return self._error.host
        return self._late_host or self.probe.hosts[0]

    def _hung(self) -> str | None:
        """Of several clients the only one that did not end by itself, where all others did."""
        first = self._client is None or self._client_ticket in self._cancelled
        beside = zip(self._commands.beside, self._beside.values(), strict=True)
        left = [self._commands.client.host] * first + [command.host for command, result in beside if result is None]
        return left[0] if len(left) == 1 and len(self._beside) > 1 else None

    def _silent(self) -> NamedPart | None:
        """Of several hosts the one that is known not to answer."""
        if self.missing is not None and len(self.probe.hosts) > 1:
            return NamedPart(self.missing[0], "silent")
        if isinstance(self._error, HostUnreachable) and len(self.probe.hosts) > 1:
            return NamedPart(self._error.host, "silent")
        return None

    def _may_start_client(self) -> bool:
        return self._error is None and not self._servers and not self._cancelled

    def _start(self, command: Command) -> Ticket:
        ticket = self.executor.start(command)
        self._open[ticket] = command
        self.tickets.append(ticket)
        return ticket

    def _start_clients(self) -> list[Ticket]:
        self._client_ticket = self._start(self._commands.client)
        self._beside = dict.fromkeys(self._start(command) for command in self._commands.beside)
        return [self._client_ticket, *self._beside]

    def _measured(self) -> bool:
        """Whether every client answered well."""
        clients = (self._client, *self._beside.values())
        return all(one is not None and one.exit_status == 0 for one in clients)

    def _ended(self, ticket: Ticket, result: CommandResult) -> None:
        del self._open[ticket]
        if ticket == self._client_ticket:
            self._client = result
        else:
            self._outputs.append(result)
        if ticket in self._beside:
            self._beside[ticket] = result if ticket not in self._cancelled else None
        elif ticket != self._client_ticket and ticket not in self._cancelled:
            self._servers.append(result)
            if self._client_ticket is None:
                self._cancel_open()
        clients = {self._client_ticket, *self._beside}
        if ticket in clients and clients.isdisjoint(self._open):
            grace_s = SERVER_END_S if self._measured() else SERVER_END_AFTER_FAILURE_S
            self.deadline_s = self.executor.now() + grace_s if self._open else None

    def _lost(self, happening: Lost) -> None:
        command = self._open.pop(happening.ticket)
        error = happening.error
        if isinstance(error, CommandTimeout):
            partial = CommandResult(command, 124, error.stdout, error.stderr, self._started_s, happening.at_s)
            self._outputs.append(partial)
        # A server lost after its client answered well takes nothing from what was measured.
        if self._error is None and happening.ticket not in self._cancelled and not self._measured():
            self._error = error
        self._cancel_open()

    def _cancel_open(self) -> None:
        for ticket in list(self._open):
            if ticket not in self._cancelled:
                self._cancelled.add(ticket)
                self.executor.cancel(ticket)


class Timers:
    """Wakes probes whose deadline has come; a deadline that the probe has changed meanwhile is void."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ProbeRun]] = []
        self._number = 0

    @property
    def next_s(self) -> float | None:
        """The soonest deadline, executor's seconds; None when there is none."""
        return self._heap[0][0] if self._heap else None

    def arm(self, run: ProbeRun) -> None:
        """Note the present deadline of a probe, if it has one."""
        if run.deadline_s is not None:
            self._number += 1
            heapq.heappush(self._heap, (run.deadline_s, self._number, run))

    def fire(self, now_s: float) -> list[ProbeRun]:
        """Tell every probe whose deadline has come; returns those that are done with that."""
        ended: list[ProbeRun] = []
        while self._heap and self._heap[0][0] <= now_s:
            due_s, _, run = heapq.heappop(self._heap)
            if run.deadline_s == due_s and not run.done:
                run.overdue()
                if run.done:
                    ended.append(run)
        return ended
