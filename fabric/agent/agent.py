"""The agent: one process on a host that runs commands for the orchestrator, over its stdin and stdout.

Both sides speak JSON, one message a line. Requests to the agent, by "v": start, cancel, sample, clock. Messages of the
agent, by "e": hello, ready, out, err, ended, error, clock, names, rows, stopped, got, bye. When stdin closes, or
nothing is heard for some time, the agent ends every session it has begun and exits; so nothing outlives an orchestrator
that was killed or cut off. Processes that have put themselves into sessions of their own (guards of changes) stay.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import json
import os
import select
import signal
import time

from fabric.agent.sessions import Keeper, Sessions, printable
from fabric.agent.work import UNREAD_BYTES, Outbox, Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

IDLE_S = 240.0
"""Time that an agent without work waits for a request before it exits (seconds)."""
_REQUEST_BYTES = 8 << 20
_FULL_BYTES = 4 << 20  # beyond this, no new requests are read either
_GOT_BYTES = 8 << 10
_LOOK_MS = 100


class Agent:
    """Everything the process does, in one thread; ``serve`` returns when it is to end."""

    def __init__(self, nonce: str, silence_s: float) -> None:
        keeper = Keeper()
        self._outbox = Outbox(os.dup(1))
        os.dup2(2, 1)  # nothing but the protocol may reach the orchestrator's stream
        self._wake_fd, wake_w = os.pipe()
        os.set_blocking(self._wake_fd, False)
        os.set_blocking(wake_w, False)
        signal.set_wakeup_fd(wake_w)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self._silence_s = silence_s
        self._asked = b""
        self._heard_s = time.monotonic()
        self._work = Work(self._outbox, Sessions(), keeper)
        self._closing = ""
        self._verbs = {
            "start": self._work.start,
            "cancel": self._work.cancel,
            "sample": self._work.sample,
            "clock": self._clock,
        }
        self._outbox.add({"e": "hello", "t": time.monotonic()}, lead="fabric-agent-" + nonce + " ")

    def serve(self) -> None:
        """Do what is asked until the orchestrator is gone."""
        next_s = 0.0
        while not self._closing:
            self._turn(next_s)
            next_s = self._step(time.monotonic())
        self._end_everything()

    def _turn(self, next_s: float) -> None:
        """Wait for something to happen, and handle it."""
        poll = self._watched()
        pause_s = next_s - time.monotonic()
        for fd, events in poll.poll(max(0, int(pause_s * 1000 + 0.999))):
            if fd == 0:
                self._hear()
            elif fd == self._wake_fd:
                self._woken()
            elif fd == self._outbox.fd:
                if events & (select.POLLERR | select.POLLHUP):
                    self._closing = "nobody reads"
            else:
                self._work.readable(fd)

    def _watched(self) -> "select.poll":
        """Return what to poll; commands' output is left unread while the orchestrator does not read ours."""
        waiting_bytes = self._outbox.waiting_bytes
        poll = select.poll()
        poll.register(self._wake_fd, select.POLLIN)
        poll.register(self._outbox.fd, select.POLLOUT if waiting_bytes else 0)
        if waiting_bytes < _FULL_BYTES:
            poll.register(0, select.POLLIN)
        if waiting_bytes < UNREAD_BYTES:
            for fd in self._work.outputs:
                poll.register(fd, select.POLLIN)
        return poll

    def _hear(self) -> None:
        try:
            data = os.read(0, 1 << 16)
        except OSError:
            data = b""
        self._heard_s = time.monotonic()
        if not data:
            self._closing = "stdin was closed"
        self._outbox.got += len(data)
        lines = (self._asked + data).split(b"\n")
        self._asked = lines.pop()
        if len(self._asked) > _REQUEST_BYTES:
            self._closing = f"a request of more than {_REQUEST_BYTES} bytes"
        for line in lines:
            self._answer(line)

    def _answer(self, line: bytes) -> None:
        asked = None  # type: Any
        try:
            asked = json.loads(line)
            self._verbs[asked["v"]](asked)
        except (OSError, ValueError) as exc:
            self._outbox.add(
                {"e": "error", "id": asked["id"] if isinstance(asked, dict) else 0, "cause": printable(str(exc))}
            )
        except (KeyError, TypeError, IndexError) as exc:
            self._closing = f"a request that makes no sense: {line[:200]!r}: {exc!r}"

    def _clock(self, asked: "dict[str, Any]") -> None:
        self._outbox.add({"e": "clock", "id": asked["id"], "t": time.monotonic()})

    def _woken(self) -> None:
        """Handle a signal: a child has ended, or the agent is told to end."""
        numbers = os.read(self._wake_fd, 4096)
        if any(number != signal.SIGCHLD for number in numbers):
            self._closing = "the agent was told to end by a signal"
        self._work.reap()

    def _step(self, now_s: float) -> float:
        """Do what is due, then send all reports; return when to be called again."""
        silence_s = self._silence_s if self._work.busy else IDLE_S
        if now_s - self._heard_s > silence_s:
            self._closing = f"nothing was heard from the orchestrator for {silence_s:g} s"
        next_s = min(self._heard_s + silence_s, self._work.step(now_s))
        if self._outbox.got - self._outbox.acknowledged >= _GOT_BYTES:
            self._outbox.acknowledge({"e": "got", "n": self._outbox.got})
        self._flush()
        return next_s

    def _flush(self) -> None:
        try:
            self._outbox.flush()
        except OSError as exc:
            self._closing = f"nobody reads: {exc}"

    def _end_everything(self) -> None:
        """Report why, if anybody still reads, and end every session."""
        self._outbox.add({"e": "bye", "cause": printable(self._closing)})
        self._flush()
        self._work.close()
        woken = select.poll()
        woken.register(self._wake_fd, select.POLLIN)
        while not self._work.over():
            if woken.poll(_LOOK_MS):
                os.read(self._wake_fd, 4096)
