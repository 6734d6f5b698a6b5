"""SSH connections: opened through jump hosts, one at a time per host, kept for the run, shared by its commands."""

import contextlib
import logging
import random
import re
import select
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from weakref import WeakSet

import paramiko

from fabric.errors import HostRefused, HostUnreachable, JumpHostUnreachable
from fabric.hosts.ssh.keys import (
    HostKey,
    Keys,
    KnownHosts,
    check_host_key,
    close_agent,
    user_keys,
    user_name,
)
from fabric.hosts.stream import notice_loss
from fabric.model.inventory import JumpHost, SshSettings
from fabric.model.topology import Login

CHANNELS = 8  # at once on one connection; sshd's MaxSessions is 10 by default, and one may still be closing
_JOIN_S = 3.0
# How often a session's thread looks whether it was closed. paramiko's 0.1 s wakes each connection ten times a second:
# 2,048 of them then use up a core (measured).
_LOOK_S = 2.0
_WEAK = re.compile(
    r"none|arcfour.*|.+-cbc(@.+)?"
    r"|hmac-(md5|sha1-96|ripemd160).*"
    r"|(diffie-hellman|gss)-.*-sha1(-.*)?"
    r"|ssh-(rsa|dss)(-cert-.+)?",
    re.ASCII,
)
"""Ciphers, MACs, key exchanges and host keys that OpenSSH 9's client refuses by default."""

# Failures reach us as exceptions; without this paramiko also writes tracebacks to stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False
logging.getLogger("paramiko").setLevel(logging.WARNING)  # about 36 messages a connection, which nobody reads


GONE = (paramiko.SSHException, OSError, EOFError)
"""What paramiko raises when a session has ended, or ends."""


class NoBanner(HostUnreachable):
    """TCP connected, but the server hung up before its banner: sshd's MaxStartups; worth another try."""


