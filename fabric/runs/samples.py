"""samples.jsonl and links.jsonl: readings from hosts and cables, append-only, where only changes are written.

Lines are written and read by ``line_log``:

- ``{"every_s": 10.0}``: the time between two samples, once a session.
- ``{"host": "gpu004", "at_s": 60.1, "values": {"mlx5_0": {"link_downed": 2}, "gpu3": {"gpu_c": 41}}}``: the values that
  these readings changed to at 60.1 s; null: not readable now. No readings: the host was asked, and nothing had changed.
- ``{"host": "gpu004", "at_s": 60.1, "values": null}``: the host was not asked from then on.
- ``{"note": "cable", "said": ...}``: something other than samples.

links.jsonl has the counters and states of both ends of every cable. A reading's *host* is the switch or the host, its
*part* the number of the switch's port or the RNIC. Its notes are the cables that were found (which port is joined with
which), the modules, and why a look at the links failed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

from fabric.errors import StoreError
from fabric.model.sampling import CounterCourse, CounterReading, Samples, Value
from fabric.runs.line_log import Limits, Line, LineLog, read_lines
from fabric.runs.plain_file import GIB, MIB, is_there

SAMPLES = "samples.jsonl"
LIMITS = Limits(16 * GIB, 16 * MIB)
"""Limits of samples.jsonl (a choice: ten times what two days of 2,048 hosts make)."""

MOST_WAITING = 2000
"""Lines that wait before they are written together (a choice: some 200 KB)."""

WAIT_S = 30.0
"""Longest wait of a line (seconds), so that a run that dies loses little."""

ALIVE_S = 600.0
"""A host without changes is noted after this time (seconds), to show that it was asked."""

Readings = Mapping[tuple[str, str], Value]
"""The readings of one host or switch, by part and name."""

Keep = Callable[[CounterReading], bool]
ReadingChange = tuple[CounterReading, float, Value]
"""A reading changed at this time (seconds) to this value."""


@dataclass(slots=True)
class _Written:
    """What was written of one host: the last value of each reading, its last line, and when it was last asked."""

    at_s: float
    values: dict[tuple[str, str], Value] = field(default_factory=dict)
    asked_s: float = 0.0


class SampleTaker(Protocol):
    """Takes what is sampled; ``SampleLog`` writes it down."""

    def add(self, host: str, at_s: float, readings: Readings) -> None:
        """Take a row of readings."""

    def gone(self, host: str, at_s: float) -> None:
        """Note that nothing is known of the host from here on."""

    def close(self) -> None:
        """End the samples; safe to call twice."""


class SampleLog:
    """Appends samples; ``close`` notes when each host was last asked, and makes everything durable."""

    def __init__(self, path: Path, every_s: float) -> None:
        self._hosts: dict[str, _Written] = {}
        self._waiting, self._since_s = 0, 0.0
        self._log = LineLog(path, LIMITS)
        self._log.add({"every_s": every_s})

    def note(self, kind: str, content: Any) -> None:
        """Write down something other than samples (JSON-able)."""
        self._log.add({"note": kind, "said": content})

    def add(self, host: str, at_s: float, readings: Readings) -> None:
        """Take one row. Raises StoreError when the disk fails."""
        known = self._hosts.setdefault(host, _Written(at_s))
        last, changed = known.values, dict[str, dict[str, Value]]()
        for key, value in readings.items():
            if key not in last or last[key] != value:
                last[key] = value
                changed.setdefault(key[0], {})[key[1]] = value
        known.asked_s = at_s
        if changed or at_s - known.at_s >= ALIVE_S:
            self._append(host, at_s, changed)

    def gone(self, host: str, at_s: float) -> None:
        """Note that the host cannot be asked any more, or not for a while: nothing is known from here on."""
        self._hosts[host] = _Written(at_s)
        self._append(host, at_s, None)

    def close(self) -> None:
        """Note when each host was last asked, and write everything down; safe to call twice."""
        try:
            for host, known in self._hosts.items():
                if known.asked_s > known.at_s:
                    self._append(host, known.asked_s, {})
        finally:
            self._hosts.clear()
            self._log.close()

    def _append(self, host: str, at_s: float, values: dict[str, dict[str, Value]] | None) -> None:
        self._hosts[host].at_s = at_s
        self._log.add(_line(host, at_s, values))
        self._since_s = self._since_s if self._waiting else at_s
        self._waiting += 1
        if self._waiting >= MOST_WAITING or at_s - self._since_s >= WAIT_S:
            self._log.flush()
            self._waiting = 0


def _line(host: str, at_s: float, values: dict[str, dict[str, Value]] | None) -> dict[str, Any]:
    return {"host": host, "at_s": round(at_s, 1), "values": values}


def close_samples(run: Path) -> float:
    """
    Make the file of a run that died ready for another session; return its last time (seconds).

    A torn end is cut off, and every reading becomes unknown as of the last time its host was asked. Raises StoreError
    for a file that cannot be read or written. Where nothing was sampled, nothing is done and 0 is returned.
    """
    if not is_there(run / SAMPLES):
        return 0.0
    last = {line["host"]: line for line in _lines(run / SAMPLES) if "host" in line}
    log = LineLog(run / SAMPLES, LIMITS)
    for host, line in last.items():
        if line["values"] is not None:
            log.add(_line(host, line["at_s"], None))
    log.close()
    return max((line["at_s"] for line in last.values()), default=0.0)


def read_samples(run: Path, keep: Keep = lambda _: True, *, file: str = SAMPLES) -> Samples:
    """
    Return the courses of the readings that *keep* accepts, for the run in a directory; none if nothing was sampled.

    Raises StoreError for a file in another format than this version writes; a torn end is ignored.
    """
    courses: dict[CounterReading, CounterCourse] = {}
    asked_s: dict[str, float] = {}
    for host, at_s, changed, answered in _rows(run / file, keep):
        if answered:
            asked_s[host] = at_s
        for reading, value in changed:
            course = courses.setdefault(reading, CounterCourse())
            course.at_s.append(at_s)
            course.values.append(value)
    for reading, course in courses.items():
        course.until_s = asked_s.get(reading.host, course.at_s[-1])
    return Samples(_every_s(run / file), courses)


def sample_changes(run: Path, *, file: str = SAMPLES) -> Iterator[ReadingChange]:
    """Yield every change of every reading, in order of time for each host; raises as ``read_samples``."""
    for _, at_s, changed, _ in _rows(run / file, lambda _: True):
        for reading, value in changed:
            yield reading, at_s, value


def _every_s(path: Path) -> float:
    """Return the sampling period from the first line; 0 without one."""
    first = next(_lines(path), {})
    return float(first["every_s"]) if isinstance(first.get("every_s"), int | float) else 0.0


def _lines(path: Path) -> Iterator[Line]:
    return read_lines(path, LIMITS) if is_there(path) else iter(())


def _rows(path: Path, keep: Keep) -> Iterator[tuple[str, float, list[tuple[CounterReading, Value]], bool]]:
    """Yield for each line the host, the time (seconds), its changed readings, and whether it was asked then."""
    known: dict[str, dict[tuple[str, str], CounterReading | None]] = {}  # by host; None: not wanted
    for line in _lines(path):
        match line:
            case {"every_s": int() | float()} | {"note": str()}:
                continue
            case {"host": str(host), "at_s": int() | float() as at_s, "values": None}:
                readings = known.get(host, {}).values()
                yield host, at_s, [(reading, None) for reading in readings if reading is not None], False
            case {"host": str(host), "at_s": int() | float() as at_s, "values": dict(parts)}:
                yield host, at_s, list(_changed(known.setdefault(host, {}), host, parts, keep)), True
            case _:
                raise StoreError(f"{path}:{line['seq']}: no samples as this version writes them")


def _changed(
    known: dict[tuple[str, str], CounterReading | None], host: str, parts: Mapping[str, Mapping[str, Value]], keep: Keep
) -> Iterator[tuple[CounterReading, Value]]:
    for part, values in parts.items():
        for name, value in values.items():
            key = part, name
            if key not in known:
                reading = CounterReading(host, part, name)
                known[key] = reading if keep(reading) else None
            found = known[key]
            if found is not None:
                yield found, value


LINKS = "links.jsonl"

End = tuple[str, str]
"""A port: the switch and its number (``("spine02", "4")``), or the host and the RNIC."""


@dataclass(frozen=True, slots=True)
class LinkModule:
    """
    The module plugged in at an end, as last read, with its alarm limits and the light below which it warns (dBm).

    None: not reported. ``mlxlink`` reports no warning limits.
    """

    vendor: str | None = None
    part_number: str | None = None
    serial: str | None = None
    firmware: str | None = None
    rx_low_dbm: float | None = None
    rx_high_dbm: float | None = None
    tx_low_dbm: float | None = None
    tx_high_dbm: float | None = None
    rx_warn_dbm: float | None = None
    tx_warn_dbm: float | None = None


@dataclass(frozen=True, slots=True)
class LinkSamples:
    """
    What was read of the links of a run: courses by end and name, and the cables as they were found.

    *modules*: the module at each end. *failed*: why the last failing look failed; empty if every look succeeded.
    """

    samples: Samples = field(default_factory=lambda: Samples(0.0, {}))
    cables: tuple[tuple[End, End], ...] = ()
    modules: Mapping[End, LinkModule] = field(default_factory=dict)
    failed: str = ""

    @property
    def both_ways(self) -> set[tuple[End, End]]:
        """Each cable, seen from either of its ends."""
        return {*self.cables, *((other, one) for one, other in self.cables)}


_FIELDS = {one.name for one in fields(LinkModule)}


class LinkLog(SampleLog):
    """Appends what the looks at all links found."""

    def __init__(self, run: Path, every_s: float) -> None:
        super().__init__(run / LINKS, every_s)
        self._written_pairs: set[frozenset[End]] = set()
        self._modules: dict[End, LinkModule] = {}

    def joined(self, cables: Iterable[tuple[End, End]]) -> None:
        """Note that these ports are joined; each pair is written once."""
        for one, other in cables:
            key = frozenset((one, other))
            if key not in self._written_pairs:
                self._written_pairs.add(key)
                self.note("cable", [*one, *other])

    def plugged(self, end: End, module: LinkModule) -> None:
        """Note the module in this end; written when something new is known about it."""
        before = self._modules.get(end, module)
        if before.serial == module.serial:  # different tools report different fields
            known = {name: value for name, value in asdict(module).items() if value is not None}
            module = replace(before, **known)
        if self._modules.get(end) != module:
            self._modules[end] = module
            self.note("module", [*end, asdict(module)])

    def failed(self, reason: str) -> None:
        """Note why a look at the links failed."""
        self.note("failed", reason)


def read_links(run: Path) -> LinkSamples | None:
    """Read links.jsonl; None where nobody looked. Raises StoreError for a file in another format."""
    if not is_there(run / LINKS):
        return None
    cables: dict[tuple[End, End], None] = {}
    modules: dict[End, LinkModule] = {}
    failed = ""
    for line in _lines(run / LINKS):
        match line:
            case {"note": "cable", "said": [str(node), str(part), str(other), str(other_part)]}:
                cables[(node, part), (other, other_part)] = None
            case {"note": "module", "said": [str(node), str(part), dict(module)]} if module.keys() <= _FIELDS:
                modules[node, part] = LinkModule(**module)
            case {"note": "failed", "said": str(reason)}:
                failed = reason
    return LinkSamples(read_samples(run, file=LINKS), tuple(cables), modules, failed)
