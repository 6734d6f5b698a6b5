"""
Whether the bandwidth of one phase over another's is what was expected, with a 95 % confidence interval.

**The number** is the ratio of geometric means: half and double cancel out, it is the same for every order of keys, and
1/ratio is the ratio the other way round. Of many keys (the pairs of ``concurrent_rings``, several sizes) the mean over
the keys is taken first, within each pass. The keys are no samples of each other: they are exactly the pairs that were
asked about, and they share the network, so that what one gains another loses. 32 pairs measured once are one sample.

**The interval** rests on rounds where there are at least three on both sides: a round measures both sides one soon
after the other, so each gives one pair, drift between rounds cancels out, and a change that turns out differently each
time it is made widens the interval as it should (t of paired differences of logarithms). With fewer rounds the passes
are the samples (Welch's t of logarithms, since the side with the fault is the noisier one); all passes of a round share
one application of the change, which the reason says by counting rounds. Three is a choice: with two pairs t is 12.7,
and no interval is of use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, fsum, inf, log
from statistics import stdev

from fabric.analysis.bit_errors import UNCHANGED, corrected
from fabric.analysis.compared import Compared, Pass, compared, each_combination, selected
from fabric.analysis.expected_words import bounds_words, ref_words, where_words, words
from fabric.analysis.interval import Interval, of_pairs, of_sides
from fabric.analysis.samples import Sample
from fabric.model.change import Change
from fabric.model.outcome import Outcome
from fabric.model.scenario import ExpectedRatio, Phase
from fabric.model.verdict import ExpectationVerdict

ROUNDS_TO_PAIR = 3
LEAST_SAMPLES = 2
UNSTEADY = 0.05
"""A side is unsteady when its samples' coefficient of variation is above this (a choice; healthy ones have 0.01)."""

ROUNDING = 1e-9
"""What logarithms may lose, relative: a ratio of exactly 1 is at least 1."""


def judge_ratio(
    expected: ExpectedRatio, phases: Sequence[Phase], samples: Sequence[Sample], changes: Sequence[Change]
) -> ExpectationVerdict:
    """
    PASS when the whole interval is within the bounds, FAIL when all of it is outside, INCONCLUSIVE between.

    A side that did not complete has no bandwidth, and 0 Gb/s was not measured either: it FAILs what should be at least
    something, and tells nothing of the rest. *changes* are those that were made, for what explains an unchanged ratio.
    Of several matrix values that neither side names each is judged, and the worst is the verdict.
    """
    cases = each_combination(expected, phases)
    found = [(where, _judge_one(case, phases, samples, changes)) for where, case in cases]
    where, worst = max(found, key=lambda one: (one[1].outcome.rank, -_margin(expected, one[1])))
    reason = f"the worst of {len(cases)}, {where_words(where)}: {worst.reason}" if len(cases) > 1 else worst.reason
    return replace(worst, text=words(expected), reason=reason)


def _margin(expected: ExpectedRatio, found: ExpectationVerdict) -> float:
    """How far the interval is inside the bounds, in logarithms; negative outside, least where nothing was found."""
    if not found.low or not found.high:
        return -inf
    low = log(found.low / expected.at_least) if expected.at_least else inf
    high = log(expected.at_most / found.high) if expected.at_most else inf
    return min(low, high)


def _judge_one(
    expected: ExpectedRatio, phases: Sequence[Phase], samples: Sequence[Sample], changes: Sequence[Change]
) -> ExpectationVerdict:
    text = words(expected)
    sides = compared(expected, phases, samples)
    ended = _did_not_complete(expected, sides)
    if ended is not None:
        return ExpectationVerdict(text, *ended)
    if min(len(sides.of), len(sides.over)) < LEAST_SAMPLES:
        return ExpectationVerdict(text, *_too_few(sides), n=len(sides.of) + len(sides.over))
    interval, basis = _interval(sides)
    outcome = _outcome(expected, interval)
    said = [basis, *_left_out(sides), *_unsteady(expected, sides)]
    if outcome is Outcome.INCONCLUSIVE:
        said.append(_how_many_more(expected, interval, basis))
    if interval.value >= UNCHANGED:
        names = {phase.name for phase in selected(expected.of, phases)}
        said += dict.fromkeys(filter(None, (corrected(change) for change in changes if change.phase in names)))
    n = sum(interval.counts) if len(interval.counts) > 1 else 2 * interval.counts[0]
    return ExpectationVerdict(text, outcome, "; ".join(said), interval.value, interval.low, interval.high, n)


