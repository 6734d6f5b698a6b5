"""95 % confidence intervals of a ratio of bandwidths, by Student's t on logarithms (quantiles: scipy)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, fsum, log, sqrt
from statistics import fmean, variance

CONFIDENCE = 0.95
"""Of all intervals; a choice, the usual one."""

MOST_SAMPLES = 1000
"""More than this many samples are not suggested to anybody (a choice)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """
    A ratio with its interval.

    *variances* (of the logarithms) and *counts* of the samples it rests on: of both sides, or of the pairs alone.
    """

    value: float
    low: float
    high: float
    variances: tuple[float, ...]
    counts: tuple[int, ...]

    def samples_to_settle(self, bounds: Sequence[float]) -> int | None:
        """
        How many samples, of each side or of pairs, would about leave every one of *bounds* outside the interval.

        Supposes that ratio and spread stay as they are; None when more than 1,000 would be needed.
        """
        distance = min(abs(log(bound / self.value)) for bound in bounds)
        fewest, enough = min(self.counts), MOST_SAMPLES
        if half_width(self.variances, [enough] * len(self.variances)) >= distance:
            return None
        while fewest < enough:
            middle = (fewest + enough) // 2
            if half_width(self.variances, [middle] * len(self.variances)) < distance:
                enough = middle
            else:
                fewest = middle + 1
        return enough


def of_sides(of: Sequence[float], over: Sequence[float]) -> Interval:
    """The ratio of two geometric means, sides not paired: Welch's t; at least two positive values a side."""
    logs = [[log(value) for value in side] for side in (of, over)]
    return _interval(fmean(logs[0]) - fmean(logs[1]), [variance(side) for side in logs], [len(side) for side in logs])


def of_pairs(pairs: Sequence[tuple[float, float]]) -> Interval:
    """The geometric mean of the pairs' ratios: t of the paired differences; at least two pairs of positive values."""
    differences = [log(of / over) for of, over in pairs]
    return _interval(fmean(differences), [variance(differences)], [len(differences)])


def half_width(variances: Sequence[float], counts: Sequence[int]) -> float:
    """
    Half of the interval, in logarithms: t times the standard error.

    Degrees of freedom by Welch (1947) and Satterthwaite (1946); of one variance alone they are n - 1.
    """
    parts = [spread / count for spread, count in zip(variances, counts, strict=True)]
    squared = fsum(parts)
    if squared <= 0.0:
        return 0.0
    # Shares, not squares of variances: those of nearly equal samples are too small for a float.
    degrees = 1.0 / fsum((part / squared) ** 2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return _quantile(degrees) * sqrt(squared)


def _interval(mean: float, variances: Sequence[float], counts: Sequence[int]) -> Interval:
    half = half_width(variances, counts)
    return Interval(exp(mean), exp(mean - half), exp(mean + half), tuple(variances), tuple(counts))


@lru_cache(maxsize=4096)
def _quantile(degrees: float) -> float:
    """Student's t for a two-sided interval. Imported here: most runs judge no expectation."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
