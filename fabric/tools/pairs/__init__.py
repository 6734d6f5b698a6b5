"""
Results of tests between pairs of hosts, as other tools write them: which tool wrote a file, and its reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from fabric.model.diagnosis import PROBLEMS_MOST, PairFailure, PairRow, PairTable
from fabric.tools.pairs import csv, logs
from fabric.tools.perftest.failures import complains

_MB_GBPS = 8e-3
_ROW = re.compile(r"\s*(?P<rank>\d+)\s*\(\s*(?P<host>[^()\s]+)\s*\)\s*:?(?P<values>[\s\d.]*)")
_VALUE = re.compile(r"\d+\.\d")


def parse_clusterkit(text: str) -> PairTable:
    """
    ClusterKit's bandwidth.txt: a row a pair, or two where its halves differ; the diagonal and 0.0 were not measured.

    The layout as wuchanghui5220/pot at bf4b1371, ck-bench/ck-bench.sh:2281-2450 reads it: a line ``Rank:`` with the
    numbers of the columns, then a row ``   0 (GPU-17):   0.0 98247.0 ...`` a node; numbers of six digits run into
    the next (``0.0332928.0``), one decimal each. The MB are decimal: 98,522.9 MB/s both ways on one 400 Gb/s port (its
    README) are 788 Gb/s, which as MiB would be 826, more than the wire carries. Both ways at once are measured (HPC-X,
    "Test Descriptions": bidirectional unless -U), so a pair has one number, and the matrix holds it twice.
    bandwidth.json is refused: its layout is published nowhere that could be found.
    """
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


_METRIC = re.compile(
    r"ib-traffic(?::[^/]*)?/(?P<command>ib_(?:write|read|send)_bw)_(?P<size>\d+|None)_(?P<direction>[a-z]+-to-[a-z]+)"
    r"_\d+_\d+:(?P<pair>[^:]+)(?::(?P<rank>\d+))?(?::\d+)?"
)
_GBPS = 8.0


def parse_superbench(text: str) -> PairTable:
    """
    SuperBench's results-summary.jsonl: a row for each pair, size and direction of its ``ib-traffic`` benchmark.

    One JSON object a line and node. A metric is named (microsoft/superbenchmark at 700d6501,
    benchmarks/micro_benchmarks/ib_validation_performance.py, and its documentation, micro-benchmarks.md):
    ``ib-traffic[:NOTE]/ib_write_bw_SIZE_DIRECTION_LINE_PAIR:SERVER_CLIENT:RANK[:RANK]``, its value is GB/s (perftest's
    Gb/s divided by 8), negative when the pair failed. RANK counts the RDMA devices that were run at once: it is taken
    as rail. Before 2023 the metric held no host names (``0-1,2``): that is refused, as are the pair-wise metrics of
    ``nccl-bw``. Latencies and other benchmarks are passed over.
    """
    found: list[PairRow | PairFailure] = []
    problems: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or len(problems) >= PROBLEMS_MOST:
            continue
        try:
            document = json.loads(line)
        except ValueError as exc:
            problems.append((number, f"expected one JSON object a line: {exc}"))
            continue
        if not isinstance(document, dict):
            problems.append((number, f"expected a JSON object, got {type(document).__name__}"))
            continue
        for name, value in document.items():
            if name.startswith("ib-traffic") and "_lat" not in name and "/return_code" not in name:
                try:
                    found.append(_metric(name, value, number))
                except ValueError as wrong:
                    problems.append((number, str(wrong)))
    if not found and not problems:
        problems.append((1, "no ib-traffic bandwidth is in it (metrics ib-traffic/ib_write_bw_...:SERVER_CLIENT:0)"))
    failures = tuple(one for one in found if isinstance(one, PairFailure))
    notes = tuple(f"{one.b} and {one.a}: {one.text}" for one in failures)
    return PairTable(tuple(one for one in found if isinstance(one, PairRow)), tuple(problems), notes, failures)


def _metric(name: str, value: object, line: int) -> PairRow | PairFailure:
    """One metric; ValueError says what was expected."""
    said = _METRIC.fullmatch(name)
    hosts = said["pair"].split("_") if said else []
    if said is None or len(hosts) != 2 or not all(hosts) or hosts[0] == hosts[1]:
        raise ValueError(f"expected ib-traffic/ib_write_bw_SIZE_DIRECTION_0_0:SERVER_CLIENT:0, got {name!r}")
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise ValueError(f"expected a number for {name!r}, got {value!r}")
    server, client = hosts
    a, b = (server, client) if "read" in said["command"] else (client, server)
    kind = f"{said['command']} {said['direction']}"
    rail = f"rail{said['rank']}" if said["rank"] and said["rank"] != "0" else None
    if value < 0:
        return PairFailure(a, b, f"SuperBench could not measure them ({value:g})", line, kind=kind, rail=rail)
    size = int(said["size"]) if said["size"] != "None" else 0
    return PairRow(a, b, value * _GBPS, line, kind=kind, size_bytes=size, rail=rail, directed=True)


FORMATS = ("csv", "nccl-tests", "perftest", "superbench", "clusterkit")

_READERS = {
    "csv": csv.parse,
    "nccl-tests": logs.parse_nccl,
    "superbench": parse_superbench,
    "clusterkit": parse_clusterkit,
}

_MARKS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("csv", csv.is_heading),  # first, for a table has no end of lines to look through
    ("clusterkit", re.compile(r"^\s*Rank:\s+\d+", re.MULTILINE).search),
    ("perftest", re.compile(r"BW average\[|local address:.*QPN").search),
    ("nccl-tests", re.compile(r"#\s+Rank\s+\d+|nccl-tests version|algbw\s+busbw|Test NCCL failure").search),
    ("superbench", re.compile(r'\A\s*\{.*"(?:ib-traffic[^"]*|node)"\s*:').search),
    ("csv", csv.has_heading),
    ("perftest", complains),  # a log that holds nothing but a failure; tables of others may quote its words
)


def detect(text: str) -> str | None:
    """The format that the text shows itself to be, None when it is none that we read."""
    return next((name for name, shows in _MARKS if shows(text)), None)


def read(text: str, name: str, file_name: str) -> PairTable:
    """Read text of a format of ``FORMATS``, or ``auto``; what cannot be read is in its problems."""
    found = detect(text) if name == "auto" else name
    if found is None:
        expected = ", ".join(FORMATS)
        if text.lstrip().startswith("{"):
            expected += " (ClusterKit's bandwidth.json is not read: give its bandwidth.txt)"
        return PairTable((), ((1, f"no format is recognised; expected one of {expected}; or say --format"),))
    return logs.parse_perftest(text, file_name) if found == "perftest" else _READERS[found](text)
