"""The stream to an agent over a channel of an SSH connection."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import paramiko

from fabric.executors.ssh_plain import Session

_CHUNK_BYTES = 1 << 20
_STATUS_S = 0.2
_COMPLAINT_BYTES = 2000


class SshStream:
    """One channel; what arrives on it is announced by paramiko's thread, which calls *arrived*."""

    def __init__(self, session: Session, arrived: Callable[[], None]) -> None:
        self._connection, self._channel, self._release = session.connection, session.channel, session.release
        self._complaint = b""
        self._closed = False
        announce = _Announcement(arrived)
        self._channel.in_buffer.set_event(announce)
        self._channel.in_stderr_buffer.set_event(announce)

    def fds(self) -> tuple[int, ...]:
        """None: paramiko reads the socket."""
        return ()

    def write(self, data: bytes) -> int:
        """Send as much as the channel's window takes, unless keys are being exchanged anew."""
        if self._channel.closed or not self._connection.alive:
            raise EOFError
        if not self._channel.send_ready() or self._connection.rekeying:
            return 0
        try:
            return self._channel.send(data)
        except paramiko.SSHException as exc:
            raise OSError(str(exc)) from exc

    def read(self) -> bytes | None:
        """Everything that has arrived, up to a megabyte."""
        channel = self._channel
        over = channel.closed or channel.eof_received or not self._connection.alive
        if channel.recv_stderr_ready():
            self._complaint = (self._complaint + channel.recv_stderr(_CHUNK_BYTES))[:_COMPLAINT_BYTES]
        if channel.recv_ready():
            return channel.recv(_CHUNK_BYTES)
        return None if over else b""

    def alive(self) -> bool:
        """Also looks at the socket: paramiko's thread may not have had its turn."""
        return not self._channel.closed and self._connection.alive and not self._connection.hung_up

    def epitaph(self) -> str:
        """Why the connection was lost, or with what the agent ended."""
        lost = self._connection.epitaph()
        if lost:
            return lost
        self._channel.status_event.wait(_STATUS_S)
        status = self._channel.exit_status
        if status < 0:  # paramiko's -1: killed by a signal, or the session's process on the host was
            return self._connection.epitaph() or "the agent on the host was killed"
        said = self._complaint.decode("utf-8", "replace").strip().replace("\n", " | ")
        return f"the agent on the host ended with {status}" + (f"; it complained: {said}" if said else "")

    def abandon(self, why: str) -> None:
        """Cut the whole connection: what hangs is the host, or the way to it."""
        self._connection.cut(why)

    def close(self) -> None:
        """Close the channel and give back its room; the connection is closed with its last user, or was cut."""
        with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
            self._channel.close()
        if not self._closed:
            self._closed = True
            if self._connection.given_up:
                self._connection.close()
            self._release(self._connection)


class _Announcement(threading.Event):
    """What paramiko sets when data or the end has arrived."""

    def __init__(self, arrived: Callable[[], None]) -> None:
        super().__init__()
        self._arrived = arrived

    def set(self) -> None:
        """Tell whom it concerns."""
        self._arrived()

    def clear(self) -> None:
        """Nothing waits for this event."""