class Connection:
    """An authenticated session that commands share; *used* and *limit* belong to HostConnections."""

    def __init__(self, host: str, sock: socket.socket | paramiko.Channel) -> None:
        self.host = host
        self.used, self.limit = 0, CHANNELS
        self.served = False  # whether it ever opened a session
        self._sock = sock
        self.given_up = ""  # why we ended it
        self._loss: str | None = None  # why it ended by itself
        self._transport = paramiko.Transport(sock)
        sock.settimeout(_LOOK_S)

    @property
    def alive(self) -> bool:
        """False once the session has ended."""
        return not self.given_up and self._transport.is_active()

    @property
    def rekeying(self) -> bool:
        """True while keys are exchanged anew: sending would block until the other side has answered."""
        return not self._transport.clear_to_send.is_set()

    @property
    def hung_up(self) -> bool:
        """True when the other side has closed the TCP connection, even if nobody has read so far."""
        if not isinstance(self._sock, socket.socket):
            return False
        poll = select.poll()
        poll.register(self._sock, select.POLLRDHUP)
        return bool(poll.poll(0))

    def exchange_keys(self, known: Sequence[HostKey], *, timeout_s: float) -> paramiko.PKey:
        """Negotiate, preferring host keys of a *known* type; return the key that the server proved to have."""
        transport, step = self._transport, "exchanging keys"
        transport.handshake_timeout = transport.auth_timeout = timeout_s
        # Longer, so that start_client's limit comes first and can be told from a hang-up.
        transport.banner_timeout = timeout_s + 5
        _tune(transport.get_security_options(), {key.key_type for key in known})
        try:
            transport.start_client(timeout=timeout_s)
            shown = transport.get_remote_server_key()
        except paramiko.ssh_exception.IncompatiblePeer as exc:
            needed = "only what ssh takes by default is taken, weak ones never, and ECDH is needed: see its sshd_config"
            raise HostRefused(self.host, step, f"{_reason(exc)}: {needed}") from exc
        except GONE as exc:
            if transport.is_active():
                lacking = "key exchange" if transport.remote_version else "SSH banner"
                raise HostUnreachable(self.host, step, f"TCP connects but no {lacking} within {timeout_s:g} s") from exc
            if transport.remote_version or "Indecipherable" in str(exc):
                raise HostUnreachable(self.host, step, _reason(exc)) from exc
            raise NoBanner(self.host, step, f"the server hung up before its SSH banner ({_reason(exc)})") from exc
        return shown

    def authenticate(self, user: str, keys: Sequence[tuple[str, paramiko.PKey]]) -> None:
        """Log in with the first key that is accepted."""
        step = "authenticating"
        for _, key in keys:
            try:
                further = self._transport.auth_publickey(user, key)
            except paramiko.BadAuthenticationType as exc:
                takes = ", ".join(exc.allowed_types)
                cause = f"the server takes no keys from user {user}, only {takes}; fabric logs in by key"
                raise HostRefused(self.host, step, cause) from exc
            except paramiko.AuthenticationException as exc:
                if "timeout" in str(exc):
                    raise HostUnreachable(self.host, step, "the server did not answer in time") from exc
                continue
            except GONE as exc:
                raise HostUnreachable(self.host, step, f"the session ended ({_reason(exc)})") from exc
            if further:
                raise HostRefused(
                    self.host, step, f"the key is accepted, but the server also wants {', '.join(further)}"
                )
            return
        names = ", ".join(name for name, _ in keys)
        raise HostRefused(self.host, step, f"authentication failed for user {user} with key {names}")

    def session(self, *, timeout_s: float) -> paramiko.Channel | None:
        """Open a channel; None when the server refuses another one. Only one may be asked for at a time."""
        try:
            channel = self._transport.open_session(timeout=timeout_s)
        except GONE as exc:
            if self.alive and "Timeout" not in str(exc):
                return None
            if self.alive:
                self.given_up = f"the host did not open a session within {timeout_s:g} s"
            raise HostUnreachable(self.host, "opening a session", self.epitaph() or _reason(exc)) from exc
        self.served = True
        return channel

    def forward(self, address: str, port: int, *, timeout_s: float) -> paramiko.Channel:
        """
        Open a TCP connection from this host to another.

        Many may be opened at once; otherwise each host that is down would hold up all others for its time-out. paramiko
        may then give the server's reason to another one of the failing calls; the reason is one word, mostly the same.
        """
        try:
            return self._transport.open_channel("direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=timeout_s)
        except GONE as exc:
            cause = f"jump host {self.host} could not connect to {address} port {port} ({_reason(exc)})"
            if self.alive and "Timeout" in str(exc):
                cause = f"jump host {self.host}, or {address} port {port} behind it, did not answer in {timeout_s:g} s"
            raise HostUnreachable(self.host, "connecting", cause) from exc

    def epitaph(self) -> str:
        """Return why the session ended, as far as is known; empty while it lives."""
        if self.given_up:
            return self.given_up
        if self._transport.is_active():
            return ""
        exc = self._transport.get_exception()  # returned only once
        if exc is not None and self._loss is None:
            self._loss = f"connection lost ({_reason(exc)})"
        return self._loss or "connection lost"

    def cut(self, why: str) -> None:
        """End the session at once, without waiting for anything; ``close`` tidies up."""
        if self._transport.is_active():
            self.given_up = self.given_up or why
        with contextlib.suppress(*GONE):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes the transport's thread, which otherwise looks up after 2 s

    def close(self, why: str = "closed") -> None:
        """End the session and its thread; all commands on it get *why*, unless the session had ended by itself."""
        self.cut(why)
        with contextlib.suppress(*GONE):  # a channel of a jump host may be gone
            self._transport.close()
            self._sock.close()
        if self._transport.is_alive() and self._transport is not threading.current_thread():
            self._transport.join(_JOIN_S)


def strong(names: Iterable[str]) -> tuple[str, ...]:
    """Return the algorithms that OpenSSH 9's client would take."""
    return tuple(name for name in names if not _WEAK.fullmatch(name))


def _tune(options: paramiko.transport.SecurityOptions, known_types: set[str]) -> None:
    """
    Restrict and order the algorithms.

    AES-GCM first (cheaper); no DH groups (16-78 ms of Python that stalls all threads); host key types on record first.
    Nothing weak: paramiko would agree to it with a server, or somebody in between, that offers nothing else.
    """
    options.ciphers = tuple(sorted(strong(options.ciphers), key=lambda name: "gcm" not in name))
    options.digests = strong(options.digests)
    options.kex = tuple(name for name in strong(options.kex) if not name.startswith("diffie-hellman"))
    known_types = known_types | ({"rsa-sha2-512", "rsa-sha2-256"} if "ssh-rsa" in known_types else set())
    options.key_types = tuple(sorted(strong(options.key_types), key=lambda name: name not in known_types))


def _reason(exc: BaseException) -> str:
    return str(exc).strip().rstrip(".") or type(exc).__name__


# Handshakes at once; 32 was best or equal of 32, 64, 128 on two cores with 512 hosts. More connections than that may be
# waiting for TCP. sshd's MaxStartups (10:30:100) counts for each server, and none sees two of ours at a time: a host's
# connections are opened one after the other, and one connection carries all that goes through a jump host.
_HANDSHAKES = 32
_TRIES = 3
_UNLIMITED = 1 << 30  # MaxSessions does not count forwarded connections
CONNECTIONS = 4  # of 8 channels each: a host may need 24 commands at once
_REFUSALS = 150  # refusals in a row with no channel open; a server still counts closed channels for a while
_STEP = "opening a session"


class HostConnections:
    """
    Hands out room on connections to one host.

    Only one connection is opened at a time, and all who wait for it share its failure: a dead host is not tried once
    for each command. A HostRefused is remembered: asking again would get us blocked.
    """

    def __init__(self, host: str, opener: Callable[[], Connection], *, most: int = CONNECTIONS) -> None:
        self._host, self._opener, self._most = host, opener, most
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        self._attempt: Future[HostUnreachable | None] | None = None  # to open one more connection
        self._refused: HostUnreachable | None = None
        self._refusals = 0
        self._closed = False

    def acquire(self) -> Connection | None:
        """Return a live connection with room for one more channel, to be released; None while there is none."""
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
        """
        Lower the limit of *connection* after a refused channel, and give back that channel's room.

        Raises HostUnreachable when the server refuses every command, or has refused too often in a row.
        """
        with self._lock:
            connection.used -= 1
            connection.limit = max(1, min(connection.limit, connection.used))
            self._refusals = 0 if connection.used else self._refusals + 1
            if not connection.served:
                raise HostRefused(self._host, _STEP, "the server refuses any command (MaxSessions?)")
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
        """Return the connections that still work; close and forget the others."""
        for connection in [one for one in self._connections if not one.alive]:
            self._connections.remove(connection)
            connection.close("connection lost")
        return self._connections

    def _open(self, attempt: Future[HostUnreachable | None]) -> None:
        """Open one connection, and report the result to all who wait for it."""
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
                    self._most, failure = len(self._connections), None  # open no more of them while some work
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
        """Return a connection to an inventory host, or a switch with its own *login*, through all jump hosts."""
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
        """Connect over the first *hops* jump hosts; retry when a server hangs up before its banner."""
        keys, known = self._secrets(host)
        for tries_left in reversed(range(_TRIES)):
            sock = self._socket(host, target, hops)
            connection: Connection | None = None
            try:
                with self._gate:
                    connection = Connection(host, sock)
                    self._log_in(connection, target, keys, known, via=self._via(hops))
                return connection
            except BaseException as exc:  # a failed session would keep its thread for ever
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
            raise JumpHostUnreachable(host, f"{exc.step}, jump host {exc.host}", exc.cause) from exc
        assert bastion is not None  # its room has no limit
        try:
            return bastion.forward(target.address, target.port, timeout_s=timeout_s)
        except HostUnreachable as exc:
            raise HostUnreachable(host, exc.step, exc.cause) from exc
        finally:
            hop.release(bastion)

    def _log_in(self, connection: Connection, target: JumpHost, keys: Keys, known: KnownHosts, *, via: str) -> None:
        """Exchange keys, check the host's key, authenticate."""
        address, port, timeout_s = target.address, target.port, self._settings.connect_timeout_s
        shown = connection.exchange_keys(known.keys(address, port), timeout_s=timeout_s)
        file = next(iter(self._settings.known_hosts), "~/.ssh/known_hosts")
        check_host_key(known, shown, connection.host, target, via=via, file=file)
        assert target.user is not None
        connection.authenticate(target.user, keys)

    def _secrets(self, host: str) -> tuple[Keys, KnownHosts]:
        """Return keys and known_hosts; a failure to read them is remembered as well."""
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
    Return a connected socket; *opened* gets each socket before it connects, so that others can shut it down.

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
            notice_loss(sock)
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
