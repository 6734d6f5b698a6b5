"""AgentExecutor: reaches each host through an agent, with one stream per host and one thread for all hosts.

A host on which no agent can be started gets plain commands instead: a stream for each, under the sh wrapper.
"""

import random
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from fabric.agent import program, receiving_argv
from fabric.errors import HostUnreachable
from fabric.hosts.agent.session import BLOCKED_S, SILENCE_S, AgentSession
from fabric.hosts.stream import GRACE_S, TICK_S, Conversation, HostStream, Request
from fabric.hosts.threads import Dispatcher, Mailbox, Workers
from fabric.hosts.wrapped import WrappedCommand, argv_with_env, shell_argv
from fabric.model.probe import Command
from fabric.ports import BATCH_S, Ended, Happening, Lost, Sampled, Source, Ticket

_WORKERS = 96  # most connects at once; a host that is down takes one for the connect timeout (choice)
_TRIES = 2
_IDLE_S = 5.0
_CLOSING = "the testbench is closing"


@dataclass(slots=True, eq=False)
class _Host:
    """
    The state of one host; only the dispatcher's thread uses it.

    *waiting*: requests that begin once there is a stream. *opening*: whether a stream is being opened. *plain*:
    commands with a stream of their own, a Request until it is open.
    """

    name: str
    agent: AgentSession | None = None
    waiting: dict[Ticket, Request] = field(default_factory=dict)
    opening: bool = False
    plain: dict[Ticket, WrappedCommand | Request] = field(default_factory=dict)
    connected_before: bool = False
    plain_works: bool = False
    no_agent: str = ""  # why no agent can be started there

    def conversations(self) -> list[Conversation]:
        """Return all conversations under way."""
        known = [self.agent, *self.plain.values()]
        return [one for one in known if isinstance(one, Conversation)]

    def note_plain(self, happening: Ended | Lost) -> None:
        """
        Note the end of a plain command. If the first one cannot reach the host either, Python was not the problem.
        """
        if not self.plain_works:
            self.plain_works = isinstance(happening, Ended)
            if isinstance(happening, Lost) and isinstance(happening.error, HostUnreachable):
                self.no_agent = ""


@dataclass(frozen=True, slots=True)
class _Opening:
    """What to start on a host and the conversation to hold with it; *request*: the command, if it is a plain one."""

    argv: tuple[str, ...]
    converse: Callable[[HostStream], AgentSession | WrappedCommand]
    request: Request | None = None
    stdin: bytes = b""
    limit_s: float | None = None
    again: bool = False


