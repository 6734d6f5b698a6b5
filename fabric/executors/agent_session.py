"""The conversation with the agent of one host: commands and samplings under way, deadlines, and how all that ends."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from fabric.errors import CommandTimeout, ExecutorError, HostUnreachable, SessionLost
from fabric.executors.agent_messages import (
    Bye,
    Clock,
    Failed,
    Finished,
    Got,
    Hello,
    Listens,
    Message,
    Names,
    Printed,
    Rows,
    Stopped,
)
from fabric.executors.agent_order import GRACE_S, Order, Running, silence
from fabric.executors.agent_protocol import PING, Decoder, Garbled, key_request, sample_request, start_request
from fabric.executors.host_clock import HostClock
from fabric.executors.sampled_rows import SampledRows
from fabric.executors.start_time import begins_s
from fabric.executors.stream import Stream
from fabric.model.command import Command, CommandResult
from fabric.ports import Ended, Happening, Lost, Ready, Sampled, Ticket

SILENCE_S = 30.0
"""An agent that has something to do and hears nothing for so long ends it all."""
# Longer than TCP's keepalive takes (11 s): a word under way would put off its finding that a host has vanished.
PING_S = 13.0
_IDLE_PING_S = 75.0
# So much may be on the way to an agent that has not confirmed it: it fits into the buffers of both kernels, so that
# writing to a host that has frozen never blocks.
_WINDOW_BYTES = 32 << 10
_DEFECT = "the agent broke the protocol: "

Told = Callable[[Happening | Sampled], None]


class AgentSession:
    """
    One agent, from its first word to the end of its stream; used by one thread.

    What happens goes to *tell*. When ``failure`` is set the session is over; commands that had not been sent at all
    are then in ``unsent``, all others have been told Lost.
    """

    def __init__(self, host: str, stream: Stream, nonce: str, *, tell: Told, now: Callable[[], float]) -> None:
        self.host, self.stream = host, stream
        self.hello: Hello | None = None
        self.failure = ""
        self.unsent: list[Order] = []
        self.clock = HostClock()
        self._decoder = Decoder(nonce)
        self._tell, self._now = tell, now
        self._running: dict[Ticket, Running] = {}
        self._due: list[tuple[float, Ticket]] = []
        self._outgoing = bytearray()
        self._asked = self._sent = self._got = 0
        self._spoke_s = now()
        self._untimed: list[Order] = []  # to begin at a time, as soon as the host's clock is known
        self._bye = ""

    @property
    def busy(self) -> bool:
        """True while anything is under way."""
        return bool(self._running or self._untimed)

    @property
    def blocked(self) -> bool:
        """True when something waits to be sent."""
        return bool(self._outgoing)

    def begin(self, order: Order) -> None:
        """Ask for a command or a sampling; ``flush`` sends it, with all else that was asked meanwhile."""
        command = order.command
        if command is not None and command.start_at_s is not None and not self.clock.settled(self._now()):
            self._untimed.append(order)
            if len(self._untimed) == 1:
                self._ask_clock()
            return
        running = Running(order, self._now(), self._asked)
        self._running[order.ticket] = running
        if command is None:
            running.rows = SampledRows(order.ticket, self.clock)
            self._ask(sample_request(order.ticket, order.sources, order.period_s))
            return
        at_s = None if command.start_at_s is None else self.clock.there(command.start_at_s)
        self._ask(start_request(order.ticket, command, at_s=at_s))
        self._expect(running, begins_s(command, running.sent_s) + command.timeout_s + GRACE_S)

    def knows(self, ticket: Ticket) -> bool:
        """Whether something is under way under that ticket."""
        return ticket in self._running or any(order.ticket == ticket for order in self._untimed)

    def cancel(self, ticket: Ticket) -> bool:
        """End a command or a sampling; True for a sampling, of which nothing but rows will be told any more."""
        running = self._running.get(ticket)
        if running is None:
            self._cancel_untimed(ticket)
            return False
        if running.cancelled:
            return False
        running.cancelled = True
        self._ask(key_request("stop" if running.order.command is None else "cancel", ticket))
        self._expect(running, self._now() + GRACE_S)
        self.flush()
        return running.order.command is None

    def arrived(self) -> None:
        """Take in what the host has said."""
        while not self.failure:
            data = self.stream.read()
            if data is None:
                self._end(f"the agent ended: {self._bye}" if self._bye else self.stream.epitaph())
                return
            if not data:
                break
            try:
                for message in self._decoder.feed(data):
                    self._take(message)
            except Garbled as exc:
                self.abandon(_DEFECT + str(exc))
        if self._outgoing:
            self.flush()

    def flush(self) -> None:
        """Send what may be sent now."""
        while self._outgoing and not self.failure:
            room = _WINDOW_BYTES - (self._sent - self._got)
            if room <= 0:
                return
            try:
                count = self.stream.write(bytes(self._outgoing[:room]))
            except (OSError, EOFError):
                self._end(self.stream.epitaph())
                return
            if not count:
                return
            del self._outgoing[:count]
            self._sent += count
            self._spoke_s = self._now()

    def tick(self, now_s: float) -> None:
        """Keep the deadlines and the heartbeat."""
        while self._due and self._due[0][0] <= now_s and not self.failure:
            due_s, ticket = heapq.heappop(self._due)
            running = self._running.get(ticket)
            if running is not None and running.due_s == due_s:
                self.abandon(silence(running))
        silent_s = now_s - self._spoke_s
        if self.hello is not None and silent_s >= (PING_S if self.busy else _IDLE_PING_S):
            if self.busy:
                self._ask_clock()
            else:
                self._ask(PING)
        if self._outgoing:
            self.flush()

    def abandon(self, why: str) -> None:
        """Give up on the host."""
        self.stream.abandon(why)
        self._end(why)

    def give_up(self, why: str) -> None:
        """End the conversation, and leave the way to the host as it is."""
        self._end(why)

    @property
    def preamble(self) -> str:
        """What was said before the agent's first word."""
        return self._decoder.preamble

    def _ask(self, request: bytes) -> None:
        self._outgoing += request
        self._asked += len(request)

    def _expect(self, running: Running, due_s: float) -> None:
        """An answer is due; an earlier time stays."""
        if not running.due_s or due_s < running.due_s:
            running.due_s = due_s
            heapq.heappush(self._due, (due_s, running.order.ticket))

    def _end(self, cause: str) -> None:
        if self.failure:
            return
        self.failure = cause
        self.unsent += self._untimed
        self._untimed = []
        running, self._running = self._running, {}
        for one in running.values():
            if one.begins_at >= self._sent and not one.cancelled:
                self.unsent.append(one.order)
            elif one.order.command is not None or not one.cancelled:
                self._lose(one, SessionLost(self.host, f"waiting for {one.order.tool}", cause))

    def _lose(self, running: Running, error: ExecutorError) -> None:
        self._tell(Lost(running.order.ticket, error, self._now()))

    def _take(self, message: Message) -> None:
        match message:
            case Finished():
                self._note_got(message.got)
                running = self._running.get(message.key)
                if running is not None:  # else it had been given up
                    self._finished(running, message)
            case Got(count):
                self._note_got(count)
            case Hello():
                self.hello = message
                self.clock.heard(message.clock_s, self._now())
            case Clock(key, clock_s):
                self._told_clock(key, clock_s)
            case Bye(cause):
                self._bye = cause
            case _:
                running = self._running.get(message.key)
                if running is not None:
                    self._answered(running, message)

    def _note_got(self, count: int) -> None:
        self._got = max(self._got, min(count, self._sent))

    def _ask_clock(self) -> None:
        self._ask(key_request("clock", self.clock.ask(self._now())))

    def _told_clock(self, key: int, clock_s: float) -> None:
        self.clock.told(key, clock_s, self._now())
        if self._untimed and not self.clock.settled(self._now()):
            self._ask_clock()
            return
        untimed, self._untimed = self._untimed, []
        for order in untimed:
            self.begin(order)

    def _cancel_untimed(self, ticket: Ticket) -> None:
        for order in [one for one in self._untimed if one.ticket == ticket]:
            self._untimed.remove(order)
            error = HostUnreachable(self.host, f"starting {order.tool}", "cancelled before it began")
            self._tell(Lost(ticket, error, self._now()))

    def _answered(self, running: Running, message: Message) -> None:
        ticket, command = running.order.ticket, running.order.command
        match message:
            case Printed(_, stderr, data) if command is not None:
                self._printed(running, command, data, stderr=stderr)
            case Listens() if command is not None:
                self._tell(Ready(ticket, self._now()))
            case Failed(_, cause):
                del self._running[ticket]
                self._lose(running, HostUnreachable(self.host, f"starting {running.order.tool}", cause))
            case Names() | Rows() if running.rows is not None:
                sampled = running.rows.take(message)
                if sampled is not None:
                    self._tell(sampled)
            case Stopped() if running.rows is not None and running.cancelled:
                del self._running[ticket]
            case _:
                raise Garbled(f"{type(message).__name__} about {running.order.tool}")

    def _printed(self, running: Running, command: Command, data: bytes, *, stderr: bool) -> None:
        kept = running.stderr if stderr else running.stdout
        if len(kept) + len(data) > command.output_cap_bytes:
            raise Garbled(f"more output of {running.order.tool} than was asked for")
        kept += data

    def _finished(self, running: Running, end: Finished) -> None:
        command, ticket, now_s = running.order.command, running.order.ticket, self._now()
        if command is None:
            raise Garbled(f"Finished about {running.order.tool}")
        del self._running[ticket]
        self.clock.heard(end.ended_s, now_s)
        if end.stdout:
            self._printed(running, command, end.stdout, stderr=False)
        if end.stderr:
            self._printed(running, command, end.stderr, stderr=True)
        stdout = running.stdout.decode("utf-8", "replace")
        stderr = running.stderr.decode("utf-8", "replace")
        if end.why == "stuck":
            cause = "its processes survive SIGKILL; they hang in the kernel"
            self._lose(running, HostUnreachable(self.host, f"ending {running.order.tool}", cause))
        elif end.why in ("deadline", "inactive"):
            limit_s = command.inactivity_s if end.why == "inactive" else None
            self._lose(running, CommandTimeout(self.host, command.timeout_s, stdout, stderr, inactivity_s=limit_s))
        else:
            # The host's own times, as far as they can be: it cannot have begun before it was asked, nor end later.
            ended_s = min(max(self.clock.here(end.ended_s), running.sent_s), now_s)
            started_s = min(max(ended_s - (end.ended_s - end.began_s), running.sent_s), ended_s)
            result = CommandResult(command, end.exit_status, stdout, stderr, started_s, ended_s, end.truncated)
            self._tell(Ended(ticket, result))
