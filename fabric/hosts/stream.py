"""A byte stream to a program on a host, and the conversation over it: the agent's messages, or one wrapped command."""

import resource
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fabric.errors import ExecutorError
from fabric.model.probe import Command
from fabric.ports import Happening, Lost, Sampled, Source, Ticket

# Ending a session on a host takes up to 4 s (2 s after TERM, 2 s after KILL); the rest is for the network.
GRACE_S = 6.0
TICK_S = 0.25
"""By how much a deadline may be late (seconds)."""

PIECES_PER_TURN = 16
"""Pieces read from one host before others have their turn."""

# Keepalive 5/2/3 notices a black-holed host in 11 s, TCP_USER_TIMEOUT one with unacknowledged data in 13 s. Without
# TCP_NODELAY each command waits 40 ms for a delayed acknowledgement. All measured with paramiko 5.1.
_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000),
)


def notice_loss(sock: socket.socket) -> None:
    """Set the socket options that detect a vanished peer and send each write at once."""
    for level, option, value in _OPTIONS:
        sock.setsockopt(level, option, value)


def raise_file_limit() -> None:
    """
    Raise the soft limit of open files: each connection takes one, and the usual 1,024 is too low for a large fabric.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


Tell = Callable[[Happening | Sampled], None]


class HostStream(Protocol):
    """
    Stdin, stdout and stderr of a program on a host, whatever carries them.

    Never blocks. One thread uses it, but ``close`` and ``epitaph`` may be called from others.
    """

    def announce(self, arrived: Callable[[], None]) -> None:
        """Call *arrived*, from any thread, when ``read`` may have something; not needed by a stream that has *fds*."""
        del arrived

    def fds(self) -> tuple[int, ...]:
        """Return descriptors that are readable when ``read`` has something; none if the stream announces that."""
        return ()

    def write(self, data: bytes) -> int:
        """
        Send what can be sent at once; return how many bytes. Raises OSError or EOFError when the stream has ended.
        """

    def read(self) -> tuple[bytes, bytes] | None:
        """Return what arrived on stdout and stderr, both empty if nothing did; None when nothing will ever come."""

    def end(self) -> None:
        """Close stdin, which makes the program on the host end what it runs."""

    def alive(self) -> bool:
        """Return False when the other side is known to be gone, even if nobody has read so far."""

    def epitaph(self, program: str) -> str:
        """Return why the stream of *program* ended, for people; may wait for a moment."""

    def abandon(self, why: str) -> None:
        """Cut the connection to the host because it no longer answers."""

    def close(self) -> None:
        """Release the stream; the host ends what it runs. May block for some seconds; safe to call twice."""


@dataclass(slots=True)
class Request:
    """A request to a host: a command, or a sampling where *command* is None."""

    ticket: Ticket
    host: str
    command: Command | None
    sources: tuple[Source, ...] = ()
    period_s: float = 0.0
    report_interval_s: float = 0.0
    tries: int = 0
    cancelled: bool = False

    @property
    def tool(self) -> str:
        """What to call it, for people."""
        return "samples" if self.command is None else self.command.argv[0]


class Conversation(ABC):
    """
    The exchange with a host over one stream; used by one thread only.

    Happenings and samples go to *tell*. Once ``failure`` is set the conversation is over.
    """

    def __init__(self, host: str, stream: HostStream, *, tell: Tell, now: Callable[[], float]) -> None:
        self.host, self.stream = host, stream
        self.failure = ""
        self._tell, self._now = tell, now

    @abstractmethod
    def arrived(self) -> bool:
        """Read what the host sent; return True if there may be more (one host's flood must not hold up the others)."""

    @abstractmethod
    def tick(self, now_s: float) -> float:
        """Enforce the deadlines; return in how many seconds to do so again."""

    @abstractmethod
    def give_up(self, why: str) -> None:
        """End the conversation, and leave the connection to the host as it is."""

    def abandon(self, why: str) -> None:
        """Give up on the host, and cut the connection to it."""
        self.stream.abandon(why)
        self.give_up(why)

    def _lose(self, ticket: Ticket, error: ExecutorError) -> None:
        self._tell(Lost(ticket, error, self._now()))


def unanswered(request: Request, *, cancelled: bool) -> str:
    """Return why a host is given up that did not report the end of a request."""
    if cancelled or request.command is None:
        return f"{request.tool} did not end within {GRACE_S:g} s of being cancelled"
    limit_s = request.command.timeout_s + GRACE_S
    return f"the host said nothing within {limit_s:g} s, {GRACE_S:g} s beyond the command's own deadline"
