"""
The history of a run: events.jsonl, append-only, one line one event, each with seq and crc32.

A line is on disk (fsync) before the step that follows from it. A torn last line is ignored when reading; a bad line
before the end means that somebody else wrote here, and nothing is guessed.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import StoreError

Event = Mapping[str, Any]
"""One line of a run's history: ``seq``, ``at_s``, ``event``, and what belongs to that event."""


class EventLog:
    """Appends events; ``flush`` makes everything appended so far durable, with one fsync for all of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending: list[bytes] = []
        self._seq = 0
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise StoreError(f"{path}: cannot open: {exc.strerror}") from exc

    def append(self, event: str, at_s: float, fields: Mapping[str, Any]) -> None:
        """Take an event; it is durable after the next ``flush``."""
        self._seq += 1
        body = orjson.dumps({"seq": self._seq, "at_s": round(at_s, 6), "event": event, **fields})
        self._pending.append(b'%s,"crc32":%d}\n' % (body[:-1], zlib.crc32(body)))

    def flush(self) -> None:
        """Write and fsync what was appended; raises StoreError when the disk says no."""
        if not self._pending:
            return
        data = b"".join(self._pending)
        self._pending.clear()
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            os.fsync(self._fd)
        except OSError as exc:
            raise StoreError(f"{self._path}: cannot write: {exc.strerror}") from exc

    def close(self) -> None:
        """Flush and close; safe to call twice."""
        if self._fd >= 0:
            self.flush()
            os.close(self._fd)
            self._fd = -1


def read_events(path: Path) -> Iterator[Event]:
    """
    Every event, in order.

    A last line that is torn (no newline, or checksum wrong) is left out; raises StoreError for any other bad line, and
    when the numbers do not count from 1 (lines were lost, or come from elsewhere).
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as exc:
        raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc
    last = len(lines) - 1
    for number, line in enumerate(lines):
        event = _decode(line)
        if event is not None:
            if event.get("seq") != number + 1:
                raise StoreError(f"{path}:{number + 1}: event {event.get('seq')} where {number + 1} should be")
            yield event
        elif any(rest for rest in lines[number + 1 :]) or (line and number < last - 1):
            raise StoreError(f"{path}:{number + 1}: not an event of this tool: {line[:60]!r}")


def _decode(line: bytes) -> Event | None:
    body, mark, checksum = line.rpartition(b',"crc32":')
    if not mark or not checksum.endswith(b"}") or not checksum[:-1].isdigit():
        return None
    body += b"}"
    if zlib.crc32(body) != int(checksum[:-1]):
        return None
    event = orjson.loads(body)
    return event if isinstance(event, dict) else None
