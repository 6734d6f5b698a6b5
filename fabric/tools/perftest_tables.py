"""The result tables in perftest's output, read line by line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from fabric.tools.perftest_log import PerftestRow, PerftestTest

_GBPS: dict[str, float] = {
    "Gb/sec": 1.0,
    "MB/sec": 8 * (1 << 20) / 1e9,  # so labelled until 2024, and MiB all the same (perftest's format_factor 0x100000)
    "MiB/sec": 8 * (1 << 20) / 1e9,
}

_ROW = re.compile(
    r"\s*(\d{1,19})\s+(\d{1,19})\s+(-?\d{1,15}\.\d{1,9})\s+(-?\d{1,15}\.\d{1,9})\s+(-?\d{1,15}\.\d{1,9})", re.ASCII
)
_ROW_WITH_SL = re.compile(
    r"\s*(\d{1,19})\s+\d{1,5}\s+(\d{1,19})\s+(-?\d{1,15}\.\d{1,9})\s+(-?\d{1,15}\.\d{1,9})\s+(-?\d{1,15}\.\d{1,9})",
    re.ASCII,
)
_HEADER = re.compile(r"\s*#bytes\s+(#sl\s+)?#iterations\s+BW peak\[([^\]]{1,20})\]\s+BW average\[([^\]]{1,20})\]")
_TITLE = re.compile(r"\s*((?:Send|RDMA_Write|RDMA_Read|Write|Atomic|Raw)\w{0,20} [ \w+]{0,60}?) ?Test\s*")
_DEVICE = re.compile(r"\bDevice {1,20}: {0,4}(\S{1,64})")
_SIDES = 16  # blocks that may be interleaved in one stream: server, client, and parallel pairs; a choice
_PROBLEMS_KEPT = 20  # of one table; a choice: more than anybody reads


@dataclass(slots=True)
class _Table:
    """One test while its lines arrive."""

    test: str | None = None
    device: str | None = None
    row: re.Pattern[str] | None = None  # None: no header yet, or one whose rows are not read
    factor: float = 1.0
    headed: bool = False
    rows: list[PerftestRow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def say(self, problem: str) -> None:
        if len(self.problems) < _PROBLEMS_KEPT:
            self.problems.append(problem)


class _Reader:
    """Gives each line to the table that it belongs to; server and client may share one stream."""

    def __init__(self) -> None:
        self.tables: list[_Table] = []
        self._titled: list[_Table] = []  # blocks whose table has not begun
        self._open: list[_Table] = []

    def title(self, line: str) -> None:
        """A new block; one that comes after a table began is no neighbour of it: what was open has ended."""
        found = _TITLE.fullmatch(line)
        if found is None:
            return
        if self._open:
            self._open.clear()
            self._titled.clear()
        table = _Table(found[1].rstrip())
        self.tables.append(table)
        self._titled = [*self._titled[1 - _SIDES :], table]

    def device(self, line: str) -> None:
        """The device of the newest block that has none yet."""
        found = _DEVICE.search(line)
        table = next((table for table in reversed(self._titled) if table.device is None), None)
        if found and table:
            table.device = found[1]

    def header(self, line: str) -> None:
        """A table begins: that of the newest block without one, else of a block whose title is not in the log."""
        if self._titled:
            table = self._titled.pop()
        else:
            table = _Table()
            self.tables.append(table)
            self._open = [other for other in self._open if not other.rows]
        table.headed = True
        _set_columns(table, line)
        self._open = [*self._open[1 - _SIDES :], table]

    def rule(self) -> None:
        """A line of dashes ends the oldest table that has rows, unless it can belong to a block about to begin."""
        ended = None if self._titled else next((table for table in self._open if table.rows), None)
        if ended:
            self._open.remove(ended)

    def number_line(self, line: str, *, last: bool) -> None:
        """A row, if a table is open: sizes ascend within a table, so two interleaved ones can be told apart."""
        if not self._open:
            return
        pattern = self._open[0].row
        found = pattern.match(line) if pattern else None
        if pattern is None:
            return
        if found is None:
            if _is_row_like(line, last=last):
                what = "the last row is cut" if last else "unreadable row"
                self._open[0].say(f"{what}: {line.strip()[:120]!r}")
            return
        size_bytes = int(found[1])
        table = next((t for t in self._open if not t.rows or t.rows[-1].size_bytes < size_bytes), self._open[-1])
        _add_row(table, found)


def tests(lines: Sequence[str]) -> tuple[PerftestTest, ...]:
    """One test per title or table, in the order printed; empty when there is neither."""
    reader = _Reader()
    last = len(lines) - 1
    for number, line in enumerate(lines):
        stripped = line.lstrip()
        first = stripped[:1]
        if first.isdigit():
            reader.number_line(line, last=number == last)
        elif first == "-":
            if stripped.startswith("-----"):
                reader.rule()
        elif first == "#":
            if stripped.startswith("#bytes"):
                reader.header(line)
        elif "Test" in line:
            reader.title(line)
        elif "Device" in line:
            reader.device(line)
    return tuple(_finished(table) for table in reader.tables)


def _set_columns(table: _Table, line: str) -> None:
    if "usec]" in line:
        table.say("a latency table: only bandwidth is read")
        return
    found = _HEADER.match(line)
    if found is None:
        table.say(f"unknown columns: {line.strip()[:120]!r}")
        return
    with_sl, unit, average_unit = found.groups()
    if unit != average_unit or unit not in _GBPS:
        table.say(f"unknown unit: {unit!r} and {average_unit!r}")
        return
    table.factor = _GBPS[unit]
    table.row = _ROW_WITH_SL if with_sl else _ROW


def _is_row_like(line: str, *, last: bool) -> bool:
    """Whether a line starts as a row does; a single number is one only where the text ends."""
    cells = line.split(None, 3)
    if len(cells) == 1:
        return last and cells[0].isdigit()
    return cells[0].isdigit() and cells[1].isdigit()


def _add_row(table: _Table, found: re.Match[str]) -> None:
    size_bytes, iterations = int(found[1]), int(found[2])
    peak, average = float(found[3]), float(found[4])
    if iterations == 0:
        table.say(f"{size_bytes} bytes: no iteration was completed, so there is no value")
        table.rows.append(PerftestRow(size_bytes, 0, None, None))
        return
    if peak < 0 or average < 0:
        table.say(f"{size_bytes} bytes: negative bandwidth {found[3]} and {found[4]}")
    elif average == 0:
        table.say(f"{size_bytes} bytes: average printed as {found[4]} after {iterations} iterations: not measured")
    elif not _agrees(size_bytes, average * table.factor, found):
        table.say(f"{size_bytes} bytes: average {found[4]} and message rate {found[5]} contradict each other")
    table.rows.append(
        PerftestRow(
            size_bytes,
            iterations,
            peak * table.factor if peak > 0 else None,  # a run by duration prints 0.00: not measured
            average * table.factor if average > 0 else None,
        )
    )


def _agrees(size_bytes: int, average_gbps: float, found: re.Match[str]) -> bool:
    """Average = message rate x size, but for rounding: the rate has 6 decimals (Mpps), the average 2 or 6."""
    rounding_gbps = 0.5e-6 * size_bytes * 8e-3 + (0.005 if found[4][-3] == "." else 0.5e-6)
    from_rate_gbps = float(found[5]) * size_bytes * 8e-3
    return abs(from_rate_gbps - average_gbps) <= 1.01 * rounding_gbps + 1e-3 * average_gbps


def _finished(table: _Table) -> PerftestTest:
    if not table.headed:
        table.say("no result table")
    elif not table.rows and table.row is not None:
        table.say("no result row")
    return PerftestTest(table.test, table.device, tuple(table.rows), tuple(table.problems))
