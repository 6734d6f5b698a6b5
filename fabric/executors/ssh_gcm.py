"""One direction of an SSH connection under AES-GCM: payloads to packets and back (RFC 4253, 6; RFC 5647)."""

from __future__ import annotations

from typing import Protocol

import paramiko

_MOST_BYTES = 256 << 10  # of a packet; RFC 4253 asks for 35,000 at least, OpenSSH sends and takes as much as this
_TAG_BYTES = 16
_BLOCK_BYTES = 16
_ZEROS = bytes(2 * _BLOCK_BYTES)
_COUNT = (1 << 64) - 1


class _Engine(Protocol):
    """cryptography's AESGCM."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Ciphertext and tag."""
        ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Plaintext; raises InvalidTag."""
        ...


class Gcm:
    """Keys of one direction, and how many *packets* and *bytes* they were used for."""

    __slots__ = ("_count", "_engine", "_fixed", "bytes", "packets")

    def __init__(self, engine: _Engine, nonce: bytes) -> None:
        self._engine, self._fixed = engine, nonce[:4]
        self._count = int.from_bytes(nonce[4:], "big")
        self.packets = self.bytes = 0

    def sealed(self, payload: bytes) -> bytes:
        """A packet; padding is zeros, as OpenSSH and paramiko have it in counter mode: what is encrypted hides it."""
        padding = 3 + _BLOCK_BYTES - (len(payload) + 4) % _BLOCK_BYTES
        size = 1 + len(payload) + padding
        head = size.to_bytes(4, "big")
        packet = b"%c%b%b" % (padding, payload, _ZEROS[:padding])
        return head + self._engine.encrypt(self._nonce(size), packet, head)

    def opened(self, buffer: bytearray) -> bytes | None:
        """
        The payload of the first packet in *buffer*, which is taken out; None while it is not there in full.

        Raises SSHException for what cannot be a packet, and cryptography's InvalidTag for a forged one.
        """
        if len(buffer) < 4:
            return None
        head = bytes(buffer[:4])
        size = int.from_bytes(head, "big")
        if size < _BLOCK_BYTES or size % _BLOCK_BYTES or size > _MOST_BYTES:
            raise paramiko.SSHException(f"a packet of {size} bytes")
        end = 4 + size + _TAG_BYTES
        if len(buffer) < end:
            return None
        plain = self._engine.decrypt(self._nonce(size), bytes(buffer[4:end]), head)
        del buffer[:end]
        if plain[0] >= size - 1:
            raise paramiko.SSHException("a packet without content")
        return plain[1 : size - plain[0]]

    def _nonce(self, size: int) -> bytes:
        """The next packet's, which has *size* bytes: the last 8 bytes count (RFC 5647, 7.1)."""
        nonce = self._fixed + self._count.to_bytes(8, "big")
        self._count = (self._count + 1) & _COUNT
        self.packets += 1
        self.bytes += size
        return nonce
