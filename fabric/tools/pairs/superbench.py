"""
SuperBench's results-summary.jsonl: the pairs of its ``ib-traffic`` benchmark.

One JSON object a line and node. A metric is named (microsoft/superbenchmark at 700d6501,
benchmarks/micro_benchmarks/ib_validation_performance.py, and its documentation, micro-benchmarks.md):
``ib-traffic[:NOTE]/ib_write_bw_SIZE_DIRECTION_LINE_PAIR:SERVER_CLIENT:RANK[:RANK]``, its value is GB/s (perftest's Gb/s
divided by 8), negative when the pair failed. RANK counts the RDMA devices that were run at once: it is taken as rail.
Before 2023 the metric held no host names (``0-1,2``): that is refused, as are the pair-wise metrics of ``nccl-bw``.
"""

from __future__ import annotations

import json
import re

from fabric.tools.pairs.rows import PROBLEMS_MOST, PairFailure, PairRow, PairTable

_METRIC = re.compile(
    r"ib-traffic(?::[^/]*)?/(?P<command>ib_(?:write|read|send)_bw)_(?P<size>\d+|None)_(?P<direction>[a-z]+-to-[a-z]+)"
    r"_\d+_\d+:(?P<pair>[^:]+)(?::(?P<rank>\d+))?(?::\d+)?"
)
_GBPS = 8.0


def parse(text: str) -> PairTable:
    """A row for each pair, size and direction; latencies and other benchmarks are passed over."""
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
                    found.append(_read(name, value, number))
                except ValueError as wrong:
                    problems.append((number, str(wrong)))
    if not found and not problems:
        problems.append((1, "no ib-traffic bandwidth is in it (metrics ib-traffic/ib_write_bw_...:SERVER_CLIENT:0)"))
    failures = tuple(one for one in found if isinstance(one, PairFailure))
    notes = tuple(f"{one.b} and {one.a}: {one.text}" for one in failures)
    return PairTable(tuple(one for one in found if isinstance(one, PairRow)), tuple(problems), notes, failures)


def _read(name: str, value: object, line: int) -> PairRow | PairFailure:
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
