"""
The first line of a table of pair results: which separator, which column is where, and which unit it says.

A comma, a semicolon (spreadsheets where the comma is the decimal sign) or a tab: the one with which most cells are
known column names. Two with equally many are refused.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from fabric.tools.pair_rows import UNITS, gbps_per

COLUMNS = ("a", "b", "value", "unit", "kind", "size", "rail", "via")
"""What a column may be called; ``value_gbps`` and ``gbps`` are a value with its unit."""

_ALIASES = {
    **dict.fromkeys(("host_a", "source", "src", "client"), "a"),
    **dict.fromkeys(("host_b", "destination", "dst", "server"), "b"),
    **dict.fromkeys(("bandwidth", "bw", "busbw"), "value"),
    **dict.fromkeys(("size_bytes", "message_size"), "size"),
    **dict.fromkeys(("spine", "path"), "via"),
}
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_EXPECTED = "expected column names a,b,value_gbps[,kind,size,rail,via]"
_WITH_UNIT = re.compile(r"(?P<name>[a-z_]+?)(?:_(?P<gbps>gbps)|\s*[\[(](?P<unit>[^\])]+)[\])])")
_LIKELY_CELLS = 3  # of a line without any known name that may be a heading all the same; a choice


@dataclass(frozen=True, slots=True)
class Heading:
    """
    *separator* of the cells, *columns* by name (positions from 0), *unit_gbps* as the heading says it (None: it does
    not). *problems* are all that is wrong with it, and then the rest is not to be used.
    """

    separator: str
    columns: dict[str, int]
    unit_gbps: float | None = None
    problems: tuple[str, ...] = ()


def heading_line(text: str) -> tuple[int, str] | None:
    """Where the first line stands that is neither empty nor a comment, 1-based, and that line; None: there is none."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            return number, line
    return None


def has_heading(text: str) -> bool:
    """Whether a text begins as a table of pair results does: a line of cells, of which one is a known name at least."""
    found = heading_line(text.removeprefix("\ufeff")[:_LOOKED_AT])
    if found is None or found[1].lstrip().startswith(("{", "[")):
        return False
    line = found[1]
    if any(_known(cells) for cells in _split(line).values() if len(cells) > 1):
        return True
    words = line.split()
    if len(words) > 1 and _known(words) == len(words):
        return True  # separated by blanks: no table that is read, and the reader says so
    cells = line.split(",")
    return len(cells) >= _LIKELY_CELLS and all(cell.strip() for cell in cells[:_LIKELY_CELLS])


_LOOKED_AT = 1 << 16  # characters in which the first line is looked for; a choice


def read_heading(line: str) -> Heading:
    """The columns of a first line, or everything that is wrong with it."""
    split = _split(line)
    count = {separator: _known(cells) for separator, cells in split.items()}
    best = max(split, key=lambda separator: (count[separator], len(split[separator])))
    rivals = [other for other in split if other != best and count[other] == count[best] > 0 and len(split[other]) > 1]
    if rivals and len(split[best]) > 1:
        both = " and ".join(_SEPARATORS[one] for one in (best, *rivals))
        return Heading(best, {}, None, (f"{_EXPECTED} with one separator, got {both} in {line.strip()[:80]!r}",))
    cells = [cell.strip() for cell in split[best]]
    if len(cells) == 1 and len(line.split()) > 1:
        wanted = "separated by commas, semicolons or tabs"
        return Heading(best, {}, None, (f"{_EXPECTED} {wanted}, got {line.strip()[:80]!r}",))
    return _columns(best, cells)


def _columns(separator: str, cells: Sequence[str]) -> Heading:
    columns: dict[str, int] = {}
    problems: list[str] = []
    unit: float | None = None
    for position, cell in enumerate(cells):
        name, said = _named(cell)
        if said is not None:
            unit = 1.0 if said == "gbps" else gbps_per(said)
            if unit is None:
                problems.append(f"expected the unit {UNITS} in column {cell!r}")
        if name not in COLUMNS:
            problems.append(f"{_EXPECTED}, got {cell!r}{_near(name, cells)}")
        elif name in columns:
            problems.append(f"column {name!r} is there twice")
        columns[name] = position
    missing = [name for name in ("a", "b", "value") if name not in columns]
    if missing:
        problems.append(f"no column {', '.join(missing)}: {_EXPECTED}, got {', '.join(cells)[:80]!r}")
    return Heading(separator, columns, unit, tuple(problems))


def _named(cell: str) -> tuple[str, str | None]:
    """What a column is called here, and the unit in its name (``gbps``: decimal Gb/s)."""
    name = cell.lower()
    if name == "gbps":
        return "value", "gbps"
    said = _WITH_UNIT.fullmatch(name)
    if said and _ALIASES.get(said["name"], said["name"]) == "value":
        return "value", "gbps" if said["gbps"] else cell[said.start("unit") : said.end("unit")]
    return _ALIASES.get(name, name), None


def _near(name: str, cells: Sequence[str]) -> str:
    """The nearest name that no other column has."""
    taken = {_named(cell)[0] for cell in cells}
    names = [one for one in (*COLUMNS, "value_gbps", *_ALIASES) if _named(one)[0] not in taken]
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _known(cells: Sequence[str]) -> int:
    return sum(_named(cell.strip())[0] in COLUMNS for cell in cells)


def _split(line: str) -> dict[str, list[str]]:
    """The cells with each separator; a line that is no such table (a quote that is not closed) is one cell."""
    found = {}
    for separator in _SEPARATORS:
        try:
            found[separator] = next(csv.reader([line], delimiter=separator, strict=True), [line])
        except csv.Error:
            found[separator] = [line]
    return found
