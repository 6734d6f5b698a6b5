"""The connections to one host: opened when needed, one at a time, shared by its commands."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from fabric.errors import HostUnreachable
from fabric.hosts.ssh.connection import Connection
from fabric.hosts.ssh.host_keys import HostRefused

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
