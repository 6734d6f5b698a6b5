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
from io import BufferedReader, FileIO
from pathlib import Path

import orjson

from fabric.errors import StoreError
from fabric.store.durable import append_durably, sync_folder
from fabric.store.plain_file import GIB, MIB, open_plain, plain_stream, size_text

FILE = "raw.log"
"""Its name in a run's directory."""

MOST_BYTES = 16 * GIB
"""Of the log (a choice: it begins anew at 64 MiB, and grows on where the disk does not take the transcripts)."""

_MOST_PLACE = 16 * GIB  # in a transcript, of which two days of 2,048 hosts make 2 MB a host

Piece = tuple[str, int, bytes]
"""A file below raw/, a place in it (bytes), and what was written there."""

_HEAD = struct.Struct("<II")
_BLOCK = 16 * MIB  # so much output is in one block; the names of all hosts are a few MB
_MOST_BLOCK = 64 * MIB


class RawLog:
    """Appends blocks of pieces, each durable when ``write`` returns; made with the first of them."""

    def __init__(self, run: Path) -> None:
        self._path = run / FILE
        self._fd = -1
        self.size_bytes = 0

    def write(self, pieces: Sequence[Piece]) -> None:
        """Make them durable, all or none. Raises StoreError when the disk says no; can be called again then."""
        blocks = b"".join(map(_block, _bundles(pieces)))
        try:
            if self._fd < 0:
                self._open()
            append_durably(self._fd, blocks, end=self.size_bytes)
        except OSError as exc:
            raise StoreError(f"{self._path}: cannot write: {exc.strerror}") from exc
        self.size_bytes += len(blocks)

    def _open(self) -> None:
        self._fd = open_plain(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
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


def _bundles(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Pieces that make a block together; one that is larger than a block is cut."""
    bundle: list[Piece] = []
    size = 0
    for name, start, data in pieces:
        for at in range(0, len(data), _BLOCK):
            part = data[at : at + _BLOCK]
            if size + len(part) > _BLOCK:
                yield bundle
                bundle, size = [], 0
            bundle.append((name, start + at, part))
            size += len(part)
    if bundle:
        yield bundle


def _block(pieces: Sequence[Piece]) -> bytes:
    where = orjson.dumps([[name, place, len(data)] for name, place, data in pieces])
    body = b"".join([where, b"\n", *(data for _, _, data in pieces)])
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def read_pieces(run: Path) -> Iterator[Piece]:
    """
    Everything in the log of a run, in the order in which it was written; nothing where there is none.

    A torn last block is left out: nothing was acknowledged of it. Raises StoreError for any other bad block.
    """
    path = run / FILE
    try:
        with plain_stream(path, MOST_BYTES) as file:
            for body in _bodies(file, path):
                yield from _pieces(body, path)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc


def _bodies(file: BufferedReader[FileIO], path: Path) -> Iterator[bytes]:
    left = os.fstat(file.fileno()).st_size
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        length, checksum = _HEAD.unpack(head)
        left -= _HEAD.size + length
        if not length or left < 0:  # zeros: a page that never reached the disk
            return
        if length > _MOST_BLOCK:
            raise StoreError(f"{path}: a block larger than {size_text(_MOST_BLOCK)}: somebody else wrote here")
        body = file.read(length)
        if zlib.crc32(body) != checksum:
            if left:
                raise StoreError(f"{path}: a bad block before the end: somebody else wrote here")
            return
        yield body


def _pieces(body: bytes, path: Path) -> Iterator[Piece]:
    at = body.find(b"\n") + 1
    try:
        for name, place, length in orjson.loads(body[: at - 1]):
            if not _is_ours(name, place, length):
                raise ValueError(name)
            yield name, place, body[at : at + length]
            at += length
    except (orjson.JSONDecodeError, TypeError, ValueError) as exc:
        raise StoreError(f"{path}: not a block of this tool") from exc


def _is_ours(name: object, place: object, length: object) -> bool:
    """Whether it is a place in a transcript: nothing is written outside raw/, or so far behind that it fills a disk."""
    if not isinstance(name, str) or type(place) is not int or type(length) is not int:
        return False
    parts = name.split("/")
    return place >= 0 <= length and place + length <= _MOST_PLACE and not {"", ".", ".."}.intersection(parts)
