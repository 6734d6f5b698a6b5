"""
Logs of nccl-tests between two hosts each: the hosts are those of the ``#  Rank`` lines, the value is the bus bandwidth.

Of every test the largest size counts, out of place where it was measured (in place in a trace replay). A log may hold
several tests; one over any other number of hosts than two is refused, because nobody can say whose number it is.
"""

from __future__ import annotations

from fabric.tools import nccl_tests
from fabric.tools.nccl_log import NcclTest
from fabric.tools.pair_rows import PairRow, PairTable


def parse(text: str) -> PairTable:
    """One row for each test that measured something."""
    log = nccl_tests.parse(text)
    starts, tables = _starts(text), _tables(text)
    rows: list[PairRow] = []
    problems: list[tuple[int, str]] = []
    notes: list[str] = []
    for number, test in enumerate(log.tests):
        line = _nth(number, starts if len(starts) == len(log.tests) else tables)
        if len(test.hosts) != 2:
            named = ", ".join(test.hosts[:4]) or "none"
            problems.append((line, f"expected Rank lines of two hosts, got {len(test.hosts)} ({named})"))
            continue
        found = _row(test, line)
        if found is None:
            notes.append(f"{test.hosts[0]} and {test.hosts[1]}: no bandwidth was measured")
        else:
            rows.append(found)
    notes += [f"{failure.host or 'a rank'}: {failure.text}" for failure in log.failures]
    if not log.tests:
        problems.append((1, "expected output of nccl-tests, found no table"))
    return PairTable(tuple(rows), tuple(problems), tuple(notes))


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
