"""Hosts reached through an agent each: one stream per host for everything, one thread for all hosts."""

from __future__ import annotations

import random
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from fabric.agent.bundle import receiving_argv
from fabric.errors import HostUnreachable
from fabric.executors.agent_host import BLOCKED_TICK_S, HELLO_S, IDLE_TICK_S, TICK_S, AgentHost, Standing
from fabric.executors.agent_order import GRACE_S, Order
from fabric.executors.agent_session import SILENCE_S, AgentSession
from fabric.executors.dispatcher import Dispatcher
from fabric.executors.mailbox import Mailbox
from fabric.executors.remote_shell import environed
from fabric.executors.start_time import check_start
from fabric.executors.stream import Stream
from fabric.executors.threaded import ThreadedExecutor
from fabric.executors.workers import Workers
from fabric.model.command import Command
from fabric.ports import Ended, Happening, Lost, Sampled, Source, Ticket

_WORKERS = 96  # at once being connected to; a host that is down takes one for the connect timeout (choice)
_TRIES = 2


class AgentExecutor(ABC):
    """
    An Executor and Sampler over agents; subclasses say how a stream to one is opened.

    A host on which no agent can be started is served by *plain* instead, which is remembered as soon as that works.
    """

    _final: type[HostUnreachable] = HostUnreachable  # after such an error reconnecting is not tried again

    def __init__(self, plain: ThreadedExecutor) -> None:
        self._plain = plain
        plain.tell = self._plain_told
        self._dispatcher = Dispatcher(tick=self._tick, settle=self._settle)
        self._mailbox, self._workers = Mailbox(), Workers(_WORKERS)
        self._tickets, self._closed = 0, False
        self._closing, self._drained = threading.Event(), threading.Event()
        # All that follows belongs to the dispatcher's thread.
        self._hosts: dict[str, AgentHost] = {}
        self._open: dict[Ticket, AgentHost] = {}
        self._fresh: list[Happening] = []
        self._to_flush: dict[str, AgentHost] = {}

    @abstractmethod
    def _stream(self, host: str, argv: tuple[str, ...], arrived: Callable[[], None]) -> Stream:
        """
        Start *argv* on a host, feed it the agent's program, and return the stream; may block for a bounded time.

        *arrived* is to be called, from any thread, when there may be something to read, unless the stream has
        descriptors for that. Raises HostUnreachable.
        """

    def _interrupt(self) -> None:
        """Make every ``_stream`` that blocks fail soon; called by ``close``."""
        return

    now = staticmethod(time.monotonic)
    """Seconds of the machine's monotonic clock."""

    def start(self, command: Command) -> Ticket:
        """Begin a command; raises ValueError for one that no host could run."""
        environed(command)
        check_start(command, self.now())
        return self._order(Order(0, command.host, command))

    def start_sampling(self, host: str, sources: Sequence[Source], period_s: float) -> Ticket:
        """Begin to sample; see ``ports.Sampler``."""
        return self._order(Order(0, host, None, tuple(sources), period_s))

    def stop_sampling(self, ticket: Ticket) -> None:
        """End a sampling."""
        self.cancel(ticket)

    def cancel(self, ticket: Ticket) -> None:
        """End a command and everything it started; its Ended or Lost still arrives. Unknown tickets are ignored."""
        if not self._closed:
            self._dispatcher.post(partial(self._cancel, ticket))

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Block until something happened or the clock reads *until_s*; return all that happened, oldest first."""
        return self._mailbox.wait(until_s)

    def samples(self) -> Sequence[Sampled]:
        """All rows that have arrived since the last call, oldest first."""
        return self._mailbox.samples()

    def wake(self) -> None:
        """Let ``wait`` return; a signal handler may ask for it."""
        self._mailbox.wake()

    def close(self) -> None:
        """End every command, wait until the hosts say so or their time is over, then let go of all connections."""
        if self._closed:
            return
        self._closed = True
        self._dispatcher.post(self._cancel_all)
        self._drained.wait(GRACE_S + 1)
        self._closing.set()
        self._interrupt()
        self._plain.close()
        self._dispatcher.post(self._let_go)
        self._workers.join(2 * GRACE_S)
        self._dispatcher.close(GRACE_S)
        self._workers.join(GRACE_S)  # streams that were opened too late are closed too

    def _order(self, order: Order) -> Ticket:
        if self._closed:
            raise ValueError("the executor is closed")
        self._tickets += 1
        order.ticket = self._tickets
        self._dispatcher.post(partial(self._take, order))
        return order.ticket

    def _take(self, order: Order) -> None:
        host = self._hosts.get(order.host)
        if host is None:
            host = self._hosts[order.host] = AgentHost(order.host)
        self._open[order.ticket] = host
        self._begin(host, order)

    def _begin(self, host: AgentHost, order: Order) -> None:
        """Have the agent do it, or whoever stands in for it; connect first where need be."""
        if host.standing is Standing.PLAIN:
            self._begin_plain(host, order)
            return
        session = host.session
        if session is not None and session.hello is not None:
            if session.busy or session.stream.alive():
                session.begin(order)
                self._to_flush[host.name] = host
                self._dispatcher.tick_by(self.now() + TICK_S)
                return
            session.abandon("connection lost")
            self._ended(host, session)
        host.waiting[order.ticket] = order
        if host.standing is Standing.APART:
            host.standing = Standing.CONNECTING
            again = host.connected_before
            self._workers.submit(lambda: self._connect(host, again=again))

    def _begin_plain(self, host: AgentHost, order: Order) -> None:
        if order.command is not None:
            self._plain.carry(order.ticket, order.command)
            return
        self._tell(Lost(order.ticket, host.cannot_sample(), self.now()))

    def _connect(self, host: AgentHost, *, again: bool) -> None:
        """In a worker: open a stream, once more if the last one had worked; whatever comes of it is posted."""
        argv = receiving_argv(nonce := secrets.token_hex(16), SILENCE_S)
        arrived = partial(self._dispatcher.post, partial(self._arrived, host))
        try:
            try:
                stream = self._stream(host.name, argv, arrived)
            except HostUnreachable as exc:
                if not again or isinstance(exc, self._final) or self._closing.wait(random.uniform(0.2, 1.0)):
                    raise
                stream = self._stream(host.name, argv, arrived)
        except HostUnreachable as exc:
            self._dispatcher.post(partial(self._failed, host, exc))
        except BaseException:  # a defect of ours: the commands are told, the traceback goes to threading.excepthook
            defect = HostUnreachable(host.name, "starting the agent", "the testbench itself failed")
            self._dispatcher.post(partial(self._failed, host, defect))
            raise
        else:
            self._dispatcher.post(partial(self._connected, host, stream, nonce))

    def _failed(self, host: AgentHost, error: HostUnreachable) -> None:
        host.standing = Standing.APART
        for ticket in host.waiting:
            self._tell(Lost(ticket, type(error)(host.name, error.step, error.cause), self.now()))
        host.waiting.clear()

    def _connected(self, host: AgentHost, stream: Stream, nonce: str) -> None:
        host.standing = Standing.JOINED
        session = AgentSession(host.name, stream, nonce, tell=self._tell, now=self.now)
        host.session, host.greet_until_s = session, self.now() + HELLO_S
        host.readable = partial(self._arrived, host)
        self._dispatcher.tick_by(self.now() + TICK_S)
        if self._closing.is_set():
            session.abandon("the testbench is closing")
        self._arrived(host)

    def _arrived(self, host: AgentHost) -> None:
        session = host.session
        if session is None:
            return
        try:
            session.arrived()
        except BaseException:  # a defect of ours; the dispatcher tells it
            session.abandon("the testbench itself failed")
            self._ended(host, session)
            raise
        if (fds := session.stream.fds()) != host.watched:
            self._watch(host, fds)
        if session.failure:
            self._ended(host, session)
        elif session.hello is not None and host.waiting:
            waiting, host.waiting = host.waiting, {}
            host.connected_before = True
            for order in waiting.values():
                self._begin(host, order)

    def _watch(self, host: AgentHost, fds: tuple[int, ...]) -> None:
        """Have ``_arrived`` called when one of *fds* is readable, and for no others."""
        for fd in set(host.watched) - set(fds):
            self._dispatcher.unwatch(fd, host.readable)
        for fd in set(fds) - set(host.watched):
            self._dispatcher.watch(fd, host.readable)
        host.watched = fds

    def _ended(self, host: AgentHost, session: AgentSession) -> None:
        """The session is over: what had not been sent is begun anew, once; without an agent, as plain commands."""
        self._watch(host, ())
        self._workers.submit(session.stream.close)
        for order in host.part(session):
            order.tries += 1
            if order.tries > _TRIES or self._closed:
                error = HostUnreachable(host.name, f"starting {order.tool}", session.failure)
                self._tell(Lost(order.ticket, error, self.now()))
            else:
                self._begin(host, order)

    def _cancel(self, ticket: Ticket) -> None:
        host = self._open.get(ticket)
        if host is None:
            return
        if (order := host.waiting.pop(ticket, None)) is not None:
            error = HostUnreachable(host.name, f"starting {order.tool}", "cancelled before it began")
            self._tell(Lost(ticket, error, self.now()))
        elif host.session is not None and host.session.knows(ticket):
            if host.session.cancel(ticket):
                del self._open[ticket]
            self._dispatcher.tick_by(self.now() + TICK_S)
        else:
            self._plain.cancel(ticket)

    def _cancel_all(self) -> None:
        for ticket in list(self._open):
            self._cancel(ticket)

    def _let_go(self) -> None:
        for host in self._hosts.values():
            if host.session is not None:
                host.session.give_up("the testbench is closing")
                self._ended(host, host.session)

    def _tick(self, now_s: float) -> float:
        """Deadlines and heartbeats of all hosts; returns when to look again."""
        pause_s = IDLE_TICK_S
        for host in self._hosts.values():
            session = host.session
            if session is not None:
                pause_s = min(pause_s, host.tick(session, now_s))
                if session.failure:
                    self._ended(host, session)
        return now_s + pause_s

    def _settle(self) -> None:
        """At the end of a pass: send what was asked, together; tell what happened, together."""
        while self._to_flush:
            _, host = self._to_flush.popitem()
            session = host.session
            if session is not None:
                session.flush()
                if session.failure:
                    self._ended(host, session)
                elif session.blocked:
                    self._dispatcher.tick_by(self.now() + BLOCKED_TICK_S)
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
            self._open.pop(happening.ticket, None)
        self._fresh.append(happening)

    def _plain_told(self, happening: Happening) -> None:
        """From a thread of the plain executor."""
        self._dispatcher.post(partial(self._note_plain, happening))

    def _note_plain(self, happening: Happening) -> None:
        if (host := self._open.get(happening.ticket)) is not None:
            host.note_plain(happening)
        self._tell(happening)
