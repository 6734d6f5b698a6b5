"""
Middles, and intervals of ratios and spreads: what their samples are, and how wide they must be to be right as often as
said.

What is normal among like numbers of one run is their median, its spread by the MAD, as Iglewicz and Hoaglin (1993): the
slow ones must not set the scale that they are measured by.

Rounds are the samples of a ratio where both sides share three or more: a round measures both sides one soon after the
other, so each gives one pair, drift cancels out, and a change that turns out differently each time it is made widens
the interval as it should (t of paired differences of logarithms).

With fewer rounds the values themselves are the samples (Welch's t), and what rounds differ by comes on top, since all
values of a round share one application of the change and one hour of the day: ``BETWEEN_ROUNDS``, or what the two
rounds of the sides differed by where that is more. ``benchmarks/expectations.py`` counts how often they are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, exp, fsum, hypot, log, log1p, pi, sqrt
from statistics import NormalDist, fmean, median, variance
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LEAST_PEERS = 8
"""Fewer measurements of one key say nothing about each other (a choice; with fewer the MAD is worth little)."""

LEAST_SAMPLES = 3
"""Fewer have no spread to judge by, and cannot PASS against what is known: of two either may be the odd one."""

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


CONFIDENCE = 0.95
"""Of the intervals of what is expected and of records, as they are printed: "95 % interval"."""


def tests_that_tell(rate: float) -> int:
    """So many tests without a bad one tell that a part is not bad in this share of them any more (95 %)."""
    return ceil(log(1 - CONFIDENCE) / log1p(-rate))


BETWEEN_ROUNDS = 0.01
"""
What one side differs by from round to round, where fewer than three say it (standard deviation).

Twice the 0.5 % by which good pairs of two real clusters scatter within one run; ``benchmarks/expectations.py`` counts
how often intervals of one and two rounds are right with it.
"""

LEAST_CV = 1e-4
"""A smaller sigma / mean is compared as this one: tools print four digits, and nothing has no logarithm."""


@dataclass(frozen=True, slots=True)
class Interval:
    """
    A number with its interval.

    *rounds* are those that it rests on; *between* is what few of them were taken to differ by.
    """

    value: float
    low: float
    high: float
    rounds: int
    between: float = 0.0


Rounds = Mapping[int, Sequence[float]]
"""Positive values by round."""


def of_few_rounds(of: Rounds, over: Rounds) -> Interval:
    """The ratio of two geometric means; at least two values a side."""
    sides = [[log(value) for values in side.values() for value in values] for side in (of, over)]
    variances, counts = [variance(side) for side in sides], [len(side) for side in sides]
    between = max(BETWEEN_ROUNDS, _seen_between(of, over))
    known = between**2 * (1 / len(of) + 1 / len(over))
    rounds = min(len(of), len(over))
    found = _around(fmean(sides[0]) - fmean(sides[1]), half_width(variances, counts, known=known), rounds)
    return replace(found, between=between)


def of_pairs(logs: Sequence[float]) -> Interval:
    """One logarithm a round, at least two: Student's t."""
    return _around(fmean(logs), half_width([variance(logs)], [len(logs)]), len(logs))


def between(least: Interval, most: Interval) -> Interval:
    """From the lower end of what is too little to the upper end of what is too much; the number is in the middle."""
    return replace(most, value=sqrt(least.value * most.value), low=least.low)


def of_cv(values: np.ndarray) -> Interval:
    """
    Sigma / mean of the members of a phase, measured in several rounds (a row each), without the rounds' own noise.

    Other members of the same kind would have another, so that is in the interval, too: Tukey (1951) and Williams (1962)
    for the variance between groups, here members, in an analysis of variance with rounds.
    """
    from scipy.special import chdtri, fdtri

    relative = values / values.mean(axis=1, keepdims=True)  # what a round is slower by as a whole is no spread
    rounds, members = relative.shape
    levels = relative.mean(axis=0)
    most, rest = members - 1, (members - 1) * (rounds - 1)
    between = float(rounds * levels.var(ddof=1))
    within = float(((relative - levels) ** 2).sum() / rest)
    tail = (1 - CONFIDENCE) / 2

    def root(scale: float, noise: float) -> float:
        return sqrt(max(scale * (between - noise * within), 0.0) / rounds)

    return Interval(
        value=root(1.0, 1.0),
        low=root(most / float(chdtri(most, tail)), float(fdtri(most, rest, 1 - tail))),
        high=root(most / float(chdtri(most, 1 - tail)), float(fdtri(most, rest, tail))),
        rounds=rounds,
    )


