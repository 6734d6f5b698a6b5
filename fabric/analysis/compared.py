"""The two sides of a comparison, brought to one number a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, fsum, log

from fabric.analysis.samples import Key, Sample
from fabric.model.scenario import ExpectedRatio, Phase, PhaseRef, Where

Pass = tuple[int, str, int]
"""Round, phase and repetition: every key is measured once in it."""

_Passes = Mapping[Pass, Mapping[Key, Sample]]


@dataclass(frozen=True, slots=True)
class Compared:
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


def compared(expected: ExpectedRatio, phases: Sequence[Phase], samples: Sequence[Sample]) -> Compared:
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
    return Compared(
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
    found: dict[Pass, dict[Key, Sample]] = {}
    for sample in samples:
        phase = by_name.get(sample.phase)
        if phase is not None:
            found.setdefault((phase.round, phase.name, sample.repetition), {})[sample.key] = sample
    return found


def _keys(side: _Passes) -> set[Key]:
    return {key for row in side.values() for key in row}


def _good(sample: Sample) -> bool:
    return sample.value_gbps is not None and not sample.gave_up


def _gave_up(side: _Passes, keys: set[Key]) -> tuple[Sample, ...]:
    return tuple(row[key] for row in side.values() for key in row if key in keys and row[key].gave_up)


def _means(side: _Passes, kept: set[Key]) -> dict[Pass, float]:
    """The geometric mean of every pass that has all keys."""
    means = {}
    for number, row in side.items():
        values = [row[key].value_gbps for key in kept if key in row]
        good = [value for value in values if value is not None and value > 0.0]
        if kept and len(good) == len(kept):
            means[number] = exp(fsum(map(log, good)) / len(good))
    return means
