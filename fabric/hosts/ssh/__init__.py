"""Hosts reached over SSH: per host one connection and one channel to an agent, or a channel for each command."""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
from collections.abc import Callable, Mapping
from functools import partial

import paramiko

from fabric.errors import HostRefused, HostUnreachable
from fabric.hosts.agent import AgentExecutor
from fabric.hosts.ssh.connection import GONE, Connection, HostConnections, SshConnector
from fabric.hosts.stream import HostStream, raise_file_limit
from fabric.model.inventory import SshSettings
from fabric.model.topology import Login

_MISREAD = re.compile(r"[\n!\\]")  # in quotes: a newline and ! are csh's own, and fish takes \\ for \
_CHUNK_BYTES = 1 << 20  # reads of 1 KiB are ten times slower than of 128 KiB (measured)
_STATUS_S = 0.2


class SshExecutor(AgentExecutor):
    """
    Runs commands on hosts by SSH; *addresses*: where each host is; *logins*: how each switch is reached.

    Host keys are always checked. Authentication is never retried.
    """

    _final = HostRefused

    def __init__(
        self,
        settings: SshSettings,
        addresses: Mapping[str, str],
        logins: Mapping[str, Login] | None = None,
        *,
        agents: bool = True,
    ) -> None:
        super().__init__(agents=agents)
        self._limit_s = settings.connect_timeout_s
        self._connector = SshConnector(settings)
        ways = {host: (at, None) for host, at in addresses.items()} | {
            name: (login.address, login) for name, login in (logins or {}).items()
        }
        connect = self._connector.connect
        self._connections = {name: HostConnections(name, partial(connect, name, *way)) for name, way in ways.items()}
        raise_file_limit()

    def close(self) -> None:
        """End every command, then close all connections."""
        super().close()
        for host in self._connections.values():
            host.close()

    def _interrupt(self) -> None:
        self._connector.close()
        for host in self._connections.values():
            host.cut("the testbench closed the connection")

    def _stream(self, host: str, argv: tuple[str, ...], stdin: bytes, limit_s: float | None) -> HostStream | None:
        limit_s = self._limit_s if limit_s is None else min(limit_s, self._limit_s)
        connections = self._connections.get(host)
        if connections is None:
            raise HostUnreachable(host, "connecting", "no address is known for it")
        while (connection := connections.acquire()) is not None:
            try:
                channel = connection.session(timeout_s=limit_s)
            except HostUnreachable:
                connections.release(connection)
                if connection.given_up:
                    raise
                continue  # it died idle and nothing was started on it: the next one is a new connection, or an error
            if channel is not None:
                stream = _SshStream(connection, channel, connections.release)
                stream.begin(any_shell(argv).encode("utf-8", "surrogateescape"), stdin, limit_s)
                return stream
            connections.full(connection)
        return None


def any_shell(argv: tuple[str, ...]) -> str:
    """Return the line by which the login shell of an account, whichever it is, becomes *argv*."""
    line = shlex.join(("exec", *argv))
    if not _MISREAD.search(line):
        return line
    written = _MISREAD.sub(lambda found: f"\\0{ord(found[0]):03o}", line)  # as printf's %b reads it
    return shlex.join(("exec", "sh", "-c", 'eval "$(printf %b "$1")"', "sh", written))


class _SshStream(HostStream):
    """One channel of a connection; paramiko's thread announces what arrives on it."""

    def __init__(
        self, connection: Connection, channel: paramiko.Channel, release: Callable[[Connection], None]
    ) -> None:
        self._connection, self._channel, self._release = connection, channel, release
        self._closed = False

    def begin(self, line: bytes, stdin: bytes, limit_s: float) -> None:
        """Have the host execute *line*; a frozen host is given up after *limit_s*. Raises HostUnreachable."""
        silent = f"the host did not execute anything within {limit_s:g} s"
        timer = threading.Timer(limit_s, self._connection.close, (silent,))
        timer.daemon = True
        timer.start()
        begun = False
        try:
            self._channel.exec_command(line)
            begun = True
            self._channel.sendall(stdin)
        except GONE as exc:
            begun = begun and self._connection.alive
            if begun:  # it ended before it was sent everything: its output and status can still be read
                return
            cause = self._connection.epitaph() or f"the server refuses to execute ({exc})"
            raise HostUnreachable(self._connection.host, "starting a program", cause) from exc
        finally:
            timer.cancel()
            if not begun:
                self.close()

    def announce(self, arrived: Callable[[], None]) -> None:
        """Have paramiko call *arrived*."""
        announcement = _Announcement(arrived)
        self._announcement = announcement
        self._channel.in_buffer.set_event(announcement)
        self._channel.in_stderr_buffer.set_event(announcement)

    def write(self, data: bytes) -> int:
        """Send as much as the channel's window takes; nothing while keys are being exchanged anew."""
        if self._channel.closed or not self._connection.alive:
            raise EOFError
        if not self._channel.send_ready() or self._connection.rekeying:
            return 0
        try:
            return self._channel.send(data)
        except paramiko.SSHException as exc:
            raise OSError(str(exc)) from exc

    def read(self) -> tuple[bytes, bytes] | None:
        """Return everything that has arrived, up to a megabyte of each."""
        channel = self._channel
        self._announcement.fresh = False
        over = channel.closed or channel.eof_received or not self._connection.alive
        stdout = channel.recv(_CHUNK_BYTES) if channel.recv_ready() else b""
        stderr = channel.recv_stderr(_CHUNK_BYTES) if channel.recv_stderr_ready() else b""
        return None if over and not stdout and not stderr else (stdout, stderr)

    def end(self) -> None:
        """Send the end of stdin."""
        with contextlib.suppress(*GONE):
            self._channel.shutdown_write()

    def alive(self) -> bool:
        """Return whether the channel lives; also asks the socket, since paramiko's thread may not have run yet."""
        return not self._channel.closed and self._connection.alive and not self._connection.hung_up

    def epitaph(self, program: str) -> str:
        """Return why the connection was lost, or with what status the program ended."""
        lost = self._connection.epitaph()
        if lost:
            return lost
        self._channel.status_event.wait(_STATUS_S)
        status = self._channel.exit_status
        if status < 0:  # paramiko's -1: killed by a signal, or the session's process on the host was
            return self._connection.epitaph() or f"{program} on the host was killed"
        return f"{program} on the host ended with {status}"

    def abandon(self, why: str) -> None:
        """Cut the whole connection, because the host or the way to it hangs."""
        self._connection.cut(why)

    def close(self) -> None:
        """Close the channel and give back its room; a connection that was cut is closed with its last user."""
        with contextlib.suppress(*GONE):
            self._channel.close()
        if not self._closed:
            self._closed = True
            if self._connection.given_up:
                self._connection.close()
            self._release(self._connection)


class _Announcement(threading.Event):
    """The event that paramiko sets when data or the end has arrived; calls *arrived* once per look at the channel."""

    def __init__(self, arrived: Callable[[], None]) -> None:
        super().__init__()
        self._arrived = arrived
        self.fresh = False

    def set(self) -> None:
        """Call *arrived*, unless that was done since the last look."""
        if not self.fresh:
            self.fresh = True
            self._arrived()

    def clear(self) -> None:
        """Do nothing: nobody waits for this event."""
