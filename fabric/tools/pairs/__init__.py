"""Results of tests between pairs of hosts, as other tools write them: which tool wrote a file, and its reader."""

from __future__ import annotations

import re
from collections.abc import Callable

from fabric.tools.pairs import clusterkit, csv, logs, superbench
from fabric.tools.pairs.rows import PairTable
from fabric.tools.perftest.failures import complains

FORMATS = ("csv", "nccl-tests", "perftest", "superbench", "clusterkit")

_READERS = {
    "csv": csv.parse,
    "nccl-tests": logs.parse_nccl,
    "superbench": superbench.parse,
    "clusterkit": clusterkit.parse,
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
