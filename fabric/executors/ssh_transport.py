"""paramiko's transport without what costs time and does nothing for us; each line is from a profile of connecting."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import paramiko
from paramiko.common import cMSG_CHANNEL_WINDOW_ADJUST

from fabric.executors.ssh_packets import Packets

# These are private to paramiko 5; a test fails should a version of it lose one of them.
_LOGGING_LEAST = 30  # logging.WARNING
_LOOK_S = 1.0


_WEAK = re.compile(
    r"none|arcfour.*|.+-cbc(@.+)?"
    r"|hmac-(md5|sha1-96|ripemd160).*"
    r"|(diffie-hellman|gss)-.*-sha1(-.*)?"
    r"|ssh-(rsa|dss)(-cert-.+)?",
    re.ASCII,
)
"""Ciphers, MACs, key exchanges and host keys that OpenSSH 9's client refuses unless it is told otherwise."""

_CIPHERS = ("client_encrypt_algo_list", "server_encrypt_algo_list")
_KINDS = (
    ("key exchanges", "kex", ("kex_algo_list",), "; ECDH is needed, which OpenSSH has since 5.7"),
    ("host keys", "keys", ("server_key_algo_list",), ""),
    ("ciphers", "ciphers", _CIPHERS, ""),
    ("MACs", "macs", ("client_mac_algo_list", "server_mac_algo_list"), ""),
)
_NAMED = 8
_NAME = re.compile(r"[!-~]{1,64}", re.ASCII)
_NO_ALGORITHM = ("ext-info-", "kex-strict-")


def strong(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the algorithms that OpenSSH 9's client would take."""
    return tuple(name for name in names if not _WEAK.fullmatch(name))


class Transport(paramiko.Transport):
    """A session with a server; behaves as paramiko's own, but writes no debug messages and starts no timers."""

    # The default 0.1 s wakes each connection ten times a second: 2,048 of them then use up a core (measured).
    _active_check_timeout = 2.0

    packetizer: Packets
    active: bool

    def __init__(self, sock: socket.socket | paramiko.Channel) -> None:
        super().__init__(sock, packetizer_class=Packets)
        self._macs_unused = False
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

    def _parse_kex_init(self, m: paramiko.Message) -> None:
        """What is agreed on; where nothing can be, what the server offers is said."""
        own: Any = super()
        offered = own._really_parse_kex_init(m)
        m.rewind()
        self._macs_unused = all(self._gcm_agreed(offered[key]) for key in _CIPHERS)
        try:
            own._parse_kex_init(m)
        except paramiko.ssh_exception.IncompatiblePeer as exc:
            raise paramiko.ssh_exception.IncompatiblePeer(self._lacking(offered) or str(exc)) from exc
        finally:
            self._macs_unused = False

    def _gcm_agreed(self, offered: Sequence[str]) -> bool:
        return "gcm" in next((name for name in self.preferred_ciphers if name in offered), "")

    @property
    def preferred_macs(self) -> tuple[str, ...]:
        """As set; any at all while it is agreed what to do under AES-GCM, which has a MAC of its own."""
        every: Any = paramiko.Transport
        return tuple(every._preferred_macs if self._macs_unused else super().preferred_macs)

    def _lacking(self, offered: Mapping[str, Sequence[str]]) -> str:
        """The first kind of algorithm of which the server has none that we take; empty when there is one of each."""
        for kind, short, lists, needed in _KINDS:
            ours = getattr(self, f"preferred_{short}")
            for names in (offered[key] for key in lists):
                if not any(name in ours for name in names):
                    return _only(kind, [name for name in names if not name.startswith(_NO_ALGORITHM)], needed)
        return ""

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


def _only(kind: str, names: Sequence[str], needed: str) -> str:
    """What a server offers of one *kind*, in words; the names are its own, so they are few, short and plain."""
    shown = [name if _NAME.fullmatch(name) else "?" for name in names[:_NAMED]]
    listed = ", ".join(shown) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    if names and not strong(names):
        return (
            f"the server offers only weak {kind}: {listed}; ssh refuses them too: let its sshd_config allow better ones"
        )
    return f"the server offers no {kind} that we have, only: {listed or 'none'}{needed}"
