"""
ClusterKit's bandwidth.txt: a matrix of all pairs of nodes, in MB/s.

The layout as wuchanghui5220/pot at bf4b1371, ck-bench/ck-bench.sh:2281-2450 reads it: a line ``Rank:`` with the numbers
of the columns, then a row ``   0 (GPU-17):   0.0 98247.0 ...`` a node; numbers of six digits run into their neighbours
(``0.0332928.0``), one decimal each. The MB are decimal: 98,522.9 MB/s both ways on one 400 Gb/s port (its README) are
788 Gb/s, which as MiB would be 826, more than the wire carries. Both ways at once are measured (HPC-X, "Test
Descriptions": bidirectional unless -U), so a pair has one number, and the matrix holds it twice.
bandwidth.json is refused: its layout is published nowhere that could be found.
"""

from __future__ import annotations

import re

from fabric.tools.pairs.rows import PROBLEMS_MOST, PairRow, PairTable

_ROW = re.compile(r"\s*(?P<rank>\d+)\s*\(\s*(?P<host>[^()\s]+)\s*\)\s*:?(?P<values>[\s\d.]*)")
_VALUE = re.compile(r"\d+\.\d")
_GBPS = 8e-3


def parse(text: str) -> PairTable:
    """One row for each pair that was measured; the diagonal and pairs at 0.0 were not."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.lstrip().startswith("Rank:")), None)
    if start is None:
        return PairTable((), ((1, "expected ClusterKit's bandwidth.txt with a line 'Rank:'"),))
    if "usec" in text and "MB/s" not in text:
        return PairTable((), ((start + 1, "these are latencies; expected bandwidth.txt"),))
    columns = lines[start].split()[1:]
    hosts: list[str] = []
    matrix: list[tuple[int, list[float]]] = []
    problems: list[tuple[int, str]] = []
    for number, line in enumerate(lines[start + 1 :], start=start + 2):
        said = _ROW.fullmatch(line)
        if said is None:
            if line.strip() and len(matrix) < len(columns):
                problems.append((number, f"expected a row '{len(matrix)} (HOST): values', got {line.strip()[:60]!r}"))
            break
        values = [float(value) for value in _VALUE.findall(said["values"])]
        if int(said["rank"]) != len(matrix) or len(values) != len(columns):
            problems.append((number, f"expected row {len(matrix)} with {len(columns)} values, got {len(values)}"))
        hosts.append(said["host"])
        matrix.append((number, values))
        if len(problems) >= PROBLEMS_MOST:
            break
    if len(matrix) != len(columns) and not problems:
        problems.append((start + 1, f"expected {len(columns)} rows, got {len(matrix)}"))
    return PairTable((), tuple(problems)) if problems else _rows(hosts, matrix)


def _rows(hosts: list[str], matrix: list[tuple[int, list[float]]]) -> PairTable:
    """Each pair once when both halves say the same, else both."""
    same = all(abs(matrix[i][1][j] - matrix[j][1][i]) <= 0.1 for i in range(len(hosts)) for j in range(i))
    rows = [
        PairRow(hosts[i], hosts[j], values[j] * _GBPS, line, kind="clusterkit bandwidth", directed=not same)
        for i, (line, values) in enumerate(matrix)
        for j in range(i if same else len(hosts))
        if hosts[i] != hosts[j] and values[j] > 0
    ]
    notes = () if rows else ("no pair was measured",)
    return PairTable(tuple(rows), (), notes)
