"""How parts warm and cool: first-order lags, what ran over them, and modules that swing."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, exp, pi


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


QUICK_S = 40.0
"""Time constant of a GPU under its heat sink; choice."""

SLOW_S = 150.0
"""Time constant of an RNIC and of a transceiver module; choice."""


class CarriedLoad:
    """
    Transfers over one set of capacities.

    *gb* is what they carried, *missed_gb* what they could have carried more had nothing held them up. A part warms by a
    first-order law, which is linear: so each transfer's heat is added when it ends, and from then on only fades.
    """

    __slots__ = ("_at_s", "_quick_gbps", "_slow_gbps", "gb", "missed_gb")

    def __init__(self) -> None:
        self.gb = self.missed_gb = 0.0
        self._quick_gbps = self._slow_gbps = self._at_s = 0.0

    def add(self, gb: float, began_s: float, at_s: float, *, most_gbps: float) -> None:
        """A transfer that ends now; alone and unhindered it would have run at *most_gbps*."""
        lasted_s = at_s - began_s
        self.gb += gb
        if lasted_s <= 0.0:
            return
        self.missed_gb += max(0.0, most_gbps * lasted_s - gb)
        since_s = at_s - self._at_s
        rate_gbps = gb / lasted_s
        self._quick_gbps = self._quick_gbps * exp(-since_s / QUICK_S) + felt(rate_gbps, lasted_s, QUICK_S)
        self._slow_gbps = self._slow_gbps * exp(-since_s / SLOW_S) + felt(rate_gbps, lasted_s, SLOW_S)
        self._at_s = at_s

    def felt_gbps(self, at_s: float, constant_s: float) -> float:
        """The rate that these transfers, long ended, still stand for after a lag of *constant_s* (one of the two)."""
        held = self._quick_gbps if constant_s == QUICK_S else self._slow_gbps
        return held * exp(-(at_s - self._at_s) / constant_s)


def felt(rate_gbps: float, lasted_s: float, constant_s: float) -> float:
    """What a steady rate has become after a first-order lag."""
    return rate_gbps * (1.0 - exp(-lasted_s / constant_s))


SWING_C, SWING_S = 15.0, 21600.0


@dataclass(frozen=True, slots=True)
class Swing:
    """A module that becomes up to 15 C warmer and cools again, once in six hours."""

    since_s: float

    def at(self, now_s: float) -> float:
        """How much warmer it is, degrees Celsius."""
        return SWING_C * (1.0 - cos(2.0 * pi * (now_s - self.since_s) / SWING_S)) / 2.0
