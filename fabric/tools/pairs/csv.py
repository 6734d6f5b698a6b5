"""
Pair results as comma-separated values: ``a,b,value_gbps[,kind,size,rail,via]``, with a unit.

The first line names the columns, in any order, with a comma, a semicolon or a tab between them. The value's column is
``value_gbps``, or carries its unit as ``value (GB/s)``; or there is a column ``unit``; or every cell is written
``46.3 GB/s``. Bits and bytes differ by a factor of eight and tools differ in which they print, so a number without a
unit is refused; and so is one with a comma in it, which is a decimal sign to some and sets thousands apart to others.
"""

from __future__ import annotations

import csv
import gc
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import eq
from typing import TypeVar

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
_Text = TypeVar("_Text", bound=Hashable)
_Meaning = TypeVar("_Meaning")
_AT_ONCE = 4096  # lines that are read together; a choice
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
    found, cells, lines = _Rows(first), list[list[str]](), list[int]()
    reader = csv.reader(text.splitlines()[first.line :], strict=True, delimiter=first.separator)
    try:
        with _no_collection():
            for row in reader:
                if row and not row[0].lstrip().startswith("#"):
                    cells.append(row)
                    lines.append(first.line + reader.line_num)
                if len(cells) >= _AT_ONCE:
                    found.read(cells, lines)
                    cells, lines = [], []
                    if len(found.problems) >= PROBLEMS_MOST:
                        break
            found.read(cells, lines)
    except csv.Error as exc:
        found.read(cells, lines)
        found.problems.append((first.line + reader.line_num, f"not comma-separated values: {exc}"))
    rows, problems = found.rows, found.problems
    if not rows and not problems:
        problems.append((1, _NO_ROWS))
    if not rows and any(problem == _NO_UNIT for _, problem in problems):
        # Where no cell at all has a unit it is the heading that lacks it: that is one problem, not one for each row.
        problems = [(first.line, _NO_UNIT), *(one for one in problems if one[1] != _NO_UNIT)]
    return PairTable(tuple(rows), tuple(problems[:PROBLEMS_MOST]))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without a search for circles of objects: there are none, and in a million rows it takes half of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _Read(dict[_Text, _Meaning]):
    """What each text means that a column has, each read once: a file of a million rows has a thousand hosts."""

    def __init__(self, meaning: Callable[[_Text], _Meaning]) -> None:
        super().__init__()
        self._meaning = meaning

    def __missing__(self, text: _Text) -> _Meaning:
        found = self[text] = self._meaning(text)
        return found


class _Rows:
    """Lines of cells as rows of results: many lines at a time, and one by one where something is wrong with one."""

    def __init__(self, first: _Heading) -> None:
        self.rows: list[PairRow] = []
        self.problems: list[tuple[int, str]] = []
        self._first = first
        self._a, self._b = (_Read(partial(_host, end)) for end in ("a", "b"))
        self._size, self._kind, self._name = _Read(_size_bytes), _Read(str.strip), _Read(_name)
        self._gbps = _Read(partial(_gbps, first.unit))

    def read(self, cells: list[list[str]], lines: list[int]) -> None:
        """Read some more lines, of these numbers."""
        if not cells:
            return
        try:
            self.rows += self._of(cells, lines)
        except ValueError:
            for line, one in zip(lines, cells, strict=True):
                try:
                    self.rows += self._of([one], [line])
                except ValueError as wrong:
                    if "".join(one).strip():
                        self.problems.append((line, str(wrong)))

    def _of(self, cells: list[list[str]], lines: list[int]) -> Iterable[PairRow]:
        """Their results; ValueError says of a single line what was expected."""
        count = len(self._first.columns)
        for one in cells:
            if len(one) != count:
                hint = "; is one a number with a decimal comma? write it with a point" if len(one) == count + 1 else ""
                raise ValueError(f"expected {count} cells as in the first line, got {len(one)}{hint}")
        column = dict(zip(self._first.columns, zip(*cells, strict=True), strict=False))
        nothing = ("",) * len(cells)
        a, b = list(map(self._a.__getitem__, column["a"])), list(map(self._b.__getitem__, column["b"]))
        if any(map(eq, a, b)):
            raise ValueError(f"expected two different hosts, got {a[0]!r} twice")
        size = list(map(self._size.__getitem__, column.get("size", nothing)))
        gbps = list(map(self._gbps.__getitem__, zip(column["value"], column.get("unit", nothing), strict=True)))
        kind = map(self._kind.__getitem__, column.get("kind", nothing))
        rail, via = (map(self._name.__getitem__, column.get(name, nothing)) for name in ("rail", "via"))
        return map(PairRow, a, b, gbps, lines, kind, size, rail, via, repeat(True))


def _name(text: str) -> str | None:
    return text.strip() or None


def _host(column: str, text: str) -> str:
    name = text.strip()
    if not _HOST.fullmatch(name):
        raise ValueError(f"expected a host name in column {column!r}, got {name!r}")
    return name


def _size_bytes(text: str) -> int:
    size = _SIZE.fullmatch(text.strip() or "0")
    if size is None:
        raise ValueError(f"expected a size such as 8388608, 8M or 1G, got {text.strip()!r}")
    return int(size[1]) << 10 * " KMGT".index(size[2] or " ")


def _gbps(usual: str | None, cells: tuple[str, str]) -> float:
    """A number with its own unit, with that of the second cell, or with the *usual* one."""
    text, elsewhere = (cell.strip() for cell in cells)
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
    unit = found["unit"] or elsewhere or usual
    factor = gbps_per(unit) if unit else None
    if factor is None:
        raise ValueError(f"expected a unit ({UNITS}), got {unit!r}" if unit else _NO_UNIT)
    return number * factor
