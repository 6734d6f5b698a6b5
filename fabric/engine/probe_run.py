"""Runs one probe: the servers first, then the clients, until every command it started has answered."""

import heapq
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

from fabric.engine.deadlines import LONGEST_FACTOR
from fabric.errors import CommandTimeout, ExecutorError, HostUnreachable, SessionLost
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, Command, CommandResult, NamedPart, Probe, ProbeCommands, ProbeResult, Reading
from fabric.model.topology import Topology
from fabric.ports import Ended, Executor, Happening, Lost, Ready, Ticket
from fabric.probes.kinds import KINDS
from fabric.probes.shapes import ended_by

WORDS = ("echo", "present")
"""What each host is asked to say in the roll call; any program that exists everywhere would do."""

NAME_WORDS = ("uname", "-n")
"""What each host is asked for its own name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\n", re.ASCII)

ANSWER_S = 15.0
"""A host that does not answer within this is missing (seconds); a choice, as long as a connection may take."""


def roll_call_problem(result: CommandResult, names: dict[str, str]) -> str:
    """
    Return what is wrong with a host's answer to the roll call, empty if it is there; its own name goes into *names*.

    A tool that runs on several hosts is started on one of them, and its words about a host that froze or died read like
    a bad fabric: a time-out, a broken connection. So a host that does not answer is blamed, and nothing is said of the
    fabric. A host that was asked for its name counts as there whatever it says.
    """
    host, stdout = result.command.host, result.stdout
    if result.command.argv == NAME_WORDS:
        if result.exit_status == 0 and _NAME.fullmatch(stdout):
            names[host] = stdout.rstrip("\n")
        return ""
    if (result.exit_status, stdout) == (0, f"{WORDS[1]}\n"):
        return ""
    return f"{host}: {' '.join(WORDS)}: exit {result.exit_status}: {(stdout or result.stderr)[:80]!r}"


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

    It is ``done`` when every command it started has ended or is lost, so nothing runs when its claims are released.
    *limit_s* bounds the time of every client (seconds), where that is less than its kind allows. *names*: names that
    hosts gave for themselves; its own hosts are added when its output needs them. *missing*: the first host that failed
    the roll call, and what it did instead.
    """

    probe: Probe
    topology: Topology
    executor: Executor
    attempt: int = 1
    limit_s: float = inf
    names: dict[str, str] = field(default_factory=dict)
    deadline_s: float | None = None
    tickets: list[Ticket] = field(default_factory=list)
    missing: tuple[str, str] | None = None
    _read: Reading | None = None
    _commands: ProbeCommands = field(init=False)
    _before: list[Ticket] = field(default_factory=list)  # what reads counters before the servers start
    _servers: list[Ticket] = field(default_factory=list)
    _clients: list[Ticket] = field(default_factory=list)
    _after: list[Ticket] = field(default_factory=list)
    _ready: int = 0
    _open: dict[Ticket, Command] = field(default_factory=dict)
    _unanswered: set[Ticket] = field(default_factory=set)  # cancelled or lost: what they printed is no answer
    _printed: dict[Ticket, CommandResult] = field(default_factory=dict)
    _error: ExecutorError | None = None
    _given_up: tuple[str | None, str] | None = None  # a host, if it is one's fault, and what was waited for in vain
    _called: bool = False  # whether the roll was called
    _started_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._commands = ProbeCommands((), Command(self.probe.hosts[0], (), 0.0))
        self._started_s = self.executor.now()

    @property
    def done(self) -> bool:
        """Whether nothing of it is left running."""
        return not self._open

    @property
    def lost_midway(self) -> bool:
        """Whether a session was lost under it and nothing else is known: no tool has answered."""
        return isinstance(self._error, SessionLost) and not self._answers(self._clients[:1] + self._servers)

    @property
    def outputs(self) -> tuple[CommandResult, ...]:
        """Everything its commands printed, client first."""
        client = self._clients[:1]
        return tuple(self._printed[ticket] for ticket in sorted(self._printed, key=lambda one: one not in client))

    def begin(self) -> list[Ticket]:
        """Start the servers, or the client at once if there are none; return the tickets to listen for."""
        try:
            self._commands = KINDS[self.probe.kind].commands(self.probe, self.topology)
        except MemoryError:
            raise  # the next probe would have no memory either
        except Exception as exc:  # noqa: BLE001 - a crash of ours is an ERROR of this probe, never of the run
            self._given_up = self.probe.hosts[0], f"its command cannot be built: {type(exc).__name__}: {exc}"
            return []
        clients = (self._commands.client, *self._commands.beside)
        client, *beside = (replace(one, timeout_s=min(one.timeout_s, self.limit_s)) for one in clients)
        self._commands = replace(self._commands, client=client, beside=tuple(beside))
        self._before = self._start(self._commands.counters)
        return self._before or self._begin()

    def _begin(self) -> list[Ticket]:
        if not self._commands.servers:
            return self._start_clients()
        self.deadline_s = self.executor.now() + SERVER_READY_S
        self._servers = self._start(self._commands.servers)
        return self._servers

    def take(self, happening: Happening) -> list[Ticket]:
        """Advance by one happening; return the tickets of what was started because of it, such as the client."""
        if isinstance(happening, Ready):
            self._ready += 1
            if self._ready == len(self._commands.servers) and self._may_start_client():
                self.deadline_s = None
                return self._start_clients()
            return []
        command = self._open.pop(happening.ticket)
        if isinstance(happening, Ended):
            self._printed[happening.ticket] = happening.result
        if self._called:
            self._answered(command.host, happening)
        elif isinstance(happening, Ended):
            self._ended(happening.ticket)
        elif happening.ticket not in self._after:
            self._lost(command, happening)
        return [] if self._open else self._go_on()

    def _go_on(self) -> list[Ticket]:
        """Begin the next step, if any, now that nothing of the probe runs."""
        if not self._servers and not self._clients:  # only counters were read so far
            return [] if self._error or self._given_up else self._begin()
        if self._commands.counters and not self._after and self._measured() and not self._given_up:
            self._after = self._start(self._commands.counters)
            return self._after
        return self._call_the_roll() if self._is_doubtful() else []

    def _is_doubtful(self) -> bool:
        """
        Return whether the hosts must be asked once more: for a word, or for their names.

        That is so when the probe ended badly on several hosts and it is not known whether all are there, or when its
        output has names that may be the hosts' own.
        """
        if self._called or self._given_up or isinstance(self._error, HostUnreachable):
            return False
        reading = self._reading()
        return reading.ask_names or (len(self.probe.hosts) > 1 and reading.outcome is not None)

    def _call_the_roll(self) -> list[Ticket]:
        """Ask its hosts for one word, or for their names."""
        words = NAME_WORDS if self._reading().ask_names else WORDS
        self._called, self._read = True, None
        return self._start([Command(host, words, ANSWER_S) for host in self.probe.hosts])

    def _answered(self, host: str, happening: Ended | Lost) -> None:
        """Take one host's answer to the roll call."""
        if happening.ticket in self._unanswered:
            return
        why = str(happening.error) if isinstance(happening, Lost) else roll_call_problem(happening.result, self.names)
        if why and self.missing is None:
            self.missing = host, why

    def overdue(self) -> None:
        """End what is still running, because the deadline passed."""
        self.deadline_s = None
        if not self._clients:
            self._given_up = self._commands.servers[0].host, f"the server did not listen within {SERVER_READY_S:g} s"
        elif self._measured() and not self._given_up:
            why = f"the server did not end within {SERVER_END_S:g} s of its client: another may have answered"
            self._given_up = self._commands.servers[0].host, why
        self._cancel_open()

    def abandon(self, host: str | None, reason: str) -> None:
        """
        End the probe without waiting for its deadline: this host of it is out of the run, or (None) its phase is over.
        """
        if self._error is None and not self._given_up:
            self._given_up = host, reason if host is None else f"given up: {reason}"
        self.deadline_s = None
        self._cancel_open()

    def result(self) -> ProbeResult:
        """Return how the probe ended."""
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
        if self._given_up:
            return Reading((), Outcome.ERROR, ": ".join(filter(None, self._given_up)))
        if self._read is None or not self.done:
            answered = Answered(
                servers=self._answers(self._servers),
                client=next(iter(self._answers(self._clients[:1])), None),
                names=self.names,
                beside=self._answers(self._clients[1:]),
                before=self._answers(self._before),
                after=self._answers(self._after),
            )
            try:
                self._read = KINDS[self.probe.kind].read(self.probe, self.topology, answered)
            except MemoryError:
                raise
            except Exception as exc:  # noqa: BLE001 - a crash of ours is an ERROR of this probe, never of the run
                self._read = Reading((), Outcome.ERROR, f"reading the output failed: {type(exc).__name__}: {exc}")
        return self._read

    def _answers(self, tickets: Iterable[Ticket]) -> list[CommandResult]:
        """Return the results of those of these commands that ended by themselves."""
        return [self._printed[one] for one in tickets if one in self._printed and one not in self._unanswered]

    def _why_so_soon(self) -> str:
        """Return the note that a deadline was shorter than the planned one; empty if it was not."""
        if not isinstance(self._error, CommandTimeout) or self._commands.client.timeout_s != self.limit_s:
            return ""
        return f", which is more than {LONGEST_FACTOR:g} times what it took in earlier rounds"

    def _error_host(self) -> str | None:
        """Return the host that the error belongs to; None when several hosts all answered and no single one hung."""
        if self._called and len(self.probe.hosts) > 1:
            return self._hung() if self.missing is None else self.missing[0]
        if isinstance(self._error, HostUnreachable | CommandTimeout):
            return self._error.host
        return self._given_up[0] if self._given_up else self.probe.hosts[0]

    def _hung(self) -> str | None:
        """
        Return the host of the only client (of three or more) that did not end by itself; None if there is no such one.
        """
        started = zip(self._clients, (self._commands.client, *self._commands.beside), strict=False)
        left = [command.host for ticket, command in started if not self._answers([ticket])]
        return left[0] if len(left) == 1 and len(self._clients) > 2 else None

    def _silent(self) -> NamedPart | None:
        """Return the host that is known not to answer, or not to let us in."""
        if self.missing is not None and len(self.probe.hosts) > 1:
            return NamedPart(self.missing[0], "silent")
        if isinstance(self._error, HostUnreachable):
            return NamedPart(self._error.host, self._error.condition)
        return None

    def _may_start_client(self) -> bool:
        return self._error is None and not self._answers(self._servers) and not self._unanswered

    def _start(self, commands: Iterable[Command]) -> list[Ticket]:
        started = []
        for command in commands:
            ticket = self.executor.start(command)
            self._open[ticket] = command
            started.append(ticket)
        self.tickets += started
        return started

    def _start_clients(self) -> list[Ticket]:
        self._clients = self._start((self._commands.client, *self._commands.beside))
        return self._clients

    def _measured(self) -> bool:
        """Return whether every client answered well."""
        answers = self._answers(self._clients)
        return 0 < len(answers) == len(self._clients) and all(one.exit_status == 0 for one in answers)

    def _ended(self, ticket: Ticket) -> None:
        if ticket in self._servers and not self._clients:
            self._cancel_open()
        elif ticket in self._clients and self._open and self._open.keys().isdisjoint(self._clients):
            grace_s = SERVER_END_S if self._measured() else SERVER_END_AFTER_FAILURE_S
            self.deadline_s = self.executor.now() + grace_s

    def _lost(self, command: Command, happening: Lost) -> None:
        ticket, error = happening.ticket, happening.error
        if isinstance(error, CommandTimeout):
            self._printed[ticket] = CommandResult(
                command, 124, error.stdout, error.stderr, self._started_s, happening.at_s
            )
        # A server lost after its client answered well takes nothing from what was measured, and a client may wait for
        # one that was killed until its own deadline.
        waited_in_vain = isinstance(error, CommandTimeout) and any(map(ended_by, self._answers(self._servers)))
        if self._error is None and ticket not in self._unanswered and not self._measured() and not waited_in_vain:
            self._error = error
        self._unanswered.add(ticket)
        self._cancel_open()

    def _cancel_open(self) -> None:
        for ticket in [one for one in self._open if one not in self._unanswered]:
            self._unanswered.add(ticket)
            self.executor.cancel(ticket)


class Timers:
    """Wakes probes whose deadline has come; a deadline that the probe has changed since is void."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ProbeRun]] = []
        self._number = 0

    @property
    def next_s(self) -> float:
        """The soonest deadline, in executor's seconds; infinite when there is none."""
        return self._heap[0][0] if self._heap else inf

    def arm(self, run: ProbeRun) -> None:
        """Note the present deadline of a probe, if it has one."""
        if run.deadline_s is not None:
            self._number += 1
            heapq.heappush(self._heap, (run.deadline_s, self._number, run))

    def fire(self, now_s: float) -> None:
        """Call ``overdue`` on every probe whose deadline has come; the commands it ends are reported later."""
        while self._heap and self._heap[0][0] <= now_s:
            due_s, _, run = heapq.heappop(self._heap)
            if run.deadline_s == due_s and not run.done:
                run.overdue()
