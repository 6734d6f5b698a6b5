"""
One command on a host: its output, capped; its deadlines; and its end, which is the end of its whole session.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import os
import signal
import time

from fabric.agent.sessions import Sessions, killed, shell_status, slurped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK_BYTES = 32 << 10
"""Output is handed on in pieces of about this size; less is kept until the end."""
_READ_BYTES = 64 << 10
_TERM_S = 2.0  # how long a session has after TERM, and again after KILL
_LOOK_S = 0.1


class Output:
    """One stream of a command: forwarded up to a cap, read to its end beyond it, in bounded memory."""

    def __init__(self, name: str, fd: int, cap: int) -> None:
        self.name, self.fd, self.cap = name, fd, cap
        self.kept = b""
        self.cut = False

    def read(self) -> bool:
        """Take in what is there; False when there was nothing. Closes itself at the end of the stream."""
        if self.fd < 0:
            return False
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        self.cut = self.cut or len(data) > self.cap
        self.kept += data[: self.cap]
        self.cap -= len(data[: self.cap])
        return True

    def taken(self) -> str:
        """What is to be handed on, a character for each byte."""
        data, self.kept = self.kept, b""
        return data.decode("latin-1")

    def close(self) -> None:
        """Let go of the pipe; twice is no harm."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Running:
    """
    A command from its start to its end; ``step`` says when it wants to be called again.

    *why* it ended: "ended" by itself, "deadline", "cancelled" or "stuck" (survived KILL).
    """

    def __init__(self, asked: "dict[str, Any]", sessions: Sessions) -> None:
        self.key = asked["id"]
        self.why = "ended"
        self.status = None  # type: int | None
        self.begun_s = self.ended_s = 0.0
        self.outputs = []  # type: list[Output]
        self.over = False
        self.pid = 0
        self._asked, self._sessions = asked, sessions
        self._port = asked.get("port")  # in hex, as /proc/net/tcp has it, until it is listened on
        self._deadline_s = 0.0
        self._signals = []  # type: list[int]
        self._next_signal_s = 0.0

    def begin(self) -> None:
        """Start the program; raises OSError when no process can be made."""
        asked = self._asked
        env = dict(self._sessions.environment)
        env.update((_bytes(name), _bytes(value)) for name, value in asked.get("env") or ())
        if self._port and listening({self._port}):
            self._port = None  # somebody else's
        self.pid, out_fd, err_fd = self._sessions.spawn([_bytes(word) for word in asked["argv"]], env)
        self.begun_s = time.monotonic()
        self._deadline_s = self.begun_s + asked["timeout"]
        self.outputs = [Output("out", out_fd, asked["cap"]), Output("err", err_fd, asked["cap"])]

    @property
    def awaited_port(self) -> "str | None":
        """The port whose listener makes it ready, while that is not known."""
        return None if self._signals else self._port

    def became_ready(self, ports: "set[str]") -> bool:
        """True once: when its port is among those listened on."""
        if self._port in ports:
            self._port = None
            return True
        return False

    def reaped(self, status: int) -> None:
        """The program has ended; what it left behind is ended too."""
        self.status, self.ended_s = shell_status(status), time.monotonic()
        if self._signals:
            return
        if self._sessions.left(self.pid):
            self.end("ended")
        else:
            self.over = True

    def end(self, why: str) -> None:
        """Begin to end the session, unless that is under way."""
        if self._signals or self.over:
            return
        self.why = why
        self._signals = [signal.SIGTERM, signal.SIGKILL, 0]
        self._next_signal_s = 0.0

    def step(self, now_s: float) -> float:
        """Keep the deadline; returns when to come again."""
        if self._signals:
            return now_s + _LOOK_S
        if now_s >= self._deadline_s:
            self.end("deadline")
        return self._deadline_s

    @property
    def ending(self) -> bool:
        """True while its session is being ended."""
        return bool(self._signals) and not self.over

    def strike(self, left: "list[int]", now_s: float) -> None:
        """The next signal for who is *left* of the session, when it is time for one; over when nobody is."""
        if not left:
            self.over = self.status is not None
        elif now_s >= self._next_signal_s:
            number = self._signals.pop(0)
            if number == 0:
                self.why, self.over = "stuck", True
                return
            self._next_signal_s = now_s + _TERM_S
            killed(left, number)
        elif self._signals[0] == 0:
            killed(left, signal.SIGKILL)  # also who was forked since


def listening(wanted: "set[str]") -> "set[str]":
    """Those of some TCP ports (four hex digits) that somebody listens on."""
    found = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in slurped(path, 1 << 24).decode("ascii", "replace").splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == "0A":
                found.add(words[1].rpartition(":")[2])
    return found & wanted


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
