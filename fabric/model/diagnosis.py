"""Measurements between pairs of hosts, as any tool's reader returns them, and the diagnosis of the parts between."""

from dataclasses import dataclass
from typing import NamedTuple

from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect


class PairRow(NamedTuple):
    """
    One bandwidth between two hosts in decimal Gb/s, from *a* to *b* if the tool says which end sent.

    *kind* is the test in the tool's words, *rail* the RNIC or rail it ran on, *via* the spine it crossed; empty or None
    if not known. *line* is its line in the file, 1-based.
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

    *fabric*: the words say that a part of the fabric is bad (port down, retries exceeded), not only that nothing could
    be measured. *at* is the host whose part they name, None if it may be either. *a*, *b*, *line*, *kind* and *rail* as
    in ``PairRow``, empty or None if the tool gave up before it printed them.
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
    All results of one file.

    *problems* are lines that cannot be read, with what was expected: (line, text); if there are any, the rows must not
    be used. *notes* say what was left out on purpose; *failures* are tests that failed.
    """

    rows: tuple[PairRow, ...]
    problems: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[PairFailure, ...] = ()


PROBLEMS_MOST = 20
"""A reader stops after so many problems: the file is then something else."""


@dataclass(frozen=True, slots=True)
class PairTest:
    """
    One test of two hosts to run next; *why* gives the reason in words.

    *via*: the spine it has to cross, None if any will do. *label*: the flow label of its packets. Where a hash picks
    the path, the same two hosts with the same label take the same path again; None: a label not used before.
    """

    a: str
    b: str
    via: str | None = None
    why: str = ""
    label: int | None = None


@dataclass(frozen=True, slots=True)
class LinkClass:
    """
    A class of links with a normal level of its own.

    *name*: ``same leaf``, ``across leaves``, ``within a group`` or ``all pairs``. *test* is the kind of test, *gbps*
    what a good pair reaches, *noise* the coefficient of variation of good samples, *groups* the hosts that form a class
    by their results.
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
    Ratios of results to what a good pair reaches; rows send if *directed*; None where nothing was measured.

    A ratio below *least* is slow.
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

    *suspects* are FAIL (bad: this part, or one it is ambiguous with) or INCONCLUSIVE (may be bad). *matrices* are drawn
    for the planes in which something is slow.
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
