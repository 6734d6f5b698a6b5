"""What we change in paramiko's transport is private to it: these tests fail if a version of paramiko has lost it."""

from __future__ import annotations

import inspect
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import paramiko
import pytest
from paramiko.packet import Packetizer

from fabric.executors.ssh_transport import Transport


@pytest.fixture
def transports() -> Iterator[tuple[Transport, paramiko.Transport]]:
    """A client of ours and paramiko's server, joined by a socket pair."""
    ours, theirs = socket.socketpair()
    pair = Transport(ours), paramiko.Transport(theirs)
    yield pair
    for one in pair:
        one.close()
        one.sock.close()


@pytest.mark.parametrize(
    "name",
    [
        "_active_check_timeout",
        "_log",
        "_parse_debug",
        "_filter_algorithm",
        "_compute_key",
        "_send_user_message",
        "_parse_kex_init",
        "_really_parse_kex_init",
    ],
)
def test_paramiko_still_has_what_is_replaced(name: str) -> None:
    """A name that paramiko no longer uses would silently change nothing."""
    assert hasattr(paramiko.Transport, name)
    assert inspect.getsource(paramiko.Transport).count(name) >= 2


def test_keys_are_exchanged_without_a_timer_thread(transports: tuple[Transport, paramiko.Transport]) -> None:
    """The session works, and no thread but the two transports' was needed."""
    client, server = transports
    server.add_server_key(paramiko.ECDSAKey.generate())
    timers: list[str] = []
    begin = threading.Timer.start

    def noted(timer: threading.Timer) -> None:
        timers.append(timer.name)
        begin(timer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Timer, "start", noted)
        server.start_server(event=threading.Event(), server=paramiko.ServerInterface())
        client.start_client(timeout=20)
    assert client.get_remote_server_key().get_name() == "ecdsa-sha2-nistp256"
    assert len(timers) == 1, "the server's is paramiko's own"
    assert hasattr(Packetizer, "start_handshake")


@pytest.mark.parametrize("kex", ["curve25519-sha256@libssh.org", "ecdh-sha2-nistp256", "ecdh-sha2-nistp521"])
@pytest.mark.parametrize(("letter", "size"), [("A", 12), ("B", 16), ("C", 32), ("D", 64), ("E", 200)])
def test_keys_are_those_that_paramiko_would_make(
    transports: tuple[Transport, paramiko.Transport], kex: str, letter: str, size: int
) -> None:
    """Of any length; the session works all the same if both sides were wrong in the same way, so it is compared."""
    client, _ = transports
    own: Any = client
    own.K, own.H, own.session_id = 1 << 255, b"h" * 32, b"s" * 32
    own.local_cipher = own.remote_cipher = "aes128-ctr"
    own.kex_engine = paramiko.Transport._kex_info[kex](client)
    assert own._compute_key(letter, size) == paramiko.Transport._compute_key(own, letter, size)
    own.H = b"another"  # keys were exchanged anew
    assert own._compute_key(letter, size) == paramiko.Transport._compute_key(own, letter, size)


def test_algorithms_are_those_of_paramiko(transports: tuple[Transport, paramiko.Transport]) -> None:
    """Nothing is disabled, so the short cut gives the same."""
    client, server = transports
    for kind in ("ciphers", "macs", "keys", "kex", "compression", "pubkeys"):
        assert getattr(client, f"preferred_{kind}") == getattr(server, f"preferred_{kind}")


def test_warnings_are_still_logged(
    transports: tuple[Transport, paramiko.Transport], caplog: pytest.LogCaptureFixture
) -> None:
    """Only what nobody reads is left out."""
    client, _ = transports
    client.logger.propagate, before = True, client.logger.propagate
    logging.getLogger("paramiko").propagate = True
    client._log(logging.DEBUG, "fine")
    client._log(logging.WARNING, "odd")
    logging.getLogger("paramiko").propagate = False
    client.logger.propagate = before
    assert {one.getMessage() for one in caplog.records} == {"odd"}  # twice, if pytest also listens at the logger itself
