"""
Is a probe slow, or not? As many samples as that needs, and no more.

Wald's sequential probability ratio test (1945; "Sequential Analysis", 1947, 3.3) of two simple hypotheses about the
logarithm of a bandwidth over what is normal for it: "as good as normal" (mean 0) against "lost as much as matters"
(mean ln(1 - loss)), both with the same normal noise. Each sample x weighs d / s^2 (x - d / 2), with d = ln(1 - loss)
and s the noise; the sum reaches ln((1 - beta) / alpha): slow; ln(beta / (1 - alpha)): as good as normal; between the
two another sample is needed. That normal is believed only with at most a chance of beta to overlook the loss makes
the acceptance a claim of non-inferiority, with *loss* as its margin.

Three things are added, for numbers of real hosts:

- No sample alone decides: it weighs at most half of what an accusation needs (the censoring of Huber's robust
  test, 1965). A disturbed sample is one of many.
- Whoever is slow is tested again from the beginning, with later samples only, because of thousands of probes a few are
  always slow once: both tests together wrongly accuse one probe in 1 / alpha^2.
- Significant is not important: with less than two thirds of the loss a probe is not slow, however sure that is
  (a healthy host differs from another by half a percent).

When the samples are used up, what counts is the lower end of a one-sided 95 % interval: above 1 - loss it is as good as
normal, otherwise nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from math import exp, fsum, log, sqrt
from statistics import median

from fabric.judge.normal.peers import LEAST_SPREAD
from fabric.model.scenario import LEAST_SAMPLES, MOST_SAMPLES

ALPHA = 1e-3
"""Chance that one test calls a healthy probe slow; two tests must (a choice: 1e-6 of 17,408 probes of 128 hosts is one
false alarm in 57 runs)."""

BETA = 0.005
"""Chance that the first test overlooks exactly the loss that matters (a choice: 0.003 needs more than seven samples a
probe at a CV of 2 %, and finds no more)."""

BETA_AGAIN = 0.001
"""The same of the second test: few are tested again, so certainty is cheap there (a choice)."""

LARGEST_WEIGHT = 1 / 2
"""The most that one sample adds to an accusation, as a share of what is needed (a choice: at least two must agree)."""

IMPORTANT = 2 / 3
"""Of the loss that matters: less is not called slow (safety goals, A.3: the effect floor)."""

Z_ONE_SIDED = 1.6449
"""Standard normal quantile of 95 %."""

WINSOR = 2.0
"""Samples further from their median than so many standard deviations count as if they were there (a choice)."""

LEAST_DIFFERENCES = 8
"""Fewer differences of successive samples do not tell the noise (a choice, as for peers)."""

OWN_NOISE = 3.0
"""A probe noisier than its class by this factor has a noise of its own (a choice: healthy, with three samples, once in
thousands)."""

_DIFFERENCE_TO_SIGMA = 1 / (0.674490 * sqrt(2.0))
"""The median of the absolute differences of two normal numbers is 0.6745 sqrt(2) of their standard deviation."""


class SequentialAnswer(Enum):
    """What the samples so far say."""

    HEALTHY = "healthy"
    SLOW = "slow"  # in two tests, one after the other
    SLOW_ONCE = "slow once"  # the second test has not ended
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class SequentialResult:
    """
    How a probe stands against what is normal for it.

    *ratio* is its winsorised mean over normal, *low* the lower end of its one-sided 95 % interval; *first* counts the
    samples after which it was slow the first time (0: it was not), *n* all of them.
    """

    answer: SequentialAnswer
    ratio: float
    low: float
    first: int
    n: int

    @property
    def wants_more(self) -> bool:
        """Another sample may settle it."""
        return self.n < MOST_SAMPLES and self.answer in (SequentialAnswer.OPEN, SequentialAnswer.SLOW_ONCE)


def noise_of(series: Iterable[Sequence[float]]) -> float | None:
    """
    The noise of one sample, pooled over a class: standard deviation of the logarithm, at least 0.003.

    From successive differences (von Neumann 1941) within each of *series* (Gb/s, positive), so that neither how probes
    differ nor slow drift counts as noise; the median of their sizes (a MAD), so that a few dips do not either. None
    when there are too few differences.
    """
    sizes = [abs(log(after / before)) for values in series for before, after in pairwise(values)]
    if len(sizes) < LEAST_DIFFERENCES:
        return None
    return max(LEAST_SPREAD, _DIFFERENCE_TO_SIGMA * median(sizes))


def own_noise(values: Sequence[float], class_noise: float) -> float:
    """The noise to judge one series by: that of its class, or its own where that is much larger."""
    own = _DIFFERENCE_TO_SIGMA * median(abs(log(after / before)) for before, after in pairwise(values))
    return own if own > OWN_NOISE * class_noise else class_noise


def standing(values: Sequence[float], normal_gbps: float, *, loss: float, noise: float) -> SequentialResult:
    """Of positive *values* (Gb/s, in order) against *normal_gbps*; *loss* is the share that matters."""
    logs = [log(value / normal_gbps) for value in values]
    middle = centre(logs, noise)
    ratio, low = exp(middle), exp(middle - Z_ONE_SIDED * noise / sqrt(len(logs)))
    said, first = _test(logs, loss, noise, beta=BETA)
    again = (
        _test(logs[first:], loss, noise, beta=BETA_AGAIN)[0] if said is SequentialAnswer.SLOW else SequentialAnswer.OPEN
    )
    answer = said
    if said is SequentialAnswer.SLOW:
        answer = SequentialAnswer.SLOW_ONCE if again is SequentialAnswer.OPEN else again
    if (answer is SequentialAnswer.SLOW and ratio > 1 - IMPORTANT * loss) or (
        first and answer is SequentialAnswer.HEALTHY
    ):
        answer = SequentialAnswer.OPEN  # the one says this, the other that: all samples shall tell
    if answer in (SequentialAnswer.OPEN, SequentialAnswer.SLOW_ONCE) and len(logs) >= MOST_SAMPLES:
        answer = SequentialAnswer.HEALTHY if low > 1 - loss else SequentialAnswer.OPEN
    return SequentialResult(answer, ratio, low, first, len(logs))


def above(values: Sequence[float], least_gbps: float, *, noise: float) -> SequentialAnswer:
    """
    Against a limit, which is a line and no pair of hypotheses: surely above it (HEALTHY), surely below (SLOW), or OPEN.

    Both by the one-sided 95 % interval of the winsorised mean of positive *values*.
    """
    middle = centre([log(value / least_gbps) for value in values], noise)
    half = Z_ONE_SIDED * noise / sqrt(len(values))
    return (
        SequentialAnswer.HEALTHY
        if middle > half
        else (SequentialAnswer.SLOW if middle < -half else SequentialAnswer.OPEN)
    )


def centre(logs: Sequence[float], noise: float) -> float:
    """The winsorised mean: nearly as exact as a mean, and no dip moves it far."""
    middle = median(logs)
    return fsum(min(max(each, middle - WINSOR * noise), middle + WINSOR * noise) for each in logs) / len(logs)


def samples_needed(loss: float, noise: float, *, alpha: float = ALPHA, beta: float = BETA) -> float:
    """
    Wald's approximation of the mean number of samples of one test of a probe that lost exactly *loss*.

    ((1 - beta) A + beta B) / (d^2 / 2 s^2), without the least of three and without the bound on a sample's weight.
    """
    upper, lower = log((1 - beta) / alpha), log(beta / (1 - alpha))
    return ((1 - beta) * upper + beta * lower) * 2 * (noise / log(1 - loss)) ** 2


def _test(logs: Sequence[float], loss: float, noise: float, *, beta: float) -> tuple[SequentialAnswer, int]:
    """One test: SLOW with the number of samples that took, else HEALTHY or OPEN with 0."""
    shift = log(1 - loss)
    upper, lower = log((1 - beta) / ALPHA), log(beta / (1 - ALPHA))
    total = 0.0
    for number, each in enumerate(logs, start=1):
        total += min(LARGEST_WEIGHT * upper, shift / noise**2 * (each - shift / 2))
        # The sum of the parts may be less than the whole by the last bit of a float.
        if number >= LEAST_SAMPLES and total >= upper - 1e-9:
            return SequentialAnswer.SLOW, number
    if len(logs) >= LEAST_SAMPLES and total <= lower:
        return SequentialAnswer.HEALTHY, 0
    return SequentialAnswer.OPEN, 0
