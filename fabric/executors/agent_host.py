"""How one host stands with us: apart, being connected to, joined, or without an agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from fabric.executors.agent_session import AgentSession, Order
from fabric.ports import Ticket


class Standing(Enum):
    """Whether there is a stream to a host's agent."""

    APART = "apart"
    CONNECTING = "connecting"
    JOINED = "joined"
    PLAIN = "plain"  # no agent can be started there


@dataclass(slots=True)
class AgentHost:
    """One host; used by the dispatcher's thread only. *waiting* is what will be begun once its agent has said hello."""

    name: str
    standing: Standing = Standing.APART
    session: AgentSession | None = None
    waiting: dict[Ticket, Order] = field(default_factory=dict)
    watched: set[int] = field(default_factory=set)
    greet_until_s: float = 0.0
    connected_before: bool = False
    plain_works: bool = False
    no_agent: str = ""
