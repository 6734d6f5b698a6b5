"""Hosts reached by a local process (this machine, a network namespace, a pod): an argv prefix carries the command."""

import contextlib
import os
import signal
import subprocess

from fabric.errors import HostUnreachable
from fabric.hosts.agent import AgentExecutor
from fabric.hosts.stream import GRACE_S, HostStream
from fabric.model.probe import Command, CommandResult
from fabric.ports import run_once

_CHUNK_BYTES = 256 << 10
_STATUS_S = 0.5


class ProcessExecutor(AgentExecutor):
    """Runs commands behind *prefix*, in which ``{host}`` is replaced; without a prefix the host is this machine."""

    def __init__(self, prefix: tuple[str, ...] = (), *, agents: bool = True) -> None:
        super().__init__(agents=agents)
        self._prefix = prefix

    def _stream(self, host: str, argv: tuple[str, ...], stdin: bytes, limit_s: float | None) -> HostStream:
        del limit_s  # nothing here blocks
        return _ProcessStream(host, tuple(word.replace("{host}", host) for word in self._prefix) + argv, stdin)


def run_here(argv: tuple[str, ...], timeout_s: float) -> CommandResult:
    """Run one command on this machine; raises ExecutorError or OSError when it cannot be started or is late."""
    with contextlib.closing(ProcessExecutor(agents=False)) as executor:
        return run_once(executor, Command("here", argv, timeout_s))


class _ProcessStream(HostStream):
    """A local process in a session of its own; what it starts on the host is ended by the agent or the wrapper."""

    def __init__(self, host: str, argv: tuple[str, ...], stdin: bytes) -> None:
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
        self._given_up = ""
        for stream in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(stream.fileno(), False)
        with contextlib.suppress(OSError):  # if it does not read it has ended, which is noticed later
            self._stdin.write(stdin)

    def fds(self) -> tuple[int, ...]:
        """Return stdout and stderr, each until it ends."""
        return tuple(self._open)

    def write(self, data: bytes) -> int:
        """Write what the pipe takes."""
        return self._stdin.write(data) or 0

    def read(self) -> tuple[bytes, bytes] | None:
        """
        Read a piece of each. The stream ends with stdout: what outlives the process may hold stderr a moment longer.
        """
        out_fd = self._stdout.fileno()
        data = self._read(out_fd), self._read(self._stderr.fileno())
        return data if out_fd in self._open or any(data) else None

    def end(self) -> None:
        """Close stdin."""
        with contextlib.suppress(OSError):
            self._stdin.close()

    def alive(self) -> bool:
        """Return whether the local process still runs."""
        return self._process.poll() is None

    def epitaph(self, program: str) -> str:
        """Return with what status the local process ended, or why it was given up."""
        if self._given_up:
            return self._given_up
        try:
            status = f"ended with {self._process.wait(timeout=_STATUS_S)}"
        except subprocess.TimeoutExpired:
            status = "closed its output"
        return f"the process that carries {program} {status}"

    def abandon(self, why: str) -> None:
        """Close stdin, which ends the program on the host; wake the process in case it was stopped."""
        self._given_up = self._given_up or why
        self.end()
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Close stdin, wait for the process to end, and kill it if it does not."""
        self.end()
        try:
            self._process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_STATUS_S)
        self._open.clear()
        self._stdout.close()
        self._stderr.close()

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
