"""Measurements between pairs of hosts, as any tool's reader hands them over, and what they say of the parts between."""

from dataclasses import dataclass
from typing import NamedTuple

from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect


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


@dataclass(frozen=True, slots=True)
class PairTest:
    """
    One test of two hosts; *via* is the spine it shall cross, None when any will do; *why* in words.

    *label*: the flow label of its packets. Where a hash draws the way, the same two hosts with the same label take the
    same one again. None: another than before.
    """

    a: str
    b: str
    via: str | None = None
    why: str = ""
    label: int | None = None


@dataclass(frozen=True, slots=True)
class LinkClass:
    """
    A class of links with a level of its own (``same leaf``, ``across leaves``, ``within a group``, ``all pairs``).

    *test* is the kind of test, *gbps* what a good pair reaches, *noise* the coefficient of variation of good samples,
    *groups* are hosts that are a class by their results.
    """

    name: str
    test: str
    rail: str | None
    gbps: float
    noise: float
    samples: int
    groups: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class PairMatrix:
    """
    Ratios to what a good pair reaches, rows send when *directed*; None where nothing was measured.

    Below *least* a ratio is slow.
    """

    test: str
    rail: str | None
    hosts: tuple[str, ...]
    ratios: tuple[tuple[float | None, ...], ...]
    directed: bool
    least: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """
    The verdict on all measurements together.

    *suspects* are FAIL (bad: this, or one of those it is ambiguous with) or INCONCLUSIVE (may be bad). *matrices* are
    drawn for those planes in which something is slow.
    """

    outcome: Outcome
    reasons: tuple[str, ...]
    suspects: tuple[Suspect, ...]
    classes: tuple[LinkClass, ...]
    next_tests: tuple[PairTest, ...]
    hosts: tuple[str, ...]
    samples: int
    notes: tuple[str, ...] = ()
    matrices: tuple[PairMatrix, ...] = ()
