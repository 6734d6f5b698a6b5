"""
Matrices of all pairs: ClusterKit's bandwidth.txt, and mpiGraph's table of send bandwidths.

ClusterKit, the layout as wuchanghui5220/pot at bf4b1371, ck-bench/ck-bench.sh:2281-2450 reads it: a line ``Rank:`` with
the numbers of the columns, then a row ``   0 (GPU-17):   0.0 98247.0 ...`` a node; numbers of six digits run into their
neighbours (``0.0332928.0``), one decimal each. The MB are decimal: 98,522.9 MB/s both ways on one 400 Gb/s port (its
README) are 788 Gb/s, which as MiB would be 826, more than the wire carries. Both ways at once are measured (HPC-X,
"Test Descriptions": bidirectional unless -U), so a pair has one number, and the matrix holds it twice.
bandwidth.json is refused: its layout is published nowhere that could be found.

mpiGraph, as mpiGraph.c (LLNL/mpiGraph at 5f6cbd98, lines 251-300) prints it: ``Send<TAB>host:rank<TAB>...``, then
``host:rank to<TAB>value<TAB>...``. Its "MB" are MiB (line 238: bytes times 1e6 / (1024 x 1024) over microseconds). The
table of receive bandwidths tells of the same transfers and is not read a second time. Several ranks may run on a host:
ranks of the same host say nothing about the network and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fabric.tools.pairs.rows import PROBLEMS_MOST, PairRow, PairTable

_MB_GBPS, _MIB_GBPS = 8e-3, 8 * 1024 * 1024 / 1e9
_CK_ROW = re.compile(r"\s*(?P<rank>\d+)\s*\(\s*(?P<host>[^()\s]+)\s*\)\s*:?(?P<values>[\s\d.]*)")
_CK_VALUE = re.compile(r"\d+\.\d")
_NAME = re.compile(r"(?P<host>[^\s:]+):(?P<rank>\d+)")

_Row = tuple[int, str, list[float]]
"""A row's line, its host and its values."""


def parse_clusterkit(text: str) -> PairTable:
    """One row for each pair that was measured, or two where its halves differ; the diagonal and 0.0 were not."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.lstrip().startswith("Rank:")), None)
    if start is None:
        return PairTable((), ((1, "expected ClusterKit's bandwidth.txt with a line 'Rank:'"),))
    if "usec" in text and "MB/s" not in text:
        return PairTable((), ((start + 1, "these are latencies; expected bandwidth.txt"),))
    count = len(lines[start].split()) - 1
    matrix, problems = _read(lines, start, count, _clusterkit_row, "'RANK (HOST): values'")
    if problems:
        return PairTable((), problems)
    same = all(abs(matrix[i][2][j] - matrix[j][2][i]) <= 0.1 for i in range(count) for j in range(i))
    rows = tuple(
        PairRow(host, other, value * _MB_GBPS, line, kind="clusterkit bandwidth", directed=not same)
        for i, (line, host, values) in enumerate(matrix)
        for (_, other, _), value in list(zip(matrix, values, strict=True))[: i if same else None]
        if host != other and value > 0
    )
    return PairTable(rows, (), () if rows else ("no pair was measured",))


def parse_mpigraph(text: str) -> PairTable:
    """One row for each two ranks of different hosts."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if re.match(r"\s*Send\s+[^\s:]+:\d+(\s|$)", line)), None)
    if start is None:
        expected = "expected mpiGraph's table of send bandwidths ('Send' and host:rank of each column)"
        return PairTable((), ((1, expected),))
    size = next((int(line.split()[1]) for line in lines if re.fullmatch(r"MsgSize\s+\d{1,15}", line)), 0)
    columns = [_NAME.fullmatch(cell) for cell in lines[start].split()[1:]]
    hosts = [said["host"] for said in columns if said is not None]
    if len(hosts) != len(columns):
        return PairTable((), ((start + 1, "expected host:rank in every column of the heading"),))
    matrix, problems = _read(lines, start, len(hosts), _mpigraph_row, "'host:rank to'")
    rows = tuple(
        PairRow(host, other, value * _MIB_GBPS, line, kind="mpigraph send", size_bytes=size, directed=True)
        for line, host, values in matrix
        for other, value in zip(hosts, values, strict=True)
        if other != host and 0 < value < 1e9
    )
    if not rows and not problems:
        problems = ((start + 1, "all ranks are on one host: nothing is measured between hosts"),)
    return PairTable(rows, problems)


def _read(
    lines: Sequence[str], start: int, count: int, read: Callable[[str, int], tuple[str, list[float]] | None], form: str
) -> tuple[list[_Row], tuple[tuple[int, str], ...]]:
    """The *count* rows below a heading, each of *form* with as many values; or what is wrong with them."""
    matrix: list[_Row] = []
    problems: list[tuple[int, str]] = []
    for place in range(count):
        line = "".join(lines[start + 1 + place :][:1])
        found = read(line, place)
        if found is not None and len(found[1]) == count:
            matrix.append((start + 2 + place, *found))
        elif len(problems) < PROBLEMS_MOST:
            said = f"expected row {place} of {count}, {form} and {count} values, got {line.strip()[:60]!r}"
            problems.append((min(start + 2 + place, len(lines)), said))
    return matrix, tuple(problems)


def _clusterkit_row(line: str, place: int) -> tuple[str, list[float]] | None:
    said = _CK_ROW.fullmatch(line)
    if said is None or int(said["rank"]) != place:
        return None
    return said["host"], [float(value) for value in _CK_VALUE.findall(said["values"])]


def _mpigraph_row(line: str, place: int) -> tuple[str, list[float]] | None:
    del place  # ranks are named, not counted
    cells = line.split()
    said = _NAME.fullmatch(cells[0]) if cells[1:2] == ["to"] else None
    try:
        return None if said is None else (said["host"], [float(cell) for cell in cells[2:]])
    except ValueError:
        return None
