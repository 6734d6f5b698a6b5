"""What an agent can say, decoded; ``agent_protocol`` reads it. A *key* is the ticket of what it is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hello:
    """The agent is there. *clock_s* is its host's monotonic clock."""

    python: str
    pid: int
    clock_s: float


@dataclass(frozen=True, slots=True)
class Listens:
    """A server is ready."""

    key: int


@dataclass(frozen=True, slots=True)
class Printed:
    """A piece of a command's output."""

    key: int
    stderr: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Finished:
    """
    A command has ended; *why*: ended, deadline, inactive, cancelled, or stuck (it survives SIGKILL).

    *got* is how many bytes the agent had read by then.
    """

    key: int
    why: str
    exit_status: int
    began_s: float
    ended_s: float
    stdout: bytes
    stderr: bytes
    truncated: bool
    got: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The agent cannot do what was asked."""

    key: int
    cause: str


@dataclass(frozen=True, slots=True)
class Clock:
    """What the host's monotonic clock reads."""

    key: int
    clock_s: float


@dataclass(frozen=True, slots=True)
class Names:
    """The columns of the rows that follow."""

    key: int
    part: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as differences: 0 for a row without any, an integer to add, or a value in a list."""

    key: int
    part: int
    at_s: tuple[float, ...]
    rows: tuple[object, ...]
    lost: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """Sampling has ended as asked."""

    key: int


@dataclass(frozen=True, slots=True)
class Got:
    """How many bytes the agent has read so far."""

    count: int


@dataclass(frozen=True, slots=True)
class Bye:
    """The agent ends, and why."""

    cause: str


Message = Hello | Listens | Printed | Finished | Failed | Clock | Names | Rows | Stopped | Got | Bye
