"""What a simulated host lets the outside see: a server listens, a process ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listening:
    """A process now accepts connections on its TCP port."""

    pid: int
    port: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Exited:
    """A process ended; *exit_status* as a shell says it (128 + N after signal N)."""

    pid: int
    at_s: float
    exit_status: int
    stdout: str
    stderr: str


Happened = Listening | Exited
