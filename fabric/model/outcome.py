"""How a thing ended, from best to worst."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


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
