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
from dataclasses import dataclass, field, replace
from math import exp, fsum, inf, log
from statistics import stdev

from fabric.judge.changes.effects import UNCHANGED, corrected
from fabric.judge.normal.recorded import Interval, of_pairs, of_sides
from fabric.judge.normal.samples import Sample, SampleKey
from fabric.model.change import Change
from fabric.model.outcome import Outcome
from fabric.model.scenario import Expectation, ExpectedEnd, ExpectedRatio, Phase, PhaseRef, Where
from fabric.model.text import size_text
from fabric.model.verdict import ExpectationVerdict

Pass = tuple[int, str, int]
"""Round, phase and repetition: every key is measured once in it."""

_Passes = Mapping[Pass, Mapping[SampleKey, Sample]]


@dataclass(frozen=True, slots=True)
class Sides:
    """
    Of each side the geometric mean over the keys, Gb/s, by pass; only keys that both sides have.

    *gave_up*: the samples that the transport did not carry to the end, of either side. *lost*: samples that are missing
    for another reason.
    """

    of: Mapping[Pass, float] = field(default_factory=dict)
    over: Mapping[Pass, float] = field(default_factory=dict)
    keys: int = 0
    of_gave_up: tuple[Sample, ...] = ()
    over_gave_up: tuple[Sample, ...] = ()
    lost: tuple[Sample, ...] = ()


def selected(ref: PhaseRef, phases: Sequence[Phase]) -> list[Phase]:
    """The phases that a reference means, in every round."""
    return [phase for phase in phases if phase.written == ref.label and set(ref.where) <= set(phase.where)]


def each_combination(expected: ExpectedRatio, phases: Sequence[Phase]) -> list[tuple[Where, ExpectedRatio]]:
    """
    The comparison for every combination of matrix values that neither side names: off with off, on with on.

    Each is a comparison of its own: pooled, a good one would hide a bad one.
    """
    sides = [selected(ref, phases) for ref in (expected.of, expected.over)]
    fixed = {name for ref in (expected.of, expected.over) for name, _ in ref.where}
    names = [{name for name, _ in phase.where} for side in sides for phase in side]
    free = set.intersection(*names) - fixed if names else set()
    combinations = dict.fromkeys(tuple(pair for pair in phase.where if pair[0] in free) for phase in sides[0])
    return [
        (
            where,
            replace(
                expected,
                of=PhaseRef(expected.of.label, (*expected.of.where, *where)),
                over=PhaseRef(expected.over.label, (*expected.over.where, *where)),
            ),
        )
        for where in combinations or ((),)
    ]


def compared(expected: ExpectedRatio, phases: Sequence[Phase], samples: Sequence[Sample]) -> Sides:
    """
    Both sides, alike: a key with a sample missing anywhere is left out of every pass, or the means would not compare.

    A pass that was not reached at all, and one that has fewer keys than others (a probe with fewer repetitions), is
    left out whole.
    """
    wanted = [sample for sample in samples if _asked_for(sample, expected)]
    of, over = (_passes(selected(ref, phases), wanted) for ref in (expected.of, expected.over))
    common = _keys(of) & _keys(over)
    rows = [{key: row[key] for key in common & set(row)} for side in (of, over) for row in side.values()]
    reached = [row for row in rows if any(map(_good, row.values()))]
    holed = {key for row in reached for key, sample in row.items() if not _good(sample)}
    kept = common - holed
    return Sides(
        of=_means(of, kept),
        over=_means(over, kept),
        keys=len(kept),
        of_gave_up=_gave_up(of, common),
        over_gave_up=_gave_up(over, common),
        lost=tuple(sample for row in rows for sample in row.values() if not (_good(sample) or sample.gave_up)),
    )


def _asked_for(sample: Sample, expected: ExpectedRatio) -> bool:
    key = sample.key
    return expected.probe in (None, key.name) and expected.size_bytes in (None, key.size_bytes)


def _passes(side: Sequence[Phase], samples: Sequence[Sample]) -> _Passes:
    by_name = {phase.name: phase for phase in side}
    found: dict[Pass, dict[SampleKey, Sample]] = {}
    for sample in samples:
        phase = by_name.get(sample.phase)
        if phase is not None:
            found.setdefault((phase.round, phase.name, sample.repetition), {})[sample.key] = sample
    return found


