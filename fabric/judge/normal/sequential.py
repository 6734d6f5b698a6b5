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

Peers are a class: what they share is in ``series.py``. Their noise is pooled; a probe without peers is judged by its
own, which takes nine samples to know. A record whose median is itself not known to a sixth of the loss that matters is
not used here: it would shift every decision (its interval is judged in ``recorded.py``).

When the samples are used up, what counts is the lower end of a one-sided 95 % interval: above 1 - loss it is as good as
normal, otherwise nobody can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from math import exp, fsum, log, sqrt
from statistics import median

from fabric.judge.normal.keys import floor_of
from fabric.judge.normal.peers import LEAST_SPREAD, levels, peers_of
from fabric.judge.normal.series import DIFFERENCE_TO_SIGMA, MEDIAN_EFFICIENCY, ProbeSeries
from fabric.model.recorded import Recorded
from fabric.model.scenario import LEAST_SAMPLES, MOST_SAMPLES
from fabric.probes.kinds import REPEATED_KINDS

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

OWN_NOISE = 3.0
"""A probe noisier than its class by this factor has a noise of its own (a choice: healthy, with three samples, once in
thousands)."""


class SequentialAnswer(Enum):
    """What the samples so far say."""

    HEALTHY = "healthy"
    SLOW = "slow"  # in two tests, one after the other
    SLOW_ONCE = "slow once"  # the second test has not ended
    OPEN = "open"


_UNDECIDED = (SequentialAnswer.OPEN, SequentialAnswer.SLOW_ONCE)


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
        return self.n < MOST_SAMPLES and self.answer in _UNDECIDED


def own_noise(values: Sequence[float], class_noise: float) -> float:
    """The noise to judge one series by: that of its class, or its own where that is much larger."""
    own = DIFFERENCE_TO_SIGMA * median(abs(log(after / before)) for before, after in pairwise(values))
    return own if own > OWN_NOISE * class_noise else class_noise


def standing(values: Sequence[float], normal_gbps: float, *, loss: float, noise: float) -> SequentialResult:
    """Of positive *values* (Gb/s, in order) against *normal_gbps*; *loss* is the share that matters."""
    logs = [log(value / normal_gbps) for value in values]
    middle = centre(logs, noise)
    ratio, low = exp(middle), exp(middle - Z_ONE_SIDED * noise / sqrt(len(logs)))
    answer, first = _test(logs, loss, noise, beta=BETA)
    if answer is SequentialAnswer.SLOW:
        again, _ = _test(logs[first:], loss, noise, beta=BETA_AGAIN)
        answer = SequentialAnswer.SLOW_ONCE if again is SequentialAnswer.OPEN else again
    unimportant = answer is SequentialAnswer.SLOW and ratio > 1 - IMPORTANT * loss
    if unimportant or (first and answer is SequentialAnswer.HEALTHY):
        answer = SequentialAnswer.OPEN  # the one says this, the other that: all samples shall tell
    if answer in _UNDECIDED and len(logs) >= MOST_SAMPLES:
        answer = SequentialAnswer.HEALTHY if low > 1 - loss else SequentialAnswer.OPEN
    return SequentialResult(answer, ratio, low, first, len(logs))


def above(values: Sequence[float], least_gbps: float, *, noise: float) -> SequentialAnswer:
    """
    Against a limit, which is a line and no pair of hypotheses: surely above it (HEALTHY), surely below (SLOW), or OPEN.

    Both by the one-sided 95 % interval of the winsorised mean of positive *values*.
    """
    middle = centre([log(value / least_gbps) for value in values], noise)
    half = Z_ONE_SIDED * noise / sqrt(len(values))
    if middle > half:
        return SequentialAnswer.HEALTHY
    return SequentialAnswer.SLOW if middle < -half else SequentialAnswer.OPEN


def centre(logs: Sequence[float], noise: float) -> float:
    """The winsorised mean: nearly as exact as a mean, and no dip moves it far."""
    middle = median(logs)
    return fsum(min(max(each, middle - WINSOR * noise), middle + WINSOR * noise) for each in logs) / len(logs)


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


RECORD_ERROR = 1 / 6
"""Standard error of a recorded median that is small enough, as a share of the loss that matters (a choice)."""

_WORST = (SequentialAnswer.SLOW, SequentialAnswer.SLOW_ONCE, SequentialAnswer.OPEN, SequentialAnswer.HEALTHY)


@dataclass(frozen=True, slots=True)
class Against:
    """
    The worst standing of one probe, what is normal there (Gb/s), and against what in words.

    *noise* is that of one sample, as a share; *by_record*: a record was among what it was compared with.
    """

    standing: SequentialResult
    normal_gbps: float
    text: str
    noise: float
    by_record: bool


