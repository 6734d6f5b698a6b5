"""Reads perftest's output line by line: its result tables and its failures."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fabric.errors import UnreadableOutput
from fabric.tools.driver import COLOUR, need
from fabric.tools.perftest.failures import PerftestFailure, complaints

_GBPS: dict[str, float] = {
    "Gb/sec": 1.0,
    "MB/sec": 8 * (1 << 20) / 1e9,  # labelled so until 2024, and MiB all the same (perftest's format_factor 0x100000)
    "MiB/sec": 8 * (1 << 20) / 1e9,
}

_NUMBER = r"(-?\d{1,15}\.\d{1,9})"
# Size, perhaps the service level, iterations; peak, average, message rate.
_ROW = re.compile(rf"\s*(\d{{1,19}})\s+(?:\d{{1,5}}\s+)?(\d{{1,19}})\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}", re.ASCII)
_HEADER = re.compile(r"\s*#bytes\s+(?:#sl\s+)?#iterations\s+BW peak\[([^\]]{1,20})\]\s+BW average\[([^\]]{1,20})\]")
_TITLE = re.compile(r"\s*((?:Send|RDMA_Write|RDMA_Read|Write|Atomic|Raw)\w{0,20} [ \w+]{0,60}?) ?Test\s*")
_PICKED = re.compile(r"(?:Picking device No\. |Using ROCm Device with ID: )(\d{1,5})(?:$|, Name:)", re.ASCII)

_ADDRESSES = ("local address:", "remote address:")
_NEW_EACH_TIME = ("[pid = ", "allocated GPU buffer ", "deallocating GPU buffer ")  # and of no interest
_WORD = 64  # characters kept of a value above the table; a choice, a device's name has 63 at most
_SIDES = 16  # blocks that may be interleaved in one stream: server, client, and parallel pairs; a choice
_PROBLEMS_KEPT = 20  # of one table; a choice: more than anybody reads


@dataclass(frozen=True, slots=True)
class PerftestRow:
    """One message size; a bandwidth that the tool did not measure is None, never 0."""

    size_bytes: int
    iterations: int
    bw_peak_gbps: float | None
    bw_average_gbps: float | None


@dataclass(slots=True)
class PerftestTest:
    """
    One block of output: the server's or the client's.

    *test* is the title without its last word (``RDMA_Write BW``), None when the log starts after it. *problems* says
    why rows are missing or hold no value; empty when everything was read. *settings* is what the block prints about
    itself above the table, by the names printed there (``Number of qps``), the GPU under ``GPU``. *local* and *remote*
    are the addresses of its queue pairs, new in every run: the two sides of one transfer print the same ones. *closed*:
    the line under the table was printed. *unit* is None until its header is read, and where its rows are not read.
    """

    test: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    unit: str | None = None
    local: list[str] = field(default_factory=list)
    remote: list[str] = field(default_factory=list)
    closed: bool = False
    rows: list[PerftestRow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def device(self) -> str | None:
        """Return the RNIC that it ran on."""
        return self.settings.get("Device")

    def say(self, problem: str) -> None:
        """Note a problem, up to a bound."""
        if len(self.problems) < _PROBLEMS_KEPT:
            self.problems.append(problem)


@dataclass(frozen=True, slots=True)
class PerftestLog:
    """Everything in one output; both are empty when it has nothing of perftest."""

    tests: tuple[PerftestTest, ...]
    failures: tuple[PerftestFailure, ...]


def parse(text: str) -> PerftestLog:
    """
    Return every table and every failure in the output of one or more perftest programs; never raises.

    Bandwidth is in decimal Gb/s: ``MB/sec`` (before 2024) and ``MiB/sec`` are both MiB/s. A latency table
    (ib_write_lat) is a test without rows whose problem says so.
    """
    if "\x1b" in text:
        text = COLOUR.sub("", text)
    lines = text.splitlines()
    meant = [_meaning(line) for line in lines]
    reader = _Reader()
    for number, (take, given, _) in enumerate(meant, start=1):
        if take is not None:
            reader.at_end = number == len(lines)
            take(reader, given)
    for table in reader.tables:
        if table.unit is None and not table.problems:
            table.say("no result table")
        elif table.unit is not None and not table.rows:
            table.say("no result row")
    others = [line for line, (_, _, is_other) in zip(lines, meant, strict=True) if is_other]
    return PerftestLog(tuple(reader.tables), complaints(others))


class _Reader:
    """
    Gives each line to the table that it belongs to; server and client may share one stream.

    *at_end*: the present line is the last of all.
    """

    def __init__(self) -> None:
        self.tables: list[PerftestTest] = []
        self.at_end = False
        self._titled: list[PerftestTest] = []  # blocks whose table has not begun
        self._open: list[PerftestTest] = []
        self._gpu: str | None = None  # the GPU that holds the next block's buffers

    def title(self, title: str) -> None:
        """Begin a block; if a table has begun before, the open blocks have ended and do not run beside it."""
        if self._open:
            self._open.clear()
            self._titled.clear()
        table = PerftestTest(title)
        if self._gpu is not None:
            table.settings["GPU"], self._gpu = self._gpu, None
        self.tables.append(table)
        self._titled = [*self._titled[1 - _SIDES :], table]

    def settings(self, values: tuple[tuple[str, str], ...]) -> None:
        """Add one line above a table: to the newest block without this value, or to a block about to begin."""
        if values[0][0] == "GPU":
            self._gpu = values[0][1]
            return
        for table in reversed(self._titled):
            if values[0][0] not in table.settings:
                table.settings.update(values)
                return

    def address(self, side_address: tuple[str, str]) -> None:
        """Add a queue pair's address, of this side or of the other."""
        side, address = side_address
        if self._titled:
            (self._titled[-1].local if side == "local" else self._titled[-1].remote).append(address)

    def header(self, line: str) -> None:
        """Begin a table: that of the newest block without one, else of a block whose title is not in the log."""
        if self._titled:
            table = self._titled.pop()
        else:
            table = PerftestTest()
            self.tables.append(table)
            self._open = [other for other in self._open if not other.rows]
        try:
            table.unit = _unit(line)
        except UnreadableOutput as exc:
            table.say(str(exc))
            return
        self._open = [*self._open[1 - _SIDES :], table]

    def rule(self, _: str) -> None:
        """
        End the oldest table that has rows at a line of dashes, unless the line can belong to a block about to begin.
        """
        ended = None if self._titled else next((table for table in self._open if table.rows), None)
        if ended:
            ended.closed = True
            self._open.remove(ended)

    def row(self, found: re.Match[str]) -> None:
        """Add a row, if a table is open: sizes ascend within a table, so two interleaved tables can be told apart."""
        if self._open:
            size_bytes = int(found[1])
            tables = (table for table in self._open if not table.rows or table.rows[-1].size_bytes < size_bytes)
            _add_row(next(tables, self._open[-1]), found)

    def number(self, line: str) -> None:
        """Note a line that starts with a number and is not a row, or not a whole one."""
        if self._open and _is_row_like(line, last=self.at_end):
            self._open[0].say(f"{'the last row is cut' if self.at_end else 'unreadable row'}: {line.strip()[:120]!r}")


