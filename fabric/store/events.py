"""
The history of a run: events.jsonl, append-only, one line one event, each with seq and crc32.

A line is on disk (fsync) before the step that follows from it. What is torn at the end is ignored when reading, and cut
off when a run goes on: a last line without its end, and all behind a page that never reached the disk (it reads as
zeros, and what follows was of the same write). Any other bad line before the end means that somebody else wrote here,
and nothing is guessed.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator, Mapping
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import StoreError
from fabric.store.durable import append, append_durably, sync_names
from fabric.store.plain_file import GIB, MIB, open_plain, plain_stream, whole_lines

FILE = "events.jsonl"
"""Its name in a run's directory."""

MOST_BYTES = 16 * GIB
"""Of a history (a choice: two days of 2,048 hosts make 1.1 GiB)."""

_MOST_LINE = 64 * MIB  # the largest names the probes of a phase: 300,000 are 15 MB

Event = Mapping[str, Any]
"""One line of a run's history: ``seq``, ``at_s``, ``event``, and what belongs to that event."""


class EventLog:
    """
    Appends events, behind those that are there; ``flush`` makes everything appended so far durable, with one fsync.

    *cut_bytes*: so much of a torn last line was cut off when it was opened. What could not be written is kept, and
    written with the next ``flush``, so that there never is a gap.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending: list[bytes] = []
        self._fd, self._seq, self._size, self.cut_bytes = -1, 0, 0, 0
        try:
            self._open()
        except BlockingIOError as exc:
            self._let_go()
            raise StoreError(f"{path}: another process is writing here") from exc
        except OSError as exc:
            self._let_go()
            raise StoreError(f"{path}: cannot open: {exc.strerror}") from exc
        except StoreError:
            self._let_go()
            raise

    def _open(self) -> None:
        self._fd = open_plain(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go by the kernel, whatever ends us
        with BufferedReader(FileIO(self._fd, closefd=False)) as file:
            for event, end in _whole(self._path, file):
                self._seq, self._size = event["seq"], end
        had = os.fstat(self._fd).st_size
        self.cut_bytes = had - self._size
        if self.cut_bytes:
            os.ftruncate(self._fd, self._size)
        if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
            append(self._fd, b"\n", end=self._size)
            self._size += 1
        if not had:
            sync_names(self._path)

    def append(self, event: str, at_s: float, fields: Mapping[str, Any]) -> None:
        """Take an event; it is durable after the next ``flush``."""
        self._seq += 1
        body = orjson.dumps({"seq": self._seq, "at_s": round(at_s, 6), "event": event, **fields})
        self._pending.append(b'%s,"crc32":%d}\n' % (body[:-1], zlib.crc32(body)))

    def flush(self) -> None:
        """Write and fsync what was appended; raises StoreError when the disk says no, and can be called again then."""
        if not self._pending:
            return
        data = b"".join(self._pending)
        try:
            append_durably(self._fd, data, end=self._size)
        except OSError as exc:
            raise StoreError(f"{self._path}: cannot write: {exc.strerror}") from exc
        self._pending.clear()
        self._size += len(data)

    def close(self) -> None:
        """Flush and close; safe to call twice."""
        if self._fd >= 0:
            try:
                self.flush()
            finally:
                self._let_go()

    def abandon(self) -> None:
        """Close, and write nothing more; safe to call twice."""
        self._pending.clear()
        self._let_go()

    def _let_go(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_events(path: Path) -> Iterator[Event]:
    """
    Every event, in order, each decoded when it is asked for: a long history need not be held whole.

    What is torn at the end is left out; raises StoreError for any other bad line, and
    when the numbers do not count from 1 (lines were lost, or come from elsewhere).
    """
    try:
        with plain_stream(path, MOST_BYTES) as file:
            for event, _ in _whole(path, file):
                yield event
    except OSError as exc:
        raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc


def _whole(path: Path, file: BufferedReader[FileIO]) -> Iterator[tuple[Event, int]]:
    """The events, each with how many bytes of the file are taken up to its end."""
    at = 0
    for number, line in enumerate(whole_lines(file, path, _MOST_LINE), start=1):
        event = _decode(line.removesuffix(b"\n"))
        if event is None:
            if b"\0" not in line and any(part.strip(b"\n") for part in iter(lambda: file.read(MIB), b"")):
                raise StoreError(f"{path}:{number}: not an event of this tool")
            return
        if event.get("seq") != number:
            raise StoreError(f"{path}:{number}: event {event.get('seq')} where {number} should be")
        at += len(line)
        yield event, at


def _decode(line: bytes) -> Event | None:
    body, mark, checksum = line.rpartition(b',"crc32":')
    if not mark or not checksum.endswith(b"}") or not checksum[:-1].isdigit():
        return None
    body += b"}"
    if zlib.crc32(body) != int(checksum[:-1]):
        return None
    try:
        event = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return event if isinstance(event, dict) else None
