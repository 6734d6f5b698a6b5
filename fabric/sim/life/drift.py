"""A quantity on its way to where it will settle, by a first-order law."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp


@dataclass(frozen=True, slots=True)
class Drift:
    """At *since_s* it was *level*; it nears *target* with time constant *constant_s*."""

    level: float
    target: float
    since_s: float
    constant_s: float

    def at(self, now_s: float) -> float:
        """Where it is."""
        return self.target + (self.level - self.target) * exp(-(now_s - self.since_s) / self.constant_s)

    def turned(self, target: float, now_s: float) -> Drift:
        """From now on it goes elsewhere."""
        return Drift(self.at(now_s), target, now_s, self.constant_s)
