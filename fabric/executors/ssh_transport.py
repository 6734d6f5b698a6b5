"""paramiko's transport without what costs time and does nothing for us; each line is from a profile of connecting."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import paramiko
from paramiko.common import cMSG_CHANNEL_WINDOW_ADJUST

from fabric.executors.ssh_packets import Packets

# These are private to paramiko 5; a test fails should a version of it lose one of them.
_LOGGING_LEAST = 30  # logging.WARNING
_LOOK_S = 1.0


class Transport(paramiko.Transport):
    """A session with a server; behaves as paramiko's own, but writes no debug messages and starts no timers."""

    # The default 0.1 s wakes each connection ten times a second: 2,048 of them then use up a core (measured).
    _active_check_timeout = 2.0

    packetizer: Packets
    active: bool

    def __init__(self, sock: socket.socket | paramiko.Channel) -> None:
        super().__init__(sock, packetizer_class=Packets)
        self._shared: tuple[bytes, Any] | None = None  # what the keys are made from

    def _log(self, level: int, msg: object, *args: object) -> None:
        """About 36 messages a connection are formatted and then dropped by their level."""
        if level >= _LOGGING_LEAST:
            super()._log(level, msg, *args)  # type: ignore[misc]

    def _parse_debug(self, m: paramiko.Message) -> None:
        """OpenSSH says which options a key has, which costs 0.4 ms to make printable, and is not printed."""

    def _filter_algorithm(self, type_: str) -> tuple[str, ...]:
        """Called 16 times a connection to leave out what is disabled; we disable nothing."""
        return tuple(getattr(self, f"_preferred_{type_}"))

    def _send_user_message(self, data: paramiko.Message) -> None:
        """At once while no keys are exchanged, which is nearly always."""
        with self.clear_to_send_lock:
            if self.active and self.clear_to_send.is_set():
                self.packetizer.send_message(data)
                return
        super()._send_user_message(data)  # type: ignore[misc]

    def begin_client(self, *, timeout_s: float) -> None:
        """As ``start_client``, which looks ten times a second whether it is time; it may still go on afterwards."""
        done = threading.Event()
        self.start_client(event=done)
        self._await(done, timeout_s)
        if not self.active:
            raise self.get_exception() or paramiko.SSHException("Negotiation failed.")

    def log_in(self, user: str, key: paramiko.PKey) -> list[str]:
        """As ``auth_publickey``, likewise; returns what else the server wants."""
        done = threading.Event()
        self.auth_publickey(user, key, event=done)
        self._await(done, self.auth_timeout)
        assert self.auth_handler is not None
        return self.auth_handler.wait_for_response(done)

    def _await(self, done: threading.Event, timeout_s: float) -> None:
        until_s = time.monotonic() + timeout_s
        while self.active and not done.wait(min(_LOOK_S, max(0.0, until_s - time.monotonic()))):
            if time.monotonic() >= until_s:
                return

    def _compute_key(self, id: str, nbytes: int) -> bytes:
        """RFC 4253, 7.2, with what is the same for all six keys hashed once; GCM has no use for those of MACs."""
        own: Any = self  # nothing of this is public
        if id in "EF" and "gcm" in own.local_cipher and "gcm" in own.remote_cipher:
            return b""
        if self._shared is None or self._shared[0] is not own.H:
            message = paramiko.Message()
            own._add_K(message)
            self._shared = own.H, own.kex_engine.hash_algo(message.asbytes() + own.H)
        digest = self._shared[1].copy()
        digest.update(id.encode("ascii") + own.session_id)
        key: bytes = digest.digest()
        while len(key) < nbytes:
            digest = self._shared[1].copy()
            digest.update(key)
            key += digest.digest()
        return key[:nbytes]

    def send_unless_rekeying(self, payload: bytes) -> bool:
        """Send a message of a channel, under AES-GCM only; False while keys are exchanged anew, which would block."""
        with self.clear_to_send_lock:
            if not self.clear_to_send.is_set():
                return False
            self.packetizer.send_payload(payload)
            return True

    def widen(self, channel: int, room_bytes: int) -> None:
        """Let the server send so much more on its *channel*."""
        message = paramiko.Message()
        message.add_byte(cMSG_CHANNEL_WINDOW_ADJUST)
        message.add_int(channel)
        message.add_int(room_bytes)
        self._send_user_message(message)
