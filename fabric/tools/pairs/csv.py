"""
Pair results as comma-separated values: ``a,b,value_gbps[,kind,size,rail,via]``, with a unit.

The first line names the columns, in any order, with a comma, a semicolon or a tab between them. The value's column is
``value_gbps``, or carries its unit as ``value (GB/s)``; or there is a column ``unit``; or every cell is written
``46.3 GB/s``. Bits and bytes differ by a factor of eight and tools differ in which they print, so a number without a
unit is refused; and so is one with a comma in it, which is a decimal sign to some and sets thousands apart to others.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from fabric.tools.pairs.rows import PROBLEMS_MOST, UNITS, PairRow, PairTable, gbps_per

COLUMNS = ("a", "b", "value", "unit", "kind", "size", "rail", "via")
"""What a column may be called; ``value_gbps`` and ``value (GB/s)`` are a value with its unit."""

_EXPECTED = "expected column names a,b,value_gbps[,kind,size,rail,via]"
_VALUE = re.compile(r"value(?:_(gbps)|\s*[\[(]([^\])]+)[\])])", re.IGNORECASE)
_CELL = re.compile(r"(?P<number>[-+0-9.eE]+)\s*(?P<unit>[A-Za-z/]+)?")
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?")
_FACTOR = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NO_ROWS = "no rows; expected a line of column names and one line for each result"
_WITH_COMMA = re.compile(r"\d+,\d")
_NO_UNIT = f"expected a unit ({UNITS}), none is said; name the column value_gbps, or write 46.3 GB/s"
_HOST = re.compile(r"[^\s,/:]{1,253}")
_LOOKED_AT = 1 << 16  # characters in which the first line is looked for to tell the format; a choice
_LIKELY_CELLS = 3  # of a line without any known name that may be a heading all the same; a choice


@dataclass(frozen=True, slots=True)
class Heading:
    """
    The first line that is neither empty nor a comment; *separator* of its cells, *columns* by name (positions).

    *unit* is the one that it says (``gbps``: decimal Gb/s), None where it says none.
    """

    line: int
    separator: str
    cells: tuple[str, ...]
    columns: dict[str, int]
    unit: str | None

    @property
    def problems(self) -> list[str]:
        """All that is wrong with it."""
        names = [_name(cell) for cell in self.cells]
        found = []
        if self.unit is not None and gbps_per(self.unit) is None:
            found.append(f"expected the unit {UNITS} in column {self.cells[self.columns['value']]!r}")
        for number, name in enumerate(names):
            if name not in COLUMNS:
                near = get_close_matches(
                    name, [one for one in (*COLUMNS, "value_gbps") if _name(one) not in names], n=1
                )
                found.append(f"{_EXPECTED}, got {self.cells[number]!r}{f'; did you mean {near[0]!r}?' if near else ''}")
            elif name in names[:number]:
                found.append(f"column {name!r} is there twice")
        if missing := [name for name in ("a", "b", "value") if name not in names]:
            found.append(f"no column {', '.join(missing)}: {_EXPECTED}, got {', '.join(self.cells)[:80]!r}")
        return found


def heading(text: str) -> Heading | None:
    """What the first line says, None where there is none."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            separator = max(",;\t", key=line.count)
            cells = tuple(cell.strip().strip('"') for cell in line.split(separator))
            units = [found[1] or found[2] for cell in cells if (found := _VALUE.fullmatch(cell))]
            columns = {_name(cell): place for place, cell in enumerate(cells)}
            return Heading(number, separator, cells, columns, units[0] if units else None)
    return None


def has_heading(text: str) -> bool:
    """Whether a text begins as a table of pair results does: a line of cells, of which one is a known name at least."""
    first = heading(text.removeprefix("\ufeff")[:_LOOKED_AT])
    if first is None or first.cells[0][:1] in ("{", "["):
        return False
    known = len(first.cells) > 1 and any(name in COLUMNS for name in first.columns)
    return known or (first.separator == "," and len(first.cells) >= _LIKELY_CELLS and all(first.cells[:_LIKELY_CELLS]))


