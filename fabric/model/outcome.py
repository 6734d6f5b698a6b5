"""Outcomes, from best to worst, and the reasons of a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum


class Outcome(Enum):
    """
    An outcome, ordered from best to worst; the worst of many counts for the whole. FAIL: the fabric is bad.

    ERROR: we are.
    """

    PASS = "pass"
    SKIPPED = "skipped"
    MARGINAL = "marginal"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"
    FAIL = "fail"

    __hash__ = object.__hash__  # each is one object; Enum would hash its name, anew each of millions of times

    @property
    def rank(self) -> int:
        """Return its position in the order; 0 is best."""
        return _RANK[self]

    @property
    def is_good(self) -> bool:
        """Return whether it was measured and is good enough."""
        return self in (Outcome.PASS, Outcome.MARGINAL)

    @staticmethod
    def worst(outcomes: Iterable[Outcome]) -> Outcome:
        """Return the worst of many; if nothing was measured, INCONCLUSIVE, never PASS."""
        found = set(outcomes)
        if not found or found == {Outcome.SKIPPED}:
            return Outcome.INCONCLUSIVE
        return max(found, key=lambda outcome: outcome.rank)


_RANK = {outcome: position for position, outcome in enumerate(Outcome)}


class ReasonKind(StrEnum):
    """The kind of a verdict's reason; decisions read this and never its words."""

    BAD = "bad"  # something did not pass, or is not known
    UNPLANNED = "unplanned"  # asked for and could not be planned: SKIPPED
    NOTE = "note"  # made nothing fail
    LINKS = "links"  # how much of the links was seen


@dataclass(frozen=True, slots=True)
class Reason:
    """
    One line of why a verdict is as it is: *text* for people, and its *kind*. As a string, a note is marked as such.
    """

    text: str
    kind: ReasonKind = ReasonKind.BAD

    def __str__(self) -> str:
        return f"note: {self.text}" if self.kind is ReasonKind.NOTE else self.text


def note(text: str) -> Reason:
    """Return a reason that made nothing fail."""
    return Reason(text, ReasonKind.NOTE)
