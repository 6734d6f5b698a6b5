"""The samples of a run read back from samples.log."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from fabric.errors import StoreError
from fabric.model.sampling import CounterCourse, CounterReading, Samples, Value
from fabric.store.plain_file import GIB, MIB, is_there, plain_stream, size_text
from fabric.store.samples_log import FILE, HEAD

MOST_BYTES = 16 * GIB
"""Of samples.log (a choice: hundreds of times what two days of 2,048 hosts make)."""

_MOST_BLOCK = 16 * MIB
"""Of a block, as it is and unpacked: 64 times what is waited for; what is larger was not written by this tool."""

Keep = Callable[[CounterReading], bool]
Change = tuple[CounterReading, float, Value]
"""At this time (seconds) a reading became this."""


def read_samples(run: Path, keep: Keep = lambda _: True) -> Samples:
    """
    The courses of the readings that *keep* wants, of the run in a directory; none where nothing was sampled.

    Raises StoreError for a file that is not as this version writes it; a block that was torn off at the end is left
    out.
    """
    lines = _Lines(run / FILE, keep)
    courses: dict[CounterReading, CounterCourse] = {}
    for reading, at_s, value in lines.changes():
        course = courses.setdefault(reading, CounterCourse())
        course.at_s.append(at_s)
        course.values.append(value)
    for reading, course in courses.items():
        course.until_s = lines.asked_s.get(reading.host, course.at_s[-1])
    return Samples(lines.every_s, courses)


def changes(run: Path) -> Iterator[Change]:
    """Every change of every reading, in order of time for each host; raises as ``read_samples``."""
    return _Lines(run / FILE, lambda _: True).changes()


class _Lines:
    """What the lines have told so far: the spacing, and when each host was last asked (seconds)."""

    def __init__(self, path: Path, keep: Keep) -> None:
        self.every_s = 0.0
        self.asked_s: dict[str, float] = {}
        self._path, self._keep = path, keep
        self._hosts: dict[int, str] = {}
        self._names: dict[int, tuple[str, str]] = {}
        self._known: dict[int, dict[int, CounterReading | None]] = {}  # by host; None: nobody wants it

    def changes(self) -> Iterator[Change]:
        """All that changed."""
        if not is_there(self._path):
            return
        for line in _lines(self._path):
            try:
                yield from self._taken(line)
            except (KeyError, TypeError, ValueError) as exc:
                raise StoreError(f"{self._path}: not a line of this tool") from exc

    def _taken(self, line: object) -> list[Change]:
        match line:
            case ["every", int() | float() as every]:
                self.every_s = float(every)
            case ["host", int(number), str(name)]:
                self._hosts[number], self._known[number] = name, {}
            case ["name", int(number), str(part), str(name)]:
                self._names[number] = part, name
            case [int(number), int() | float() as at_s, None]:
                return [(reading, at_s, None) for reading in self._known[number].values() if reading is not None]
            case [int(number), int() | float() as at_s, *rest]:
                name = self._hosts[number]
                self.asked_s[name] = max(at_s, self.asked_s.get(name, at_s))
                return list(self._changed(number, at_s, rest))
            case _:
                raise ValueError(line)
        return []

    def _changed(self, host: int, at_s: float, rest: list[object]) -> Iterator[Change]:
        known = self._known[host]
        for which, value in zip(rest[::2], rest[1::2], strict=True):
            if not isinstance(which, int) or not (value is None or type(value) in (int, float)):
                raise ValueError(rest)
            if which not in known:
                reading = CounterReading(self._hosts[host], *self._names[which])
                known[which] = reading if self._keep(reading) else None
            found = known[which]
            if found is not None:
                yield found, at_s, value  # type: ignore[misc]


def last_asked(path: Path) -> tuple[dict[int, float], int]:
    """When each host (by its number) was last asked, and how many bytes of the file are whole; StoreError as above."""
    asked: dict[int, float] = {}
    kept = 0
    for kept, lines in _blocks(path):  # noqa: B007 - the last one is the end
        for line in map(orjson.loads, lines):
            match line:
                case ["host", int(number), str()]:
                    asked.pop(number, None)  # numbers begin anew when a run goes on
                case [int(number), int() | float() as at_s, *_]:
                    asked[number] = at_s
    return asked, kept


def _lines(path: Path) -> Iterator[object]:
    for _, lines in _blocks(path):
        for line in lines:
            yield orjson.loads(line)


def _blocks(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of each whole block, and where it ends (bytes)."""
    end = 0
    try:
        with plain_stream(path, MOST_BYTES) as file:
            while True:
                head = file.read(HEAD.size)
                if head == bytes(HEAD.size):  # a page that never reached the disk
                    return
                length, checksum = HEAD.unpack(head) if len(head) == HEAD.size else (0, 0)
                packed = file.read(length) if 0 < length <= _MOST_BLOCK else b""
                if not packed or len(packed) != length or zlib.crc32(packed) != checksum:
                    if file.read(1):
                        raise StoreError(f"{path}: a bad block before the end: somebody else wrote here")
                    return
                end += HEAD.size + length
                yield end, _unpacked(packed, path).split(b"\n")
    except OSError as exc:
        raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc


def _unpacked(packed: bytes, path: Path) -> bytes:
    """A block's lines; StoreError for what unpacks to far more than any block of ours, or not at all."""
    unpack = zlib.decompressobj()
    try:
        lines = unpack.decompress(packed, _MOST_BLOCK)
    except zlib.error as exc:
        raise StoreError(f"{path}: not a block of this tool") from exc
    if not unpack.eof:
        raise StoreError(f"{path}: a block larger than {size_text(_MOST_BLOCK)}, or a torn one")
    return lines
