"""What ran over a part: how much in all, and how much of it is still felt as heat."""

from __future__ import annotations

from math import exp

QUICK_S = 40.0
"""Time constant of a GPU under its heat sink; choice."""

SLOW_S = 150.0
"""Time constant of an RNIC and of a transceiver module; choice."""


class Load:
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
