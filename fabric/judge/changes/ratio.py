"""Judging a statistic of one phase, or the ratio of two phases' statistics, with a 95 % confidence interval.

**The number** for bandwidth is the ratio of geometric means: half and double cancel out, the order of keys does not
matter, and 1/ratio is the ratio the other way round.

**cv, p5, slowest/median** are statistics over the members of a phase (rings, pairs), each by its median in a round.
They need three rounds. p5 and the slowest are about these very members, ranked in two ways. The member that ranks last
over all rounds was also unlucky in them, so its level is too low. The member that ranks last over all other rounds need
not be the last, so its level in this round is too high. The first gives the lower end of the interval, the second the
upper end. cv excludes the noise of rounds, and is about the kind of members: other members would have another cv.

**The two sides** hold the same measurements in every pass. Many measurements of one pass (the pairs of
``concurrent_rings``, several sizes) are not independent samples: they are exactly the pairs that were asked about, and
they share the network, so what one gains another loses. 32 pairs measured once are one sample.

**The interval** is computed in ``fabric/judge/normal/interval.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil, inf, log, sqrt
from statistics import fmean, geometric_mean, stdev

import numpy as np

from fabric.judge.changes.effects import KEPT, hidden_by_fec
from fabric.judge.normal.interval import LEAST_CV, Interval, of_cv, of_few_rounds, of_pairs, ratio_of_spreads, spanning
from fabric.judge.normal.keys import Sample, SampleKey
from fabric.judge.normal.series import UNSTABLE_CV
from fabric.model import gathered
from fabric.model.change import Change
from fabric.model.outcome import Outcome
from fabric.model.scenario import (
    CV,
    LEAST_ROUNDS,
    MEAN,
    P5,
    Expectation,
    ExpectedEnd,
    ExpectedRatio,
    Phase,
    PhaseRef,
    Where,
)
from fabric.model.text import counted, size_text
from fabric.model.verdict import ExpectationVerdict

Pass = tuple[int, str, int]
"""A pass through all keys, each measured once: round, phase and repetition."""

_Passes = Mapping[Pass, Mapping[SampleKey, Sample]]


@dataclass(frozen=True, slots=True)
class SampledSide:
    """
    What one side measured, Gb/s, by pass; *keys* is the number of values of each pass, incomplete ones are left out.

    *gave_up*: the samples that the transport gave up.
    """

    keys: int
    passes: Mapping[Pass, Sequence[float]]
    gave_up: tuple[Sample, ...]

    def means(self) -> dict[int, list[float]]:
        """Return the geometric mean of each pass, by round."""
        return gathered((number, geometric_mean(values)) for (number, _, _), values in self.passes.items())

    def levels(self, rounds: Sequence[int]) -> np.ndarray:
        """Return the median of each measurement (columns) in each of these rounds (rows)."""
        rows = [[values for (one, _, _), values in self.passes.items() if one == number] for number in rounds]
        return np.array([np.median(passes, axis=0) for passes in rows])


@dataclass(frozen=True, slots=True)
class Sides:
    """The one or two sides of an expectation. *lost*: samples that are missing and were not given up."""

    all: tuple[SampledSide, ...]
    lost: tuple[Sample, ...]

    def rounds(self) -> list[int]:
        """Return the rounds in which all sides were measured."""
        return sorted(set.intersection(*({number for number, _, _ in side.passes} for side in self.all)))


def selected(ref: PhaseRef, phases: Sequence[Phase]) -> list[Phase]:
    """Return the phases that a reference means, in every round."""
    return [phase for phase in phases if phase.written == ref.label and set(ref.where) <= set(phase.where)]


def each_combination(expected: ExpectedRatio, phases: Sequence[Phase]) -> Iterator[tuple[Where, ExpectedRatio]]:
    """
    Yield one comparison for each combination of matrix values that no side names: off with off, on with on.

    They are not pooled: a good combination would hide a bad one.
    """
    sides = [selected(ref, phases) for ref in expected.refs]
    fixed = {name for ref in expected.refs for name, _ in ref.where}
    names = [{name for name, _ in phase.where} for side in sides for phase in side]
    free = set.intersection(*names) - fixed if names else set()
    for where in dict.fromkeys(tuple(pair for pair in phase.where if pair[0] in free) for phase in sides[0]) or ((),):
        of, *over = (PhaseRef(ref.label, (*ref.where, *where)) for ref in expected.refs)
        yield where, replace(expected, of=of, over=over[0] if over else None)


def compared(expected: ExpectedRatio, phases: Sequence[Phase], samples: Sequence[Sample]) -> Sides:
    """
    Return the sides with the same keys: one with a sample missing anywhere is left out, or means would not compare.

    A pass that was not reached at all is left out whole, and so is one that has fewer keys than others (a probe with
    fewer repetitions).
    """
    wanted = [sample for sample in samples if _asked_for(sample, expected)]
    passes = [_passes(selected(ref, phases), wanted) for ref in expected.refs]
    common = set.intersection(*({key for row in side.values() for key in row} for side in passes))
    rows = [{key: sample for key, sample in row.items() if key in common} for side in passes for row in side.values()]
    reached = [row for row in rows if any(map(_good, row.values()))]
    holed = {key for row in reached for key, sample in row.items() if not _good(sample)}
    kept = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in holed]
    lost = tuple(sample for row in rows for sample in row.values() if not (_good(sample) or sample.gave_up))
    return Sides(tuple(_side(side, common, kept) for side in passes), lost)


def _asked_for(sample: Sample, expected: ExpectedRatio) -> bool:
    key = sample.key
    return expected.probe in (None, key.name) and expected.size_bytes in (None, key.size_bytes)


def _passes(side: Sequence[Phase], samples: Sequence[Sample]) -> _Passes:
    by_name = {phase.name: phase for phase in side}
    own = ((by_name[one.phase], one) for one in samples if one.phase in by_name)
    found = gathered(((phase.round, phase.name, one.repetition), (one.key, one)) for phase, one in own)
    return {number: dict(row) for number, row in found.items()}


def _side(passes: _Passes, common: set[SampleKey], kept: Sequence[SampleKey]) -> SampledSide:
    whole = {
        number: [float(row[key].value_gbps or 0.0) for key in kept]
        for number, row in passes.items()
        if kept and all(key in row and _good(row[key]) for key in kept)
    }
    gave_up = tuple(row[key] for row in passes.values() for key in row if key in common and row[key].gave_up)
    return SampledSide(len(kept), whole, gave_up)


def _good(sample: Sample) -> bool:
    return sample.value_gbps is not None and not sample.gave_up


def words(expected: Expectation) -> str:
    """Return ``degraded / healthy at least 0.9, adaptive_routing=on`` or ``flap[adaptive_routing=off]: completes``."""
    if isinstance(expected, ExpectedRatio):
        return _ratio(expected)
    if isinstance(expected, ExpectedEnd):
        return f"{ref_words(expected.phase)}: {'completes' if expected.completes else 'is given up by the transport'}"
    share, within = f"{expected.fraction:.0%} of its bandwidth", f"within {expected.within_s:g} s of each change's"
    return f"{ref_words(expected.phase)}: back to {share} {within} {expected.since}"


def bounds_words(expected: ExpectedRatio) -> str:
    """Return ``at least 0.9``, ``at most 1.1`` or ``between 0.4 and 0.6``."""
    low, high = expected.at_least, expected.at_most
    unit = " Gb/s" if expected.over is None and expected.statistic in (MEAN, P5) else ""
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}{unit}"
    return f"at least {low:g}{unit}" if low is not None else f"at most {high:g}{unit}"


def _ratio(expected: ExpectedRatio) -> str:
    common = set.intersection(*(set(ref.where) for ref in expected.refs)) if expected.over is not None else set()
    shared = tuple(pair for pair in expected.of.where if pair in common)
    rest = [PhaseRef(ref.label, tuple(pair for pair in ref.where if pair not in common)) for ref in expected.refs]
    only = [where_words(shared)] if shared else []
    only += [f"probe {expected.probe}"] if expected.probe is not None else []
    only += [f"size {size_text(expected.size_bytes)}"] if expected.size_bytes is not None else []
    if len({ref.label for ref in rest}) < len(rest) and all(ref.where for ref in rest):
        head = f"{expected.of.label}: {' / '.join(where_words(ref.where) for ref in rest)}"
    else:
        head = " / ".join(map(ref_words, rest))
    what = "" if expected.statistic == MEAN and expected.over else f"{expected.statistic} of "
    return ", ".join([f"{what}{head} {bounds_words(expected)}", *only])


def ref_words(ref: PhaseRef) -> str:
    """Return a text such as ``degraded[adaptive_routing=on]``."""
    return f"{ref.label}[{where_words(ref.where)}]" if ref.where else ref.label


def where_words(where: Where) -> str:
    """Return a text such as ``adaptive_routing=on, rate=1e-5``."""
    return ", ".join(f"{name}={value}" for name, value in where)


MOST_ROUNDS = 1000
"""The most rounds that are suggested: no run has more."""

LEAST_PASSES = 2
"""The fewest passes of a side: a single one has no spread."""

ROUNDING = 1e-9
"""The relative rounding error of logarithms that is allowed for: a ratio of exactly 1 must count as at least 1."""


def judge_ratio(
    expected: ExpectedRatio, phases: Sequence[Phase], samples: Sequence[Sample], changes: Sequence[Change]
) -> ExpectationVerdict:
    """
    Judge a ratio: PASS if its whole interval is within the bounds, FAIL if all of it is outside, else INCONCLUSIVE.

    A side that did not complete has no bandwidth, not 0 Gb/s: that is a FAIL if it is the first side and the bounds ask
    only for a high number (cv: a low one), else INCONCLUSIVE. *changes* are those that were made; they may explain an
    unchanged ratio. Every combination of matrix values that no side names is judged, and the worst is the verdict.
    """
    cases = each_combination(expected, phases)
    found = [(where, _judge_one(case, phases, samples, changes)) for where, case in cases]
    where, worst = max(found, key=lambda one: (one[1].outcome.rank, -_margin(expected, one[1])))
    reason = f"the worst of {len(found)}, {where_words(where)}: {worst.reason}" if len(found) > 1 else worst.reason
    return replace(worst, text=words(expected), reason=reason)


def _margin(expected: ExpectedRatio, found: ExpectationVerdict) -> float:
    """Return how far the interval is inside the bounds, in logarithms; negative outside, -inf without an interval."""
    if found.low is None or found.high is None:
        return -inf
    low = log(max(found.low, LEAST_CV) / expected.at_least) if expected.at_least else inf
    high = log(expected.at_most / max(found.high, LEAST_CV)) if expected.at_most else inf
    return min(low, high)


def _judge_one(
    expected: ExpectedRatio, phases: Sequence[Phase], samples: Sequence[Sample], changes: Sequence[Change]
) -> ExpectationVerdict:
    text = words(expected)
    sides = compared(expected, phases, samples)
    ended = _did_not_complete(expected, sides)
    if ended is not None:
        return ExpectationVerdict(text, *ended)
    few = _too_few(expected, sides)
    if few is not None:
        return ExpectationVerdict(text, *few, n=sum(len(side.passes) for side in sides.all))
    interval, basis, n = _measured(expected, sides)
    outcome = _outcome(expected, interval)
    lost = [f"{len(sides.lost)} samples were not measured and are left out"] if sides.lost else []
    reasons = [basis, *lost, *_unsteady(expected, sides)]
    if outcome is Outcome.INCONCLUSIVE:
        reasons.append(_how_many_more(expected, interval))
    if expected.over is not None and expected.statistic in (MEAN, P5) and interval.value >= KEPT:
        names = {phase.name for phase in selected(expected.of, phases)}
        reasons += dict.fromkeys(filter(None, (hidden_by_fec(change) for change in changes if change.phase in names)))
    return ExpectationVerdict(text, outcome, "; ".join(reasons), interval.value, interval.low, interval.high, n)


def _did_not_complete(expected: ExpectedRatio, sides: Sides) -> tuple[Outcome, str] | None:
    good_way = expected.at_least if expected.statistic == CV else expected.at_most
    for side, ref in reversed(list(zip(sides.all, expected.refs, strict=True))):
        if side.gave_up:
            alone = good_way is None and side is sides.all[0]
            first = side.gave_up[0].result
            why = (first.reason if first is not None else "") or "0 Gb/s"
            reason = f"{ref.label} did not complete: {len(side.gave_up)} of its samples were given up, first: {why}"
            return (Outcome.FAIL if alone else Outcome.INCONCLUSIVE), reason
    return None


def _too_few(expected: ExpectedRatio, sides: Sides) -> tuple[Outcome, str] | None:
    """Return the outcome and what is missing for an interval; None if nothing is."""
    few = min(len(side.passes) for side in sides.all) < LEAST_PASSES
    if not few and (expected.statistic == MEAN or sides.all[0].keys > 1):
        by_rounds = expected.statistic == MEAN and expected.over is not None
        rounds = len(sides.rounds())
        if by_rounds or rounds >= LEAST_ROUNDS:
            return None
        return Outcome.INCONCLUSIVE, f"{counted(rounds, 'round')} only: 'rounds: {LEAST_ROUNDS}' is needed to tell"
    lost = [sample.result for sample in sides.lost]
    errors = [result.reason for result in lost if result is not None and result.outcome is Outcome.ERROR]
    had = f"{' and '.join(str(len(side.passes)) for side in sides.all)} samples"
    if errors:
        return Outcome.ERROR, f"{had}, {len(errors)} could not be measured, first: {errors[0]}"
    if lost:
        return Outcome.INCONCLUSIVE, f"{had}: {len(lost)} were not measured"
    if not sides.all[0].keys:
        return Outcome.INCONCLUSIVE, "the two have no probe in common to compare"
    if not few:
        return Outcome.INCONCLUSIVE, f"one measurement alone has no {expected.statistic}"
    return Outcome.INCONCLUSIVE, f"{had} have no spread to judge by: repeat at least {LEAST_PASSES}"


def _measured(expected: ExpectedRatio, sides: Sides) -> tuple[Interval, str, int]:
    """Return the interval, a text that says what it rests on, and the number of samples."""
    rounds, keys = sides.rounds(), sides.all[0].keys
    of_each = f" of {keys} measurements" if keys > 1 else ""
    if len(rounds) >= LEAST_ROUNDS:
        paired = ", paired" if len(sides.all) > 1 and expected.statistic != CV else ""
        basis = f"{len(rounds)} rounds{of_each}{paired}"
        return _of_rounds(expected, sides, rounds), basis, len(rounds) * len(sides.all)
    of, reference = (side.means() for side in sides.all)
    interval = of_few_rounds(of, reference)
    counts = [len(side.passes) for side in sides.all]
    each = f"{counts[0]} samples each" if len(set(counts)) == 1 else f"{counts[0]} and {counts[1]} samples"
    most = counted(max(len(of), len(reference)), "round")
    return interval, f"{each}{of_each} in {most} (rounds may differ by {100 * interval.between:.2g} %)", sum(counts)


def _of_rounds(expected: ExpectedRatio, sides: Sides, rounds: Sequence[int]) -> Interval:
    """Return the interval over three rounds or more."""
    if expected.statistic == CV:
        found = [of_cv(side.levels(rounds)) for side in sides.all]
        return found[0] if len(found) == 1 else ratio_of_spreads(*found)
    (least, most), *others = (_logs(side, expected.statistic, rounds) for side in sides.all)
    for other_least, other_most in others:
        least, most = least - other_most, most - other_least
    return spanning(of_pairs(least.tolist()), of_pairs(most.tolist()))


def _logs(side: SampledSide, statistic: str, rounds: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of the statistic in each round: a lower and an upper estimate."""
    if statistic == MEAN:
        means = side.means()
        each = np.array([fmean(map(log, means[number])) for number in rounds])
        return each, each
    levels = side.levels(rounds)
    logs = np.log(levels)
    together = np.broadcast_to(logs.sum(axis=0), logs.shape)
    middle = 0.0 if statistic == P5 else np.log(_ranked(levels, together, 0.5))
    share = 0.05 if statistic == P5 else 0.0
    least, most = (np.log(_ranked(levels, by, share)) - middle for by in (together, together - logs))
    return least, most


