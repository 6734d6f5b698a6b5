"""
Pair results as comma-separated values: ``a,b,value[,kind,size,rail,via]``, with the unit said once or in every cell.

The first line names the columns, in any order. The value's column is ``value_gbps`` (or ``gbps``), or carries its unit
as ``value (GB/s)``; or there is a column ``unit``; or every cell is written ``46.3 GB/s``. Bits and bytes differ by a
factor of eight and tools differ in which they print, so a number without a unit is refused.
"""

from __future__ import annotations

import csv
import re
from difflib import get_close_matches

from fabric.tools.pair_rows import PROBLEMS_MOST, UNITS, PairRow, PairTable, gbps_per

COLUMNS = ("a", "b", "value", "unit", "kind", "size", "rail", "via")
_ALIASES = {
    **dict.fromkeys(("host_a", "source", "src", "client"), "a"),
    **dict.fromkeys(("host_b", "destination", "dst", "server"), "b"),
    **dict.fromkeys(("bandwidth", "bw", "busbw"), "value"),
    **dict.fromkeys(("size_bytes", "message_size"), "size"),
    **dict.fromkeys(("spine", "path"), "via"),
}
_WITH_UNIT = re.compile(r"(?P<name>[a-z_]+?)(?:_(?P<gbps>gbps)|\s*[\[(](?P<unit>[^\])]+)[\])])")
_CELL = re.compile(r"(?P<number>[-+0-9.eE]+)\s*(?P<unit>[A-Za-z/]+)?")
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?")
_FACTOR = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_HOST = re.compile(r"[^\s,/:]{1,253}")


def parse(text: str) -> PairTable:
    """Every row, or every problem with its line."""
    rows: list[PairRow] = []
    problems: list[tuple[int, str]] = []
    reader = csv.reader(text.splitlines(), strict=True)
    columns: dict[str, int] | None = None
    unit: float | None = None
    try:
        for cells in reader:
            if not cells or cells[0].lstrip().startswith("#") or not "".join(cells).strip():
                continue
            line = reader.line_num
            if columns is None:
                columns, unit, problem = _heading([cell.strip() for cell in cells])
                if problem:
                    return PairTable((), ((line, problem),))
                continue
            found = _row([cell.strip() for cell in cells], columns, unit, line)
            if isinstance(found, PairRow):
                rows.append(found)
            else:
                problems.append((line, found))
            if len(problems) >= PROBLEMS_MOST:
                break
    except csv.Error as exc:
        problems.append((reader.line_num, f"not comma-separated values: {exc}"))
    if not rows and not problems:
        problems.append((1, "no rows; expected a line of column names and one line for each result"))
    return PairTable(tuple(rows), tuple(problems))


def _heading(cells: list[str]) -> tuple[dict[str, int], float | None, str | None]:
    """Where each column is, the unit that the heading says, or what is wrong."""
    columns: dict[str, int] = {}
    unit: float | None = None
    for position, cell in enumerate(cells):
        name = cell.lower()
        if name == "gbps":
            name, unit = "value", 1.0
        said = _WITH_UNIT.fullmatch(name)
        if said and _ALIASES.get(said["name"], said["name"]) == "value":
            name = "value"
            unit = 1.0 if said["gbps"] else gbps_per(cell[said.start("unit") : said.end("unit")])
            if unit is None:
                return {}, None, f"expected the unit {UNITS} in column {cell!r}"
        name = _ALIASES.get(name, name)
        if name not in COLUMNS:
            near = get_close_matches(name, [*COLUMNS, *_ALIASES], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            return {}, None, f"expected column names a,b,value_gbps[,kind,size,rail,via], got {cell!r}{hint}"
        if name in columns:
            return {}, None, f"column {name!r} is there twice"
        columns[name] = position
    missing = [name for name in ("a", "b", "value") if name not in columns]
    return columns, unit, f"no column {', '.join(missing)}" if missing else None


def _row(cells: list[str], columns: dict[str, int], unit: float | None, line: int) -> PairRow | str:
    if len(cells) != len(columns):
        return f"expected {len(columns)} cells as in the first line, got {len(cells)}"
    cell = {name: cells[position] for name, position in columns.items()}
    for end in ("a", "b"):
        if not _HOST.fullmatch(cell[end]):
            return f"expected a host name in column {end!r}, got {cell[end]!r}"
    if cell["a"] == cell["b"]:
        return f"expected two different hosts, got {cell['a']!r} twice"
    gbps = _gbps(cell["value"], cell.get("unit"), unit)
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
        return f"expected a bandwidth of at least 0, got {text!r}"
    said = found["unit"] or in_column
    factor = gbps_per(said) if said else in_heading
    if factor is None:
        got = f"got {said!r}" if said else "none is said; name the column value_gbps, or write 46.3 GB/s"
        return f"expected a unit ({UNITS}), {got}"
    return number * factor