class AgentExecutor(ABC):
    """
    An Executor over streams; subclasses implement how one is opened.

    That a host has no agent is remembered once plain commands work there; without *agents* none is ever tried.
    """

    _final: type[HostUnreachable] = HostUnreachable  # after such an error connecting is not tried again
    _plain = True  # whether a command may have its own stream where no agent can be started

    def __init__(self, *, agents: bool = True) -> None:
        self._agents = agents
        self._mailbox, self._workers = Mailbox(), Workers(_WORKERS)
        self.samples, self.wake = self._mailbox.samples, self._mailbox.wake
        self._tickets, self._closed, self._later_s = 0, False, 0.0
        self._closing, self._drained = threading.Event(), threading.Event()
        # Only the dispatcher's thread uses what follows.
        self._hosts: dict[str, _Host] = {}
        self._open: dict[Ticket, _Host] = {}
        self._fresh: list[Happening] = []
        self._to_flush: dict[_Host, AgentSession] = {}
        self._watched: dict[Conversation, tuple[tuple[int, ...], Callable[[], None]]] = {}
        self._dispatcher = Dispatcher(tick=self._tick, settle=self._settle)

    @abstractmethod
    def _stream(self, host: str, argv: tuple[str, ...], stdin: bytes, limit_s: float | None) -> HostStream | None:
        """
        Start *argv* on a host, feed it *stdin*, and return the stream; None while the host takes no more streams.

        May block for *limit_s* in each step, or for a shorter limit of its own. Raises HostUnreachable.
        """

    def _interrupt(self) -> None:
        """Make every blocked ``_stream`` fail soon; called by ``close``."""
        return

    def now(self) -> float:
        """Return seconds of the machine's monotonic clock, counted from where the run began."""
        return time.monotonic() + self._later_s

    def go_on(self, at_s: float) -> None:
        """Set the clock to *at_s*; idle agents stay connected."""
        shifted = threading.Event()
        self._dispatcher.post(partial(self._shift, at_s - self.now(), shifted))
        shifted.wait(GRACE_S)

    def _shift(self, by_s: float, shifted: threading.Event) -> None:
        self._later_s += by_s
        for host in self._hosts.values():
            if host.agent is not None:
                host.agent.shift(by_s)
        shifted.set()

    def start(self, command: Command) -> Ticket:
        """Begin a command; raises ValueError for one that no host could run."""
        argv_with_env(command)
        return self._request(Request(0, command.host, command))

    def start_sampling(self, host: str, sources: Sequence[Source], period_s: float, batch_s: float = BATCH_S) -> Ticket:
        """Begin to sample; see ``ports.Executor``."""
        return self._request(Request(0, host, None, tuple(sources), period_s, batch_s))

    def cancel(self, ticket: Ticket) -> None:
        """End a command and everything it started, or a sampling; see ``ports.Executor``."""
        if not self._closed:
            self._dispatcher.post(partial(self._cancel, ticket))

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Block until something happened or the clock reads *until_s*; return all that happened, oldest first."""
        return self._mailbox.wait(until_s - self._later_s)

    def close(self) -> None:
        """End every command, wait until the hosts confirm it or time is up, then release all connections."""
        if self._closed:
            return
        self._closed = True
        self._dispatcher.post(self._cancel_all)
        self._drained.wait(GRACE_S + 1)
        self._closing.set()
        self._interrupt()
        self._dispatcher.post(self._let_go)
        self._workers.join(2 * GRACE_S)
        self._dispatcher.close(GRACE_S)
        self._workers.join(GRACE_S)  # close streams that were opened too late

    def _request(self, request: Request) -> Ticket:
        if self._closed:
            raise ValueError("the executor is closed")
        self._tickets += 1
        request.ticket = self._tickets
        self._dispatcher.post(partial(self._take, request))
        return request.ticket

    def _take(self, request: Request) -> None:
        host = self._hosts.get(request.host)
        if host is None:
            host = self._hosts[request.host] = _Host(request.host)
            if not self._agents:
                host.no_agent, host.plain_works = "agents are not wanted here", True
        self._open[request.ticket] = host
        self._begin(host, request)

    def _begin(self, host: _Host, request: Request) -> None:
        """Give a request to the agent, or connect first; without an agent a command gets a stream of its own."""
        session = host.agent
        if session is not None and session.hello is not None:
            if session.busy or session.stream.alive():
                session.begin(request)
                self._to_flush[host] = session
                self._dispatcher.tick_within(TICK_S)
                return
            session.abandon("connection lost")
            self._ended(host, session)
        if host.no_agent and (request.command is None or not self._plain):
            what, step = ("a command", f"starting {request.tool}") if request.command else ("sampling", "sampling")
            cause = f"{what} needs an agent, and none can be started: {host.no_agent}"
            self._lose(request, HostUnreachable(host.name, step, cause))
            return
        host.waiting[request.ticket] = request
        self._connect(host)

    def _connect(self, host: _Host) -> None:
        """Open a stream for waiting requests, one at a time: a dead host is not tried once for each command."""
        if host.opening or host.agent is not None or not host.waiting:
            return
        if not host.no_agent:
            opening = self._agent(host)
        else:
            request = host.waiting.pop(next(iter(host.waiting)))
            host.plain[request.ticket] = request
            opening = self._wrapped(request)
        host.opening = True
        self._workers.submit(partial(self._open_stream, host, opening))

    def _agent(self, host: _Host) -> _Opening:
        """Describe a stream to an agent; it is tried once more if an earlier agent had worked."""
        nonce = secrets.token_hex(16)
        session = partial(AgentSession, host.name, nonce=nonce, tell=self._tell, now=self.now)
        return _Opening(receiving_argv(nonce, SILENCE_S), session, stdin=program(), again=host.connected_before)

    def _wrapped(self, request: Request) -> _Opening:
        """Describe a stream to one plain command."""
        assert request.command is not None
        command, nonce = request.command, f"fabric-{secrets.token_hex(16)}"
        plain = partial(WrappedCommand, request, nonce=nonce, tell=self._tell, now=self.now)
        return _Opening(shell_argv(command, nonce), plain, request=request, limit_s=command.timeout_s + GRACE_S)

    def _open_stream(self, host: _Host, opening: _Opening) -> None:
        """Open a stream, in a worker; post the stream or the failure to the dispatcher."""
        start = partial(self._stream, host.name, opening.argv, opening.stdin, opening.limit_s)
        try:
            try:
                stream = start()
            except HostUnreachable as exc:
                if not opening.again or isinstance(exc, self._final) or self._closing.wait(random.uniform(0.2, 1.0)):
                    raise
                stream = start()
        except HostUnreachable as exc:
            self._dispatcher.post(partial(self._failed, host, opening.request, exc))
        except BaseException:  # a defect of ours: reported as Lost, its traceback goes to threading.excepthook
            defect = HostUnreachable(host.name, "starting a program", "the testbench itself failed")
            self._dispatcher.post(partial(self._failed, host, opening.request, defect))
            raise
        else:
            self._dispatcher.post(partial(self._opened, host, opening, stream))

    def _failed(self, host: _Host, request: Request | None, error: HostUnreachable) -> None:
        """Lose all requests that waited for a stream which could not be opened."""
        host.opening = False
        requests, host.waiting = [*([request] if request is not None else []), *host.waiting.values()], {}
        for one in requests:
            self._lose(one, type(error)(host.name, error.step, error.cause))
            host.plain.pop(one.ticket, None)

    def _opened(self, host: _Host, opening: _Opening, stream: HostStream | None) -> None:
        host.opening = False
        self._dispatcher.tick_within(TICK_S)
        if stream is None:  # no room for one more; tried again at the next tick
            if (request := opening.request) is not None:
                del host.plain[request.ticket]
                host.waiting = {request.ticket: request, **host.waiting}
                if request.cancelled:
                    self._cancel(request.ticket)
            return
        conversation = opening.converse(stream)
        if isinstance(conversation, AgentSession):
            host.agent = conversation
        else:
            host.plain[conversation.request.ticket] = conversation
            if conversation.request.cancelled:
                conversation.cancel()
        if self._closing.is_set():
            conversation.abandon(_CLOSING)
        arrived = partial(self._arrived, host, conversation)
        self._watched[conversation] = (), arrived
        stream.announce(partial(self._dispatcher.post, arrived))
        self._arrived(host, conversation)
        self._connect(host)

    def _arrived(self, host: _Host, conversation: Conversation) -> None:
        if conversation not in self._watched:
            return
        try:
            more = conversation.arrived()
        except BaseException:  # a defect of ours; the dispatcher reports it
            conversation.abandon("the testbench itself failed")
            self._ended(host, conversation)
            raise
        self._watch(conversation, conversation.stream.fds())
        if conversation.failure:
            self._ended(host, conversation)
        elif isinstance(conversation, AgentSession) and conversation.hello is not None and host.waiting:
            waiting, host.waiting = host.waiting, {}
            host.connected_before = True
            for request in waiting.values():
                self._begin(host, request)
        if more:
            self._dispatcher.post(partial(self._arrived, host, conversation))

    def _watch(self, conversation: Conversation, fds: tuple[int, ...]) -> None:
        """Have ``_arrived`` called when one of *fds* is readable, and for no other descriptor."""
        watched, arrived = self._watched[conversation]
        for fd in set(watched) - set(fds):
            self._dispatcher.unwatch(fd, arrived)
        for fd in set(fds) - set(watched):
            self._dispatcher.watch(fd, arrived)
        self._watched[conversation] = fds, arrived

    def _ended(self, host: _Host, conversation: Conversation) -> None:
        """Finish a conversation; requests that an agent was not sent begin anew, once, or as plain commands."""
        if conversation not in self._watched:
            return
        self._watch(conversation, ())
        del self._watched[conversation]
        self._workers.submit(partial(self._let_go_of, host, conversation.stream))
        if isinstance(conversation, WrappedCommand):
            del host.plain[conversation.request.ticket]
        elif isinstance(conversation, AgentSession):
            self._agent_ended(host, conversation)

    def _agent_ended(self, host: _Host, session: AgentSession) -> None:
        host.agent = None
        requests, host.waiting = [*host.waiting.values(), *session.unsent], {}
        if session.hello is None:  # it was no agent
            preamble = session.decoder.preamble[:200]
            host.no_agent = session.failure + (f"; it said: {preamble}" if preamble else "")
        for request in requests:
            request.tries += 1
            if request.tries > _TRIES or self._closed:
                self._lose(request, HostUnreachable(host.name, f"starting {request.tool}", session.failure))
            else:
                self._begin(host, request)

    def _let_go_of(self, host: _Host, stream: HostStream) -> None:
        """Close a stream, in a worker."""
        stream.close()
        self._dispatcher.post(partial(self._connect, host))

    def _cancel(self, ticket: Ticket) -> None:
        host = self._open.get(ticket)
        if host is None:
            return
        self._dispatcher.tick_within(TICK_S)
        if (request := host.waiting.pop(ticket, None)) is not None:
            self._lose(request, HostUnreachable(host.name, f"starting {request.tool}", "cancelled before it began"))
        elif isinstance(plain := host.plain.get(ticket), Request):
            plain.cancelled = True  # takes effect as soon as it has begun
        elif plain is not None:
            plain.cancel()
        elif host.agent is not None and host.agent.cancel(ticket):
            del self._open[ticket]

    def _lose(self, request: Request, error: HostUnreachable) -> None:
        self._tell(Lost(request.ticket, error, self.now()))

    def _cancel_all(self) -> None:
        for ticket in list(self._open):
            self._cancel(ticket)

    def _let_go(self) -> None:
        for host in self._hosts.values():
            for conversation in host.conversations():
                conversation.give_up(_CLOSING)
                self._ended(host, conversation)

    def _tick(self) -> float:
        """Check deadlines and heartbeats of all hosts; return in how many seconds to do so again."""
        now_s, pause_s = self.now(), _IDLE_S
        for host in self._hosts.values():
            for conversation in host.conversations():
                pause_s = min(pause_s, conversation.tick(now_s))
                if conversation.failure:
                    self._ended(host, conversation)
            self._connect(host)
            if host.waiting:
                pause_s = min(pause_s, TICK_S)
        return pause_s

    def _settle(self) -> None:
        """End a pass: send all new requests together, and report all happenings together."""
        while self._to_flush:
            host, session = self._to_flush.popitem()
            session.flush()
            if session.failure:
                self._ended(host, session)
            elif session.blocked:
                self._dispatcher.tick_within(BLOCKED_S)
        if self._fresh:
            fresh, self._fresh = self._fresh, []
            self._mailbox.put(fresh)
        if self._closed and not self._open:
            self._drained.set()

    def _tell(self, happening: Happening | Sampled) -> None:
        if isinstance(happening, Sampled):
            self._mailbox.put_samples(happening)
            return
        if isinstance(happening, Ended | Lost):
            host = self._open.pop(happening.ticket, None)
            if host is not None and happening.ticket in host.plain:
                host.note_plain(happening)
        self._fresh.append(happening)
