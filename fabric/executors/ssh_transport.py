"""paramiko's transport without what costs time and does nothing for us; each line is from a profile of connecting."""

from __future__ import annotations

import socket

import paramiko
from paramiko.packet import Packetizer

# These are private to paramiko 5; a test fails should a version of it lose one of them.
_LOGGING_LEAST = 30  # logging.WARNING


class Transport(paramiko.Transport):
    """A session with a server; behaves as paramiko's own, but writes no debug messages and starts no timers."""

    # The default 0.1 s wakes each connection ten times a second: 2,048 of them then use up a core (measured).
    _active_check_timeout = 2.0

    def __init__(self, sock: socket.socket | paramiko.Channel) -> None:
        super().__init__(sock, packetizer_class=_Packetizer)

    def _log(self, level: int, msg: object, *args: object) -> None:
        """About 36 messages a connection are formatted and then dropped by their level."""
        if level >= _LOGGING_LEAST:
            super()._log(level, msg, *args)  # type: ignore[misc]

    def _parse_debug(self, m: paramiko.Message) -> None:
        """OpenSSH says which options a key has, which costs 0.4 ms to make printable, and is not printed."""

    def _filter_algorithm(self, type_: str) -> tuple[str, ...]:
        """Called 16 times a connection to leave out what is disabled; we disable nothing."""
        return tuple(getattr(self, f"_preferred_{type_}"))


class _Packetizer(Packetizer):
    def start_handshake(self, timeout: float) -> None:
        """No thread for a timer: who starts a handshake waits for it with a limit, and ends the session then."""
