"""Hosts reached by a local process, without an agent: an argv prefix carries each command."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading

from fabric.errors import HostUnreachable
from fabric.executors.pipe import Pipe
from fabric.executors.threaded import ThreadedExecutor
from fabric.model.command import Command

_CHUNK_BYTES = 256 << 10
_LOOK_S = 0.5  # how soon a reader notices that it was given up
_REAP_S = 2.0


class ProcessPlainExecutor(ThreadedExecutor):
    """Runs each command behind *prefix*, ``{host}`` replaced in it; without prefix the host is this machine."""

    def __init__(self, prefix: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._prefix = prefix

    def _open(self, command: Command) -> Pipe:
        return _ProcessPipe(command.host, tuple(word.replace("{host}", command.host) for word in self._prefix))


class _ProcessPipe:
    """A local process in a session of its own; its descendants over there are the wrapper's business."""

    def __init__(self, host: str, prefix: tuple[str, ...]) -> None:
        self._host, self._prefix = host, prefix
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._given_up: str | None = None
        self._open_fds: dict[int, bool] = {}  # output descriptor -> is it stdout

    def begin(self, argv: tuple[str, ...]) -> None:
        """Start the prefix with *argv* behind it."""
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                self._prefix + argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
            )
        except OSError as exc:
            raise HostUnreachable(self._host, "starting a process", str(exc)) from exc
        self._process = process
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._open_fds[stream.fileno()] = stream is process.stdout

    def read(self, timeout_s: float) -> tuple[bytes, bytes] | None:
        """One read of each stream that has something."""
        if not self._open_fds or self._given_up is not None:
            return None
        poll = select.poll()
        for fd in self._open_fds:
            poll.register(fd, select.POLLIN)
        arrived = {True: b"", False: b""}
        for fd, _ in poll.poll(min(timeout_s, _LOOK_S) * 1000):
            data = os.read(fd, _CHUNK_BYTES)
            if not data:
                del self._open_fds[fd]
            else:
                arrived[self._open_fds[fd]] = data
        return arrived[True], arrived[False]

    def end(self) -> None:
        """Close stdin."""
        with self._lock:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()

    def abort(self, why: str) -> None:
        """Kill the local process group; stdin closes with it."""
        self._given_up = why
        self.end()
        self._kill()

    def epitaph(self) -> str:
        """What the local process ended with, or why it was given up."""
        if self._given_up is not None:
            return self._given_up
        status = None if self._process is None else self._reaped(self._process)
        return f"the process that carries the command ended with {status} before the command did"

    def close(self) -> None:
        """Close all streams and reap the local process, by force if it stays."""
        process = self._process
        if process is None:
            return
        self.end()
        if self._reaped(process) is None:
            self._kill()
            self._reaped(process)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    @staticmethod
    def _reaped(process: subprocess.Popen[bytes]) -> int | None:
        try:
            return process.wait(timeout=_REAP_S)
        except subprocess.TimeoutExpired:
            return None
