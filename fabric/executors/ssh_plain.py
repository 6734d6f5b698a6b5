"""Hosts reached over SSH without an agent: a few kept connections each, one channel a command."""

from __future__ import annotations

import contextlib
import resource
import shlex
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import paramiko

from fabric.errors import HostUnreachable
from fabric.executors.host_connections import HostConnections
from fabric.executors.pipe import Pipe
from fabric.executors.ssh_connection import Connection
from fabric.executors.ssh_connector import SshConnector
from fabric.executors.threaded import GRACE_S, ThreadedExecutor
from fabric.model.command import Command
from fabric.model.inventory import SshSettings
from fabric.model.topology import Login

_CHUNK_BYTES = 1 << 20  # reads of 1 KiB are ten times slower than of 128 KiB (measured)
_STATUS_S = 1.0
_REFUSALS = 150  # each is followed by a moment's wait for room, see HostConnections.full


@dataclass(frozen=True, slots=True)
class Session:
    """A channel, the connection it belongs to, and whom to tell when it is closed."""

    connection: Connection
    channel: paramiko.Channel
    release: Callable[[Connection], None]


class SshPlainExecutor(ThreadedExecutor):
    """
    Runs commands on hosts by SSH; *addresses* says where each host is, *logins* how each switch is reached.

    Host keys are checked, always. Authentication is never retried.
    """

    def __init__(
        self, settings: SshSettings, addresses: Mapping[str, str], logins: Mapping[str, Login] | None = None
    ) -> None:
        super().__init__()
        self._settings = settings
        self.connector = SshConnector(settings)
        self._hosts = {host: HostConnections(host, self._opener(host, at)) for host, at in addresses.items()}
        for name, login in (logins or {}).items():
            self._hosts[name] = HostConnections(name, self._opener(name, login.address, login))
        _raise_file_limit()

    def _opener(self, host: str, address: str, login: Login | None = None) -> Callable[[], Connection]:
        return lambda: self.connector.connect(host, address, login)

    def _open(self, command: Command) -> Pipe:
        timeout_s = min(self._settings.connect_timeout_s, command.timeout_s + GRACE_S)
        session = self.session(command.host, timeout_s=timeout_s)
        return _SshPipe(session.connection, session.channel, release=session.release)

    def session(self, name: str, *, timeout_s: float) -> Session:
        """A new channel to a host; raises HostUnreachable."""
        host = self._hosts.get(name)
        if host is None:
            raise HostUnreachable(name, "connecting", "no address is known for it")
        for _ in range(_REFUSALS):
            connection = host.acquire()
            try:
                channel = connection.session(timeout_s=timeout_s)
            except HostUnreachable:
                host.release(connection)
                if connection.given_up:
                    raise
                continue  # it died idle, and nothing was started on it: the next one is a new connection, or an error
            if channel is not None:
                return Session(connection, channel, host.release)
            host.full(connection)
        cause = f"the server refused one more command {_REFUSALS} times in a row (MaxSessions?)"
        raise HostUnreachable(name, "opening a session", cause)

    def _let_go(self) -> None:
        for host in self._hosts.values():
            host.cut("the testbench closed the connection")  # so that the next loop waits for all at the same time
        for host in self._hosts.values():
            host.close()
        self.connector.close()


class Arrival(threading.Event):
    """Set by paramiko when data or the end arrives; paramiko's clearing is passed over, it could lose the other's."""

    def clear(self) -> None:
        """Do nothing: two buffers share this event, and each would clear what the other set."""

    def reset(self) -> None:
        """Forget; only the reader does, before it looks."""
        super().clear()


class _SshPipe:
    """One channel of a connection."""

    def __init__(
        self, connection: Connection, channel: paramiko.Channel, *, release: Callable[[Connection], None]
    ) -> None:
        self._connection, self._channel, self._release = connection, channel, release
        self._released = False
        self._arrival = Arrival()
        channel.in_buffer.set_event(self._arrival)
        channel.in_stderr_buffer.set_event(self._arrival)

    def begin(self, argv: tuple[str, ...]) -> None:
        """Ask the host to execute; a host that has frozen blocks this until ``abort``."""
        line = shlex.join(("exec", *argv)).encode("utf-8", "surrogateescape")
        try:
            self._channel.exec_command(line)
        except (paramiko.SSHException, OSError, EOFError) as exc:
            cause = self._connection.epitaph() or f"the server refuses to execute ({exc})"
            raise HostUnreachable(self._connection.host, "starting a command", cause) from exc

    def read(self, timeout_s: float) -> tuple[bytes, bytes] | None:
        """One read of each stream that has something; both are looked at, so neither can block the other."""
        channel = self._channel
        over = channel.closed or channel.eof_received or not self._connection.alive
        if not over:
            self._arrival.wait(timeout_s)
        self._arrival.reset()
        stdout = channel.recv(_CHUNK_BYTES) if channel.recv_ready() else b""
        stderr = channel.recv_stderr(_CHUNK_BYTES) if channel.recv_stderr_ready() else b""
        if channel.recv_ready() or channel.recv_stderr_ready():
            self._arrival.set()
        return None if over and not stdout and not stderr else (stdout, stderr)

    def end(self) -> None:
        """Send the end of stdin."""
        with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
            self._channel.shutdown_write()

    def abort(self, why: str) -> None:
        """Close the whole connection: what hangs is the host, or the way to it."""
        self._connection.close(why)

    def epitaph(self) -> str:
        """Why the connection was lost, or with what the login shell ended."""
        lost = self._connection.epitaph()
        if lost:
            return lost
        self._channel.status_event.wait(_STATUS_S)
        status = self._channel.exit_status
        if status < 0:  # paramiko's -1: killed by a signal, or the session's process on the host was
            return self._connection.epitaph() or "the command's shell on the host was killed"
        return f"the login shell ended with {status} and did not run the command to its end"

    def close(self) -> None:
        """Close the channel and give back its room."""
        with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
            self._channel.close()
        if not self._released:
            self._released = True
            self._release(self._connection)


def _raise_file_limit() -> None:
    """Each connection is a file descriptor; the usual soft limit of 1,024 is too low for a large fabric."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
