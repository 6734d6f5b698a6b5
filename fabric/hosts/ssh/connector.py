"""Opens SSH connections: what is loaded once for all hosts, the gate, and the way through jump hosts."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable
from functools import partial
from weakref import WeakSet

import paramiko

from fabric.errors import HostUnreachable
from fabric.hosts.ssh.connection import Connection, NoBanner
from fabric.hosts.ssh.connections import HostConnections
from fabric.hosts.ssh.host_keys import KnownHosts, check_host_key
from fabric.hosts.ssh.keys import Keys, close_agent, user_keys, user_name
from fabric.model.inventory import JumpHost, SshSettings
from fabric.model.topology import Login

# At once; 32 was best or equal of 32, 64, 128 on two cores with 512 hosts. More connections than that may be waiting
# for TCP. sshd's MaxStartups (10:30:100) counts for each server, and none sees two of ours at a time: a host's
# connections are opened one after the other, and all that goes through a jump host is carried by one connection.
_HANDSHAKES = 32
_TRIES = 3
# Keepalive 5/2/3 notices a black-holed host in 11 s, TCP_USER_TIMEOUT one with data under way in 13 s; without
# TCP_NODELAY each command waits 40 ms for a delayed acknowledgement. All measured with paramiko 5.1.
_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000),
)
_UNLIMITED = 1 << 30  # MaxSessions does not count forwarded connections


class SshConnector:
    """Connects to hosts by the operator's settings; keys and known_hosts are read once, when first needed."""

    def __init__(self, settings: SshSettings) -> None:
        self._settings = settings
        self._gate = threading.BoundedSemaphore(_HANDSHAKES)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._loaded: tuple[Keys, KnownHosts] | HostUnreachable | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._hops = [
            HostConnections(hop.address, partial(self._hop, index), most=1) for index, hop in enumerate(settings.jump)
        ]

    def connect(self, host: str, address: str, login: Login | None = None) -> Connection:
        """A connection to an inventory host, or a switch with its own *login*, through all jump hosts."""
        settings = self._settings
        user, port = (login.user, login.port) if login is not None else (None, None)
        target = JumpHost(address=address, user=user or user_name(settings), port=port or settings.port)
        return self._through(host, target, hops=len(settings.jump))

    def close(self) -> None:
        """Interrupt connecting, then close the connections to jump hosts, the last hop first."""
        self._closing.set()
        with self._lock:
            sockets, loaded = list(self._sockets), self._loaded
        for sock in sockets:
            _shut(sock)
        for hop in reversed(self._hops):
            hop.close()
        if isinstance(loaded, tuple):
            close_agent(loaded[0])

    def _hop(self, index: int) -> Connection:
        hop = self._settings.jump[index]
        target = JumpHost(address=hop.address, user=hop.user or user_name(self._settings), port=hop.port)
        connection = self._through(hop.address, target, hops=index)
        connection.limit = _UNLIMITED
        return connection

    def _through(self, host: str, target: JumpHost, *, hops: int) -> Connection:
        """Connect over the first *hops* jump hosts; a server that hangs up before its banner is tried again."""
        keys, known = self._secrets(host)
        for tries_left in reversed(range(_TRIES)):
            sock = self._socket(host, target, hops)
            connection: Connection | None = None
            try:
                with self._gate:
                    connection = Connection(host, sock)
                    self._log_in(connection, target, keys, known, via=self._via(hops))
                return connection
            except BaseException as exc:  # a session that failed would keep its thread for ever
                (connection or sock).close()
                if not isinstance(exc, NoBanner) or not tries_left or self._closing.wait(random.uniform(0.2, 1.0)):
                    raise
        raise AssertionError("the last try returns or raises")

    def _socket(self, host: str, target: JumpHost, hops: int) -> socket.socket | paramiko.Channel:
        timeout_s = self._settings.connect_timeout_s
        if self._closing.is_set():
            raise HostUnreachable(host, "connecting", "the testbench is closing")
        if not hops:
            return connected(host, target.address, port=target.port, timeout_s=timeout_s, opened=self._remember)
        hop = self._hops[hops - 1]
        try:
            bastion = hop.acquire()
        except HostUnreachable as exc:
            raise HostUnreachable(host, f"{exc.step}, jump host {exc.host}", exc.cause) from exc
        assert bastion is not None  # its room has no limit
        try:
            return bastion.forward(target.address, target.port, timeout_s=timeout_s)
        except HostUnreachable as exc:
            raise HostUnreachable(host, exc.step, exc.cause) from exc
        finally:
            hop.release(bastion)

    def _log_in(self, connection: Connection, target: JumpHost, keys: Keys, known: KnownHosts, *, via: str) -> None:
        """Exchange keys, check the host's, authenticate."""
        address, port, timeout_s = target.address, target.port, self._settings.connect_timeout_s
        trusted = bool(known.authorities(address, port))
        shown = connection.exchange_keys(known.keys(address, port), timeout_s=timeout_s, certificates=trusted)
        file = next(iter(self._settings.known_hosts), "~/.ssh/known_hosts")
        check_host_key(known, shown, connection.host, target, via=via, file=file)
        assert target.user is not None
        connection.authenticate(target.user, keys)

    def _secrets(self, host: str) -> tuple[Keys, KnownHosts]:
        """Keys and known_hosts; a failure to read them is remembered as well."""
        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = user_keys(self._settings), KnownHosts.load(self._settings.known_hosts)
                except HostUnreachable as exc:
                    self._loaded = exc
            if isinstance(self._loaded, HostUnreachable):
                raise HostUnreachable(host, self._loaded.step, self._loaded.cause) from self._loaded
            return self._loaded

    def _via(self, hops: int) -> str:
        if not hops:
            return ""
        hop = self._settings.jump[hops - 1]
        return f"-p {hop.port} {hop.address}" if hop.port != 22 else hop.address

    def _remember(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.add(sock)
        if self._closing.is_set():
            _shut(sock)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # not connected, or gone already
        sock.shutdown(socket.SHUT_RDWR)


def connected(
    host: str, address: str, *, port: int, timeout_s: float, opened: Callable[[socket.socket], None]
) -> socket.socket:
    """
    A connected socket; *opened* sees each socket before it connects, so that others can shut it down.

    Raises HostUnreachable in words that a person understands.
    """
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as exc:
        raise HostUnreachable(host, "connecting", f"name does not resolve: {address} ({exc})") from exc
    problem: OSError | None = None
    for family, kind, protocol, _, target in found:
        sock = socket.socket(family, kind, protocol)
        try:
            for level, option, value in _OPTIONS:
                sock.setsockopt(level, option, value)
            sock.settimeout(timeout_s / len(found))
            opened(sock)
            sock.connect(target)
        except OSError as exc:
            sock.close()
            problem = exc
        else:
            return sock
    raise HostUnreachable(host, "connecting", _words(problem, address, port, timeout_s)) from problem


def _words(problem: OSError | None, address: str, port: int, timeout_s: float) -> str:
    place = f"{address} port {port}"
    if isinstance(problem, ConnectionRefusedError):
        return f"connection refused by {place}; is sshd running there?"
    if isinstance(problem, TimeoutError):
        return f"no answer from {place} within {timeout_s:g} s"
    reason = "the name has no address" if problem is None else problem.strerror or str(problem)
    return f"{place}: {reason}"
