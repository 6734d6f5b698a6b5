"""
The write-ahead journal of changes: changes.jsonl, append-only, each line durable before the step it speaks of.

A line is fsynced, and the folders when the file is new, before ``record`` returns: whatever may be live on the fabric
is known here, after any crash. A torn last line was never acted upon: it is cut off when the journal is opened again. A
bad line before the end means that somebody else wrote here, and nothing is guessed.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import StoreError
from fabric.store.plain_file import GIB, MIB, open_plain, plain_stream, whole_lines

FILE = "changes.jsonl"
"""Its name in a run's directory."""

MOST_BYTES = GIB
"""Of a journal (a choice: a change every second for two days makes a tenth of it)."""

_MOST_LINE = 16 * MIB
_CHECKSUM_MOST = 11  # digits of the largest CRC-32, and the brace behind it

Entry = Mapping[str, Any]
"""One line: ``seq``, ``change`` (its id), ``state``, and what belongs to that state."""


class Journal:
    """Appends entries, each durable when ``record`` returns; made when the first entry is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._seq = 0
        self._size = 0  # bytes of whole entries

    def record(self, change_id: str, state: str, fields: Mapping[str, Any]) -> None:
        """Write one entry and fsync it; raises StoreError when the disk says no (then the step must not be taken)."""
        try:
            if self._fd < 0:
                self._open()
            body = orjson.dumps({"seq": self._seq + 1, "change": change_id, "state": state, **fields})
            line = b'%s,"crc32":%d}\n' % (body[:-1], zlib.crc32(body))
            _write(self._fd, line)
            os.fsync(self._fd)
        except OSError as exc:
            self._forget_torn()
            raise StoreError(f"{self._path}: cannot write: {exc.strerror}") from exc
        self._seq += 1
        self._size += len(line)

    def _forget_torn(self) -> None:
        """Cut off what a failed write left, else a later line would stand behind it and make the whole unreadable."""
        if self._fd < 0:
            return
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self.close()  # the next entry opens it anew, and cuts there

    def _open(self) -> None:
        """Open for appending; cut a torn last line off; make the file's name durable too. Open whole or not at all."""
        self._fd = open_plain(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go by the kernel, whatever ends us
            entries, kept = _read(self._path)
            self._seq, self._size = len(entries), kept
            os.ftruncate(self._fd, kept)
            # The names of the file, of its run's folder, of the scenario's and of the results' folder.
            for folder in list(self._path.absolute().parents)[:4]:
                _fsync_folder(folder)
        except BlockingIOError as exc:
            self.close()
            raise StoreError(f"{self._path}: another process is writing here") from exc
        except (OSError, StoreError):
            self.close()
            raise

    def close(self) -> None:
        """Let go; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_journal(path: Path) -> tuple[Entry, ...]:
    """Every whole entry, in order; raises StoreError for a bad line that is not the torn last one."""
    return _read(path)[0]


def _fsync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read(path: Path) -> tuple[tuple[Entry, ...], int]:
    """The entries, and how many bytes of the file they take."""
    entries: list[Entry] = []
    at = 0
    try:
        with plain_stream(path, MOST_BYTES) as file:
            for line in whole_lines(file, path, _MOST_LINE):
                entry = _decode(line[:-1]) if line.endswith(b"\n") else None
                if entry is None or entry.get("seq") != len(entries) + 1:
                    if line.endswith(b"\n") and file.read(1):
                        raise StoreError(f"{path}:{len(entries) + 1}: not an entry of this tool")
                    break
                entries.append(entry)
                at += len(line)
    except OSError as exc:
        raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc
    return tuple(entries), at


def _slowly(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _decode(line: bytes) -> Entry | None:
    body, mark, checksum = line.rpartition(b',"crc32":')
    if not mark or not checksum.endswith(b"}") or not checksum[:-1].isdigit() or len(checksum) > _CHECKSUM_MOST:
        return None
    body += b"}"
    if zlib.crc32(body) != int(checksum[:-1]):
        return None
    try:
        entry = orjson.loads(body)
    except orjson.JSONDecodeError:  # also where there is no memory for it: the standard library says which
        entry = _slowly(body)
    whole = isinstance(entry, dict) and isinstance(entry.get("change"), str) and isinstance(entry.get("state"), str)
    return entry if whole else None
