"""Opens SSH connections, through jump hosts, each one at a time, and shares them among the commands of its host."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from weakref import WeakSet

import paramiko

from fabric.errors import HostUnreachable
from fabric.hosts.ssh.connection import Connection, NoBanner
from fabric.hosts.ssh.keys import HostRefused, Keys, KnownHosts, check_host_key, close_agent, user_keys, user_name
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
CONNECTIONS = 4  # of 8 channels each: a host may need 24 commands at once
_REFUSALS = (
    150  # of a channel although none is open, one after another; a server counts what we have closed for a while
)
_STEP = "opening a session"


class HostConnections:
    """
    Hands out room on connections to one host.

    Only one connection is being opened at a time, and who waited for one that failed shares its failure: a dead host
    is not tried once for each command. A HostRefused is remembered: asking again would get us blocked.
    """

    def __init__(self, host: str, opener: Callable[[], Connection], *, most: int = CONNECTIONS) -> None:
        self._host, self._opener, self._most = host, opener, most
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        self._attempt: Future[HostUnreachable | None] | None = None  # to open one more
        self._refused: HostUnreachable | None = None
        self._refusals = 0
        self._closed = False

    def acquire(self) -> Connection | None:
        """A live connection with room for one more channel, to be released; None while there is none."""
        while True:
            with self._lock:
                self._raise(self._refused)
                if self._closed:
                    raise HostUnreachable(self._host, "connecting", "the testbench is closing")
                live = self._live()
                roomy = [connection for connection in live if connection.used < connection.limit]
                if roomy:
                    connection = min(roomy, key=lambda one: one.used)
                    connection.used += 1
                    return connection
                if len(live) >= self._most:
                    return None
                attempt, mine = self._attempt or Future(), self._attempt is None
                self._attempt = attempt
            if mine:
                self._open(attempt)
            self._raise(attempt.result())

    def release(self, connection: Connection) -> None:
        """Give back the room of one channel."""
        with self._lock:
            connection.used -= 1

    def full(self, connection: Connection) -> None:
        """The server takes no more channels on *connection* than are open; gives back the room of the refused one."""
        with self._lock:
            connection.used -= 1
            connection.limit = max(1, min(connection.limit, connection.used))
            self._refusals = 0 if connection.used else self._refusals + 1
            if not connection.served:
                raise HostUnreachable(self._host, _STEP, "the server refuses any command (MaxSessions?)")
            if self._refusals > _REFUSALS:
                cause = f"the server refused one more command {_REFUSALS} times in a row (MaxSessions?)"
                raise HostUnreachable(self._host, _STEP, cause)

    def cut(self, why: str) -> None:
        """End all connections at once, without waiting; ``close`` tidies up."""
        with self._lock:
            self._closed = True
            for connection in self._connections:
                connection.cut(why)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close("the testbench closed the connection")

    def _live(self) -> list[Connection]:
        """Connections that still work; the others are let go of."""
        for connection in [one for one in self._connections if not one.alive]:
            self._connections.remove(connection)
            connection.close("connection lost")
        return self._connections

    def _open(self, attempt: Future[HostUnreachable | None]) -> None:
        """Open one connection, and tell all who wait for it what came of that."""
        connection: Connection | None = None
        failure: HostUnreachable | None = HostUnreachable(self._host, "connecting", "the testbench itself failed")
        try:
            connection, failure = self._opener(), None
        except HostUnreachable as exc:
            failure = exc
        finally:
            with self._lock:
                self._attempt = None
                closed = self._closed
                if connection is not None and not closed:
                    self._connections.append(connection)
                elif self._live():
                    self._most, failure = len(self._connections), None  # no more of them while some work
                elif isinstance(failure, HostRefused):
                    self._refused = failure
            if connection is not None and closed:
                connection.close("the testbench is closing")
            attempt.set_result(failure)

    def _raise(self, failure: HostUnreachable | None) -> None:
        if failure is not None:
            raise type(failure)(self._host, failure.step, failure.cause)


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
        shown = connection.exchange_keys(known.keys(address, port), timeout_s=timeout_s)
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
