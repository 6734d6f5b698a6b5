"""Results of pair tests as any tool's reader hands them over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class PairRow(NamedTuple):
    """
    One bandwidth between two hosts, decimal Gb/s, from *a* to *b* where the tool says which end sent.

    *kind* is the test in the tool's words, *rail* the RNIC or rail it ran on, *via* the spine it crossed; empty or None
    when not said. *line* is where it stands, 1-based.
    """

    a: str
    b: str
    gbps: float
    line: int
    kind: str = ""
    size_bytes: int = 0
    rail: str | None = None
    via: str | None = None
    directed: bool = False


@dataclass(frozen=True, slots=True)
class PairFailure:
    """
    A test of two hosts that failed, with the tool's own words in *text* (never empty).

    *fabric*: those words say that a part of the fabric is bad (port down, retries exceeded), not only that nothing
    could be measured. *at* is the host whose part they name, None where it is either. *a*, *b*, *line*, *kind* and
    *rail* as in ``PairRow``, empty or None where the tool gave up before it said them.
    """

    a: str
    b: str
    text: str
    line: int
    fabric: bool = False
    at: str | None = None
    kind: str = ""
    rail: str | None = None


@dataclass(frozen=True, slots=True)
class PairTable:
    """
    All of one file. *problems* are lines that cannot be read, with what was expected: (line, text); with any of them
    the rows are not to be used. *notes* say what was left out on purpose; *failures* are tests that failed.
    """

    rows: tuple[PairRow, ...]
    problems: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[PairFailure, ...] = ()


PROBLEMS_MOST = 20
"""A reader stops after so many problems: the file is something else."""
