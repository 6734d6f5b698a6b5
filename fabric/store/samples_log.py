"""
samples.log: what was sampled on the hosts, append-only, in blocks of compressed lines, each with length and crc32.

Only what changed is written. A line is a JSON array:

- ``["every", 10.0]``: the time between two samples, once.
- ``["host", 3, "gpu004"]``: a host's number; ``["name", 7, "mlx5_0", "link_downed"]``: a reading's number.
- ``[3, 60.1, 7, 2, 9, 41]``: at 60.1 s reading 7 of host 3 became 2 and reading 9 became 41; null: not readable now.
  One without readings says that the host was asked and nothing had changed; ``[3, 60.1, null]`` that it was not asked
  from then on.

Each block is made durable when it is written, so that at most the last one can be torn; that is left out when reading.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from fabric.errors import StoreError
from fabric.model.sampling import Value
from fabric.store.durable import append_durably, sync_folder
from fabric.store.plain_file import open_plain

FILE = "samples.log"
BLOCK_BYTES = 1 << 18
"""A block is written when so much waits; fewer would compress worse."""
BLOCK_S = 30.0
"""Or after so long, so that a run that dies loses little."""
ALIVE_S = 600.0
"""A host of which nothing changed is noted after so long: that it was asked."""

HEAD = struct.Struct("<II")
"""Length and crc32 of a block."""


@dataclass(slots=True)
class _Written:
    """Of one host: its number, the last value of each reading, and when it was last written about."""

    number: int
    at_s: float
    values: dict[int, Value] = field(default_factory=dict)
    seen_s: float = 0.0


class SampleLog:
    """Appends samples; ``close`` writes down until when each host was asked, and makes all of it durable."""

    def __init__(self, path: Path, every_s: float) -> None:
        self._path = path
        self._hosts: dict[str, _Written] = {}
        self._names: dict[tuple[str, str], int] = {}
        self._lines: list[bytes] = [orjson.dumps(["every", every_s])]
        self._waiting, self._since_s = 0, 0.0
        try:
            self._fd = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self._size = os.fstat(self._fd).st_size
            sync_folder(path.parent)
        except OSError as exc:
            raise StoreError(f"{path}: cannot open: {exc.strerror}") from exc

    def add(self, host: str, at_s: float, keys: Sequence[tuple[str, str]], values: Sequence[Value]) -> None:
        """Take one row: parts and names, and their values in the same order. Raises StoreError when the disk is bad."""
        known = self._host(host, at_s)
        line: list[int | float | None] = [known.number, round(at_s, 1)]
        last = known.values
        for key, value in zip(keys, values, strict=True):
            number = self._names.get(key)
            if number is None:
                number = self._name(key)
            if number not in last or last[number] != value:
                last[number] = value
                line += (number, value)
        known.seen_s = at_s
        if len(line) > 2 or at_s - known.at_s >= ALIVE_S:
            self._append(known, line, at_s)

    def gone(self, host: str, at_s: float) -> None:
        """The host cannot be asked any more, or not for a while: nothing is known from here on."""
        known = self._host(host, at_s)
        known.values.clear()
        known.seen_s = 0.0
        self._append(known, [known.number, round(at_s, 1), None], at_s)

    def close(self) -> None:
        """Say until when each host was asked, and write it down; safe to call twice."""
        if self._fd < 0:
            return
        try:
            for known in self._hosts.values():
                if known.seen_s > known.at_s:
                    self._append(known, [known.number, round(known.seen_s, 1)], known.seen_s)
            self._write()
        finally:
            os.close(self._fd)
            self._fd = -1

    def _host(self, host: str, at_s: float) -> _Written:
        known = self._hosts.get(host)
        if known is None:
            known = self._hosts[host] = _Written(len(self._hosts), at_s)
            self._lines.append(orjson.dumps(["host", known.number, host]))
        return known

    def _name(self, key: tuple[str, str]) -> int:
        number = self._names[key] = len(self._names)
        self._lines.append(orjson.dumps(["name", number, *key]))
        return number

    def _append(self, known: _Written, line: list[int | float | None], at_s: float) -> None:
        known.at_s = at_s
        data = orjson.dumps(line)
        if not self._waiting:
            self._since_s = at_s
        self._lines.append(data)
        self._waiting += len(data) + 1
        if self._waiting >= BLOCK_BYTES or at_s - self._since_s >= BLOCK_S:
            self._write()

    def _write(self) -> None:
        if not self._lines:
            return
        packed = zlib.compress(b"\n".join(self._lines), 6)
        block = HEAD.pack(len(packed), zlib.crc32(packed)) + packed
        try:
            append_durably(self._fd, block, end=self._size)
        except OSError as exc:  # what waits is kept: later lines speak of its numbers
            raise StoreError(f"{self._path}: cannot write: {exc.strerror}") from exc
        self._size += len(block)
        self._lines.clear()
        self._waiting = 0