def _keys(side: _Passes) -> set[SampleKey]:
    return {key for row in side.values() for key in row}


def _good(sample: Sample) -> bool:
    return sample.value_gbps is not None and not sample.gave_up


def _gave_up(side: _Passes, keys: set[SampleKey]) -> tuple[Sample, ...]:
    return tuple(row[key] for row in side.values() for key in row if key in keys and row[key].gave_up)


def _means(side: _Passes, kept: set[SampleKey]) -> dict[Pass, float]:
    """The geometric mean of every pass that has all keys."""
    means = {}
    for number, row in side.items():
        values = [row[key].value_gbps for key in kept if key in row]
        good = [value for value in values if value is not None and value > 0.0]
        if kept and len(good) == len(kept):
            means[number] = exp(fsum(map(log, good)) / len(good))
    return means


def words(expected: Expectation) -> str:
    """``degraded / healthy at least 0.9, adaptive_routing=on``; ``flap[adaptive_routing=off]: completes``."""
    if isinstance(expected, ExpectedRatio):
        return _ratio(expected)
    if isinstance(expected, ExpectedEnd):
        return f"{ref_words(expected.phase)}: {'completes' if expected.completes else 'is given up by the transport'}"
    back = f"{expected.fraction:.0%} of its bandwidth"
    return f"{ref_words(expected.phase)}: back to {back} within {expected.within_s:g} s of each change's end"


def bounds_words(expected: ExpectedRatio) -> str:
    """``at least 0.9``, ``at most 1.1``, ``between 0.4 and 0.6``."""
    low, high = expected.at_least, expected.at_most
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}"


def _ratio(expected: ExpectedRatio) -> str:
    of, over = expected.of, expected.over
    common = tuple(pair for pair in of.where if pair in over.where)
    rest = [PhaseRef(ref.label, tuple(pair for pair in ref.where if pair not in common)) for ref in (of, over)]
    only = [where_words(common)] if common else []
    only += [f"probe {expected.probe}"] if expected.probe is not None else []
    only += [f"size {size_text(expected.size_bytes)}"] if expected.size_bytes is not None else []
    if of.label == over.label and rest[0].where and rest[1].where:
        head = f"{of.label}: {where_words(rest[0].where)} / {where_words(rest[1].where)}"
    else:
        head = " / ".join(ref_words(ref) for ref in rest)
    return ", ".join([f"{head} {bounds_words(expected)}", *only])


def ref_words(ref: PhaseRef) -> str:
    """``degraded[adaptive_routing=on]``."""
    return f"{ref.label}[{where_words(ref.where)}]" if ref.where else ref.label


def where_words(where: Where) -> str:
    """``adaptive_routing=on, rate=1e-5``."""
    return ", ".join(f"{name}={value}" for name, value in where)


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


def _did_not_complete(expected: ExpectedRatio, sides: Sides) -> tuple[Outcome, str] | None:
    for found, label in ((sides.over_gave_up, expected.over.label), (sides.of_gave_up, expected.of.label)):
        if found:
            alone = expected.at_most is None and found is sides.of_gave_up
            first = found[0].result
            why = (first.reason if first is not None else "") or "0 Gb/s"
            reason = f"{label} did not complete: {len(found)} of its samples were given up, first: {why}"
            return (Outcome.FAIL if alone else Outcome.INCONCLUSIVE), reason
    return None


def _too_few(sides: Sides) -> tuple[Outcome, str]:
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


def _interval(sides: Sides) -> tuple[Interval, str]:
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


def _unsteady(expected: ExpectedRatio, sides: Sides) -> list[str]:
    """A side whose samples lie far apart: a change that came late into force shows like that, or a loose cable."""
    found = []
    for ref, passes in ((expected.of, sides.of), (expected.over, sides.over)):
        values = list(passes.values())
        if stdev(map(log, values)) > UNSTEADY:
            found.append(f"{ref_words(ref)} is unsteady, {min(values):,.0f} to {max(values):,.0f} Gb/s")
    return found


def _left_out(sides: Sides) -> list[str]:
    return [f"{len(sides.lost)} samples were not measured and are left out"] if sides.lost else []
