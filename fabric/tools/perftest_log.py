"""What perftest's output says, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PerftestRow:
    """One message size; a bandwidth that the tool did not measure is None, never 0."""

    size_bytes: int
    iterations: int
    bw_peak_gbps: float | None
    bw_average_gbps: float | None


@dataclass(frozen=True, slots=True)
class PerftestTest:
    """
    One block of output: the server's or the client's.

    *test* is the title without its last word (``RDMA_Write BW``), None when the log starts after it. *problems*
    says why rows are missing or hold no value; empty when everything was read. *told* is what it said of itself above
    the table, by the names printed there (``Number of qps``), the GPU under ``GPU``. *local* and *remote* are the
    addresses of its queue pairs, new in every run: the two sides of one transfer print the same ones. *closed*: the
    line under the table was printed.
    """

    test: str | None
    device: str | None
    rows: tuple[PerftestRow, ...]
    problems: tuple[str, ...]
    told: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    local: tuple[str, ...] = ()
    remote: tuple[str, ...] = ()
    closed: bool = False


@dataclass(frozen=True, slots=True)
class PerftestFailure:
    """Why the tool gave up, in its own words; *kind* is a key of ``perftest_failures.FAULT``."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class PerftestLog:
    """All of one output; both are empty when nothing of perftest is in it."""

    tests: tuple[PerftestTest, ...]
    failures: tuple[PerftestFailure, ...]
