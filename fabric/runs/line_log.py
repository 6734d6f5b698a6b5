"""Append-only files of JSON lines, each with ``seq`` and ``crc32``: for events, changes, samples and links.

A line is on disk (fsync) before the step that follows from it. A torn end was never acted upon: it is ignored when
reading, and cut off when the file is opened for appending. Torn means a last line without its end or, where many lines
are written at once, everything behind a page that never reached the disk (it reads as zeros, and what follows belongs
to the same write). Any other bad line means that somebody else wrote here, and nothing is guessed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import StoreError
from fabric.runs.plain_file import (
    MIB,
    append,
    append_durably,
    open_plain,
    plain_stream,
    storing,
    sync_names,
    whole_lines,
)

_CHECKSUM_MOST = 11  # digits of the largest CRC-32, and the closing brace

Line = Mapping[str, Any]
"""One line: ``seq``, and its other fields."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits of a file and of one line (bytes); *many_at_once*: several lines share one fsync."""

    most_bytes: int
    most_line: int
    many_at_once: bool = True


class LineLog:
    """
    Appends lines to a file; ``flush`` makes everything added so far durable, with one fsync.

    *cut_bytes*: how much of a torn end was cut off at opening. Lines that could not be written are kept and written
    with the next ``flush``, so that there is never a gap.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._pending: list[bytes] = []
        self._fd, self._seq, self._size, self.cut_bytes = -1, 0, 0, 0
        try:
            with storing(path, "cannot open"):
                self._open(limits)
        except StoreError as exc:
            self.abandon()
            if isinstance(exc.__cause__, BlockingIOError):
                raise StoreError(f"{path}: another process is writing here") from exc.__cause__
            raise

    def _open(self, limits: Limits) -> None:
        self._fd = open_plain(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel releases it, whatever ends us
        with BufferedReader(FileIO(self._fd, closefd=False)) as file:
            for line, end in _whole(self._path, file, limits):
                self._seq, self._size = line["seq"], end
        had = os.fstat(self._fd).st_size
        self.cut_bytes = had - self._size
        if self.cut_bytes:
            os.ftruncate(self._fd, self._size)
        if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
            append(self._fd, b"\n", end=self._size)
            self._size += 1
        if not had:
            sync_names(self._path)

    def add(self, fields: Line) -> None:
        """Take a line; it is durable after the next ``flush``."""
        self._seq += 1
        body = orjson.dumps({"seq": self._seq, **fields})
        self._pending.append(b'%s,"crc32":%d}\n' % (body[:-1], zlib.crc32(body)))

    def flush(self) -> None:
        """
        Write and fsync what was added; raises StoreError when the disk fails, and may be called again then.

        Also raises where the file is not at its path any more: nobody would ever read what is written to it.
        """
        if not self._pending:
            return
        data = b"".join(self._pending)
        with storing(self._path):
            if not os.path.samestat(os.fstat(self._fd), os.stat(self._path, follow_symlinks=False)):  # noqa: PTH116
                raise FileNotFoundError(errno.ENOENT, "another file is there now")
            append_durably(self._fd, data, end=self._size)
        self._pending.clear()
        self._size += len(data)

    def close(self) -> None:
        """Flush and close; safe to call twice."""
        if self._fd >= 0:
            try:
                self.flush()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Close without writing anything more; safe to call twice."""
        self._pending.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_lines(path: Path, limits: Limits, having: Sequence[bytes] = ()) -> Iterator[Line]:
    """
    Yield every line in order, decoded only when it is asked for: a long file need not be held whole.

    A torn end is left out. Raises StoreError for any other bad line, and when the numbers do not count from 1 (lines
    were lost, or come from elsewhere). *having*: only lines with one of these texts; the others are not decoded or
    checked.
    """
    with storing(path, "cannot read"), plain_stream(path, limits.most_bytes) as file:
        for line, _ in _whole(path, file, limits, having):
            yield line


def lines_since(path: Path, limits: Limits, at: int, seq: int) -> tuple[list[Line], int]:
    """
    Return the whole lines behind byte *at*, where line number *seq* ended, and their end: to follow a growing file.

    Raises StoreError as ``read_lines``, and for a file that is shorter than before.
    """
    with storing(path, "cannot read"), plain_stream(path, limits.most_bytes) as file:
        if os.fstat(file.fileno()).st_size < at:
            raise StoreError(f"{path}: shorter than it was: this is another run now")
        file.seek(at)
        found = list(_whole(path, file, limits, at=at, seq=seq))
        if found and os.pread(file.fileno(), 1, found[-1][1] - 1) != b"\n":  # its end is still to be written
            found.pop()
    return [line for line, _ in found], found[-1][1] if found else at


def _whole(
    path: Path, file: BufferedReader[FileIO], limits: Limits, having: Sequence[bytes] = (), *, at: int = 0, seq: int = 0
) -> Iterator[tuple[Line, int]]:
    """Yield the lines behind byte *at*, where line *seq* ended, each with the offset of its end."""
    for number, data in enumerate(whole_lines(file, path, limits.most_line), start=seq + 1):
        if having and not any(text in data for text in having):
            continue
        line = _decode(data.removesuffix(b"\n"))
        if line is None:
            lost_page = limits.many_at_once and b"\0" in data
            if not lost_page and any(part.strip(b"\n") for part in iter(lambda: file.read(MIB), b"")):
                raise StoreError(f"{path}:{number}: not a line of this tool")
            return
        if line.get("seq") != number:
            raise StoreError(f"{path}:{number}: line {line.get('seq')} where {number} should be")
        at += len(data)
        yield line, at


def _decode(data: bytes) -> Line | None:
    body, mark, checksum = data.rpartition(b',"crc32":')
    if not mark or not checksum.endswith(b"}") or not checksum[:-1].isdigit() or len(checksum) > _CHECKSUM_MOST:
        return None
    body += b"}"
    if zlib.crc32(body) != int(checksum[:-1]):
        return None
    try:
        line = orjson.loads(body)
    except orjson.JSONDecodeError:  # also when memory runs out: the standard library raises that as such
        line = _slowly(body)
    return line if isinstance(line, dict) else None


def _slowly(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
