"""The stream to an agent over a channel of an SSH connection."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import paramiko

from fabric.executors.ssh_packets import CHANNEL_DATA, channel_lead
from fabric.executors.ssh_plain import Session

_CHUNK_BYTES = 1 << 20
_HEAD_BYTES = 64  # of a packet, for what leads the data; paramiko's own choice
_TAKEN_BYTES = 64 << 10  # a channel's window is 2 MiB, and paramiko widens it by 205 KiB at a time
_STATUS_S = 0.2
_COMPLAINT_BYTES = 2000


class SshStream:
    """
    One channel; what arrives on it is announced by paramiko's thread, which calls *arrived*.

    After ``lend`` that thread sleeps most of the time: who uses the stream then reads the socket himself, see ``fds``.
    """

    def __init__(self, session: Session, arrived: Callable[[], None]) -> None:
        self._connection, self._channel, self._release = session.connection, session.channel, session.release
        self._packets, self._lead = session.connection.packets, channel_lead(session.channel)
        self._to_host = CHANNEL_DATA + session.channel.remote_chanid.to_bytes(4, "big")
        self._drained = False
        self._taken_bytes = 0  # that paramiko's channel does not know of yet
        self._complaint = b""
        self._closed = False
        self._announced = _Announcement(arrived)
        self._channel.in_buffer.set_event(self._announced)
        self._channel.in_stderr_buffer.set_event(self._announced)

    def lend(self) -> None:
        """From the next message on, read the socket where the stream is read."""
        self._packets.lend(self._announced.arrived)

    def fds(self) -> tuple[int, ...]:
        """The socket's, unless paramiko's thread reads it."""
        fd = self._connection.fileno() if self._packets.lent else -1
        return (fd,) if fd >= 0 else ()  # -1: it has just been closed

    def write(self, data: bytes) -> int:
        """Send as much as the channel's window takes, unless keys are being exchanged anew."""
        if self._packets.lent:
            return self._write_lent(data)
        if self._channel.closed or not self._connection.alive:
            raise EOFError
        if not self._channel.send_ready() or self._connection.rekeying:
            return 0
        try:
            return self._channel.send(data)
        except paramiko.SSHException as exc:
            raise OSError(str(exc)) from exc

    def _write_lent(self, data: bytes) -> int:
        """What the channel's own ``send`` does, in fewer steps."""
        channel = self._channel
        with channel.lock:
            if channel.closed or channel.eof_sent or not self._connection.alive:
                raise EOFError
            size = min(len(data), channel.out_window_size, channel.out_max_packet_size - _HEAD_BYTES)
            if size <= 0:
                return 0
            channel.out_window_size -= size
        payload = b"%b%b%b" % (self._to_host, size.to_bytes(4, "big"), data[:size])
        if self._connection.send(payload):
            return size
        with channel.lock:
            channel.out_window_size += size
        return 0

    def read(self) -> bytes | None:
        """Everything that has arrived, up to a megabyte."""
        channel = self._channel
        if self._packets.lent and not self._announced.fresh:
            return self._read_lent()
        self._announced.fresh = False
        over = channel.closed or channel.eof_received or not self._connection.alive
        if channel.recv_stderr_ready():
            self._complaint = (self._complaint + channel.recv_stderr(_CHUNK_BYTES))[:_COMPLAINT_BYTES]
        if channel.recv_ready():
            return channel.recv(_CHUNK_BYTES)
        return None if over else b""

    def _read_lent(self) -> bytes:
        """Empty when nothing has arrived, or something that the session's thread deals with and then announces."""
        if self._drained:
            self._drained = False  # who reads until there is nothing need not ask the kernel again
            return b""
        data, more = self._packets.read_lent(self._lead)
        if data:
            self._drained = self._packets.lent and not more
            self._taken_bytes += len(data)
            if self._taken_bytes > _TAKEN_BYTES:
                self._make_room()
        return data

    def _make_room(self) -> None:
        """Have the channel count what was read past it, and let the host send more."""
        room = self._channel._check_add_window(self._taken_bytes)  # type: ignore[attr-defined]
        self._taken_bytes = 0
        if room > 0:
            self._connection.widen(self._channel.remote_chanid, room)

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
        self._packets.reclaim()
        with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
            self._channel.close()
        if not self._closed:
            self._closed = True
            if self._connection.given_up:
                self._connection.close()
            self._release(self._connection)


class _Announcement(threading.Event):
    """What paramiko sets when data or the end has arrived; *fresh* until the channel was looked at."""

    def __init__(self, arrived: Callable[[], None]) -> None:
        super().__init__()
        self.arrived = arrived
        self.fresh = True

    def set(self) -> None:
        """Tell whom it concerns."""
        self.fresh = True
        self.arrived()

    def clear(self) -> None:
        """Nothing waits for this event."""
