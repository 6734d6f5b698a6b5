"""Results of tests between pairs of hosts, as other tools write them: which tool wrote a file, and its reader.

A file is a table, or logs of tests between two hosts each: those of nccl-tests, and output of ib_write_bw and its like.

nccl-tests: the hosts are those of the ``# Rank`` lines, the value is the bus bandwidth. Of every test the largest size
counts, out of place where it was measured (in place in a trace replay). A log may hold several tests; a test over any
other number of hosts than two is refused, because its number belongs to no pair. The host that prints a failure only
noticed it; NCCL says whose failure it is only for a port or a GPU of that host.

perftest prints LIDs and GIDs but no host names, so the file must say them: ``CLIENT--SERVER.txt``, with the rail after
another ``--`` if there are several (``gpu001--gpu002--rail3.log``). Else the rail is the RDMA device that is printed.
The output is taken to be the client's: a port that it calls down is the client's, unless the file shows a server too.
"""

import re
from collections.abc import Callable, Iterator

from fabric.model.diagnosis import PairFailure, PairRow, PairTable
from fabric.tools import nccl, perftest
from fabric.tools.nccl import NcclLog, NcclTest
from fabric.tools.nccl.failures import OF_ITS_OWN
from fabric.tools.pairs import csv
from fabric.tools.perftest import PerftestLog
from fabric.tools.perftest.failures import complains

FORMATS = ("csv", "nccl-tests", "perftest")

_MARKS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("csv", csv.has_heading),  # first, because a table would be searched to its end
    ("perftest", re.compile(r"BW average\[|local address:.*QPN").search),
    ("nccl-tests", re.compile(r"#\s+Rank\s+\d+|nccl-tests version|algbw\s+busbw|Test NCCL failure").search),
    ("perftest", complains),  # a log that holds only a failure; tables of others may quote its words
)


def detect(text: str) -> str | None:
    """Return the format of a text, None when it is none that we read."""
    return next((name for name, shows in _MARKS if shows(text)), None)


def read(text: str, name: str, file_name: str) -> PairTable:
    """Read text of a format of ``FORMATS``, or ``auto``; what cannot be read is in its problems."""
    match detect(text) if name == "auto" else name:
        case "csv":
            return csv.parse(text)
        case "nccl-tests":
            return parse_nccl(text)
        case "perftest":
            return parse_perftest(text, file_name)
    line, unlike = csv.unlike(text)
    return PairTable(
        (), ((line, f"no format is recognised ({', '.join(FORMATS)}; or say --format); as a csv: {unlike}"),)
    )


def parse_nccl(text: str) -> PairTable:
    """Return one row for each test that measured something."""
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
        elif (found := _nccl_row(test)) is None:
            notes.append(f"{test.hosts[0]} and {test.hosts[1]}: no bandwidth was measured")
            unmeasured.append(test)
        else:
            rows.append(found)
    notes += [f"{failure.host or 'a rank'}: {failure.text}" for failure in log.failures]
    if not log.tests:
        problems.append((1, "expected output of nccl-tests, found no table"))
    return PairTable(tuple(rows), tuple(problems), tuple(notes), tuple(_nccl_failures(log, two, unmeasured)))


def _nccl_failures(log: NcclLog, two: list[NcclTest], unmeasured: list[NcclTest]) -> Iterator[PairFailure]:
    """Yield every test without a number; else the test with wrong results, or the last one before the complaint."""
    bad = next((one for one in log.failures if one.blames_fabric), None)
    why = bad or next(iter(log.failures), None)
    text = "no bandwidth was measured" if why is None else why.text
    tests = unmeasured
    if bad is not None and not unmeasured:
        tests = [test for test in two if test.wrong is not None] or two[-1:]
    for test in tests:
        at = bad.host if bad is not None and bad.kind in OF_ITS_OWN and bad.host in test.hosts else None
        a, b = test.hosts
        yield PairFailure(a, b, text, test.line, fabric=bad is not None, at=at, kind=test.op or "nccl-tests")


def _nccl_row(test: NcclTest) -> PairRow | None:
    a, b = test.hosts
    for row in sorted(test.rows, key=lambda one: -one.size_bytes):
        place = row.out_of_place or row.in_place
        if place.busbw_gbps:
            return PairRow(a, b, place.busbw_gbps, test.line, kind=test.op or "nccl-tests", size_bytes=row.size_bytes)
    return None


_NAME = re.compile(r"(?P<a>[^/]+?)--(?P<b>[^/]+?)(?:--(?P<rail>[^/]+?))?\.[A-Za-z0-9]{1,8}")
_SERVER = "Waiting for client to connect"


def parse_perftest(text: str, file_name: str) -> PairTable:
    """Return the largest size of the first test of one page; *file_name* is the last part of the file's path."""
    named = _NAME.fullmatch(file_name)
    if named is None or named["a"] == named["b"]:
        expected = "expected a file name CLIENT--SERVER.txt: perftest does not print who was measured"
        return PairTable((), ((_line(text), f"{expected}; got {file_name!r}"),))
    log = perftest.parse(text)
    measured = [
        (test, row) for test in log.tests for row in sorted(test.rows, key=lambda one: -one.size_bytes)
        if row.bw_average_gbps
    ]  # fmt: skip
    failed = _perftest_failure(named, log, text, nothing=not measured)
    failures = (failed,) if failed is not None else ()
    if not measured:
        if not log.tests and not log.failures:
            return PairTable((), ((1, "expected output of perftest, found no table"),))
        why = failed.text if failed is not None else "no rows"
        return PairTable((), (), (f"{named['a']} to {named['b']}: not measured: {why}",), failures)
    test, row = measured[0]
    title = test.test or "perftest"
    found = PairRow(
        *_ends(named, title),
        row.bw_average_gbps or 0.0,
        _line(text),
        kind=title,
        size_bytes=row.size_bytes,
        rail=named["rail"] or test.device,
        directed="Bidirectional" not in title,
    )
    count = sum(any(one.bw_average_gbps for one in each.rows) for each in log.tests)
    ends = 2 if _SERVER in text else 1  # both of them print a test
    notes = (f"only the first of {count} tests counts: give each a file of its own",) if count > ends else ()
    return PairTable((found,), notes=notes, failures=failures)


def _perftest_failure(named: re.Match[str], log: PerftestLog, text: str, *, nothing: bool) -> PairFailure | None:
    """Return why *nothing* was measured, or what the tool says against the fabric although something was."""
    bad = next((one for one in log.failures if one.blames_fabric), None)
    if bad is None and not nothing:
        return None
    first = bad or next(iter(log.failures), None)
    problems = [problem for test in log.tests for problem in test.problems]
    title = next((test.test for test in log.tests if test.test), "")
    ends = _ends(named, title)
    local = bad is not None and bad.kind in OF_ITS_OWN and _SERVER not in text
    return PairFailure(
        *ends,
        first.text if first is not None else problems[0] if problems else "no rows",
        _line(text),
        fabric=bad is not None,
        at=named["a"] if local else None,
        kind=title,
        rail=named["rail"] or next((test.device for test in log.tests if test.device), None),
    )


def _ends(named: re.Match[str], title: str) -> tuple[str, str]:
    """Return sender and receiver; in a read test the client receives."""
    return (named["a"], named["b"]) if "Read" not in title else (named["b"], named["a"])


def _line(text: str) -> int:
    """Return the line where the table begins; the first line where there is none."""
    return next((n for n, line in enumerate(text.splitlines(), start=1) if "BW average" in line), 1)
