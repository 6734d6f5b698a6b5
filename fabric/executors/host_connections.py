"""The connections to one host: opened when needed, one at a time, shared by its commands."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fabric.errors import HostUnreachable
from fabric.executors.ssh_connection import Connection, Refused

CONNECTIONS = 4  # of 8 channels each: a host may need 24 commands at once
_WAIT_S = 5.0
_REFUSED_WAIT_S = 0.1


class HostConnections:
    """
    Hands out room on connections to one host.

    Only one connection is being opened at a time, and who waited for one that failed shares its failure: a dead host
    is not tried once for each command. A Refused is remembered: asking again would get us blocked.
    """

    def __init__(self, host: str, opener: Callable[[], Connection], *, most: int = CONNECTIONS) -> None:
        self._host, self._opener, self._most = host, opener, most
        self._changed = threading.Condition()
        self._connections: list[Connection] = []
        self._opening = False
        self._failures = 0
        self._failure: HostUnreachable | None = None
        self._closed = False

    def acquire(self) -> Connection:
        """A live connection with room for one more channel; ``release`` it."""
        with self._changed:
            seen = self._failures
            while True:
                live = self._live()
                roomy = [connection for connection in live if connection.used < connection.limit]
                if roomy:
                    connection = min(roomy, key=lambda one: one.used)
                    connection.used += 1
                    return connection
                self._raise_if_hopeless(seen, any_live=bool(live))
                if not self._opening and len(live) < self._most:
                    self._opening = True
                    break
                self._changed.wait(_WAIT_S)
        return self._opened()

    def release(self, connection: Connection) -> None:
        """Give back the room of one channel."""
        with self._changed:
            connection.used -= 1
            self._changed.notify_all()

    def full(self, connection: Connection) -> None:
        """
        The server takes no more channels on *connection* than are open; gives back the room of the refused one.

        Returns when some room was given back, or after a moment: a server may count a channel for a while after we
        have closed it.
        """
        if not connection.served:
            self.release(connection)
            raise HostUnreachable(self._host, "opening a session", "the server refuses any command (MaxSessions?)")
        with self._changed:
            connection.used -= 1
            connection.limit = max(1, min(connection.limit, connection.used))
            self._changed.wait(_REFUSED_WAIT_S)

    def cut(self, why: str) -> None:
        """End all connections at once, without waiting; ``close`` tidies up."""
        with self._changed:
            self._closed = True
            for connection in self._connections:
                connection.cut(why)
            self._changed.notify_all()

    def close(self) -> None:
        """Close all connections; who waits for one is told."""
        with self._changed:
            self._closed = True
            connections, self._connections = self._connections, []
            self._changed.notify_all()
        for connection in connections:
            connection.close("the testbench closed the connection")

    def _live(self) -> list[Connection]:
        """Connections that still work; the others are let go of."""
        for connection in [one for one in self._connections if not one.alive]:
            self._connections.remove(connection)
            connection.close("connection lost")
        return self._connections

    def _raise_if_hopeless(self, seen: int, *, any_live: bool) -> None:
        if self._closed:
            raise HostUnreachable(self._host, "connecting", "the testbench is closing")
        failure = self._failure
        if failure is None or any_live:
            return
        if isinstance(failure, Refused) or self._failures != seen:
            raise type(failure)(self._host, failure.step, failure.cause)

    def _opened(self) -> Connection:
        """Open one connection; the caller has set *_opening*."""
        connection: Connection | None = None
        failure: HostUnreachable | None = None
        try:
            connection = self._opener()
        except HostUnreachable as exc:
            failure = exc
        finally:
            with self._changed:
                self._opening = False
                if connection is not None and not self._closed:
                    connection.used += 1
                    self._connections.append(connection)
                elif failure is not None:
                    self._failures, self._failure = self._failures + 1, failure
                    self._most = max(1, len(self._connections))  # no more of them while some work
                self._changed.notify_all()
        if failure is not None:
            if self._live_count():
                return self.acquire()
            raise failure
        assert connection is not None
        if self._closed:
            connection.close("the testbench is closing")
            raise HostUnreachable(self._host, "connecting", "the testbench is closing")
        return connection

    def _live_count(self) -> int:
        with self._changed:
            return len(self._live())
