"""
What is normal among many like measurements of one run.

By median and MAD, as Iglewicz and Hoaglin (1993): the slow ones must not set the scale that they are measured by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LEAST_PEERS = 8
"""Fewer measurements of one key say nothing about each other (a choice; with fewer the MAD is worth little)."""

Z_SLOW = -3.5
"""Robust z below which a number is an outlier (Iglewicz and Hoaglin)."""

LEAST_SPREAD = 0.003
"""The spread is taken as at least this share of the median (a choice: the repeatability of perftest on one host;
tools print few digits, and of equal numbers the MAD is 0)."""

SCALE = 1.4826
"""MAD to standard deviation, for normal numbers."""


@dataclass(frozen=True, slots=True)
class Peers:
    """What is normal among measurements of one key in this run; *spread_gbps* is 1.4826 MAD, or its least."""

    median_gbps: float
    spread_gbps: float
    n: int

    def z(self, value_gbps: float) -> float:
        """How many spreads above the median a value is."""
        return (value_gbps - self.median_gbps) / self.spread_gbps


def peers_of(values: Sequence[float]) -> Peers | None:
    """What is normal among them; None when they are fewer than eight, or nothing was carried."""
    if len(values) < LEAST_PEERS:
        return None
    middle = median(values)
    if middle <= 0.0:
        return None
    mad = median(abs(value - middle) for value in values)
    return Peers(middle, max(SCALE * mad, LEAST_SPREAD * middle), len(values))
