"""A session with an agent that says what a test tells it to."""

import json
from collections.abc import Callable
from typing import Any

from fabric.hosts.agent.session import AgentSession
from fabric.hosts.stream import Request
from fabric.model.probe import Command
from fabric.ports import Happening, Sampled

NONCE = "abc"
HELLO = {"e": "hello", "t": 100.0}


class FakeStream:
    """Says what it is told to, and remembers what was written."""

    def __init__(self) -> None:
        self.said: list[bytes | None] = []
        self.written = b""
        self.abandoned = ""

    def announce(self, arrived: Callable[[], None]) -> None:
        """Nobody waits."""

    def end(self) -> None:
        """Nothing runs."""

    def fds(self) -> tuple[int, ...]:
        """None."""
        return ()

    def write(self, data: bytes) -> int:
        """Take it all."""
        self.written += data
        return len(data)

    def read(self) -> tuple[bytes, bytes] | None:
        """The next piece."""
        said = self.said.pop(0) if self.said else b""
        return None if said is None else (said, b"")

    def alive(self) -> bool:
        """Always."""
        return True

    def epitaph(self, program: str) -> str:
        """Nothing special."""
        return "connection lost"

    def abandon(self, why: str) -> None:
        """Remember why."""
        self.abandoned = why

    def close(self) -> None:
        """Nothing to do."""


class Conversation:
    """A session over a fake stream, with a clock that only we move."""

    def __init__(self, *, greeted: bool = True) -> None:
        self.stream, self.told, self.now_s = FakeStream(), [], 1000.0
        self.session = AgentSession("h", self.stream, NONCE, tell=self.tell, now=lambda: self.now_s)
        if greeted:
            self.hear(HELLO, lead=f"fabric-agent-{NONCE} ")

    told: list[Happening | Sampled]

    def tell(self, happening: Happening | Sampled) -> None:
        """Remember what happened."""
        self.told.append(happening)

    def hear(self, *messages: dict[str, Any], lead: str = "") -> None:
        """Messages arrive."""
        self.bytes(lead.encode() + b"".join(json.dumps(one).encode() + b"\n" for one in messages))

    def bytes(self, *pieces: bytes | None) -> None:
        """Pieces arrive; None is the end."""
        self.stream.said += pieces
        self.session.arrived()

    def begin(self, ticket: int, **more: Any) -> Command:
        """Ask for a command."""
        command = Command("h", ("true",), 5.0, **more)
        self.session.begin(Request(ticket, "h", command))
        self.session.flush()
        return command


def end(ticket: int, **more: Any) -> dict[str, Any]:
    """A command's end."""
    return {"e": "ended", "id": ticket, "status": 0, "why": "ended", "t0": 101.0, "t1": 102.0, "out": "", **more}


def said(error: Exception) -> str:
    """Its words."""
    return str(error)
