"""
Logs of nccl-tests between two hosts each: the hosts are those of the ``#  Rank`` lines, the value is the bus bandwidth.

Of every test the largest size counts, out of place where it was measured (in place in a trace replay). A log may hold
several tests; one over any other number of hosts than two is refused, because nobody can say whose number it is.
Who prints a failure noticed it; only of a port or a GPU of its own does NCCL say whose it is.
"""

from __future__ import annotations

from fabric.tools import nccl
from fabric.tools.nccl import NcclFailure, NcclLog, NcclPlace, NcclRow, NcclTest
from fabric.tools.nccl.failures import blames_fabric
from fabric.tools.pairs.rows import PairFailure, PairRow, PairTable

_LOCAL = frozenset({"port_down", "cuda_error"})
"""Failures of a part of the host that prints them."""


def parse(text: str) -> PairTable:
    """One row for each test that measured something."""
    log = nccl.parse(text)
    starts, tables = _starts(text), _tables(text)
    rows: list[PairRow] = []
    problems: list[tuple[int, str]] = []
    notes: list[str] = []
    unmeasured: list[tuple[NcclTest, int]] = []
    two: list[tuple[NcclTest, int]] = []
    for number, test in enumerate(log.tests):
        line = _nth(number, starts if len(starts) == len(log.tests) else tables)
        if len(test.hosts) != 2:
            named = ", ".join(test.hosts[:4]) or "none"
            problems.append((line, f"expected Rank lines of two hosts, got {len(test.hosts)} ({named})"))
            continue
        two.append((test, line))
        found = _row(test, line)
        if found is None:
            notes.append(f"{test.hosts[0]} and {test.hosts[1]}: no bandwidth was measured")
            unmeasured.append((test, line))
        else:
            rows.append(found)
    notes += [f"{failure.host or 'a rank'}: {failure.text}" for failure in log.failures]
    if not log.tests:
        problems.append((1, "expected output of nccl-tests, found no table"))
    return PairTable(tuple(rows), tuple(problems), tuple(notes), _failures(log, two, unmeasured))


def _failures(
    log: NcclLog, two: list[tuple[NcclTest, int]], unmeasured: list[tuple[NcclTest, int]]
) -> tuple[PairFailure, ...]:
    """Every test without a number; else the one that has wrong results, or was the last before the complaint."""
    bad = next((one for one in log.failures if blames_fabric(one.kind, one.text)), None)
    if unmeasured or bad is None:
        return tuple(_failure(test, line, bad or next(iter(log.failures), None)) for test, line in unmeasured)
    wrong = [(test, line) for test, line in two if any(p and p.wrong for r in test.rows for p in _places(r))]
    return tuple(_failure(test, line, bad) for test, line in (wrong or two[-1:]))


def _places(row: NcclRow) -> tuple[NcclPlace | None, NcclPlace]:
    return row.out_of_place, row.in_place


def _failure(test: NcclTest, line: int, why: NcclFailure | None) -> PairFailure:
    fabric = why is not None and blames_fabric(why.kind, why.text)
    return PairFailure(
        test.hosts[0],
        test.hosts[1],
        why.text if why is not None else "no bandwidth was measured",
        line,
        fabric=fabric,
        at=why.host if why is not None and fabric and why.kind in _LOCAL and why.host in test.hosts else None,
        kind=test.op or "nccl-tests",
    )


def _row(test: NcclTest, line: int) -> PairRow | None:
    for row in sorted(test.rows, key=lambda one: -one.size_bytes):
        place = row.out_of_place or row.in_place
        if place.busbw_gbps:
            a, b = test.hosts
            return PairRow(a, b, place.busbw_gbps, line, kind=test.op or "nccl-tests", size_bytes=row.size_bytes)
    return None


def _nth(number: int, lines: list[int]) -> int:
    """Where a test begins; the first line where that cannot be told."""
    return lines[min(number, len(lines) - 1)] if lines else 1


def _tables(text: str) -> list[int]:
    """The lines with the names of the columns, for logs that list no ranks."""
    return [n for n, line in enumerate(text.splitlines(), start=1) if {"size", "count", "type"} <= set(line.split())]


def _starts(text: str) -> list[int]:
    """The lines on which lists of ranks begin."""
    found = []
    before = False
    for number, line in enumerate(text.splitlines(), start=1):
        is_rank = "Rank" in line and " Pid " in line
        if is_rank and not before:
            found.append(number)
        before = is_rank
    return found
