"""Medians and robust spreads, and confidence intervals of ratios and spreads that are right as often as they claim.

Normal among like numbers of one run is their median, with the spread by the MAD (Iglewicz and Hoaglin 1993): slow
numbers must not set the scale by which they are measured.

If both sides of a ratio share three rounds or more, rounds are its samples. A round measures both sides soon after each
other, so each round gives one pair and drift cancels out. A change that turns out differently each time it is made
widens the interval, as it should (t of paired differences of logarithms).

With fewer rounds the values themselves are the samples (Welch's t). All values of a round share one application of the
change and one hour of the day, so the difference between rounds is added: ``BETWEEN_ROUNDS``, or what the rounds of a
side differed by if that is more. ``benchmarks/expectations.py`` counts how often the intervals are right.
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
"""The fewest measurements of one key that count as peers (a choice; with fewer the MAD is worth little)."""

LEAST_SAMPLES = 3
"""Fewer samples have no spread to judge by, and cannot PASS against a record: of two, either may be the odd one."""

Z_SLOW = -3.5
"""Robust z below which a number is an outlier (Iglewicz and Hoaglin)."""

LEAST_SPREAD = 0.003
"""The spread counts as at least this share of the median (a choice: the repeatability of perftest on one host; tools
print few digits, and the MAD of equal numbers is 0)."""

SCALE = 1.4826
"""The factor from MAD to standard deviation, for normal numbers."""


def robust(values: Sequence[float]) -> tuple[float, float]:
    """Return the median, and the standard deviation by the MAD."""
    middle = median(values)
    return middle, SCALE * median(abs(value - middle) for value in values)


CONFIDENCE = 0.95
"""The confidence of the intervals of expectations and records, as they are printed: "95 % interval"."""


def tests_that_tell(rate: float) -> int:
    """Return how many good tests in a row show (95 %) that a part is not bad in this share of tests."""
    return ceil(log(1 - CONFIDENCE) / log1p(-rate))


BETWEEN_ROUNDS = 0.01
"""
The standard deviation of one side from round to round, assumed if fewer than three rounds show it.

It is twice the 0.5 % by which good pairs of two real clusters scatter within one run; ``benchmarks/expectations.py``
counts how often intervals of one and two rounds are right with it.
"""

LEAST_CV = 1e-4
"""A smaller sigma / mean counts as this one: tools print four digits, and 0 has no logarithm."""


@dataclass(frozen=True, slots=True)
class Interval:
    """
    A number with its interval.

    *rounds* is how many rounds it rests on; *between* is the difference between rounds that was assumed if these are
    few.
    """

    value: float
    low: float
    high: float
    rounds: int
    between: float = 0.0


Rounds = Mapping[int, Sequence[float]]
"""The positive values of one side, by round."""


def of_few_rounds(of: Rounds, over: Rounds) -> Interval:
    """Return the ratio of two geometric means; each side has at least two values."""
    sides = [[log(value) for values in side.values() for value in values] for side in (of, over)]
    variances, counts = [variance(side) for side in sides], [len(side) for side in sides]
    between = max(BETWEEN_ROUNDS, _seen_between(of, over))
    known = between**2 * (1 / len(of) + 1 / len(over))
    rounds = min(len(of), len(over))
    return _around(fmean(sides[0]) - fmean(sides[1]), half_width(variances, counts, known=known), rounds, between)


def of_pairs(logs: Sequence[float]) -> Interval:
    """Return the interval (Student's t) over one logarithm per round, of at least two rounds."""
    return _around(fmean(logs), half_width([variance(logs)], [len(logs)]), len(logs))


def spanning(least: Interval, most: Interval) -> Interval:
    """Span two estimates: from the lower end of the low one to the upper end of the high one, around their middle."""
    return replace(most, value=sqrt(least.value * most.value), low=least.low)


def of_cv(values: np.ndarray) -> Interval:
    """
    Return sigma / mean of the members of a phase, measured in several rounds (one row each), without noise of rounds.

    Other members of the same kind would have another value, so the interval covers that, too: Tukey (1951) and Williams
    (1962) for the variance between groups, here members, in an analysis of variance with rounds.
    """
    from scipy.special import chdtri, fdtri

    relative = values / values.mean(axis=1, keepdims=True)  # a round that is slower as a whole adds no spread
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


def ratio_of_spreads(of: Interval, reference: Interval) -> Interval:
    """Return the ratio of two independent spreads (Donner and Zou 2012), computed in logarithms."""
    (low, value, high), (least, middle, most) = (
        [log(max(number, LEAST_CV)) for number in (one.low, one.value, one.high)] for one in (of, reference)
    )
    ratio = value - middle
    down, up = hypot(value - low, most - middle), hypot(high - value, middle - least)
    return Interval(exp(ratio), exp(ratio - down), exp(ratio + up), min(of.rounds, reference.rounds))


OF_PARTS = 0.99
"""The confidence of the ratio of a part: a rack has hundreds of parts, and 95 % would be wrong for every twentieth."""

LEAST_BETWEEN = 12
"""From so many ratios on, one at either end lies outside the interval, so that no single ratio decides."""


def of_median(logs: Sequence[float], spread: float | None) -> tuple[float, float] | None:
    """
    Return the interval of exp(median of *logs*), where *logs* are a part's ratios; None if their spread is not known.

    From twelve ratios on, its ends are two of them: right for any distribution (signs are binomial). With fewer, those
    would be the least and the most, or none at all. Then it rests on *spread* (of a single logarithm, None if not
    known), or on the ratios' own spread if that is more.
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
    """Return the robust standard deviation of all logarithms of a kind and size; None if they are fewer than eight."""
    return max(robust(logs)[1], LEAST_SPREAD) if len(logs) >= LEAST_PEERS else None


def half_width(variances: Sequence[float], counts: Sequence[int], *, known: float = 0.0) -> float:
    """
    Return half of the width of an interval, in logarithms: t times the standard error.

    The degrees of freedom are those of Welch (1947) and Satterthwaite (1946); for one variance alone they are n - 1.
    *known* is a variance that is not estimated; it is added to the squared error.
    """
    parts = [spread / count for spread, count in zip(variances, counts, strict=True)]
    squared = fsum(parts) + known
    if squared <= 0.0:
        return 0.0
    # Use shares, not squares of variances: the squares of nearly equal samples are too small for a float.
    share = fsum((part / squared) ** 2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return _quantile(1.0 / max(share, 1e-6)) * sqrt(squared)


def _around(mean: float, half: float, rounds: int, between: float = 0.0) -> Interval:
    return Interval(exp(mean), exp(mean - half), exp(mean + half), rounds, between)


def _seen_between(*sides: Rounds) -> float:
    """Return the standard deviation between the rounds of a side, pooled over the sides with several; else 0."""
    seen = [variance(fmean(map(log, values)) for values in side.values()) for side in sides if len(side) > 1]
    return sqrt(fmean(seen)) if seen else 0.0


@lru_cache(maxsize=4096)
def _rank(count: int) -> int:
    """Return how many of *count* values (at least twelve) may be left out at either end."""
    from scipy.special import bdtrik

    return ceil(float(bdtrik((1 - OF_PARTS) / 2, count, 0.5))) - 1


@lru_cache(maxsize=4096)
def _quantile(degrees: float) -> float:
    """Return Student's t for a two-sided interval. scipy is imported here: most runs judge no expectation."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