class Standings:
    """
    Of the series of one phase or run; *record_of* is what good runs measured for a series, where that is known.

    *asked* are those that are judged by samples at all: that carried something and can be measured again alone.
    *known* are those among them whose noise is known.
    """

    def __init__(self, series: Sequence[ProbeSeries], record_of: Callable[[ProbeSeries], Recorded | None]) -> None:
        self._record_of = record_of
        self.asked = [one for one in series if one.probe.kind in REPEATED_KINDS and min(one.values) > 0.0]
        self.known = frozenset(one for one in self.asked if one.noise is not None and len(one.values) > 1)
        classes: dict[int, list[ProbeSeries]] = {}
        for one in self.asked:
            if one.group is not None:
                classes.setdefault(one.group, []).append(one)
        self._of_peers = {one: normal for members in classes.values() for one, normal in _of_peers(members)}
        self._found: dict[ProbeSeries, Against | None] = {}

    def of(self, one: ProbeSeries) -> Against | None:
        """The worst that is said of a series; None where nothing is normal for it, or its noise is not known."""
        if one not in self._found:
            self._found[one] = self._worst(one) if one in self.known else None
        return self._found[one]

    def above(self, one: ProbeSeries, least_gbps: float) -> SequentialAnswer:
        """Whether a series is surely above its limit (HEALTHY), or below (SLOW); OPEN also where no noise is known."""
        return above(one.values, least_gbps, noise=self._noise(one)) if one in self.known else SequentialAnswer.OPEN

    def wants_more(self, one: ProbeSeries, least_gbps: float | None) -> bool:
        """Whether another sample may settle it, also against its limit; not where there is nothing to settle."""
        if len(one.values) >= MOST_SAMPLES:
            return False
        if least_gbps is not None:
            if self._limit_is_open(one, least_gbps):
                return True
            if one.value < least_gbps:
                return False  # surely bad, whatever else is normal
        if not any(self._normals(one)):
            return False
        found = self.of(one)
        return found is None or found.standing.wants_more

    def _limit_is_open(self, one: ProbeSeries, least_gbps: float) -> bool:
        """Whether a limit is so near that more samples are worth it; within what matters, where no noise is known."""
        if one not in self.known:
            return abs(one.value / least_gbps - 1) < floor_of(one.probe.kind)
        return self.above(one, least_gbps) is SequentialAnswer.OPEN

    def _noise(self, one: ProbeSeries) -> float:
        """To judge a series by; that of its class is known of all of ``known``."""
        return own_noise(one.values, one.noise or LEAST_SPREAD)

    def _worst(self, one: ProbeSeries) -> Against | None:
        loss, noise = floor_of(one.probe.kind), self._noise(one)
        normals = list(self._normals(one))
        by_record = any(is_record for _, _, is_record in normals)
        found = [
            Against(standing(one.values, normal_gbps, loss=loss, noise=noise), normal_gbps, text, noise, by_record)
            for normal_gbps, text, _ in normals
        ]
        return min(found, key=lambda each: _WORST.index(each.standing.answer), default=None)

    def _normals(self, one: ProbeSeries) -> Iterator[tuple[float, str, bool]]:
        """What is normal for a series, against what that is in words, and whether it was recorded."""
        if one in self._of_peers:
            yield *self._of_peers[one], False
        recorded = self._record_of(one)
        if recorded is not None and known_well(recorded, floor_of(one.probe.kind)):
            yield recorded.median_gbps, f"the recorded median of {recorded.n} samples", True


def _of_peers(members: Sequence[ProbeSeries]) -> Iterator[tuple[ProbeSeries, tuple[float, str]]]:
    """
    What is normal in a class, for each of it, and in words; of a series inside one host less what its whole host lacks.

    From as many samples of each as all of them have: the first ones. Later ones were asked for because the first were
    low. Whoever was lucky at first has no others, and the median over all samples would be half a percent too high at a
    CV of 2 %.
    """
    count = min(len(one.values) for one in members)
    early = [median(one.values[:count]) for one in members]
    peers = peers_of(early)
    if peers is None:
        return
    by_host: dict[str, list[float]] = {}
    for one, value in zip(members, early, strict=True):
        if len(one.probe.hosts) == 1:
            by_host.setdefault(one.probe.hosts[0], []).append(value)
    found = levels(by_host, peers, excused=IMPORTANT * floor_of(members[0].probe.kind))
    for one in members:
        level = found.get(one.probe.hosts[0], 1.0)
        less = f" less the {1 - level:.1%} that its whole host lacks" if level < 1.0 else ""
        yield one, (level * peers.median_gbps, f"the median of {peers.n} peers{less}")


def known_well(recorded: Recorded, loss: float) -> bool:
    """Whether the standard error of a recorded median is small beside the loss that matters."""
    return MEDIAN_EFFICIENCY * max(recorded.cv, LEAST_SPREAD) / sqrt(recorded.n) <= RECORD_ERROR * loss