def parse(text: str) -> PairTable:
    """Every row, or every problem with its line."""
    text = text.removeprefix("\ufeff")
    first = heading(text)
    if first is None:
        return PairTable((), ((1, _NO_ROWS),))
    if first.problems:
        return PairTable((), tuple((first.line, problem) for problem in first.problems[:PROBLEMS_MOST]))
    rows: list[PairRow] = []
    problems: list[tuple[int, str]] = []
    reader = csv.reader(text.splitlines()[first.line :], strict=True, delimiter=first.separator)
    try:
        for cells in reader:
            if not cells or cells[0].lstrip().startswith("#") or not "".join(cells).strip():
                continue
            line = first.line + reader.line_num
            found = _row([cell.strip() for cell in cells], first, line)
            if isinstance(found, PairRow):
                rows.append(found)
            else:
                problems.append((line, found))
            if len(problems) >= PROBLEMS_MOST:
                break
    except csv.Error as exc:
        problems.append((first.line + reader.line_num, f"not comma-separated values: {exc}"))
    if not rows and not problems:
        problems.append((1, _NO_ROWS))
    if not rows and any(problem == _NO_UNIT for _, problem in problems):
        # Where no cell at all has a unit it is the heading that lacks it: that is one problem, not one for each row.
        problems = [(first.line, _NO_UNIT), *(one for one in problems if one[1] != _NO_UNIT)]
    return PairTable(tuple(rows), tuple(problems))


def _name(cell: str) -> str:
    """What a column is called here, without the unit of a value."""
    return "value" if _VALUE.fullmatch(cell) else cell.lower()


def _row(cells: Sequence[str], first: Heading, line: int) -> PairRow | str:
    columns = first.columns
    if len(cells) != len(columns):
        return f"expected {len(columns)} cells as in the first line, got {len(cells)}{_split_number(cells, columns)}"
    cell = {name: cells[position] for name, position in columns.items()}
    for end in ("a", "b"):
        if not _HOST.fullmatch(cell[end]):
            return f"expected a host name in column {end!r}, got {cell[end]!r}"
    if cell["a"] == cell["b"]:
        return f"expected two different hosts, got {cell['a']!r} twice"
    gbps = _gbps(cell["value"], cell.get("unit") or first.unit)
    if isinstance(gbps, str):
        return gbps
    size = _SIZE.fullmatch(cell.get("size", "") or "0")
    if size is None:
        return f"expected a size such as 8388608, 8M or 1G, got {cell['size']!r}"
    return PairRow(
        cell["a"],
        cell["b"],
        gbps,
        line,
        kind=cell.get("kind", ""),
        size_bytes=int(size[1]) * _FACTOR[size[2]],
        rail=cell.get("rail") or None,
        via=cell.get("via") or None,
        directed=True,
    )


def _gbps(text: str, elsewhere: str | None) -> float | str:
    """A number with its unit, or with the one that is said *elsewhere*."""
    found = _CELL.fullmatch(text)
    try:
        number = float(found["number"]) if found else None
    except ValueError:
        number = None
    if found is None or number is None or not 0 <= number < 1e9:
        point = text.replace(",", ".", 1)
        hint = f"; write the decimal sign as a point: did you mean {point!r}?" if _WITH_COMMA.match(text) else ""
        return f"expected a bandwidth of at least 0, got {text!r}{hint}"
    unit = found["unit"] or elsewhere
    factor = gbps_per(unit) if unit else None
    if factor is None:
        return f"expected a unit ({UNITS}), got {unit!r}" if unit else _NO_UNIT
    return number * factor


def _split_number(cells: Sequence[str], columns: dict[str, int]) -> str:
    """What a row may mean that has one cell too many: a number with a decimal comma is two cells."""
    at = columns["value"]
    if len(cells) != len(columns) + 1 or not cells[at].isdigit() or not cells[at + 1][:1].isdigit():
        return ""
    number = f"{cells[at]}.{cells[at + 1]}"
    return f"; a decimal comma splits a number in two: did you mean {number!r}?"
