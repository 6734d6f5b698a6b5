"""
Logs of nccl-tests between two hosts each: the hosts are those of the ``#  Rank`` lines, the value is the bus bandwidth.

Of every test the largest size counts, out of place where it was measured (in place in a trace replay). A log may hold
several tests; one over any other number of hosts than two is refused, because nobody can say whose number it is.
Who prints a failure noticed it; only of a port or a GPU of its own does NCCL say whose it is.
"""

from __future__ import annotations

from fabric.tools import nccl
from fabric.tools.nccl import NcclFailure, NcclLog, NcclTest
from fabric.tools.nccl.failures import blames_fabric
from fabric.tools.pairs.rows import PairFailure, PairRow, PairTable

_LOCAL = frozenset({"port_down", "cuda_error"})
"""Failures of a part of the host that prints them."""


def parse(text: str) -> PairTable:
    """One row for each test that measured something."""
    log = nccl.parse(text)
    rows: list[PairRow] = []
    problems: list[tuple[int, str]] = []
    notes: list[str] = []
    unmeasured: list[NcclTest] = []
    two = [test for test in log.tests if len(test.hosts) == 2]
    for test in log.tests:
        if len(test.hosts) != 2:
            named = ", ".join(test.hosts[:4]) or "none"
            problems.append((test.line, f"expected Rank lines of two hosts, got {len(test.hosts)} ({named})"))
        elif (found := _row(test)) is None:
            notes.append(f"{test.hosts[0]} and {test.hosts[1]}: no bandwidth was measured")
            unmeasured.append(test)
        else:
            rows.append(found)
    notes += [f"{failure.host or 'a rank'}: {failure.text}" for failure in log.failures]
    if not log.tests:
        problems.append((1, "expected output of nccl-tests, found no table"))
    return PairTable(tuple(rows), tuple(problems), tuple(notes), _failures(log, two, unmeasured))


def _failures(log: NcclLog, two: list[NcclTest], unmeasured: list[NcclTest]) -> tuple[PairFailure, ...]:
    """Every test without a number; else the one that has wrong results, or was the last before the complaint."""
    bad = next((one for one in log.failures if blames_fabric(one.kind, one.text)), None)
    if unmeasured or bad is None:
        return tuple(_failure(test, bad or next(iter(log.failures), None)) for test in unmeasured)
    wrong = [test for test in two if test.wrong is not None]
    return tuple(_failure(test, bad) for test in (wrong or two[-1:]))


def _failure(test: NcclTest, why: NcclFailure | None) -> PairFailure:
    fabric = why is not None and blames_fabric(why.kind, why.text)
    return PairFailure(
        test.hosts[0],
        test.hosts[1],
        why.text if why is not None else "no bandwidth was measured",
        test.line,
        fabric=fabric,
        at=why.host if why is not None and fabric and why.kind in _LOCAL and why.host in test.hosts else None,
        kind=test.op or "nccl-tests",
    )


def _row(test: NcclTest) -> PairRow | None:
    for row in sorted(test.rows, key=lambda one: -one.size_bytes):
        place = row.out_of_place or row.in_place
        if place.busbw_gbps:
            a, b = test.hosts
            return PairRow(a, b, place.busbw_gbps, test.line, kind=test.op or "nccl-tests", size_bytes=row.size_bytes)
    return None
