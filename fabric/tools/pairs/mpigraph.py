"""
mpiGraph's matrix of send bandwidths, row to column.

The layout is printed by mpiGraph.c (LLNL/mpiGraph at 5f6cbd98, lines 251-300): ``Send<TAB>host:rank<TAB>...``, then
``host:rank to<TAB>value<TAB>...``. Its "MB" are MiB (line 238: bytes times 1e6 / (1024 x 1024) over microseconds). The
table of receive bandwidths tells of the same transfers and is not read a second time. Several ranks may run on a host:
ranks of the same host say nothing about the network and are left out.
"""

from __future__ import annotations

import re

from fabric.tools.pairs.rows import PROBLEMS_MOST, PairRow, PairTable

_GBPS = 8 * 1024 * 1024 / 1e9
_NAME = re.compile(r"(?P<host>[^\s:]+):(?P<rank>\d+)")


def parse(text: str) -> PairTable:
    """One row for each two ranks of different hosts."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if _is_heading(line)), None)
    if start is None:
        return PairTable(
            (), ((1, "expected mpiGraph's table of send bandwidths ('Send' and host:rank of each column)"),)
        )
    size = next((int(line.split()[1]) for line in lines if re.fullmatch(r"MsgSize\s+\d{1,15}", line)), 0)
    columns = [_NAME.fullmatch(cell) for cell in lines[start].split()[1:]]
    hosts = [said["host"] for said in columns if said is not None]
    rows: list[PairRow] = []
    problems: list[tuple[int, str]] = []
    if len(hosts) != len(columns):
        problems.append((start + 1, "expected host:rank in every column of the heading"))
    for number, line in enumerate(lines[start + 1 : start + 1 + len(columns)], start=start + 2):
        cells = line.split()
        said = _NAME.fullmatch(cells[0]) if cells else None
        if said is None or cells[1:2] != ["to"] or len(cells) != len(columns) + 2:
            problems.append((number, f"expected 'host:rank to' and {len(columns)} values, got {line.strip()[:60]!r}"))
            if len(problems) >= PROBLEMS_MOST:
                break
            continue
        try:
            values = [float(cell) for cell in cells[2:]]
        except ValueError as exc:
            problems.append((number, f"expected bandwidths in MiB/s: {exc}"))
            continue
        rows += [
            PairRow(said["host"], other, value * _GBPS, number, kind="mpigraph send", size_bytes=size, directed=True)
            for other, value in zip(hosts, values, strict=False)
            if other != said["host"] and 0 < value < 1e9
        ]
    if len(lines) - start - 1 < len(columns):
        problems.append((len(lines), f"the table ends after {len(lines) - start - 1} of {len(columns)} rows"))
    if not rows and not problems:
        problems.append((start + 1, "all ranks are on one host: nothing is measured between hosts"))
    return PairTable(tuple(rows), tuple(problems))


def _is_heading(line: str) -> bool:
    cells = line.split()
    return len(cells) > 1 and cells[0] == "Send" and _NAME.fullmatch(cells[1]) is not None