# Lines above a table: the first four characters, and the names of the one or two values in it.
_SAYS = {
    "Dual": ("Dual-port", "Device"),
    "Numb": ("Number of qps", "Transport type"),
    "Conn": ("Connection type", "Using SRQ"),
    "Link": ("Link type", ""),
    "GID ": ("GID index", ""),
    "rdma": ("rdma_cm QPs", ""),
    "NUMA": ("NUMA node", ""),
}


_Taker = Callable[[_Reader, Any], None]


@lru_cache(maxsize=4096)  # nearly all lines are the same in every run on every host
def _meaning(line: str) -> tuple[_Taker | None, Any, bool]:
    """
    Return the reader's method for a line, its argument, and whether the line is outside all blocks: it may complain.
    """
    text = line.strip()
    if text[:1].isdigit():
        found, is_other = _ROW.match(line), text.lower() != text.upper()
        return (_Reader.row, found, is_other) if found else (_Reader.number, line, is_other)
    if text.startswith(_ADDRESSES):
        side, _, address = text.partition(" address:")
        return _Reader.address, (side, address.strip()), False
    if text.startswith(_NEW_EACH_TIME):
        return None, None, False
    if settings := _settings(text):
        return _Reader.settings, settings, False
    if title := _TITLE.fullmatch(text):
        return _Reader.title, title[1].rstrip(), False
    if text.startswith("-----"):
        return _Reader.rule, text, False
    if text.startswith("#bytes"):
        return _Reader.header, text, False
    return None, None, bool(text)


