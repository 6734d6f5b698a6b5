"""
Output of ib_write_bw and its like between two hosts, which says nothing about who they are.

perftest prints LIDs and GIDs but no host names, so the file must say them: ``CLIENT--SERVER.txt``, with the rail after
another ``--`` if there are several (``gpu001--gpu002--rail3.log``). Else the rail is the RDMA device that is printed.
"""

from __future__ import annotations

import re

from fabric.tools import perftest
from fabric.tools.pair_rows import PairRow, PairTable

_NAME = re.compile(r"(?P<a>[^/]+?)--(?P<b>[^/]+?)(?:--(?P<rail>[^/]+?))?\.[A-Za-z0-9]{1,8}")


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
    if not measured:
        why = [failure.text for failure in log.failures] + [p for test in log.tests for p in test.problems]
        if not log.tests and not log.failures:
            return PairTable((), ((1, "expected output of perftest, found no table"),))
        return PairTable((), (), (f"{said['a']} to {said['b']}: not measured: {why[0] if why else 'no rows'}",))
    test, row = measured[0]
    title = test.test or "perftest"
    ends = (said["a"], said["b"]) if "Read" not in title else (said["b"], said["a"])  # a reader receives
    found = PairRow(
        *ends,
        row.bw_average_gbps or 0.0,
        _line(text),
        kind=title,
        size_bytes=row.size_bytes,
        rail=said["rail"] or test.device,
        directed="Bidirectional" not in title,
    )
    return PairTable((found,))


def _line(text: str) -> int:
    """Where the table begins; the first line where there is none."""
    return next((n for n, line in enumerate(text.splitlines(), start=1) if "BW average" in line), 1)
