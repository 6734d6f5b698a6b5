"""
The two sides of a comparison, alike: the same measurements in every pass of either.

Of many measurements (the pairs of ``concurrent_rings``, several sizes) those of one pass are no samples of each other:
they are exactly the pairs that were asked about, and they share the network, so that what one gains another loses. 32
pairs measured once are one sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, fsum, log
from typing import TYPE_CHECKING

from fabric.judge.normal.samples import Sample, SampleKey
from fabric.model.scenario import ExpectedRatio, Phase, PhaseRef, Where

if TYPE_CHECKING:
    import numpy as np

Pass = tuple[int, str, int]
"""Round, phase and repetition: every key is measured once in it."""

_Passes = Mapping[Pass, Mapping[SampleKey, Sample]]


@dataclass(frozen=True, slots=True)
class SampledSide:
    """
    What one side measured, Gb/s, by pass and in the order of the *keys*; passes that have not all of them are left out.

    *gave_up*: the samples that the transport did not carry to the end.
    """

    keys: int
    passes: Mapping[Pass, Sequence[float]]
    gave_up: tuple[Sample, ...]

    def means(self) -> dict[int, list[float]]:
        """The geometric mean of each pass, by round."""
        found: dict[int, list[float]] = {}
        for (number, _, _), values in self.passes.items():
            found.setdefault(number, []).append(exp(fsum(map(log, values)) / len(values)))
        return found

    def levels(self, rounds: Sequence[int]) -> np.ndarray:
        """The median of each measurement (columns) in each of these rounds (rows)."""
        import numpy as np

        rows = [[values for (one, _, _), values in self.passes.items() if one == number] for number in rounds]
        return np.array([np.median(passes, axis=0) for passes in rows])


@dataclass(frozen=True, slots=True)
class Sides:
    """Both; *over* is None where there is only one. *lost*: samples that are missing and were not given up."""

    of: SampledSide
    over: SampledSide | None
    lost: tuple[Sample, ...]

    @property
    def all(self) -> tuple[SampledSide, ...]:
        """One or two."""
        return (self.of,) if self.over is None else (self.of, self.over)

    def rounds(self) -> list[int]:
        """Those in which all sides were measured."""
        return sorted(set.intersection(*({number for number, _, _ in side.passes} for side in self.all)))


def selected(ref: PhaseRef, phases: Sequence[Phase]) -> list[Phase]:
    """The phases that a reference means, in every round."""
    return [phase for phase in phases if phase.written == ref.label and set(ref.where) <= set(phase.where)]


def each_combination(expected: ExpectedRatio, phases: Sequence[Phase]) -> list[tuple[Where, ExpectedRatio]]:
    """
    The comparison for every combination of matrix values that no side names: off with off, on with on.

    Each is a comparison of its own: pooled, a good one would hide a bad one.
    """
    sides = [selected(ref, phases) for ref in expected.refs]
    fixed = {name for ref in expected.refs for name, _ in ref.where}
    names = [{name for name, _ in phase.where} for side in sides for phase in side]
    free = set.intersection(*names) - fixed if names else set()
    combinations = dict.fromkeys(tuple(pair for pair in phase.where if pair[0] in free) for phase in sides[0])
    return [(where, _with(expected, where)) for where in combinations or ((),)]


def _with(expected: ExpectedRatio, where: Where) -> ExpectedRatio:
    of, *over = (PhaseRef(ref.label, (*ref.where, *where)) for ref in expected.refs)
    return replace(expected, of=of, over=over[0] if over else None)


def compared(expected: ExpectedRatio, phases: Sequence[Phase], samples: Sequence[Sample]) -> Sides:
    """
    The sides, alike: a key with a sample missing anywhere is left out of every pass, or the means would not compare.

    A pass that was not reached at all, and one that has fewer keys than others (a probe with fewer repetitions), is
    left out whole.
    """
    wanted = [sample for sample in samples if _asked_for(sample, expected)]
    passes = [_passes(selected(ref, phases), wanted) for ref in expected.refs]
    common = set.intersection(*({key for row in side.values() for key in row} for side in passes))
    rows = [{key: sample for key, sample in row.items() if key in common} for side in passes for row in side.values()]
    reached = [row for row in rows if any(map(_good, row.values()))]
    holed = {key for row in reached for key, sample in row.items() if not _good(sample)}
    kept = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in holed]
    of, *over = (_side(side, common, kept) for side in passes)
    lost = tuple(sample for row in rows for sample in row.values() if not (_good(sample) or sample.gave_up))
    return Sides(of, over[0] if over else None, lost)


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
