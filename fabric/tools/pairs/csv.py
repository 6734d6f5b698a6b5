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
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from fabric.model.fields.wording import nearest
from fabric.tools.pairs.rows import PROBLEMS_MOST, UNITS, PairRow, PairTable, gbps_per

_SPELT = {
    "a": "a src source",
    "b": "b dst destination",
    "value": "value bw bandwidth value_gbps bw_gbps bandwidth_gbps",
    **{name: name for name in ("unit", "kind", "size", "rail", "via")},
}
COLUMNS: Mapping[str, str] = {spelling: name for name, words in _SPELT.items() for spelling in words.split()}
"""What a column may be called, in capitals too; behind a value's name its unit may stand in brackets."""

_EXPECTED = "expected column names a,b,value_gbps[,kind,size,rail,via]"
_CELL = re.compile(r"(?P<number>[-+0-9.eE]+)\s*(?P<unit>[A-Za-z/]+)?")
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?")
_NO_ROWS = "no rows; expected a line of column names and one line for each result"
_NO_UNIT = f"expected a unit ({UNITS}), none is said; name the column value_gbps, or write 46.3 GB/s"
_HOST = re.compile(r"[^\s,/:]{1,253}")
_LOOKED_AT = 1 << 16  # characters in which the first line is looked for to tell the format; a choice


@dataclass(frozen=True, slots=True)
class _Heading:
    """The first line that is neither empty nor a comment; *columns* by name (positions), *unit* where it says one."""

    line: int
    separator: str
    columns: Mapping[str, int]
    unit: str | None
    problems: tuple[str, ...]


def _heading(text: str) -> _Heading | None:
    """What the first line says, with all that is wrong with it; None where there is none."""
    lines = enumerate(text.splitlines(), start=1)
    number, line = next(((n, line) for n, line in lines if line.strip() and line.lstrip()[0] != "#"), (0, ""))
    if not number:
        return None
    separator = max(",;\t", key=line.count)
    cells = [cell.strip().strip('"') for cell in line.split(separator)]
    columns: dict[str, int] = {}
    problems, unit = [], None
    for place, cell in enumerate(cells):
        spelt, _, said = cell.replace("[", "(").partition("(")
        name = COLUMNS.get(spelt.strip().lower())
        if name is None or (said and name != "value"):
            problems.append(f"{_EXPECTED}, got {cell!r}{nearest(cell.lower(), list(COLUMNS))}")
        elif name in columns:
            problems.append(f"column {name!r} is there twice")
        elif name == "value":
            unit = said.rstrip(")]") or ("Gb/s" if spelt.lower().endswith("_gbps") else None)
            if unit and gbps_per(unit) is None:
                problems.append(f"expected the unit {UNITS} in column {cell!r}")
        columns[name or cell] = place
    if missing := [name for name in ("a", "b", "value") if name not in columns]:
        problems.append(f"no column {', '.join(missing)}: {_EXPECTED}, got {', '.join(cells)[:80]!r}")
    return _Heading(number, separator, columns, unit, tuple(problems))


def is_heading(text: str) -> bool:
    """Whether a text begins with a line that names the columns of pair results and says nothing else."""
    first = _heading(text.removeprefix("\ufeff")[:_LOOKED_AT])
    return first is not None and not first.problems


def has_heading(text: str) -> bool:
    """Whether a text begins as a table of pair results does: a line of cells, of which one is a known name at least."""
    first = _heading(text.removeprefix("\ufeff")[:_LOOKED_AT])
    return first is not None and len(first.columns) > 1 and not first.columns.keys().isdisjoint(_SPELT)


def parse(text: str) -> PairTable:
    """Every row, or every problem with its line."""
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
            if cells and not cells[0].lstrip().startswith("#") and any(map(str.strip, cells)):
                try:
                    rows.append(_row(first, cells, first.line + reader.line_num))
                except ValueError as wrong:
                    problems.append((first.line + reader.line_num, str(wrong)))
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


def _row(first: _Heading, cells: list[str], line: int) -> PairRow:
    """One result; ValueError says what was expected."""
    if len(cells) != len(first.columns):
        more = len(cells) > len(first.columns)
        hint = "; is one a number with a decimal comma? write it with a point" if more else ""
        raise ValueError(f"expected {len(first.columns)} cells as in the first line, got {len(cells)}{hint}")
    of = dict(zip(first.columns, cells, strict=True)).get
    a, b = _host("a", of("a", "")), _host("b", of("b", ""))
    if a == b:
        raise ValueError(f"expected two different hosts, got {a!r} twice")
    gbps = _gbps(first.unit, of("value", ""), of("unit", ""))
    rail, via = of("rail", "").strip() or None, of("via", "").strip() or None
    return PairRow(a, b, gbps, line, of("kind", "").strip(), _size_bytes(of("size", "")), rail, via, directed=True)


@lru_cache(maxsize=1 << 14)  # a file of a million rows has a thousand hosts
def _host(column: str, text: str) -> str:
    name = text.strip()
    if not _HOST.fullmatch(name):
        raise ValueError(f"expected a host name in column {column!r}, got {name!r}")
    return name


@lru_cache(maxsize=1 << 10)
def _size_bytes(text: str) -> int:
    size = _SIZE.fullmatch(text.strip() or "0")
    if size is None:
        raise ValueError(f"expected a size such as 8388608, 8M or 1G, got {text.strip()!r}")
    return int(size[1]) << 10 * " KMGT".index(size[2] or " ")


def _gbps(usual: str | None, cell: str, elsewhere: str) -> float:
    """A number with its own unit, with that of the cell *elsewhere*, or with the *usual* one."""
    text = cell.strip()
    found = _CELL.fullmatch(text)
    try:
        number = float(found["number"]) if found else -1.0
    except ValueError:
        number = -1.0
    if found is None or not 0 <= number < 1e9:
        point = (
            f"; write the decimal sign as a point: did you mean {text.replace(',', '.', 1)!r}?" if "," in text else ""
        )
        raise ValueError(f"expected a bandwidth of at least 0, got {text!r}{point}")
    unit = found["unit"] or elsewhere.strip() or usual
    factor = gbps_per(unit) if unit else None
    if factor is None:
        raise ValueError(f"expected a unit ({UNITS}), got {unit!r}" if unit else _NO_UNIT)
    return number * factor