def _settings(line: str) -> tuple[tuple[str, str], ...]:
    """Return the values in a line above a table."""
    if picked := _PICKED.match(line):
        return (("GPU", picked[1]),)
    first, second = _SAYS.get(line[:4], ("", ""))
    cells = line.split(":", 2)
    if not first or not cells[0].startswith(first) or len(cells) < 2:
        return ()
    found = (first, next(iter(cells[1].split()), "")[:_WORD])
    return (
        (found, (second, cells[2].strip()[:_WORD])) if second and second in cells[1] and len(cells) == 3 else (found,)
    )


@lru_cache(maxsize=64)
def _unit(line: str) -> str:
    """Return the unit of bandwidths below a heading; raises UnreadableOutput where the table is not read."""
    if "usec]" in line:
        raise UnreadableOutput("a latency table: only bandwidth is read")
    found = need(_HEADER.match(line), f"unknown columns: {line[:120]!r}")
    unit, average_unit = found.groups()
    if unit != average_unit or unit not in _GBPS:
        raise UnreadableOutput(f"unknown unit: {unit!r} and {average_unit!r}")
    return unit


def _is_row_like(line: str, *, last: bool) -> bool:
    """Return whether a line starts as a row does; a single number does only where the text ends."""
    cells = line.split(None, 3)
    if len(cells) == 1:
        return last and cells[0].isdigit()
    return cells[0].isdigit() and cells[1].isdigit()


def _add_row(table: PerftestTest, found: re.Match[str]) -> None:
    size_bytes, iterations = int(found[1]), int(found[2])
    peak, average, gbps = float(found[3]), float(found[4]), _GBPS[str(table.unit)]
    if iterations == 0:
        table.say(f"{size_bytes} bytes: no iteration was completed, so there is no value")
        peak = average = 0.0
    elif peak < 0 or average < 0:
        table.say(f"{size_bytes} bytes: negative bandwidth {found[3]} and {found[4]}")
    elif average == 0:
        table.say(f"{size_bytes} bytes: average printed as {found[4]} after {iterations} iterations: not measured")
    elif not _agrees(size_bytes, average * gbps, found):
        table.say(f"{size_bytes} bytes: average {found[4]} and message rate {found[5]} contradict each other")
    table.rows.append(
        PerftestRow(
            size_bytes,
            iterations,
            peak * gbps if peak > 0 else None,  # a run by duration prints 0.00: not measured
            average * gbps if average > 0 else None,
        )
    )


def _agrees(size_bytes: int, average_gbps: float, found: re.Match[str]) -> bool:
    """Check average = message rate x size, but for rounding: the rate has 6 decimals (Mpps), the average 2 or 6."""
    rounding_gbps = 0.5e-6 * size_bytes * 8e-3 + (0.005 if found[4][-3] == "." else 0.5e-6)
    from_rate_gbps = float(found[5]) * size_bytes * 8e-3
    return abs(from_rate_gbps - average_gbps) <= 1.01 * rounding_gbps + 1e-3 * average_gbps
