"""The conversation with the agent of one host: running commands and samplings, deadlines, and how they end."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from fabric.errors import CommandTimeout, HostUnreachable, SessionLost
from fabric.hosts.agent import protocol as agent
from fabric.hosts.stream import GRACE_S, PIECES_PER_TURN, TICK_S, Conversation, HostStream, Request, Tell, unanswered
from fabric.model.probe import Command, CommandResult
from fabric.ports import Ended, Ready, Sampled, Ticket

HELLO_S = 20.0
"""Time for a host to start Python (seconds; choice: many times what a busy file server takes)."""
BLOCKED_S = 0.05
"""How soon to retry sending what could not be sent (seconds)."""
SILENCE_S = 30.0
"""An agent with work that hears nothing for this long ends it all (seconds)."""
# Longer than TCP's keepalive takes (11 s): data under way would delay its finding that a host has vanished.
PING_S = 13.0
_IDLE_PING_S = 75.0
# Most unconfirmed bytes on the way to an agent: they fit into the buffers of both kernels, so that writing to a frozen
# host never blocks.
_WINDOW_BYTES = 32 << 10
_IDLE_S = 5.0
_COMPLAINT_BYTES = 2000
_DRIFT = 1e-4  # quartz clocks differ by less than 100 parts in a million


@dataclass(slots=True)
class _Running:
    """A request that was sent: its answer so far, and when its end is due."""

    request: Request
    sent_s: float
    begins_at: int  # offset of its request in all that is sent
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    due_s: float = 0.0
    cancelled: bool = False
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)  # of each sampled series


class AgentSession(Conversation):
    """
    The conversation with one agent, from its first word to the end of its stream.

    When it is over, commands that were not sent at all are in ``unsent``; all others have been reported Lost.
    """

    def __init__(self, host: str, stream: HostStream, nonce: str, *, tell: Tell, now: Callable[[], float]) -> None:
        super().__init__(host, stream, tell=tell, now=now)
        self.hello: agent.Hello | None = None
        self.unsent: list[Request] = []
        self._ahead_s, self._ahead_since_s = 0.0, -inf  # our clock minus the host's, at most; and since when
        self.decoder = agent.LineDecoder(nonce)
        self._running: dict[Ticket, _Running] = {}
        self._due: list[tuple[float, Ticket]] = []
        self._outgoing = bytearray()
        self._asked = self._sent = self._got = 0
        self._spoke_s = self._begun_s = now()
        self._bye = ""
        self._complaint = b""

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._running)

    @property
    def blocked(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._outgoing)

    def shift(self, by_s: float) -> None:
        """Move our clock forward by *by_s*; nothing is under way."""
        self._ahead_s += by_s
        self._ahead_since_s += by_s
        self._begun_s += by_s
        self._spoke_s += by_s

    def begin(self, request: Request) -> None:
        """Queue a command or a sampling; ``flush`` sends it together with everything else queued."""
        running = self._running[request.ticket] = _Running(request, self._now(), self._asked)
        if request.command is None:
            self._ask(
                agent.sample_request(request.ticket, request.sources, request.period_s, request.report_interval_s)
            )
        else:
            self._ask(agent.start_request(request.ticket, request.command))
            self._expect(running, running.sent_s + request.command.timeout_s + GRACE_S)

    def cancel(self, ticket: Ticket) -> bool:
        """Ask to end a command or sampling. Return True for a sampling, of which nothing but rows will be reported."""
        running = self._running.get(ticket)
        if running is None or running.cancelled:
            return False
        running.cancelled = True
        self._ask(agent.key_request("cancel", ticket))
        self._expect(running, self._now() + GRACE_S)
        self.flush()
        return running.request.command is None

    def arrived(self) -> bool:
        """Read what the host sent."""
        for _ in range(PIECES_PER_TURN):
            if self.failure:
                break
            data = self.stream.read()
            if data is None:
                self.give_up(f"the agent ended: {self._bye}" if self._bye else self._epitaph())
                break
            if not any(data):
                self.flush()
                return False
            self._complaint = (self._complaint + data[1])[:_COMPLAINT_BYTES]
            try:
                for message in self.decoder.feed(data[0]):
                    self._take(message)
            except agent.Garbled as exc:
                self.abandon(f"the agent broke the protocol: {exc}")
        self.flush()
        return not self.failure

    def flush(self) -> None:
        """Send what may be sent now."""
        while self._outgoing and not self.failure:
            room = _WINDOW_BYTES - (self._sent - self._got)
            if room <= 0:
                return
            try:
                count = self.stream.write(bytes(self._outgoing[:room]))
            except (OSError, EOFError):
                self.give_up(self._epitaph())
                return
            if not count:
                return
            del self._outgoing[:count]
            self._sent += count
            self._spoke_s = self._now()

    def tick(self, now_s: float) -> float:
        """Enforce the deadlines, including that of the first word, and send the heartbeat."""
        if self.hello is None and now_s >= self._begun_s + HELLO_S:
            self.give_up("its python3 said nothing in time")
        while self._due and self._due[0][0] <= now_s and not self.failure:
            due_s, ticket = heapq.heappop(self._due)
            running = self._running.get(ticket)
            if running is not None and running.due_s == due_s:
                self.abandon(unanswered(running.request, cancelled=running.cancelled))
        silent_s = now_s - self._spoke_s
        if self.hello is not None and silent_s >= (PING_S if self.busy else _IDLE_PING_S):
            self._ask(agent.key_request("clock", 0))
        if self._outgoing:
            self.flush()
        if self._outgoing:
            return BLOCKED_S
        return TICK_S if self.busy or self.hello is None else _IDLE_S

    def give_up(self, why: str) -> None:
        """End the conversation: what was sent is lost, the rest is in ``unsent``."""
        if self.failure:
            return
        self.failure = why
        running, self._running = self._running, {}
        for one in running.values():
            if one.begins_at >= self._sent and not one.cancelled:
                self.unsent.append(one.request)
            elif one.request.command is not None or not one.cancelled:
                self._lose(one.request.ticket, SessionLost(self.host, f"waiting for {one.request.tool}", why))

    def _ask(self, request: bytes) -> None:
        self._outgoing += request
        self._asked += len(request)

    def _expect(self, running: _Running, due_s: float) -> None:
        """Set when an answer is due; an earlier time stays."""
        if not running.due_s or due_s < running.due_s:
            running.due_s = due_s
            heapq.heappush(self._due, (due_s, running.request.ticket))

    def _epitaph(self) -> str:
        complaint = self._complaint.decode("utf-8", "replace").strip().replace("\n", " | ")
        return self.stream.epitaph("the agent") + (f"; it complained: {complaint}" if complaint else "")

    def _take(self, message: agent.Message) -> None:
        match message:
            case agent.Finished():
                self._note_got(message.got)
                running = self._running.get(message.id)
                if running is not None:  # else it had been given up
                    self._finished(running, message)
            case agent.Got():
                self._note_got(message.n)
            case agent.Hello():
                self.hello = message
                self._heard(message.t)
            case agent.Clock():
                self._heard(message.t)
            case agent.Bye():
                self._bye = message.cause[:500]
            case _:
                running = self._running.get(message.id)
                if running is not None:
                    self._answered(running, message)

    def _note_got(self, count: int) -> None:
        self._got = max(self._got, min(count, self._sent))

    def _heard(self, host_s: float) -> None:
        """Learn from a reading of the host's clock; the one that travelled fastest tells best how far ours is ahead."""
        now_s = self._now()
        if now_s - host_s < self._ahead_s + _DRIFT * (now_s - self._ahead_since_s):
            self._ahead_s, self._ahead_since_s = now_s - host_s, now_s

    def _here_s(self, host_s: float) -> float:
        """Return what our clock read when the host's read *host_s*."""
        return host_s + self._ahead_s

    def _answered(self, running: _Running, message: agent.Message) -> None:
        ticket, command = running.request.ticket, running.request.command
        match message:
            case agent.Printed() if command is not None:
                self._printed(running, command, message.data, stderr=message.e == "err")
            case agent.Listens() if command is not None:
                self._tell(Ready(ticket, self._now()))
            case agent.CannotDo():
                del self._running[ticket]
                self._lose(ticket, HostUnreachable(self.host, f"starting {running.request.tool}", message.cause[:500]))
            case agent.SampledNames() if command is None and len(running.names) < agent.MOST_NAMES:
                running.names[message.part] = tuple(message.names)
            case agent.Rows() if command is None:
                self._sampled(running, message)
            case agent.SamplingStopped() if command is None and running.cancelled:
                del self._running[ticket]
            case _:
                raise agent.Garbled(f"{type(message).__name__} about {running.request.tool}")

    def _sampled(self, running: _Running, message: agent.Rows) -> None:
        names, sizes = running.names.get(message.part), {len(row) for row in message.rows}
        if names is None or len(message.at) != len(message.rows) or not sizes <= {len(names)}:
            raise agent.Garbled("rows of samples that do not fit their names or times")
        if message.at:
            self._heard(message.at[-1])  # no row is from the future
        at_s = tuple(map(self._here_s, message.at))
        self._tell(Sampled(running.request.ticket, names, at_s, tuple(map(tuple, message.rows))))

    def _printed(self, running: _Running, command: Command, data: bytes, *, stderr: bool) -> None:
        kept = running.stderr if stderr else running.stdout
        if len(kept) + len(data) > command.output_cap_bytes:
            raise agent.Garbled(f"more output of {running.request.tool} than was asked for")
        kept += data

    def _finished(self, running: _Running, end: agent.Finished) -> None:
        command, ticket, now_s = running.request.command, running.request.ticket, self._now()
        if command is None or (end.status is None) != (end.why == "stuck"):
            raise agent.Garbled(f"Finished about {running.request.tool}")
        self._printed(running, command, end.out, stderr=False)
        self._printed(running, command, end.err, stderr=True)
        del self._running[ticket]
        self._heard(end.t1)
        stdout = running.stdout.decode("utf-8", "replace")
        stderr = running.stderr.decode("utf-8", "replace")
        if end.status is None:
            cause = "its processes survive SIGKILL; they hang in the kernel"
            self._lose(ticket, HostUnreachable(self.host, f"ending {running.request.tool}", cause))
        elif end.why == "deadline":
            self._lose(ticket, CommandTimeout(self.host, command.timeout_s, stdout, stderr))
        else:
            # Use the host's own times where possible: it cannot begin before it was asked, nor end later than now.
            ended_s = min(max(self._here_s(end.t1), running.sent_s), now_s)
            started_s = min(max(ended_s - (end.t1 - end.t0), running.sent_s), ended_s)
            self._tell(Ended(ticket, CommandResult(command, end.status, stdout, stderr, started_s, ended_s, end.cut)))
