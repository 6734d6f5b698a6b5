"""What a host is asked for, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.executors.sampled_rows import SampledRows
from fabric.model.command import Command
from fabric.ports import Source, Ticket

# The agent needs up to 4 s to end a session (2 s after TERM, 2 s after KILL); the rest is for the way.
GRACE_S = 6.0


@dataclass(slots=True)
class Order:
    """A command or a sampling that somebody wants."""

    ticket: Ticket
    host: str
    command: Command | None
    sources: tuple[Source, ...] = ()
    period_s: float = 0.0
    tries: int = 0

    @property
    def tool(self) -> str:
        """What to call it, for people."""
        return "samples" if self.command is None else self.command.argv[0]


@dataclass(slots=True)
class Running:
    """An order that was sent: its answer so far, and by when the end is due."""

    order: Order
    sent_s: float
    begins_at: int  # where its request begins in all that is sent
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    due_s: float = 0.0
    cancelled: bool = False
    rows: SampledRows | None = None


def silence(running: Running) -> str:
    """Why a session is given up."""
    command, tool = running.order.command, running.order.tool
    if running.cancelled or command is None:
        return f"{tool} did not end within {GRACE_S:g} s of being cancelled"
    limit_s = command.timeout_s + GRACE_S
    return f"the host said nothing within {limit_s:g} s, {GRACE_S:g} s beyond the command's own deadline"