def _did_not_complete(expected: ExpectedRatio, sides: Compared) -> tuple[Outcome, str] | None:
    for found, label in ((sides.over_gave_up, expected.over.label), (sides.of_gave_up, expected.of.label)):
        if found:
            alone = expected.at_most is None and found is sides.of_gave_up
            first = found[0].result
            why = (first.reason if first is not None else "") or "0 Gb/s"
            reason = f"{label} did not complete: {len(found)} of its samples were given up, first: {why}"
            return (Outcome.FAIL if alone else Outcome.INCONCLUSIVE), reason
    return None


def _too_few(sides: Compared) -> tuple[Outcome, str]:
    lost = [sample.result for sample in sides.lost]
    errors = [result.reason for result in lost if result is not None and result.outcome is Outcome.ERROR]
    counted = f"{len(sides.of)} and {len(sides.over)} samples"
    if errors:
        return Outcome.ERROR, f"{counted}, {len(errors)} could not be measured, first: {errors[0]}"
    if lost:
        return Outcome.INCONCLUSIVE, f"{counted}: {len(lost)} were not measured"
    if not sides.keys:
        return Outcome.INCONCLUSIVE, "the two have no probe in common to compare"
    return Outcome.INCONCLUSIVE, f"{counted} have no spread to judge by: repeat at least {LEAST_SAMPLES}"


def _interval(sides: Compared) -> tuple[Interval, str]:
    """The interval, and what it rests on in words."""
    of, over = _by_round(sides.of), _by_round(sides.over)
    rounds = sorted(set(of) & set(over))
    keys = f" of {sides.keys} measurements" if sides.keys > 1 else ""
    if len(rounds) >= ROUNDS_TO_PAIR:
        return of_pairs([(of[number], over[number]) for number in rounds]), f"{len(rounds)} rounds{keys}, paired"
    counts = (len(sides.of), len(sides.over))
    each = f"{counts[0]} samples each" if counts[0] == counts[1] else f"{counts[0]} and {counts[1]} samples"
    many = max(len(of), len(over))
    return (
        of_sides(list(sides.of.values()), list(sides.over.values())),
        f"{each}{keys} in {many} round{'s' if many > 1 else ''}",
    )


def _by_round(passes: Mapping[Pass, float]) -> dict[int, float]:
    """The geometric mean of the passes of each round."""
    logs: dict[int, list[float]] = {}
    for (number, _, _), value in passes.items():
        logs.setdefault(number, []).append(log(value))
    return {number: exp(fsum(found) / len(found)) for number, found in logs.items()}


def _outcome(expected: ExpectedRatio, interval: Interval) -> Outcome:
    low = expected.at_least if expected.at_least is not None else -inf
    high = expected.at_most if expected.at_most is not None else inf
    if low <= interval.low * (1 + ROUNDING) and interval.high * (1 - ROUNDING) <= high:
        return Outcome.PASS
    if interval.high * (1 + ROUNDING) < low or high < interval.low * (1 - ROUNDING):
        return Outcome.FAIL
    return Outcome.INCONCLUSIVE


def _how_many_more(expected: ExpectedRatio, interval: Interval, basis: str) -> str:
    bounds = (expected.at_least, expected.at_most)
    inside = [bound for bound in bounds if bound is not None and interval.low <= bound <= interval.high]
    needed = interval.samples_to_settle(inside)
    what = "rounds" if basis.endswith("paired") else "samples each"
    if needed is None:
        return f"too near the bound ({bounds_words(expected)}) to tell by repeating"
    return f"about {needed} {what} would settle it ({needed - min(interval.counts)} more)"


def _unsteady(expected: ExpectedRatio, sides: Compared) -> list[str]:
    """A side whose samples lie far apart: a change that came late into force shows like that, or a loose cable."""
    found = []
    for ref, passes in ((expected.of, sides.of), (expected.over, sides.over)):
        values = list(passes.values())
        if stdev(map(log, values)) > UNSTEADY:
            found.append(f"{ref_words(ref)} is unsteady, {min(values):,.0f} to {max(values):,.0f} Gb/s")
    return found


def _left_out(sides: Compared) -> list[str]:
    return [f"{len(sides.lost)} samples were not measured and are left out"] if sides.lost else []
