"""Protocols of the outside world that the engine needs; the adapters are in hosts/ and runs/."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fabric.errors import ExecutorError, HostUnreachable
from fabric.model.probe import Command, CommandResult

if TYPE_CHECKING:
    from fabric.model.inventory import Inventory

BATCH_S = 0.5
"""Default of *batch_s*: rows of samples that were read within so many seconds arrive together."""

Ticket = int
"""Identifies one started command until it ends."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A server listens on its *ready_port*."""

    ticket: Ticket
    at_s: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A command ended by itself, or after ``cancel``; everything it started is gone."""

    ticket: Ticket
    result: CommandResult


@dataclass(frozen=True, slots=True)
class Lost:
    """A command will never answer: host unreachable, session lost, deadline passed."""

    ticket: Ticket
    error: ExecutorError
    at_s: float


@dataclass(frozen=True, slots=True)
class Source:
    """
    Something to sample: a file pattern, or a tool.

    *path* names files that hold a number; ``*`` stands for what it does in a shell.
    *argv* is a tool that prints numbers; *form* says how: "pairs" (``name: 5``) or "csv" (a first row of names).
    Exactly one of *path* and *argv* is set.
    """

    path: str = ""
    argv: tuple[str, ...] = ()
    form: str = "pairs"


@dataclass(frozen=True, slots=True)
class Sampled:
    """
    Some rows of samples: at each of *at_s* (seconds of the executor's clock) the value of each of *names*.

    A value that could not be read is None; rows are missing if too many were waiting to be sent.
    """

    ticket: Ticket
    names: tuple[str, ...]
    at_s: tuple[float, ...]
    rows: tuple[tuple[int | float | None, ...], ...]


Happening = Ready | Ended | Lost


class Executor(Protocol):
    """
    Runs commands on hosts, many at a time, reads counters there again and again, and owns the clock.

    ``start`` never blocks on a host and never raises for one: every started command yields exactly one Ended or
    Lost (and before it at most one Ready, if it has a ``ready_port``). A non-zero exit is an answer (Ended).
    Only transport trouble and the deadline are Lost. Not thread-safe: one engine drives it.
    """

    def now(self) -> float:
        """Return this executor's clock in seconds, real or simulated; it never goes back."""

    def go_on(self, at_s: float) -> None:
        """
        Set the clock to *at_s*, where an interrupted run stopped; call it only while no command is running.

        A simulated rack lives on until then; the call itself takes no time.
        """

    def start(self, command: Command) -> Ticket:
        """Start a command; ``wait`` returns what becomes of it."""

    def cancel(self, ticket: Ticket) -> None:
        """
        End a command and everything it started; its Ended or Lost still arrives. Unknown tickets are ignored.

        For a sampling, rows that were read before still arrive, then nothing more.
        """

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Block until something happens or the clock reads *until_s*; return all that happened, oldest first."""

    def start_sampling(self, host: str, sources: Sequence[Source], period_s: float, batch_s: float = BATCH_S) -> Ticket:
        """
        Start to sample, at most once per 0.01 s; the rows of *batch_s* seconds arrive together.

        Never blocks and never raises for a host; a sampling that cannot go on is Lost, which ``wait`` returns.
        """

    def samples(self) -> Sequence[Sampled]:
        """Return all rows that have arrived since the last call, oldest first; ``wait`` returns when there are some."""

    def wake(self) -> None:
        """Make a ``wait`` that blocks return, now or when it is next called; a signal handler may call this."""

    def close(self) -> None:
        """End everything that was started and close every connection; safe to call twice."""


class MakeExecutor(Protocol):
    """A function that builds executors (``wiring.make_executor``)."""

    def __call__(self, backend: str, inventory: Inventory, seed: int = 0) -> Executor:
        """Return the executor of a backend, by name; raise ConfigError for an unknown name."""


@dataclass(frozen=True, slots=True)
class SchedulerNode:
    """The state of a scheduler's node: no job begins on a drained one; *reason* and *by* say why and who."""

    is_drained: bool
    reason: str = ""
    by: str = ""


class Nodes(Protocol):
    """
    The nodes of a scheduler called *name*; the ledger writes *lead* before the names of its nodes.

    Each method may raise ToolError, and ValueError for a word that cannot be sent to the scheduler; then nothing was
    sent.
    """

    name: str
    lead: str

    def node(self, host: str) -> SchedulerNode | None:
        """Return the state of a host's node; None if there is no such node."""

    def drain(self, host: str, reason: str) -> str:
        """Let no further job begin there; return the scheduler's complaint, empty if there was none."""

    def undrain(self, host: str) -> str:
        """End the drain, and nothing else; return the scheduler's complaint."""


# An executor answers by the deadline plus connecting (15 s by default, per hop) and its grace; this is longer than all.
_PATIENCE_S = 300.0


def run_once(executor: Executor, command: Command) -> CommandResult:
    """
    Start *command*, wait for its answer and return it; raise the ExecutorError it was lost with.

    Happenings of other commands are dropped: the executor must have none running.
    """
    ticket = executor.start(command)
    until_s = executor.now() + command.timeout_s + _PATIENCE_S
    while True:
        for happening in executor.wait(until_s):
            if happening.ticket == ticket and isinstance(happening, Ended):
                return happening.result
            if happening.ticket == ticket and isinstance(happening, Lost):
                raise happening.error
        if executor.now() >= until_s:
            executor.cancel(ticket)
            raise HostUnreachable(command.host, f"waiting for {command.argv[0]}", "the executor never answered")
