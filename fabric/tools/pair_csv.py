"""
Pair results as comma-separated values: ``a,b,value[,kind,size,rail,via]``, with the unit said once or in every cell.

The first line names the columns, in any order, with a comma, a semicolon or a tab between them
(``pair_csv_heading.py``). The value's column is ``value_gbps`` (or ``gbps``), or carries its unit as ``value (GB/s)``;
or there is a column ``unit``; or every cell is written ``46.3 GB/s``. Bits and bytes differ by a factor of eight and
tools differ in which they print, so a number without a unit is refused; and so is one with a comma in it, which is a
decimal sign to some and sets thousands apart to others.
"""

from __future__ import annotations

import csv
import re

from fabric.tools.pair_csv_heading import Heading, heading_line, read_heading
from fabric.tools.pair_rows import PROBLEMS_MOST, UNITS, PairRow, PairTable, gbps_per

_CELL = re.compile(r"(?P<number>[-+0-9.eE]+)\s*(?P<unit>[A-Za-z/]+)?")
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?")
_FACTOR = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NO_ROWS = "no rows; expected a line of column names and one line for each result"
_WITH_COMMA = re.compile(r"\d+,\d")
_NO_UNIT = f"expected a unit ({UNITS}), none is said; name the column value_gbps, or write 46.3 GB/s"
_HOST = re.compile(r"[^\s,/:]{1,253}")


def parse(text: str) -> PairTable:
    """Every row, or every problem with its line."""
    text = text.removeprefix("\ufeff")
    first = heading_line(text)
    if first is None:
        return PairTable((), ((1, _NO_ROWS),))
    heading = read_heading(first[1])
    if heading.problems:
        return PairTable((), tuple((first[0], problem) for problem in heading.problems[:PROBLEMS_MOST]))
    rows: list[PairRow] = []
    problems: list[tuple[int, str]] = []
    reader = csv.reader(text.splitlines()[first[0] :], strict=True, delimiter=heading.separator)
    try:
        for cells in reader:
            if not cells or cells[0].lstrip().startswith("#") or not "".join(cells).strip():
                continue
            line = first[0] + reader.line_num
            found = _row([cell.strip() for cell in cells], heading, line)
            if isinstance(found, PairRow):
                rows.append(found)
            else:
                problems.append((line, found))
            if len(problems) >= PROBLEMS_MOST:
                break
    except csv.Error as exc:
        problems.append((first[0] + reader.line_num, f"not comma-separated values: {exc}"))
    if not rows and not problems:
        problems.append((1, _NO_ROWS))
    if not rows:
        problems = _once(problems, first[0])
    return PairTable(tuple(rows), tuple(problems))


def _once(problems: list[tuple[int, str]], heading: int) -> list[tuple[int, str]]:
    """Where no cell at all has a unit it is the heading that lacks it: that is one problem, not one for each row."""
    others = [(line, text) for line, text in problems if text != _NO_UNIT]
    return others if len(others) == len(problems) else [(heading, _NO_UNIT), *others]


def _row(cells: list[str], heading: Heading, line: int) -> PairRow | str:
    columns = heading.columns
    if len(cells) != len(columns):
        return f"expected {len(columns)} cells as in the first line, got {len(cells)}{_split_number(cells, columns)}"
    cell = {name: cells[position] for name, position in columns.items()}
    for end in ("a", "b"):
        if not _HOST.fullmatch(cell[end]):
            return f"expected a host name in column {end!r}, got {cell[end]!r}"
    if cell["a"] == cell["b"]:
        return f"expected two different hosts, got {cell['a']!r} twice"
    gbps = _gbps(cell["value"], cell.get("unit"), heading.unit_gbps)
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


def _gbps(text: str, in_column: str | None, in_heading: float | None) -> float | str:
    found = _CELL.fullmatch(text)
    try:
        number = float(found["number"]) if found else None
    except ValueError:
        number = None
    if found is None or number is None or not 0 <= number < 1e9:
        return f"expected a bandwidth of at least 0, got {text!r}{_without_comma(text)}"
    said = found["unit"] or in_column
    factor = gbps_per(said) if said else in_heading
    if factor is None:
        return f"expected a unit ({UNITS}), got {said!r}" if said else _NO_UNIT
    return number * factor


def _without_comma(text: str) -> str:
    """How a number with a decimal comma is to be written; nothing where there is none."""
    if _WITH_COMMA.match(text) is None:
        return ""
    return f"; write the decimal sign as a point: did you mean {text.replace(',', '.', 1)!r}?"


def _split_number(cells: list[str], columns: dict[str, int]) -> str:
    """What a row may mean that has one cell too many: a number with a decimal comma is two cells."""
    at = columns["value"]
    if len(cells) != len(columns) + 1 or not cells[at].isdigit() or not cells[at + 1][:1].isdigit():
        return ""
    number = f"{cells[at]}.{cells[at + 1]}"
    return f"; a decimal comma splits a number in two: did you mean {number!r}?"
