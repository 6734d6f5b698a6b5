"""How one host stands with us: apart, being connected to, joined, or without an agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from fabric.errors import HostUnreachable
from fabric.executors.agent_order import Order
from fabric.executors.agent_session import AgentSession
from fabric.ports import Ended, Happening, Lost, Ticket

HELLO_S = 20.0
"""A host has so long to start Python; choice: many times what a busy file server takes."""

TICK_S = 0.25
"""How late a deadline may be kept."""
BLOCKED_TICK_S = 0.05
"""How soon it is tried again to send what could not be sent."""
IDLE_TICK_S = 5.0


class Standing(Enum):
    """Whether there is a stream to a host's agent."""

    APART = "apart"
    CONNECTING = "connecting"
    JOINED = "joined"
    PLAIN = "plain"  # no agent can be started there


def _nothing() -> None:
    """Nobody watches."""


@dataclass(slots=True)
class AgentHost:
    """
    One host; used by the dispatcher's thread only.

    *waiting* is what will be begun once its agent has said hello, *readable* what is done when one of *watched* is.
    """

    name: str
    standing: Standing = Standing.APART
    session: AgentSession | None = None
    waiting: dict[Ticket, Order] = field(default_factory=dict)
    watched: tuple[int, ...] = ()
    readable: Callable[[], None] = _nothing
    greet_until_s: float = 0.0
    connected_before: bool = False
    plain_works: bool = False
    no_agent: str = ""

    def tick(self, session: AgentSession, now_s: float) -> float:
        """Keep the session's deadlines, and that of its first word; returns in how long to do so again."""
        session.tick(now_s)
        if session.hello is None and now_s >= self.greet_until_s and not session.failure:
            session.give_up("its python3 said nothing in time")
        if session.blocked:
            return BLOCKED_TICK_S
        return TICK_S if session.busy or session.hello is None else IDLE_TICK_S

    def part(self, session: AgentSession) -> list[Order]:
        """The session is over; returns what is to be begun in another way. One that never said hello was no agent."""
        orders = [*self.waiting.values(), *session.unsent]
        self.session, self.standing, self.waiting = None, Standing.APART, {}
        if session.hello is None:
            self.standing = Standing.PLAIN
            self.no_agent = session.failure + (f"; it said: {session.preamble[:200]}" if session.preamble else "")
        return orders

    def note_plain(self, happening: Happening) -> None:
        """A plain command has ended: if the first cannot reach the host either, it was not for want of Python."""
        if self.plain_works:
            return
        self.plain_works = isinstance(happening, Ended)
        if isinstance(happening, Lost) and isinstance(happening.error, HostUnreachable):
            self.standing = Standing.APART

    def cannot_sample(self) -> HostUnreachable:
        """Why nothing is sampled here."""
        cause = f"sampling needs an agent, and none can be started: {self.no_agent}"
        return HostUnreachable(self.name, "sampling", cause)
