"""
Output of ib_write_bw and its like between two hosts, which says nothing about who they are.

perftest prints LIDs and GIDs but no host names, so the file must say them: ``CLIENT--SERVER.txt``, with the rail after
another ``--`` if there are several (``gpu001--gpu002--rail3.log``). Else the rail is the RDMA device that is printed.
The output is taken to be the client's: a port that it calls down is the client's, unless the file shows a server too.
"""

from __future__ import annotations

import re

from fabric.tools import perftest
from fabric.tools.pairs.rows import PairFailure, PairRow, PairTable
from fabric.tools.perftest import PerftestLog
from fabric.tools.perftest.failures import blames_fabric

_NAME = re.compile(r"(?P<a>[^/]+?)--(?P<b>[^/]+?)(?:--(?P<rail>[^/]+?))?\.[A-Za-z0-9]{1,8}")
_LOCAL = frozenset({"port_down", "no_device", "cuda_error"})
"""Failures of a part of the host that prints them."""

_SERVER = "Waiting for client to connect"


def parse(text: str, file_name: str) -> PairTable:
    """The largest size of the first test; *file_name* is the last part of the file's path."""
    said = _NAME.fullmatch(file_name)
    if said is None or said["a"] == said["b"]:
        expected = "expected a file name CLIENT--SERVER.txt: perftest does not print who was measured"
        return PairTable((), ((_line(text), f"{expected}; got {file_name!r}"),))
    log = perftest.parse(text)
    measured = [
        (test, row) for test in log.tests for row in sorted(test.rows, key=lambda one: -one.size_bytes)
        if row.bw_average_gbps
    ]  # fmt: skip
    failed = _failure(said, log, text, nothing=not measured)
    failures = (failed,) if failed is not None else ()
    if not measured:
        if not log.tests and not log.failures:
            return PairTable((), ((1, "expected output of perftest, found no table"),))
        why = failed.text if failed is not None else "no rows"
        return PairTable((), (), (f"{said['a']} to {said['b']}: not measured: {why}",), failures)
    test, row = measured[0]
    title = test.test or "perftest"
    found = PairRow(
        *_ends(said, title),
        row.bw_average_gbps or 0.0,
        _line(text),
        kind=title,
        size_bytes=row.size_bytes,
        rail=said["rail"] or test.device,
        directed="Bidirectional" not in title,
    )
    return PairTable((found,), failures=failures)


def _failure(said: re.Match[str], log: PerftestLog, text: str, *, nothing: bool) -> PairFailure | None:
    """Why *nothing* was measured, or what the tool says of the fabric although something was."""
    bad = next((one for one in log.failures if blames_fabric(one.kind, one.text)), None)
    if bad is None and not nothing:
        return None
    first = bad or next(iter(log.failures), None)
    problems = [problem for test in log.tests for problem in test.problems]
    title = next((test.test for test in log.tests if test.test), "")
    ends = _ends(said, title)
    local = bad is not None and bad.kind in _LOCAL and _SERVER not in text
    return PairFailure(
        *ends,
        first.text if first is not None else problems[0] if problems else "no rows",
        _line(text),
        fabric=bad is not None,
        at=said["a"] if local else None,
        kind=title,
        rail=said["rail"] or next((test.device for test in log.tests if test.device), None),
    )


def _ends(said: re.Match[str], title: str) -> tuple[str, str]:
    """Who sends and who receives; a reader receives."""
    return (said["a"], said["b"]) if "Read" not in title else (said["b"], said["a"])


def _line(text: str) -> int:
    """Where the table begins; the first line where there is none."""
    return next((n for n, line in enumerate(text.splitlines(), start=1) if "BW average" in line), 1)
