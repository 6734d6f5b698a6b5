"""
A series of measurements against what good runs recorded for its key.

Acceptance is a claim of non-inferiority: "not significantly slower" is no proof of health, for too few and too noisy
samples are never significant. So PASS needs at least three samples whose ratio to the recorded median is, with the
lower end of its 95 % interval, above 1 - margin (3 %, collectives 5 %). The interval is Welch's t of logarithms, the
recorded median's own uncertainty in it (pi/2 times the variance of a mean, as a median of normal numbers has).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, fsum, log, pi, sqrt
from statistics import fmean, variance

from fabric.judge.normal.peers import LEAST_SPREAD, Z_SLOW
from fabric.model.outcome import Outcome
from fabric.model.recorded import Recorded

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


LEAST_SAMPLES = 3
"""Fewer have no spread to judge by, and cannot PASS against a recorded baseline."""


@dataclass(frozen=True, slots=True)
class RecordedRatio:
    """
    PASS: no slower; FAIL: slower than the margin; INCONCLUSIVE: cannot be told, and why.

    A FAIL here is of a number, not yet of a part: what becomes of it, confirmation decides.
    """

    outcome: Outcome
    reason: str
    ratio: float


def against_recorded(values: Sequence[float], recorded: Recorded, *, margin: float) -> RecordedRatio:
    """Compare positive *values* (Gb/s, repetitions of one probe) with a recorded distribution."""
    if min(values) <= 0.0:
        return RecordedRatio(Outcome.FAIL, "0 Gb/s was measured", 0.0)
    mean = fsum(map(log, values)) / len(values)
    ratio = exp(mean) / recorded.median_gbps
    said = f"{ratio - 1:+.1%} against the recorded {recorded.median_gbps:.1f} Gb/s of {recorded.n} samples"
    if len(values) < LEAST_SAMPLES:
        return _few(len(values), ratio, recorded, margin, said)
    own = variance(map(log, values))
    half = half_width([own, pi / 2 * _spread(recorded) ** 2], [len(values), max(2, recorded.n)])
    low, high = ratio * exp(-half), ratio * exp(half)
    said += f" (95 % interval {low - 1:+.1%} to {high - 1:+.1%})"
    if low > 1 - margin:
        return RecordedRatio(Outcome.PASS, said, ratio)
    if high < 1 - margin:
        return RecordedRatio(Outcome.FAIL, said, ratio)
    return RecordedRatio(Outcome.INCONCLUSIVE, f"{said}: repeat it more often to tell", ratio)


def _few(count: int, ratio: float, recorded: Recorded, margin: float, said: str) -> RecordedRatio:
    """One or two samples can accuse, by the spread that was recorded, but not acquit."""
    if ratio < 1 - margin and (ratio - 1) / _spread(recorded) < Z_SLOW:
        return RecordedRatio(Outcome.FAIL, said, ratio)
    return RecordedRatio(
        Outcome.INCONCLUSIVE, f"{said}: {LEAST_SAMPLES} samples are needed to pass, {count} here", ratio
    )


def _spread(recorded: Recorded) -> float:
    """The recorded coefficient of variation, or the least that is believed."""
    return max(recorded.cv, LEAST_SPREAD)
