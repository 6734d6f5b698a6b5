"""
raw.log: what was appended to the transcripts in raw/ and is not durable there yet.

Blocks, each with length and crc32. One fsync makes the output of all hosts durable, where a file a host would take
thousands. A block tells what was written where, so that writing it once more changes nothing: after a crash that is how
transcripts are mended. The file is there while a run goes on, and after a crash; it goes when the transcripts
themselves are durable.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import orjson

from fabric.errors import StoreError
from fabric.store.durable import append_durably, sync_folder

FILE = "raw.log"
"""Its name in a run's directory."""

Piece = tuple[str, int, bytes]
"""A file below raw/, a place in it (bytes), and what was written there."""

_HEAD = struct.Struct("<II")


class RawLog:
    """Appends blocks of pieces, each durable when ``write`` returns; made with the first of them."""

    def __init__(self, run: Path) -> None:
        self._path = run / FILE
        self._fd = -1
        self.size_bytes = 0

    def write(self, pieces: Sequence[Piece]) -> None:
        """Make them durable, all or none. Raises StoreError when the disk says no; can be called again then."""
        where = orjson.dumps([[name, place, len(data)] for name, place, data in pieces])
        body = b"".join([where, b"\n", *(data for _, _, data in pieces)])
        try:
            if self._fd < 0:
                self._open()
            append_durably(self._fd, _HEAD.pack(len(body), zlib.crc32(body)) + body, end=self.size_bytes)
        except OSError as exc:
            raise StoreError(f"{self._path}: cannot write: {exc.strerror}") from exc
        self.size_bytes += _HEAD.size + len(body)

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        sync_folder(self._path.parent)

    def empty(self) -> None:
        """Forget all: the transcripts are durable. Raises OSError."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            self.size_bytes = 0

    def remove(self) -> None:
        """Forget all, and the file with it. Raises OSError."""
        self.let_go()
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # noqa: PTH108 - beside the other calls of os, which tests watch

    def let_go(self) -> None:
        """Close it and leave it there; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_pieces(run: Path) -> list[Piece]:
    """
    Everything in the log of a run, in the order in which it was written; nothing where there is none.

    A torn last block is left out: nothing was acknowledged of it. Raises StoreError for any other bad block.
    """
    path = run / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc
    found: list[Piece] = []
    at = 0
    while len(data) - at >= _HEAD.size:
        length, checksum = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + length
        body = data[at + _HEAD.size : end]
        if not length or end > len(data):  # zeros: a page that never reached the disk
            break
        if zlib.crc32(body) != checksum:
            if end < len(data):
                raise StoreError(f"{path}: a bad block before the end: somebody else wrote here")
            break
        found += _pieces(body, path)
        at = end
    return found


def _pieces(body: bytes, path: Path) -> Iterator[Piece]:
    where, _, rest = body.partition(b"\n")
    at = 0
    try:
        for name, place, length in orjson.loads(where):
            yield str(name), int(place), rest[at : at + length]
            at += length
    except (orjson.JSONDecodeError, TypeError, ValueError) as exc:
        raise StoreError(f"{path}: not a block of this tool: {where[:60]!r}") from exc
