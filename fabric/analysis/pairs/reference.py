"""
What a good pair reaches, and how much good pairs vary: robust against many bad hosts and against one lucky pair.

The median of all samples is the fault itself once three hosts in ten are bad (half of the pairs are then slow), and the
maximum is one lucky pair. So each host first gives the best it reached (its upper quartile: a good host needs a good
partner in a quarter of its samples), and the level of the fleet is the 65th percentile of those (choices: 35 % of the
hosts may be fast by chance, or 60 % bad, before it moves). The median of the samples near that level is the reference.

Nothing that is broken makes a pair faster, so the spread is taken from the samples above the reference alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabric.analysis.pairs.samples import Floats, Ints

LEAST_NOISE = 0.002
"""The noise is never taken to be less than this (a choice: below it clocks and rounding count)."""

PRIOR_NOISE, PRIOR_COUNT = 0.01, 4.0
"""A few samples say little of their spread: 1 % counts as four of them (a choice)."""

_HOST_QUANTILE, _FLEET_QUANTILE = 0.75, 0.65
_START_WINDOW, _WINDOW_SIGMAS, _STEPS = 0.04, 1.5, 20
_CUT = 0.9866  # standard deviation of a normal distribution cut at 3 sigma
_LUCKY = 0.2  # further above the level is no noise


@dataclass(frozen=True, slots=True)
class Reference:
    """*gbps* is what a good pair reaches, *noise* the coefficient of variation of good samples."""

    gbps: float
    noise: float


def reference(a: Ints, b: Ints, gbps: Floats) -> Reference:
    """Of samples between hosts *a* and *b*, of which at least one is above 0."""
    level = _level(a, b, gbps)
    window, noise = _START_WINDOW, PRIOR_NOISE
    for _ in range(_STEPS):
        near = gbps[np.abs(gbps - level) <= window * level]
        before = level
        level = float(np.median(near)) if len(near) else level
        noise = _noise(gbps, level)
        window = max(_WINDOW_SIGMAS * noise, 0.01)
        if abs(level - before) < 1e-6 * level:
            break
    return Reference(level, noise)


def _level(a: Ints, b: Ints, gbps: Floats) -> float:
    """The 65th percentile of what each host reached at its best."""
    ends, values = np.concatenate([a, b]), np.concatenate([gbps, gbps])
    order = np.lexsort((values, ends))
    ends, values = ends[order], values[order]
    start = np.flatnonzero(np.r_[True, ends[1:] != ends[:-1]])
    count = np.diff(np.r_[start, len(ends)])
    best = values[start + np.ceil(_HOST_QUANTILE * (count - 1)).astype(np.int64)]
    found = float(np.quantile(best, _FLEET_QUANTILE, method="nearest"))
    return found if found > 0 else float(gbps.max())


def _noise(gbps: Floats, level: float) -> float:
    """1.4826 times the median distance above the level (a half normal's), drawn to 1 % where samples are few."""
    above = gbps[(gbps >= level) & (gbps <= level * (1 + _LUCKY))] / level - 1
    if not len(above):
        return PRIOR_NOISE
    seen = 1.4826 * float(np.median(above))
    return _drawn(seen, len(above))


def _drawn(noise: float, count: int) -> float:
    """The noise of *count* samples, drawn to what is usual where they are few."""
    drawn = (count * noise**2 + PRIOR_COUNT * PRIOR_NOISE**2) / (count + PRIOR_COUNT)
    return max(float(np.sqrt(drawn)), LEAST_NOISE)


def of_healthy(found: Reference, gbps: Floats) -> Reference:
    """The reference if all samples are good, or dips: their median and its distances; *found* if it is 0."""
    level = float(np.median(gbps)) if len(gbps) else 0.0
    if level <= 0:
        return found
    noise = _drawn(1.4826 * float(np.median(np.abs(gbps / level - 1))), len(gbps))
    return of_good(Reference(level, noise), gbps)


def of_good(found: Reference, gbps: Floats) -> Reference:
    """A better estimate from samples of which (nearly) all are good: both sides of the reference count."""
    level, noise = found.gbps, found.noise
    for _ in range(4):
        near = gbps[np.abs(gbps / level - 1) <= 3 * noise]
        if len(near) < 2:
            return found
        level = float(np.median(near))
        seen = float(np.std(near / level)) / _CUT
        noise = _drawn(seen, len(near))
    return Reference(level, noise)
