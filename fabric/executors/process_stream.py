"""The stream to an agent that a local process is, or carries."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from fabric.agent.bundle import program
from fabric.errors import HostUnreachable

_CHUNK_BYTES = 256 << 10
_COMPLAINT_BYTES = 2000
_END_S = 6.0  # the agent ends within 4 s of its stdin being closed
_STATUS_S = 0.5


class ProcessStream:
    """A local process in a session of its own, fed the agent's program."""

    def __init__(self, host: str, argv: tuple[str, ...]) -> None:
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True)
        except OSError as exc:
            raise HostUnreachable(host, "starting a process", str(exc)) from exc
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._open = {self._stdout.fileno(), self._stderr.fileno()}
        self._complaint = b""
        self._given_up = ""
        for stream in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(stream.fileno(), False)
        with contextlib.suppress(OSError):  # who does not read has ended, and will be seen to
            self._stdin.write(program())

    def fds(self) -> tuple[int, ...]:
        """Stdout and stderr, until they end."""
        return tuple(self._open)

    def write(self, data: bytes) -> int:
        """Write what the pipe takes."""
        return self._stdin.write(data) or 0

    def read(self) -> bytes | None:
        """One piece of stdout; stderr is kept for the epitaph."""
        complaint = self._read(self._stderr.fileno())
        self._complaint = (self._complaint + complaint)[:_COMPLAINT_BYTES]
        out_fd = self._stdout.fileno()
        data = self._read(out_fd)
        return None if not data and out_fd not in self._open else data

    def alive(self) -> bool:
        """Whether the local process still runs."""
        return self._process.poll() is None

    def epitaph(self) -> str:
        """What the local process ended with, or why it was given up."""
        if self._given_up:
            return self._given_up
        try:
            status = f"ended with {self._process.wait(timeout=_STATUS_S)}"
        except subprocess.TimeoutExpired:
            status = "closed its output"
        self._complaint += self._read(self._stderr.fileno())
        said = self._complaint.decode("utf-8", "replace").strip().replace("\n", " | ")
        return f"the process that carries the agent {status}" + (f"; it complained: {said}" if said else "")

    def abandon(self, why: str) -> None:
        """Close stdin, which ends the agent; wake the process, should it have been stopped."""
        self._given_up = self._given_up or why
        self._end()
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Close stdin, wait for the agent to end everything, and reap the process, by force if it stays."""
        self._end()
        try:
            self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_STATUS_S)
        self._open.clear()
        self._stdout.close()
        self._stderr.close()

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self._stdin.close()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _read(self, fd: int) -> bytes:
        if fd not in self._open:
            return b""
        try:
            data = os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._open.discard(fd)
        return data