def over(of: Interval, reference: Interval) -> Interval:
    """The ratio of two spreads that know nothing of each other (Donner and Zou 2012), in logarithms."""
    (low, value, high), (least, middle, most) = (
        [log(max(number, LEAST_CV)) for number in (one.low, one.value, one.high)] for one in (of, reference)
    )
    ratio = value - middle
    down, up = hypot(value - low, most - middle), hypot(high - value, middle - least)
    return Interval(exp(ratio), exp(ratio - down), exp(ratio + up), min(of.rounds, reference.rounds))


OF_PARTS = 0.99
"""Confidence in the ratio of a part: a rack has hundreds of them, and 95 % would be wrong for every twentieth."""

LEAST_BETWEEN = 12
"""From so many ratios on one at either end is outside the interval, so that no single one decides."""


def of_median(logs: Sequence[float], spread: float | None) -> tuple[float, float] | None:
    """
    Of exp(median of *logs*), the ratios of a part; None where they are too few to have one.

    From twelve on it lies between two of them: right for any distribution (signs are binomial). Of fewer that would be
    the least and the most, or none at all: there *spread* (of a single logarithm, None when it is not known) is taken
    for theirs, or their own where that is more.
    """
    if len(logs) >= LEAST_BETWEEN:
        rank, ordered = _rank(len(logs)), sorted(logs)
        return exp(ordered[rank]), exp(ordered[-1 - rank])
    if spread is None:
        return None
    middle, sigma = robust(logs)
    # The standard error of a median is sqrt(pi / 2) times that of a mean, of normal numbers.
    half = NormalDist().inv_cdf((1 + OF_PARTS) / 2) * sqrt(pi / 2 / len(logs)) * max(spread, sigma)
    return exp(middle - half), exp(middle + half)


def spread_of(logs: Sequence[float]) -> float | None:
    """The robust standard deviation of all logarithms of a kind and size; None when they are fewer than eight."""
    return max(robust(logs)[1], LEAST_SPREAD) if len(logs) >= LEAST_PEERS else None


def half_width(variances: Sequence[float], counts: Sequence[int], *, known: float = 0.0) -> float:
    """
    Half of the interval, in logarithms: t times the standard error.

    Degrees of freedom by Welch (1947) and Satterthwaite (1946); of one variance alone they are n - 1. *known* is added
    to the squared error as a variance that is not estimated.
    """
    parts = [spread / count for spread, count in zip(variances, counts, strict=True)]
    squared = fsum(parts) + known
    if squared <= 0.0:
        return 0.0
    # Shares, not squares of variances: those of nearly equal samples are too small for a float.
    share = fsum((part / squared) ** 2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return _quantile(1.0 / max(share, 1e-6)) * sqrt(squared)


def _around(mean: float, half: float, rounds: int) -> Interval:
    return Interval(exp(mean), exp(mean - half), exp(mean + half), rounds)


def _seen_between(*sides: Rounds) -> float:
    """What the rounds of a side differ by, over the sides that have several."""
    seen = [variance(fmean(map(log, values)) for values in side.values()) for side in sides if len(side) > 1]
    return sqrt(fmean(seen)) if seen else 0.0


@lru_cache(maxsize=4096)
def _rank(count: int) -> int:
    """How many of twelve values or more may be left out at either end."""
    from scipy.special import bdtrik

    return ceil(float(bdtrik((1 - OF_PARTS) / 2, count, 0.5))) - 1


@lru_cache(maxsize=4096)
def _quantile(degrees: float) -> float:
    """Student's t for a two-sided interval. Imported here: most runs judge no expectation."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
