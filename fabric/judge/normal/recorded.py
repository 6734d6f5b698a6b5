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
from math import exp, fsum, log, pi
from statistics import variance

from fabric.judge.normal.interval import half_width
from fabric.judge.normal.peers import LEAST_SPREAD, Z_SLOW
from fabric.model.outcome import Outcome
from fabric.model.recorded import Recorded

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
