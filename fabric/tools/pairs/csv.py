"""Pair results as comma-separated values: ``a,b,value_gbps[,kind,size,rail,via]``.

The first line names the columns, in any order, separated by a comma, a semicolon or a tab. The value's column names its
unit, ``value_gbps`` or ``value (GB/s)``: bits and bytes differ by a factor of eight and tools differ in which they
print, so a number without a unit is refused; so is a number with a comma, which is a decimal sign to some and a
thousands separator to others.
"""

import csv
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter

from fabric.model.diagnosis import PROBLEMS_MOST, PairRow, PairTable
from fabric.model.fields.wording import nearest

COLUMNS = ("a", "b", "value", "kind", "size", "rail", "via")
UNITS: Mapping[str, float] = {
    "Gb/s": 1.0, "Mb/s": 1e-3, "GB/s": 8.0, "MB/s": 8e-3, "GiB/s": 8 * 2**30 / 1e9, "MiB/s": 8 * 2**20 / 1e9,
}  # fmt: skip
"""The units of a value, and how many Gb/s one is."""

_EXPECTED = "expected column names a,b,value_gbps[,kind,size,rail,via]"
_VALUE = re.compile(r"(?i:value)(?:(?P<gbps>_[Gg]bps)|\s*[(\[](?P<unit>[^)\]]*)[)\]])")  # a large B is bytes
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?")
_NO_ROWS = "no rows; expected a line of column names and one line for each result"
_HOST = re.compile(r"[^\s,/:]{1,253}")
_LOOKED_AT = 1 << 16  # characters in which the first line is searched to recognize the format; a choice


@dataclass(frozen=True)
class _Heading:
    """The first line that is neither empty nor a comment; *columns* by name (positions), *factor* to Gb/s."""

    line: int
    separator: str
    columns: Mapping[str, int]
    factor: float
    problems: tuple[str, ...]

    @cached_property
    def picked(self) -> Callable[[list[str]], tuple[str, ...]]:
        """
        Return a function that picks the cells of ``COLUMNS`` from a row with an empty cell at its end.

        That empty cell stands for absent columns.
        """
        return itemgetter(*(self.columns.get(name, -1) for name in COLUMNS))


def _heading(text: str) -> _Heading | None:
    """Return the heading with all that is wrong with it; None where there is none."""
    lines = enumerate(text.splitlines(), start=1)
    number, line = next(((n, line) for n, line in lines if line.strip() and line.lstrip()[0] != "#"), (0, ""))
    if not number:
        return None
    separator = max(",;\t", key=line.count)
    cells = [cell.strip().strip('"') for cell in line.split(separator)]
    columns: dict[str, int] = {}
    problems, factor = [], 1.0
    for place, cell in enumerate(cells):
        value = _VALUE.fullmatch(cell)
        name = "value" if cell.lower().startswith("value") else cell.lower()
        if name not in COLUMNS:
            problems.append(f"{_EXPECTED}, got {cell!r}{nearest(name, ('value_gbps', *COLUMNS))}")
        elif name in columns:
            problems.append(f"column {name!r} is there twice")
        elif name == "value" and not (value and value["gbps"]):
            factor = UNITS.get(value["unit"].strip() if value else "", 0.0)
            if not factor:
                problems.append(
                    f"expected a unit ({', '.join(UNITS)}) as in 'value (GB/s)', or value_gbps, got {cell!r}"
                )
        columns[name] = place
    if missing := [name for name in ("a", "b", "value") if name not in columns]:
        problems.append(f"no column {', '.join(missing)}: {_EXPECTED}, got {', '.join(cells)[:80]!r}")
    return _Heading(number, separator, columns, factor, tuple(problems))


def has_heading(text: str) -> bool:
    """
    Return whether a text begins as a table of pair results: with a line of cells, at least one of them a known name.
    """
    first = _heading(text.removeprefix("\ufeff")[:_LOOKED_AT])
    return first is not None and len(first.columns) > 1 and not first.columns.keys().isdisjoint(COLUMNS)


def unlike(text: str) -> tuple[int, str]:
    """Return the line where a table's heading would be in a text that is none, and how it differs from one."""
    first = _heading(text.removeprefix("\ufeff")[:_LOOKED_AT])
    return (first.line, first.problems[-1]) if first is not None and first.problems else (1, _NO_ROWS)


def parse(text: str) -> PairTable:
    """Return every row, or every problem with its line."""
    text = text.removeprefix("\ufeff")
    first = _heading(text)
    if first is None:
        return PairTable((), ((1, _NO_ROWS),))
    if first.problems:
        return PairTable((), tuple((first.line, problem) for problem in first.problems[:PROBLEMS_MOST]))
    rows: list[PairRow] = []
    problems: list[tuple[int, str]] = []
    reader = csv.reader(text.splitlines()[first.line :], strict=True, delimiter=first.separator)
    try:
        for cells in reader:
            begins = cells[0].strip() if cells else ""
            if begins[:1] != "#" and (begins or any(map(str.strip, cells))):
                try:
                    rows.append(_row(first, cells, first.line + reader.line_num))
                except ValueError as wrong:
                    problems.append((first.line + reader.line_num, str(wrong)))
                    if len(problems) == PROBLEMS_MOST:
                        problems.append((first.line + reader.line_num, f"not read on after {PROBLEMS_MOST} problems"))
                        break
    except csv.Error as exc:
        problems.append((first.line + reader.line_num, f"not comma-separated values: {exc}"))
    if not rows and not problems:
        problems.append((1, _NO_ROWS))
    return PairTable(tuple(rows), tuple(problems))


def _row(first: _Heading, cells: list[str], line: int) -> PairRow:
    """Return one result; the ValueError says what was expected."""
    if len(cells) != len(first.columns):
        more = len(cells) > len(first.columns)
        hint = "; is one a number with a decimal comma? write it with a point" if more else ""
        raise ValueError(f"expected {len(first.columns)} cells as in the first line, got {len(cells)}{hint}")
    a, b, value, kind, size, rail, via = first.picked([*cells, ""])
    a, b = _host("a", a), _host("b", b)
    if a == b:
        raise ValueError(f"expected two different hosts, got {a!r} twice")
    gbps = _number(value.strip()) * first.factor
    return PairRow(
        a, b, gbps, line, kind.strip(), _size_bytes(size), rail.strip() or None, via.strip() or None, directed=True
    )


@lru_cache(maxsize=1 << 14)  # a file of a million rows has a thousand hosts
def _host(column: str, text: str) -> str:
    name = text.strip()
    if not _HOST.fullmatch(name):
        raise ValueError(f"expected a host name (no blank, comma, slash or colon) in column {column!r}, got {name!r}")
    return name


@lru_cache(maxsize=1 << 10)
def _size_bytes(text: str) -> int:
    size = _SIZE.fullmatch(text.strip() or "0")
    if size is None:
        raise ValueError(f"expected a size such as 8388608, 8M or 1G, got {text.strip()!r}")
    return int(size[1]) << 10 * " KMGT".index(size[2] or " ")


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9 or "_" in text:
        raise ValueError(f"expected a bandwidth of at least 0, got {text!r}{_hint(text)}")
    return number


def _hint(text: str) -> str:
    """Return what to write in place of a cell that is no bandwidth."""
    meant = text.replace(",", ".")
    if "," not in text:
        return "" if any(map(str.isdigit, text)) else "; leave out the line of a pair that was not measured"
    if meant.count(".") > 1:
        return "; write it without thousands separators, and the decimal sign as a point"
    return f"; write the decimal sign as a point: did you mean {meant!r}?"
