"""
Whether a statistic of one phase, or of one over another's, is what was expected, with a 95 % confidence interval.

Of bandwidth **the number** is the ratio of geometric means: half and double cancel out, it is the same for every order
of keys, and 1/ratio is the ratio the other way round.

**cv, p5, slowest/median** are of the members of a phase (rings, pairs), each by its median in a round, and need three
rounds. p5 and the slowest are of these very members. Whoever all rounds rank last was also unlucky in them, so that is
too little; whoever all other rounds rank last need not be the last, so that is too much in this one: the interval's
lower end is of the one, its upper end of the other. cv is without the rounds' own noise, and of the kind of members:
others would have another.

**The interval**: ``fabric/judge/normal/interval.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import inf, log
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from fabric.judge.changes.effects import UNCHANGED, corrected
from fabric.judge.changes.sides import SampledSide, Sides, compared, each_combination, selected
from fabric.judge.normal.interval import Interval, between, of_cv, of_few_rounds, of_pairs, over
from fabric.judge.normal.samples import Sample
from fabric.model.change import Change
from fabric.model.outcome import Outcome
from fabric.model.scenario import (
    CV,
    LEAST_ROUNDS,
    MEAN,
    P5,
    Expectation,
    ExpectedEnd,
    ExpectedFall,
    ExpectedRatio,
    Phase,
    PhaseRef,
    Where,
)
from fabric.model.text import size_text
from fabric.model.verdict import ExpectationVerdict

if TYPE_CHECKING:
    import numpy as np


def words(expected: Expectation) -> str:
    """``degraded / healthy at least 0.9, adaptive_routing=on``; ``flap[adaptive_routing=off]: completes``."""
    if isinstance(expected, ExpectedRatio):
        return _ratio(expected)
    if isinstance(expected, ExpectedEnd):
        return f"{ref_words(expected.phase)}: {'completes' if expected.completes else 'is given up by the transport'}"
    share, within = f"{expected.fraction:.0%} of its bandwidth", f"within {expected.within_s:g} s of each change's"
    if isinstance(expected, ExpectedFall):
        return f"{ref_words(expected.phase)}: less than {share} {within} begin"
    return f"{ref_words(expected.phase)}: back to {share} {within} {expected.since}"


def bounds_words(expected: ExpectedRatio) -> str:
    """``at least 0.9``, ``at most 1.1``, ``between 0.4 and 0.6``."""
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
    """``degraded[adaptive_routing=on]``."""
    return f"{ref.label}[{where_words(ref.where)}]" if ref.where else ref.label


def where_words(where: Where) -> str:
    """``adaptive_routing=on, rate=1e-5``."""
    return ", ".join(f"{name}={value}" for name, value in where)


LEAST_SAMPLES = 2
UNSTEADY = 0.05
"""A side is unsteady when its samples' coefficient of variation is above this (a choice; healthy ones have 0.01)."""

ROUNDING = 1e-9
"""What logarithms may lose, relative: a ratio of exactly 1 is at least 1."""

TINY = 1e-12
"""Stands for zero, which has no logarithm."""


def judge_ratio(
    expected: ExpectedRatio, phases: Sequence[Phase], samples: Sequence[Sample], changes: Sequence[Change]
) -> ExpectationVerdict:
    """
    PASS when the whole interval is within the bounds, FAIL when all of it is outside, INCONCLUSIVE between.

    A side that did not complete has no bandwidth, and 0 Gb/s was not measured either: it FAILs what should be at least
    something, or alike, and tells nothing of the rest. *changes* are those that were made, for what explains an
    unchanged ratio. Of several matrix values that no side names each is judged, and the worst is the verdict.
    """
    cases = each_combination(expected, phases)
    found = [(where, _judge_one(case, phases, samples, changes)) for where, case in cases]
    where, worst = max(found, key=lambda one: (one[1].outcome.rank, -_margin(expected, one[1])))
    reason = f"the worst of {len(cases)}, {where_words(where)}: {worst.reason}" if len(cases) > 1 else worst.reason
    return replace(worst, text=words(expected), reason=reason)


def _margin(expected: ExpectedRatio, found: ExpectationVerdict) -> float:
    """How far the interval is inside the bounds, in logarithms; negative outside, least where nothing was found."""
    if found.low is None or found.high is None:
        return -inf
    low = log(max(found.low, TINY) / expected.at_least) if expected.at_least else inf
    high = log(expected.at_most / max(found.high, TINY)) if expected.at_most else inf
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
    said = [basis, *_left_out(sides), *_unsteady(expected, sides)]
    if outcome is Outcome.INCONCLUSIVE:
        said.append(_how_many_more(expected, interval))
    if expected.over is not None and expected.statistic in (MEAN, P5) and interval.value >= UNCHANGED:
        names = {phase.name for phase in selected(expected.of, phases)}
        said += dict.fromkeys(filter(None, (corrected(change) for change in changes if change.phase in names)))
    return ExpectationVerdict(text, outcome, "; ".join(said), interval.value, interval.low, interval.high, n)


def _did_not_complete(expected: ExpectedRatio, sides: Sides) -> tuple[Outcome, str] | None:
    good_way = expected.at_least if expected.statistic == CV else expected.at_most
    for side, ref in reversed(list(zip(sides.all, expected.refs, strict=True))):
        if side.gave_up:
            alone = good_way is None and side is sides.of
            first = side.gave_up[0].result
            why = (first.reason if first is not None else "") or "0 Gb/s"
            reason = f"{ref.label} did not complete: {len(side.gave_up)} of its samples were given up, first: {why}"
            return (Outcome.FAIL if alone else Outcome.INCONCLUSIVE), reason
    return None


