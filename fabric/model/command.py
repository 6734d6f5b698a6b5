"""A command that runs on a host, and its result."""

from dataclasses import dataclass

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Command:
    """
    An argv that runs on a host, with a deadline.

    With *ready_port* it is a server: it is ready once it listens on that TCP port of its host. Output beyond
    *output_cap_bytes* (of each stream) is cut and marked.
    """

    host: str
    argv: tuple[str, ...]
    timeout_s: float
    env: tuple[tuple[str, str], ...] = ()
    ready_port: int | None = None
    output_cap_bytes: int = MIB


@dataclass(frozen=True, slots=True)
class CommandResult:
    """
    Everything a command answered; a non-zero exit is an answer, not an exception.

    *exit_status* of a program ended by signal N is 128 + N, as in a shell; of a missing tool it is 127. Times are
    seconds of the executor's clock. *truncated*: some output was cut.
    """

    command: Command
    exit_status: int
    stdout: str
    stderr: str
    started_s: float
    ended_s: float
    truncated: bool = False
