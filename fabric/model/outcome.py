"""How a thing ended, from best to worst."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum


class Outcome(Enum):
    """Ordered from best to worst; the worst of many is the whole's. FAIL: the fabric is bad. ERROR: we are."""

    PASS = "pass"
    SKIPPED = "skipped"
    MARGINAL = "marginal"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"
    FAIL = "fail"

    __hash__ = object.__hash__  # each is one object; Enum hashes its name, anew for each of millions

    @property
    def rank(self) -> int:
        """Position in the order, 0 is best."""
        return _RANK[self]

    @property
    def is_good(self) -> bool:
        """Measured, and good enough."""
        return self in (Outcome.PASS, Outcome.MARGINAL)

    @staticmethod
    def worst(outcomes: Iterable[Outcome]) -> Outcome:
        """Fold many into one; nothing measured is INCONCLUSIVE, never PASS."""
        found = set(outcomes)
        if not found or found == {Outcome.SKIPPED}:
            return Outcome.INCONCLUSIVE
        return max(found, key=lambda outcome: outcome.rank)


_RANK = {outcome: position for position, outcome in enumerate(Outcome)}


class ReasonKind(StrEnum):
    """What a reason of a verdict is; decisions read this and never its words."""

    BAD = "bad"  # something did not pass, or is not known
    UNPLANNED = "unplanned"  # asked for and could not be planned: SKIPPED
    NOTE = "note"  # made nothing fail
    LINKS = "links"  # how much of the links was seen


@dataclass(frozen=True, slots=True)
class Reason:
    """One line of why a verdict is as it is: its *text* for people, and its *kind*. As a string it is marked a note."""

    text: str
    kind: ReasonKind = ReasonKind.BAD

    def __str__(self) -> str:
        return f"note: {self.text}" if self.kind is ReasonKind.NOTE else self.text


def note(text: str) -> Reason:
    """One that made nothing fail."""
    return Reason(text, ReasonKind.NOTE)
