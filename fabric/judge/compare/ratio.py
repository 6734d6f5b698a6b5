"""
The ratio of one component's bandwidth in two runs, with its interval.

The number is the median of the ratios of all probes through the component, each paired with itself in the other run, so
that link classes and partners cancel out, and a few probes that are slow for their partner's sake do not count.

From twelve ratios on the interval lies between two of them. Of fewer that would be the least and the most, or none at
all: there the spread of all ratios of that kind and size is taken for theirs, which needs eight of them, or their own
where that is more. Intervals are 99 %: a rack has hundreds of rows, and 95 % would be wrong for every twentieth.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, sqrt
from statistics import median

from fabric.judge.normal.interval import of_median
from fabric.judge.normal.peers import LEAST_PEERS, LEAST_SPREAD, SCALE
from fabric.judge.normal.series import MEDIAN_EFFICIENCY
from fabric.model.comparison import Difference

CONFIDENCE = 0.99
LEAST_BETWEEN = 12
"""From here on one ratio at either end is outside the interval, so that no single one decides."""

_NORMAL_99 = 2.5758  # quantile of the normal distribution for a two-sided 99 % interval


def interval(logs: Sequence[float], spread: float | None) -> tuple[float, float] | None:
    """
    The interval of exp(median of *logs*); None where they are too few to have one.

    *spread* is that of a single logarithm (``spread_of``), None when it is not known.
    """
    found = of_median(logs, CONFIDENCE) if len(logs) >= LEAST_BETWEEN else None
    if found is None:
        if spread is None:
            return None
        half = _NORMAL_99 * MEDIAN_EFFICIENCY * max(spread, _spread(logs)) / sqrt(len(logs))
        found = median(logs) - half, median(logs) + half
    return exp(found[0]), exp(found[1])


def spread_of(logs: Sequence[float]) -> float | None:
    """The robust standard deviation of all logarithms of a kind and size; None when they are fewer than eight."""
    return max(_spread(logs), LEAST_SPREAD) if len(logs) >= LEAST_PEERS else None


def _spread(logs: Sequence[float]) -> float:
    middle = median(logs)
    return SCALE * median(abs(value - middle) for value in logs)


def change_of(interval: tuple[float, float] | None, *, floor: float) -> Difference:
    """WORSE and BETTER when the whole interval is beyond the floor, SAME when it does not reach the lower one."""
    low, high = interval or (0.0, inf)
    if high < 1 - floor:
        return Difference.WORSE
    if low > 1 + floor:
        return Difference.BETTER
    return Difference.SAME if low > 1 - floor else Difference.INCONCLUSIVE
