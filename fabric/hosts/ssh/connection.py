"""One SSH session with one host, kept for the whole run: keys exchanged, host key checked, user authenticated."""

from __future__ import annotations

import contextlib
import logging
import re
import select
import socket
import threading
from collections.abc import Iterable, Sequence

import paramiko

from fabric.errors import HostUnreachable
from fabric.hosts.ssh.keys import HostKey, HostRefused

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
"""Ciphers, MACs, key exchanges and host keys that OpenSSH 9's client refuses unless it is told otherwise."""

# What goes wrong comes to us as exceptions; without this paramiko also writes tracebacks to stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False
logging.getLogger("paramiko").setLevel(logging.WARNING)  # about 36 messages a connection, which nobody reads


class NoBanner(HostUnreachable):
    """TCP connected, but the server hung up before it named itself: sshd's MaxStartups; worth another try."""


class Connection:
    """An authenticated session that commands share; *used* and *limit* belong to HostConnections."""

    def __init__(self, host: str, sock: socket.socket | paramiko.Channel) -> None:
        self.host = host
        self.used, self.limit = 0, CHANNELS
        self.served = False  # whether it ever opened a session
        self._sock = sock
        self._given_up: str | None = None  # why we ended it
        self._loss: str | None = None  # why it ended by itself
        self._transport = paramiko.Transport(sock)
        sock.settimeout(_LOOK_S)

    @property
    def alive(self) -> bool:
        """False once the session has ended."""
        return self._given_up is None and self._transport.is_active()

    @property
    def given_up(self) -> bool:
        """True when we ended it, and not the other side."""
        return self._given_up is not None

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

    def exchange_keys(self, known: Sequence[HostKey], *, timeout_s: float) -> HostKey:
        """Negotiate, prefer host keys of a *known* type; returns the key that the server proved to have."""
        transport, step = self._transport, "exchanging keys"
        transport.handshake_timeout = transport.auth_timeout = timeout_s
        # start_client's own limit comes first, and can be told from hanging up.
        transport.banner_timeout = timeout_s + 5
        _tune(transport.get_security_options(), {key.key_type for key in known})
        try:
            transport.start_client(timeout=timeout_s)
            shown = transport.get_remote_server_key()
        except paramiko.ssh_exception.IncompatiblePeer as exc:
            needed = "only what ssh takes by default is taken, weak ones never, and ECDH is needed: see its sshd_config"
            raise HostRefused(self.host, step, f"{_said(exc)}: {needed}") from exc
        except (paramiko.SSHException, OSError, EOFError) as exc:
            if transport.is_active():
                lacking = "key exchange" if transport.remote_version else "SSH banner"
                raise HostUnreachable(self.host, step, f"TCP connects but no {lacking} within {timeout_s:g} s") from exc
            if transport.remote_version or "Indecipherable" in str(exc):
                raise HostUnreachable(self.host, step, _said(exc)) from exc
            raise NoBanner(self.host, step, f"the server hung up before its SSH banner ({_said(exc)})") from exc
        return HostKey(shown.get_name(), shown.asbytes())

    def authenticate(self, user: str, keys: Sequence[tuple[str, paramiko.PKey]]) -> None:
        """Log in with the first key that is accepted."""
        step = "authenticating"
        for _, key in keys:
            try:
                further = self._transport.auth_publickey(user, key)
            except paramiko.AuthenticationException as exc:
                if "timeout" in str(exc):
                    raise HostUnreachable(self.host, step, "the server did not answer in time") from exc
                continue
            except (paramiko.SSHException, OSError, EOFError) as exc:
                raise HostUnreachable(self.host, step, f"the session ended ({_said(exc)})") from exc
            if further:
                raise HostRefused(
                    self.host, step, f"the key is accepted, but the server also wants {', '.join(further)}"
                )
            return
        names = ", ".join(name for name, _ in keys)
        raise HostRefused(self.host, step, f"authentication failed for user {user} with key {names}")

    def session(self, *, timeout_s: float) -> paramiko.Channel | None:
        """A channel, of which only one may be asked for at a time; None when the server refuses another one."""
        try:
            channel = self._transport.open_session(timeout=timeout_s)
        except (paramiko.SSHException, OSError, EOFError) as exc:
            if self.alive and "Timeout" not in str(exc):
                return None
            if self.alive:
                self._given_up = f"the host did not open a session within {timeout_s:g} s"
            raise HostUnreachable(self.host, "opening a session", self.epitaph() or _said(exc)) from exc
        self.served = True
        return channel

    def forward(self, address: str, port: int, *, timeout_s: float) -> paramiko.Channel:
        """
        A TCP connection from this host on to another.

        Many may be opened at once, or each host that is down would hold up all others for its time-out. paramiko then
        gives the server's reason to any one of those that fail; it is no more than a word, and the same for most.
        """
        try:
            return self._transport.open_channel("direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=timeout_s)
        except (paramiko.SSHException, OSError, EOFError) as exc:
            cause = f"jump host {self.host} could not connect to {address} port {port} ({_said(exc)})"
            raise HostUnreachable(self.host, "connecting", cause) from exc

    def epitaph(self) -> str:
        """Why the session ended, as far as it can be told; empty while it lives."""
        if self._given_up is not None:
            return self._given_up
        if self._transport.is_active():
            return ""
        exc = self._transport.get_exception()  # given out once
        if exc is not None and self._loss is None:
            self._loss = f"connection lost ({_said(exc)})"
        return self._loss or "connection lost"

    def cut(self, why: str) -> None:
        """End the session at once, without waiting for anything; ``close`` tidies up."""
        if self._transport.is_active():
            self._given_up = self._given_up or why
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes the transport's thread, which else looks up after 2 s

    def close(self, why: str = "closed") -> None:
        """End the session and its thread; *why* is told to all commands on it, unless it had ended by itself."""
        self.cut(why)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):  # a channel of a jump host may be gone
            self._transport.close()
            self._sock.close()
        if self._transport.is_alive() and self._transport is not threading.current_thread():
            self._transport.join(_JOIN_S)


def strong(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the algorithms that OpenSSH 9's client would take."""
    return tuple(name for name in names if not _WEAK.fullmatch(name))


def _tune(options: paramiko.transport.SecurityOptions, known_types: set[str]) -> None:
    """
    AES-GCM first (cheaper); no DH groups (16-78 ms of Python that stalls all threads); host keys we can check.

    Nothing weak, which paramiko would agree to with a server, or with somebody in between, that has nothing else.
    """
    options.ciphers = tuple(sorted(strong(options.ciphers), key=lambda name: "gcm" not in name))
    options.digests = strong(options.digests)
    options.kex = tuple(name for name in strong(options.kex) if not name.startswith("diffie-hellman"))
    known_types = known_types | ({"rsa-sha2-512", "rsa-sha2-256"} if "ssh-rsa" in known_types else set())
    options.key_types = tuple(sorted(strong(options.key_types), key=lambda name: name not in known_types))


def _said(exc: BaseException) -> str:
    return str(exc).strip().rstrip(".") or type(exc).__name__
