"""All commands and samplings under way on a host: begun, watched, ended, and reported.

Also holds the Outbox, the JSON messages that wait to be written to the orchestrator, which may read slowly or not at
all.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import json
import os
import time

from fabric.agent.sampling import Sampling, ToolSampler
from fabric.agent.sessions import CHUNK_BYTES, Keeper, Output, Running, Sessions, listening, members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Outbox:
    """
    Messages to a file descriptor, written together and without blocking.

    *got*: how many bytes we have read from the other side; *acknowledged*: how many of them it was told about.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.waiting_bytes = 0
        self.got = 0
        self.acknowledged = 0
        self._pieces = []  # type: list[bytes]

    def add(self, message: "dict[str, Any]", lead: str = "") -> None:
        """Add a message as one line, with *lead* before it."""
        data = (lead + json.dumps(message, separators=(",", ":")) + "\n").encode("ascii")
        self._pieces.append(data)
        self.waiting_bytes += len(data)

    def acknowledge(self, message: "dict[str, Any]") -> None:
        """Add a message that also tells how much we have read."""
        self.acknowledged = self.got
        self.add(message)

    def flush(self) -> None:
        """Write what can be written; raises OSError when nobody reads any more."""
        if not self.waiting_bytes:
            return
        data = b"".join(self._pieces)
        try:
            count = os.write(self.fd, data)
        except BlockingIOError:
            count = 0
        self._pieces, self.waiting_bytes = [data[count:]], len(data) - count


UNREAD_BYTES = 256 << 10
"""Above this much unread by the orchestrator, commands' output is left in their pipes."""
MOST_COMMANDS = 1000
"""Most commands at once."""
_LOOK_S = 0.1
_LATER_S = 900.0


class Work:
    """The commands and samplings of the agent; used by one thread. Poll ``outputs`` for ``readable``."""

    def __init__(self, outbox: Outbox, sessions: Sessions, keeper: Keeper) -> None:
        self._outbox, self._sessions, self._keeper = outbox, sessions, keeper
        self.outputs: dict[int, tuple[Running, Output]] = {}
        self._commands = {}  # type: dict[int, Running]
        self._samplings = {}  # type: dict[int, Sampling]
        self._tools: dict[Running, ToolSampler] = {}
        self._look_s = 0.0
        self._closing = False

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._commands or self._samplings)

    def start(self, asked: "dict[str, Any]") -> None:
        """Begin a command; raises OSError or ValueError when that is impossible."""
        if len(self._commands) >= MOST_COMMANDS:
            raise ValueError(f"{MOST_COMMANDS} commands run on this host already")
        command = Running(asked, self._sessions)
        self._begin(command)
        self._commands[command.key] = command

    def _begin(self, command: Running) -> None:
        command.begin()
        self._keeper.began(command.pid)
        for output in command.outputs:
            self.outputs[output.fd] = (command, output)

    def cancel(self, asked: "dict[str, Any]") -> None:
        """End a command, or a sampling after a last report of its rows; unknown ones have ended already."""
        command, sampling = self._commands.get(asked["id"]), self._samplings.pop(asked["id"], None)
        if command is not None:
            command.end("cancelled")
        if sampling is not None:
            for message in sampling.new_messages(float("inf")):
                self._outbox.add(message)
            sampling.close()
            self._outbox.add({"e": "stopped", "id": asked["id"]})

    def sample(self, asked: "dict[str, Any]") -> None:
        """Begin to sample; raises ValueError for too many files."""
        self._samplings[asked["id"]] = Sampling(asked, self._sessions)

    def reap(self) -> None:
        """Note every child that has ended."""
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
        return list(self._commands.values()) + list(self._tools)

    def step(self, now_s: float) -> float:
        """Do what is due; return when to be called again."""
        next_s = now_s + _LATER_S
        for command in self._all():
            next_s = min(next_s, now_s if command.over else command.step(now_s))
        for sampling in self._samplings.values():
            next_s = min(next_s, self._step_sampling(sampling, now_s))
        next_s = min(next_s, self._look(now_s))
        for command in self._all():
            if command.over:
                self._finished(command)
        return next_s

    def _step_sampling(self, sampling: Sampling, now_s: float) -> float:
        for tool in sampling.tools:
            run = tool.due(now_s)
            if run is not None:
                self._tools[run] = tool
                try:
                    self._begin(run)
                except (OSError, ValueError):
                    run.over = True
        next_s = sampling.step(now_s)
        if self._outbox.waiting_bytes < UNREAD_BYTES:
            for message in sampling.new_messages(now_s):
                self._outbox.add(message)
        return next_s

    def _look(self, now_s: float) -> float:
        """
        Check, at intervals or when a child has ended, what is left of ending sessions, and which ports are listened on.
        """
        ending = [one for one in self._all() if one.ending]
        awaited = {port for port in (one.awaited_port for one in self._commands.values()) if port}
        if not ending and not awaited:
            return now_s + _LATER_S
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            left = members({one.pid for one in ending}) if ending else {}
            for one in ending:
                one.strike(left[one.pid], now_s)
            ports = listening(awaited) if awaited else awaited
            for command in self._commands.values():
                if command.became_ready(ports):
                    self._outbox.add({"e": "ready", "id": command.key})
        return self._look_s

    def readable(self, fd: int) -> None:
        """Read what a command has printed."""
        if fd not in self.outputs:
            return  # it has ended meanwhile
        command, output = self.outputs[fd]
        if output.read():
            self._forward(command, output)
        if output.fd < 0:
            del self.outputs[fd]

    def _forward(self, command: Running, output: Output) -> None:
        """Report a large piece of output; output of tools is kept, and so is everything once we are closing."""
        if len(output.kept) >= CHUNK_BYTES and command.key >= 0 and not self._closing:
            self._outbox.add({"e": output.name, "id": command.key, "data": output.taken()})

    def _finished(self, command: Running) -> None:
        """Take the rest of a command's output, and report its end."""
        for output in command.outputs:
            self.outputs.pop(output.fd, None)
            while output.read():
                self._forward(command, output)
            output.close()
        self._keeper.ended(command.pid)
        tool = self._tools.pop(command, None)
        if tool is not None:
            tool.ended()
            return
        del self._commands[command.key]
        message = {
            "e": "ended",
            "id": command.key,
            "status": command.status,
            "why": command.why,
            "t0": command.begun_s,
            "t1": command.ended_s,
            "got": self._outbox.got,
        }  # type: dict[str, Any]
        for output in command.outputs:
            message[output.name] = output.taken()
            if output.cut:
                message["cut"] = True
        self._outbox.acknowledge(message)

    def close(self) -> None:
        """Begin to end everything."""
        self._closing = True
        for sampling in self._samplings.values():
            sampling.close()
        for command in self._all():
            if command.pid:
                command.end("cancelled")

    def over(self) -> bool:
        """Return whether everything has ended or cannot be ended; call it until then."""
        self.reap()
        self._look(time.monotonic())
        return not any(command.pid and not command.over for command in self._all())
