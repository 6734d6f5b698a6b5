"""What measurements between pairs of hosts say of the parts between them."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect


@dataclass(frozen=True, slots=True)
class PairTest:
    """One test of two hosts; *via* is the spine it shall cross, None when any will do; *why* in words."""

    a: str
    b: str
    via: str | None = None
    why: str = ""


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
