"""
The agent: one process on a host that runs commands for the orchestrator, over its stdin and stdout.

Both sides speak JSON, a message a line. Asked of the agent, by "v": start, cancel, sample, stop, clock, ping.
Told by it, by "e": hello, ready, out, err, ended, error, clock, names, rows, got, bye. When stdin closes, or nothing
is heard for some time, it ends every session it has begun and goes; so nothing outlives an orchestrator that was
killed or cut off. Processes that have put themselves into sessions of their own (guards of changes) stay.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import json
import os
import select
import signal
import sys
import time

from fabric.agent.commands import CHUNK_BYTES, Output, Running, listening
from fabric.agent.samplers import Sampling
from fabric.agent.sessions import Sessions, members, printable
from fabric.agent.told import Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 1
IDLE_S = 900.0
"""An agent that has nothing to do waits so long for a word before it goes."""
_REQUEST_BYTES = 8 << 20
_TOLD_BYTES = 256 << 10  # more than this unread by the other side: commands' output is left in their pipes
_FULL_BYTES = 4 << 20  # and nothing new is asked of us either
_GOT_BYTES = 8 << 10
_MOST = 1000  # commands at once
_LOOK_S = 0.1


class Agent:
    """Everything the process does, in one thread: ``serve`` returns when it is to end."""

    def __init__(self, nonce: str, silence_s: float) -> None:
        self._told = Told(os.dup(1))
        os.dup2(2, 1)  # nothing but the protocol may reach the orchestrator's stream
        self._wake_fd, wake_w = os.pipe()
        os.set_blocking(self._wake_fd, False)
        os.set_blocking(wake_w, False)
        signal.set_wakeup_fd(wake_w)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self._sessions = Sessions()
        self._silence_s = silence_s
        self._asked = b""
        self._got = self._acknowledged = 0
        self._heard_s = time.monotonic()
        self._commands = {}  # type: dict[int, Running]
        self._samplings = {}  # type: dict[int, Sampling]
        self._tools = []  # type: list[Running]
        self._closing = ""
        self._poll = select.poll()
        self._polled = {}  # type: dict[int, int]
        self._outputs = {}  # type: dict[int, tuple[Running, Output]]
        self._look_s = 0.0
        self._verbs = {
            "start": self._start,
            "cancel": self._cancel,
            "sample": self._sample,
            "stop": self._stop,
            "clock": self._clock,
            "ping": self._ping,
        }
        version = "{}.{}.{}".format(*sys.version_info[:3])
        hello = {"e": "hello", "protocol": PROTOCOL, "python": version, "pid": os.getpid(), "t": time.monotonic()}
        self._told.add(hello, lead="fabric-agent-" + nonce + " ")

    def serve(self) -> None:
        """Do what is asked until there is nobody to ask."""
        next_s = 0.0
        while not self._closing:
            self._turn(next_s)
            next_s = self._step(time.monotonic())
        self._end_everything()

    def _turn(self, next_s: float) -> None:
        """Wait for something to happen, and take it in."""
        self._watch()
        pause_s = next_s - time.monotonic()
        for fd, events in self._poll.poll(max(0, int(pause_s * 1000 + 0.999))):
            if fd == 0:
                self._hear()
            elif fd == self._wake_fd:
                self._woken()
            elif fd == self._told.fd:
                if events & (select.POLLERR | select.POLLHUP):
                    self._closing = "nobody reads"
            elif fd in self._outputs:
                self._forward(*self._outputs[fd])

    def _watch(self) -> None:
        """Poll for what can be dealt with: nobody's output while the orchestrator does not read its own."""
        told = self._told.waiting_bytes
        wanted = {self._wake_fd: select.POLLIN, self._told.fd: select.POLLOUT if told else 0}
        if told < _FULL_BYTES:
            wanted[0] = select.POLLIN
        if told < _TOLD_BYTES:
            wanted.update((fd, select.POLLIN) for fd in self._outputs)
        if wanted == self._polled:
            return
        for fd in self._polled:
            if fd not in wanted:
                self._poll.unregister(fd)
        for fd, events in wanted.items():
            if self._polled.get(fd) != events:
                self._poll.register(fd, events)
        self._polled = wanted

    def _hear(self) -> None:
        try:
            data = os.read(0, 1 << 16)
        except OSError:
            data = b""
        self._heard_s = time.monotonic()
        if not data:
            self._closing = "stdin was closed"
        self._got += len(data)
        lines = (self._asked + data).split(b"\n")
        self._asked = lines.pop()
        if len(self._asked) > _REQUEST_BYTES:
            self._closing = f"a request of more than {_REQUEST_BYTES} bytes"
        for line in lines:
            self._answer(line)

    def _answer(self, line: bytes) -> None:
        asked = None  # type: Any
        try:
            asked = json.loads(line.decode("ascii"))
            self._verbs[asked["v"]](asked)
        except (OSError, ValueError) as exc:
            self._told.add(
                {"e": "error", "id": asked["id"] if isinstance(asked, dict) else 0, "cause": printable(str(exc))}
            )
        except (KeyError, TypeError, IndexError) as exc:
            self._closing = f"a request that makes no sense: {line[:200]!r}: {exc!r}"

    def _start(self, asked: "dict[str, Any]") -> None:
        if len(self._commands) >= _MOST:
            raise ValueError(f"{_MOST} commands run on this host already")
        command = Running(asked, self._sessions)
        if command.at_s <= time.monotonic():
            self._begin(command)
        self._commands[command.key] = command

    def _begin(self, command: Running) -> None:
        command.begin()
        for output in command.outputs:
            self._outputs[output.fd] = (command, output)

    def _cancel(self, asked: "dict[str, Any]") -> None:
        command = self._commands.get(asked["id"])
        if command is None:
            return
        if command.pid:
            command.end("cancelled")
        else:
            command.why, command.status, command.over = "cancelled", 128 + signal.SIGTERM, True

    def _sample(self, asked: "dict[str, Any]") -> None:
        self._samplings[asked["id"]] = Sampling(asked, self._sessions)

    def _stop(self, asked: "dict[str, Any]") -> None:
        sampling = self._samplings.pop(asked["id"], None)
        if sampling is not None:
            for message in sampling.told(float("inf")):
                self._told.add(message)
            sampling.close()
        self._told.add({"e": "stopped", "id": asked["id"]})

    def _clock(self, asked: "dict[str, Any]") -> None:
        self._told.add({"e": "clock", "id": asked["id"], "t": time.monotonic()})

    def _ping(self, asked: "dict[str, Any]") -> None:
        """To have been heard is all."""

    def _woken(self) -> None:
        """A signal came: a child has ended, or we are to go."""
        numbers = os.read(self._wake_fd, 4096)
        if any(number != signal.SIGCHLD for number in numbers):
            self._closing = "the agent was told to end by a signal"
        self._reap()

    def _reap(self) -> None:
        by_pid = {command.pid: command for command in self._all() if command.pid and command.status is None}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError:
                return
            if pid == 0:
                return
            if pid in by_pid:
                by_pid[pid].reaped(status)
            self._look_s = 0.0

    def _all(self) -> "list[Running]":
        return list(self._commands.values()) + self._tools

    def _step(self, now_s: float) -> float:
        """What time has brought, then all that is to be told; returns when to come again."""
        busy = bool(self._commands or self._samplings)
        silence_s = self._silence_s if busy else IDLE_S
        if now_s - self._heard_s > silence_s:
            self._closing = f"nothing was heard from the orchestrator for {silence_s:g} s"
        next_s = self._heard_s + silence_s
        for command in list(self._commands.values()):
            next_s = min(next_s, self._step_command(command, now_s))
        for sampling in self._samplings.values():
            next_s = min(next_s, self._step_sampling(sampling, now_s))
        for tool in self._tools:
            next_s = min(next_s, tool.step(now_s))
        next_s = min(next_s, self._look(now_s))
        self._finish()
        if self._got - self._acknowledged >= _GOT_BYTES:
            self._acknowledged = self._got
            self._told.add({"e": "got", "n": self._got})
        self._flush()
        return next_s

    def _step_command(self, command: Running, now_s: float) -> float:
        if command.over:
            return now_s
        if not command.pid:
            if now_s < command.at_s:
                return command.at_s - 0.001  # the last millisecond is waited for by turning
            try:
                self._begin(command)
            except (OSError, ValueError) as exc:
                del self._commands[command.key]
                self._told.add({"e": "error", "id": command.key, "cause": printable(str(exc))})
                return now_s
        return command.step(now_s)

    def _step_sampling(self, sampling: Sampling, now_s: float) -> float:
        for tool in sampling.tools:
            run = tool.due(now_s)
            if run is not None:
                self._tools.append(run)
                try:
                    self._begin(run)
                except (OSError, ValueError):
                    run.over = True
        next_s = sampling.step(now_s)
        if self._told.waiting_bytes < _TOLD_BYTES:
            for message in sampling.told(now_s):
                self._told.add(message)
        return next_s

    def _look(self, now_s: float) -> float:
        """At intervals, or when a child has ended: who is left of what is being ended, and who listens."""
        ending = [one for one in self._all() if one.ending]
        awaited = {one.awaited_port or "" for one in self._commands.values() if one.pid} - {""}
        if now_s >= self._look_s and (ending or awaited):
            self._look_s = now_s + _LOOK_S
            left = members({one.pid for one in ending}) if ending else {}
            for one in ending:
                one.strike(left[one.pid], now_s)
            awaited = listening(awaited) if awaited else awaited
            self._tell_ready(awaited)
            return self._look_s
        self._tell_ready(set())
        return self._look_s if ending or awaited else now_s + IDLE_S

    def _tell_ready(self, ports: "set[str]") -> None:
        for command in self._commands.values():
            if command.became_ready(ports):
                self._told.add({"e": "ready", "id": command.key, "t": time.monotonic()})

    def _forward(self, command: Running, output: Output) -> None:
        fd = output.fd
        if output.read():
            command.heard()
            if len(output.kept) >= CHUNK_BYTES and command.key >= 0:
                self._told.add({"e": output.name, "id": command.key, "data": output.taken()})
        if output.fd < 0:
            del self._outputs[fd]

    def _finish(self) -> None:
        for command in self._all():
            if command.over:
                self._finished(command)

    def _finished(self, command: Running) -> None:
        """Everything of it is gone: take the rest of its output, and tell its end."""
        for output in command.outputs:
            self._outputs.pop(output.fd, None)
            while output.read():
                if len(output.kept) >= CHUNK_BYTES and command.key >= 0 and not self._closing:
                    self._told.add({"e": output.name, "id": command.key, "data": output.taken()})
            output.close()
        if command in self._tools:
            self._tools.remove(command)
            for sampling in self._samplings.values():
                for tool in sampling.tools:
                    if tool.running is command:
                        tool.ended()
            return
        del self._commands[command.key]
        self._acknowledged = self._got
        told = {
            "e": "ended",
            "id": command.key,
            "status": command.status,
            "why": command.why,
            "t0": command.begun_s,
            "t1": command.ended_s,
            "got": self._got,
        }  # type: dict[str, Any]
        for output in command.outputs:
            told[output.name] = output.taken()
            if output.cut:
                told["cut"] = True
        self._told.add(told)

    def _flush(self) -> None:
        try:
            self._told.flush()
        except OSError as exc:
            self._closing = f"nobody reads: {exc}"

    def _end_everything(self) -> None:
        """End every session, then say why, as far as anybody reads it."""
        self._told.add({"e": "bye", "cause": self._closing})
        self._flush()
        for sampling in self._samplings.values():
            sampling.close()
        for command in self._all():
            if command.pid:
                command.end("cancelled")
        woken = select.poll()
        woken.register(self._wake_fd, select.POLLIN)
        while any(command.pid and not command.over for command in self._all()):
            if woken.poll(int(_LOOK_S * 1000)):
                os.read(self._wake_fd, 4096)
            self._reap()
            self._look(time.monotonic())
