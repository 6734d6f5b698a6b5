"""What the engine needs from the outside world, as protocols; the adapters are in executors/ and store/."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fabric.errors import ExecutorError
from fabric.model.command import Command, CommandResult

Ticket = int
"""Stands for one started command until it ends."""


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


Happening = Ready | Ended | Lost


class Executor(Protocol):
    """
    Runs commands on hosts, many at a time, and owns the clock.

    ``start`` never blocks on a host and never raises for one: every started command yields exactly one Ended or
    Lost (and before it at most one Ready, if it has a ``ready_port``). A non-zero exit is an answer (Ended).
    Only transport trouble and the deadline are Lost. Not thread-safe: one engine drives it.
    """

    def now(self) -> float:
        """Seconds of this executor's clock, real or simulated; never goes back."""
        ...

    def start(self, command: Command) -> Ticket:
        """Begin a command; what becomes of it arrives through ``wait``."""
        ...

    def cancel(self, ticket: Ticket) -> None:
        """End a command and everything it started; its Ended or Lost still arrives. Unknown tickets are ignored."""
        ...

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Block until something happened or the clock reads *until_s*; return all that happened, oldest first."""
        ...

    def close(self) -> None:
        """End everything that was started and let go of every connection; safe to call twice."""
        ...