def _ranked(levels: np.ndarray, by: np.ndarray, share: float) -> np.ndarray:
    """Return for each round (row) the level of the member that *by* ranks at this share, interpolated linearly."""
    last = levels.shape[1] - 1
    below = int(share * last)
    ends = np.take_along_axis(levels, by.argsort(axis=1)[:, [below, min(below + 1, last)]], axis=1)
    rest = share * last - below
    return np.asarray(ends @ np.array([1 - rest, rest]))


def _outcome(expected: ExpectedRatio, interval: Interval) -> Outcome:
    low = expected.at_least if expected.at_least is not None else -inf
    high = expected.at_most if expected.at_most is not None else inf
    if low <= interval.low * (1 + ROUNDING) and interval.high * (1 - ROUNDING) <= high:
        return Outcome.PASS
    if interval.high * (1 + ROUNDING) < low or high < interval.low * (1 - ROUNDING):
        return Outcome.FAIL
    return Outcome.INCONCLUSIVE


def _how_many_more(expected: ExpectedRatio, interval: Interval) -> str:
    low, high = interval.low * (1 - ROUNDING), interval.high * (1 + ROUNDING)
    bounds = (expected.at_least, expected.at_most)
    inside = [bound for bound in bounds if bound is not None and low <= bound <= high]
    if expected.statistic == CV:
        return f"too near the bound ({bounds_words(expected)}) for so few members"
    # The width of an interval shrinks with the square root of the number of rounds.
    half, distance = log(interval.high / interval.low) / 2, min(abs(log(bound / interval.value)) for bound in inside)
    if distance * sqrt(MOST_ROUNDS / interval.rounds) < half:
        return f"too near the bound ({bounds_words(expected)}) to tell by repeating"
    needed = max(LEAST_ROUNDS, interval.rounds + 1, ceil(interval.rounds * (half / distance) ** 2))
    return f"about {needed} rounds would settle it ({needed - interval.rounds} more)"


def _unsteady(expected: ExpectedRatio, sides: Sides) -> Iterator[str]:
    """Yield a note for each side whose samples lie far apart: a change came late into force, or a cable is loose."""
    for ref, side in zip(expected.refs, sides.all, strict=True):
        values = list(chain.from_iterable(side.means().values()))
        if stdev(map(log, values)) > UNSTABLE_CV:
            yield f"{ref_words(ref)} is unsteady, {min(values):,.0f} to {max(values):,.0f} Gb/s"