def _too_few(expected: ExpectedRatio, sides: Sides) -> tuple[Outcome, str] | None:
    """What is missing for an interval; None: nothing."""
    few = min(len(side.passes) for side in sides.all) < LEAST_SAMPLES
    if not few and (expected.statistic == MEAN or sides.of.keys > 1):
        by_rounds = expected.statistic == MEAN and expected.over is not None
        rounds = len(sides.rounds())
        if by_rounds or rounds >= LEAST_ROUNDS:
            return None
        return Outcome.INCONCLUSIVE, f"{_counted(rounds, 'round')} only: 'rounds: {LEAST_ROUNDS}' is needed to tell"
    lost = [sample.result for sample in sides.lost]
    errors = [result.reason for result in lost if result is not None and result.outcome is Outcome.ERROR]
    counted = f"{' and '.join(str(len(side.passes)) for side in sides.all)} samples"
    if errors:
        return Outcome.ERROR, f"{counted}, {len(errors)} could not be measured, first: {errors[0]}"
    if lost:
        return Outcome.INCONCLUSIVE, f"{counted}: {len(lost)} were not measured"
    if not sides.of.keys:
        return Outcome.INCONCLUSIVE, "the two have no probe in common to compare"
    if not few:
        return Outcome.INCONCLUSIVE, f"one measurement alone has no {expected.statistic}"
    return Outcome.INCONCLUSIVE, f"{counted} have no spread to judge by: repeat at least {LEAST_SAMPLES}"


def _measured(expected: ExpectedRatio, sides: Sides) -> tuple[Interval, str, int]:
    """The interval, what it rests on in words, and how many samples those are."""
    rounds, keys = sides.rounds(), sides.of.keys
    of_each = f" of {keys} measurements" if keys > 1 else ""
    if len(rounds) >= LEAST_ROUNDS:
        paired = ", paired" if len(sides.all) > 1 and expected.statistic != CV else ""
        basis = f"{len(rounds)} rounds{of_each}{paired}"
        return _of_rounds(expected, sides, rounds), basis, len(rounds) * len(sides.all)
    of, reference = (side.means() for side in sides.all)
    interval = of_few_rounds(of, reference)
    counts = [len(side.passes) for side in sides.all]
    each = f"{counts[0]} samples each" if len(set(counts)) == 1 else f"{counts[0]} and {counts[1]} samples"
    most = _counted(max(len(of), len(reference)), "round")
    return interval, f"{each}{of_each} in {most} (rounds may differ by {100 * interval.between:.2g} %)", sum(counts)


def _of_rounds(expected: ExpectedRatio, sides: Sides, rounds: Sequence[int]) -> Interval:
    """Of three rounds or more."""
    if expected.statistic == CV:
        found = [of_cv(side.levels(rounds)) for side in sides.all]
        return found[0] if len(found) == 1 else over(*found)
    least, most = zip(*(_logs(side, expected.statistic, rounds) for side in sides.all), strict=True)
    if len(least) == 1:
        return between(of_pairs(least[0]), of_pairs(most[0]))
    return between(of_pairs(_less(least[0], most[1])), of_pairs(_less(most[0], least[1])))


def _less(logs: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one - other for one, other in zip(logs, others, strict=True)]


def _logs(side: SampledSide, statistic: str, rounds: Sequence[int]) -> tuple[list[float], list[float]]:
    """The statistic of each round, as a logarithm: at the least, and at the most."""
    if statistic == MEAN:
        means = side.means()
        each = [fmean(map(log, means[number])) for number in rounds]
        return each, each
    import numpy as np

    levels = side.levels(rounds)
    logs = np.log(levels)
    together = np.broadcast_to(logs.sum(axis=0), logs.shape)
    middle = 0.0 if statistic == P5 else np.log(_ranked(levels, together, 0.5))
    share = 0.05 if statistic == P5 else 0.0
    least, most = (np.log(_ranked(levels, by, share)) - middle for by in (together, together - logs))
    return least.tolist(), most.tolist()


def _ranked(levels: np.ndarray, by: np.ndarray, share: float) -> np.ndarray:
    """In each round (row) the level of the members that *by* ranks at this share of them."""
    import numpy as np

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
    needed = interval.rounds_to_settle(inside)
    if interval.spread is None:
        return f"too near the bound ({bounds_words(expected)}) for so few members"
    if needed is None:
        return f"too near the bound ({bounds_words(expected)}) to tell by repeating"
    return f"about {needed} rounds would settle it ({needed - interval.rounds} more)"


def _unsteady(expected: ExpectedRatio, sides: Sides) -> list[str]:
    """A side whose samples lie far apart: a change that came late into force shows like that, or a loose cable."""
    found = []
    for ref, side in zip(expected.refs, sides.all, strict=True):
        values = list(chain.from_iterable(side.means().values()))
        if stdev(map(log, values)) > UNSTEADY:
            found.append(f"{ref_words(ref)} is unsteady, {min(values):,.0f} to {max(values):,.0f} Gb/s")
    return found


def _left_out(sides: Sides) -> list[str]:
    return [f"{len(sides.lost)} samples were not measured and are left out"] if sides.lost else []


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
