"""
What is normal among many like measurements of one run.

By median and MAD, as Iglewicz and Hoaglin (1993): the slow ones must not set the scale that they are measured by.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def robust(values: Sequence[float]) -> tuple[float, float]:
    """The median, and the standard deviation as the MAD tells it."""
    middle = median(values)
    return middle, SCALE * median(abs(value - middle) for value in values)
