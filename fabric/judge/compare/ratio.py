"""
The ratio of one component's bandwidth in two runs, with its interval.

The number is the median of the ratios of all probes through the component, each paired with itself in the other run, so
that link classes and partners cancel out, and a few probes that are slow for their partner's sake do not count.

From five ratios on the interval is a bootstrap of the median (scipy.stats.bootstrap) by percentiles: BCa corrects by a
jackknife, which does not work for a median. With fewer a bootstrap covers too little (of three it is never more than
their range, 75 %): there the spread of all ratios of that kind and size is taken for theirs, which needs eight of them.
Intervals are 99 %: a rack has hundreds of rows, and 95 % would be wrong for every twentieth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf, sqrt
from statistics import median
from typing import Any

from fabric.judge.normal.peers import LEAST_PEERS, LEAST_SPREAD, SCALE
from fabric.judge.normal.series import MEDIAN_EFFICIENCY
from fabric.model.comparison import Difference

CONFIDENCE = 0.99
LEAST_FOR_BOOTSTRAP = 5
RESAMPLES = 2000
"""Of the percentiles at 0.5 % and 99.5 % ten resamples lie outside on either side (a choice)."""

_NORMAL_99 = 2.5758  # quantile of the normal distribution for a two-sided 99 % interval
_NUMBERS_AT_ONCE = 4_000_000  # 32 MB

Interval = tuple[float, float]


def intervals(logs: Mapping[Any, Sequence[float]], spread: float | None, *, seed: int) -> dict[Any, Interval]:
    """
    The interval of exp(median) for each entry of *logs*; entries that have none are left out.

    *spread* is that of a single logarithm (``spread_of``), None when it is not known.
    """
    found: dict[Any, Interval] = {}
    by_count: dict[int, list[Any]] = {}
    for name, values in logs.items():
        if len(values) >= LEAST_FOR_BOOTSTRAP:
            by_count.setdefault(len(values), []).append(name)
        elif spread is not None:
            half = _NORMAL_99 * MEDIAN_EFFICIENCY * spread / sqrt(len(values))
            middle = median(values)
            found[name] = exp(middle - half), exp(middle + half)
    for names in by_count.values():
        found.update(zip(names, _bootstrap([logs[name] for name in names], seed=seed), strict=True))
    return found


def spread_of(logs: Sequence[float]) -> float | None:
    """The robust standard deviation of all logarithms of a kind and size; None when they are fewer than eight."""
    if len(logs) < LEAST_PEERS:
        return None
    middle = median(logs)
    return max(SCALE * median(abs(value - middle) for value in logs), LEAST_SPREAD)


def change_of(interval: Interval | None, *, floor: float) -> Difference:
    """WORSE and BETTER when the whole interval is beyond the floor, SAME when it does not reach the lower one."""
    low, high = interval or (0.0, inf)
    if high < 1 - floor:
        return Difference.WORSE
    if low > 1 + floor:
        return Difference.BETTER
    return Difference.SAME if low > 1 - floor else Difference.INCONCLUSIVE


def _bootstrap(rows: Sequence[Sequence[float]], *, seed: int) -> list[Interval]:
    """Rows of equal length, all at once."""
    import numpy as np
    from scipy.stats import bootstrap

    data = np.asarray(rows)
    result = bootstrap(
        (data,),
        np.median,
        axis=-1,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=max(1, _NUMBERS_AT_ONCE // data.size),
        confidence_level=CONFIDENCE,
        method="percentile",
        random_state=np.random.default_rng(seed),
    )
    bounds = result.confidence_interval
    return [(exp(low), exp(high)) for low, high in zip(bounds.low, bounds.high, strict=True)]
