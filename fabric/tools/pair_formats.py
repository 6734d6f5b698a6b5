"""Which tool wrote a file of pair results, and its reader."""

from __future__ import annotations

import re

from fabric.tools import pair_clusterkit, pair_csv, pair_mpigraph, pair_nccl, pair_perftest, pair_superbench
from fabric.tools.pair_rows import PairTable

FORMATS = ("csv", "nccl-tests", "perftest", "superbench", "clusterkit", "mpigraph")

_READERS = {
    "csv": pair_csv.parse,
    "nccl-tests": pair_nccl.parse,
    "superbench": pair_superbench.parse,
    "clusterkit": pair_clusterkit.parse,
    "mpigraph": pair_mpigraph.parse,
}

_MARKS = (
    ("mpigraph", re.compile(r"^START mpiGraph|^Send\s+\S+:\d+\s", re.MULTILINE)),
    ("clusterkit", re.compile(r"^\s*Rank:\s+\d+", re.MULTILINE)),
    ("perftest", re.compile(r"BW average\[|local address:.*QPN")),
    ("nccl-tests", re.compile(r"#\s+Rank\s+\d+|nccl-tests version|algbw\s+busbw|Test NCCL failure")),
    ("superbench", re.compile(r'\A\s*\{.*"(?:ib-traffic[^"]*|node)"\s*:')),
    ("csv", re.compile(r"\A(?:\s*(?:#[^\n]*)?\n)*[^\s{\[][^\n,]*,[^\n,]+,[^\n]+")),
)


def detect(text: str) -> str | None:
    """The format that the text shows itself to be, None when it is none that we read."""
    return next((name for name, mark in _MARKS if mark.search(text)), None)


def read(text: str, name: str, file_name: str) -> PairTable:
    """Read text of a format of ``FORMATS``, or ``auto``; what cannot be read is in its problems."""
    found = detect(text) if name == "auto" else name
    if found is None:
        expected = ", ".join(FORMATS)
        if text.lstrip().startswith("{"):
            expected += " (ClusterKit's bandwidth.json is not read: give its bandwidth.txt)"
        return PairTable((), ((1, f"no format is recognised; expected one of {expected}; or say --format"),))
    return pair_perftest.parse(text, file_name) if found == "perftest" else _READERS[found](text)
