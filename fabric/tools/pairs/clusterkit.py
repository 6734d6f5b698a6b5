"""
A matrix of all pairs: ClusterKit's bandwidth.txt.

The layout as wuchanghui5220/pot at bf4b1371, ck-bench/ck-bench.sh:2281-2450 reads it: a line ``Rank:`` with the numbers
of the columns, then a row ``   0 (GPU-17):   0.0 98247.0 ...`` a node; numbers of six digits run into their neighbours
(``0.0332928.0``), one decimal each. The MB are decimal: 98,522.9 MB/s both ways on one 400 Gb/s port (its README) are
788 Gb/s, which as MiB would be 826, more than the wire carries. Both ways at once are measured (HPC-X, "Test
Descriptions": bidirectional unless -U), so a pair has one number, and the matrix holds it twice. bandwidth.json is
refused: its layout is published nowhere that could be found.
"""

from __future__ import annotations

import re

from fabric.tools.pairs.rows import PROBLEMS_MOST, PairRow, PairTable

_MB_GBPS = 8e-3
_ROW = re.compile(r"\s*(?P<rank>\d+)\s*\(\s*(?P<host>[^()\s]+)\s*\)\s*:?(?P<values>[\s\d.]*)")
_VALUE = re.compile(r"\d+\.\d")


def parse(text: str) -> PairTable:
    """One row for each pair that was measured, or two where its halves differ; the diagonal and 0.0 were not."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.lstrip().startswith("Rank:")), None)
    if start is None:
        return PairTable((), ((1, "expected ClusterKit's bandwidth.txt with a line 'Rank:'"),))
    if "usec" in text and "MB/s" not in text:
        return PairTable((), ((start + 1, "these are latencies; expected bandwidth.txt"),))
    count = len(lines[start].split()) - 1
    matrix: list[tuple[int, str, list[float]]] = []
    problems: list[tuple[int, str]] = []
    for place in range(count):
        line = "".join(lines[start + 1 + place :][:1])
        said = _ROW.fullmatch(line)
        values = [float(value) for value in _VALUE.findall(said["values"])] if said else []
        if said and int(said["rank"]) == place and len(values) == count:
            matrix.append((start + 2 + place, said["host"], values))
        elif len(problems) < PROBLEMS_MOST:
            form = f"expected row {place} of {count}, 'RANK (HOST): values' and {count} values"
            problems.append((min(start + 2 + place, len(lines)), f"{form}, got {line.strip()[:60]!r}"))
    if problems:
        return PairTable((), tuple(problems))
    same = all(abs(matrix[i][2][j] - matrix[j][2][i]) <= 0.1 for i in range(count) for j in range(i))
    rows = tuple(
        PairRow(host, other, value * _MB_GBPS, line, kind="clusterkit bandwidth", directed=not same)
        for i, (line, host, values) in enumerate(matrix)
        for (_, other, _), value in list(zip(matrix, values, strict=True))[: i if same else None]
        if host != other and value > 0
    )
    return PairTable(rows, (), () if rows else ("no pair was measured",))
