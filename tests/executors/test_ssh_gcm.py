"""Packets under AES-GCM: what one side seals the other opens, byte by byte if need be; what is forged is refused."""

from __future__ import annotations

import paramiko
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from fabric.executors.ssh_gcm import Gcm

KEY = bytes(range(16))
LAST = b"salt" + b"\xff" * 8  # the nonce after this one begins at nought again


def directions(nonce: bytes = LAST) -> tuple[Gcm, Gcm]:
    """Who seals, and who opens, with the same key."""
    return Gcm(AESGCM(KEY), nonce), Gcm(AESGCM(KEY), nonce)


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=6), st.integers(1, 700))
def test_what_is_sealed_is_opened_in_whatever_pieces_it_arrives(payloads: list[bytes], step: int) -> None:
    """Also when the counter runs over."""
    ours, theirs = directions()
    data = b"".join(ours.sealed(payload) for payload in payloads)
    buffer, opened = bytearray(), []
    for start in range(0, len(data), step):
        buffer += data[start : start + step]
        while (payload := theirs.opened(buffer)) is not None:
            opened.append(payload)
    assert (opened, bytes(buffer)) == (payloads, b"")
    assert (theirs.packets, theirs.bytes) == (ours.packets, ours.bytes)


@given(st.binary(min_size=1, max_size=100), st.data())
def test_a_packet_that_was_altered_is_refused(payload: bytes, data: st.DataObject) -> None:
    """Whichever bit it was; one in the length may also make it a packet that is not there in full."""
    ours, theirs = directions()
    packet = bytearray(ours.sealed(payload))
    bit = data.draw(st.integers(0, 8 * len(packet) - 1))
    packet[bit // 8] ^= 1 << bit % 8
    try:
        assert theirs.opened(packet) is None
        assert bit < 32
    except (InvalidTag, paramiko.SSHException):
        pass


def test_packets_are_what_paramiko_can_read() -> None:
    """Padding, length and nonce are those of the standard, as somebody else understands it."""
    ours, _ = directions(b"saltcounting")
    packet = ours.sealed(b"a payload")
    plain = AESGCM(KEY).decrypt(b"saltcounting", packet[4:], packet[:4])
    assert int.from_bytes(packet[:4], "big") == len(plain)
    assert len(plain) % 16 == 0
    assert plain[0] >= 4
    assert plain[1 : len(plain) - plain[0]] == b"a payload"


@pytest.mark.parametrize("head", [b"\x00\x00\x00\x00", b"\x00\x00\x00\x11", b"\x7f\xff\xff\xf0"])
def test_a_length_that_no_packet_has_is_refused(head: bytes) -> None:
    """Nobody can make us keep gigabytes."""
    with pytest.raises(paramiko.SSHException, match="a packet of"):
        directions()[1].opened(bytearray(head))


def test_a_packet_without_content_is_refused() -> None:
    """Not even a type: paramiko would fail with an IndexError."""
    plain = bytes([15]) + bytes(15)
    head = (16).to_bytes(4, "big")
    packet = bytearray(head + AESGCM(KEY).encrypt(LAST, plain, head))
    with pytest.raises(paramiko.SSHException, match="without content"):
        directions()[1].opened(packet)
