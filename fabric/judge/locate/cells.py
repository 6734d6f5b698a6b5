"""
Samples, the parts that they pass through, and what faulty parts make of them.

A *cell* is a part and a class of samples: probes that share capacity alike lose alike where the part is faulty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import comb, inf, log

import numpy as np

from fabric.judge.locate.structure import HEAVY, UNKNOWN, Bools, FaultyPart, Floats, Follows, Ints, student

NOTHING = log(0.01)
"""What a probe that measured nothing counts as: a hundredth of the normal."""

SPREADS = {0.004: 0.0, 0.05: 1.0, 0.25: 2.0}
"""Of a part's loss, and what each costs in nats."""

_DIP_WIDTH = 3.0  # nats over which background dips are spread: down to a twentieth of the level
_DEPTH = 0.1  # nats: dips that differ by less are equally deep
_FAILURE = 1e-4  # how much rarer than a dip it is that a healthy probe measures nothing
_LOST = 1 / 300  # of healthy tests end without a number, and nobody finds out why: one in a few hundred
_LEAST_BACKGROUND, _MOST_BACKGROUND = 0.003, 0.4
_TOUCHED = 0.6  # of a part's samples that are slow: then they are no background
_WHOLE_BUNDLE = 2.3  # nats: all things of a bundle are faulty at once ten times more seldom than one of them
_LINE = 2.0  # nats that a loss that grows costs beside its slope (tried on a burn-in of a day)
_RARE = 0.5  # a part that shows in fewer of its samples explains those alone that it is likelier to have slowed


@dataclass(frozen=True)
class Entries:
    """
    Which samples pass through which parts: entry *e* says that ``sample[e]`` passes through ``part[e]``.

    *way*, by entry: of a part that is a bundle of things (the cables above a leaf), the part that is the way over one
    of them; else UNKNOWN. By part: *cost*, the nats that it takes to say that it is faulty, and whether it is *large*:
    many samples pass through it.
    """

    sample: Ints
    part: Ints
    way: Ints
    cost: Floats
    large: Bools


@dataclass(frozen=True)
class SampleMatrix:
    """
    Samples and the parts that they pass through.

    *y*: log of the share of its class's level that each sample reached; *of_class* its class; *at_s* when it began. By
    class, natural logs: *noise*; *floor*, the loss from which a sample is slow; *least*, the least loss that a part may
    have, and *apart*, by how much it must exceed that of another part of the same samples; *level*, in Gb/s, of classes
    of single flows, in which one cap shows alike, else 0. *timed*: parts may become faulty in the course of the run.
    *lost*: which ended without a number, where that need not be a fault. *rounds*: there are many, in which a part may
    be bad now and then. *warmth*: by part, its temperature at some times, degrees Celsius, NaN where that is not known.
    """

    entries: Entries
    y: Floats
    of_class: Ints
    at_s: Floats
    noise: Floats
    floor: Floats
    least: Floats
    apart: Floats
    level: Floats
    lost: Bools | None = None
    timed: bool = False
    rounds: bool = False
    warmth: Mapping[int, Callable[[Floats], Floats]] = field(default_factory=dict)

    @cached_property
    def slow(self) -> Bools:
        """Which samples are slow."""
        found: Bools = self.y < -self.floor[self.of_class]
        return found


class Cells:
    """The samples of a matrix by part and class."""

    def __init__(self, matrix: SampleMatrix) -> None:
        self._matrix, entries = matrix, matrix.entries
        classes = len(matrix.noise)
        key = entries.part * classes + matrix.of_class[entries.sample]
        order = np.argsort(key, kind="stable")
        self._sample, self._way = entries.sample[order], entries.way[order]
        cells, self._count = np.unique(key[order], return_counts=True)
        self._start = np.concatenate([[0], np.cumsum(self._count)])
        self._part_of_cell, self.class_of_cell = cells // classes, cells % classes
        self._first_cell = np.searchsorted(self._part_of_cell, np.arange(len(entries.cost) + 1))
        self._width = matrix.noise[matrix.of_class]
        self.rare_of_large = False  # of many rounds: whether large parts, too, may show now and then
        self._base = self._unblamed(np.zeros(len(matrix.y)))

    def _unblamed(self, explained: Floats) -> Floats:
        """The density of each sample where no part is to blame: noise, and dips that belong to none."""
        matrix = self._matrix
        failure = np.where(matrix.y <= NOTHING, _FAILURE, 1.0)
        share = _background(matrix)
        dip = np.where(matrix.slow, 1 / _DIP_WIDTH, 1e-9) * failure
        if matrix.rounds:  # of many rounds both are known: how often, and how deep
            left = matrix.slow & (explained == 0)
            dips, of = left.sum(), (explained == 0).sum()
            share = min((dips + 0.5) / (of + 1.0), _MOST_BACKGROUND)
            depth = (-matrix.y / _DEPTH).clip(0).astype(np.int64)
            alike = (
                np.bincount(depth[left & (failure == 1)], minlength=depth.max() + 1)[depth] * (failure == 1) / _DEPTH
            )
            dip = np.where(matrix.slow, (alike + 0.5 * failure / _DIP_WIDTH) / (dips + 0.5), 1e-9)
        found: Floats = (1 - share) * student(matrix.y / self._width, HEAVY) / self._width + share * dip
        if matrix.lost is not None:
            found[matrix.lost] = _LOST * student(np.zeros(1), HEAVY) / self._width[matrix.lost]
        return found

    @property
    def matrix(self) -> SampleMatrix:
        """What is searched."""
        return self._matrix

    def part_of(self, cells: Ints) -> Ints:
        """The part of each cell."""
        found: Ints = self._part_of_cell[cells]
        return found

    def samples_of(self, cell: int) -> Ints:
        """The samples of one part and class."""
        return self._sample[self._start[cell] : self._start[cell + 1]]

    def during(self, fault: FaultyPart, cell: int) -> Ints:
        """The samples of a cell that began while its part was faulty, on the ways over what is faulty of it."""
        samples = self.samples_of(cell)
        if fault.ways is not None:
            samples = samples[np.isin(self._way[self._start[cell] : self._start[cell + 1]], list(fault.ways))]
        at_s = self._matrix.at_s[samples]
        within = (at_s >= fault.since_s) & (at_s <= fault.until_s)
        if fault.follows is not None:
            within &= self.along(fault.part, samples, warm=fault.follows.warm) >= fault.follows.least
        return samples[within]

    def along(self, part: int, samples: Ints, *, warm: bool) -> Floats:
        """What losses of a part may grow with: the time of each sample, or how warm the part was then."""
        at_s = self._matrix.at_s[samples]
        return self._matrix.warmth[part](at_s) if warm else at_s

    def grown(self, part: int, samples: Ints, follows: Follows | None) -> Floats:
        """The share of its loss that a part had then."""
        if follows is None:
            return np.ones(len(samples))
        x = self.along(part, samples, warm=follows.warm)
        found: Floats = np.nan_to_num((x - follows.zero) / (follows.full - follows.zero))
        return found

    def cells_of(self, part: int) -> range:
        """The cells of a part."""
        return range(int(self._first_cell[part]), int(self._first_cell[part + 1]))

    def _entries_of(self, part: int) -> slice:
        """The entries of a part, of all its cells."""
        cells = self.cells_of(part)
        return slice(int(self._start[cells.start]), int(self._start[cells.stop]))

    def when(self, fault: FaultyPart) -> float:
        """
        Nats that it takes to say when a part is faulty, and which of its ways are.

        Each end, and a slope, is one of as many as the part was measured times; the ways are so many of all, and how
        many costs a number where the part is not known to be faulty by other evidence.
        """
        entries = self._entries_of(fault.part)
        count = log(max(entries.stop - entries.start, 2))
        line = 0.0 if fault.follows is None else count + _LINE
        ways = np.unique(self._way[entries])
        which = 0.0 if (ways == UNKNOWN).all() else _WHOLE_BUNDLE
        if fault.ways is not None:
            known = self._matrix.entries.cost[fault.part] == 0
            which = log(comb(len(ways), len(fault.ways))) + (0.0 if known else log(len(ways)) / 2)
        return ((fault.since_s > -inf) + (fault.until_s < inf)) * count + line + which

    def entries(self, parts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Of *parts*: their cells, the samples of these, and for each sample the place of its cell and its way."""
        cells = np.concatenate([np.arange(self._first_cell[p], self._first_cell[p + 1]) for p in parts.tolist()])
        count = self._count[cells]
        ends = np.cumsum(count)
        entry = np.arange(ends[-1]) + np.repeat(self._start[cells] - (ends - count), count)
        return cells, self._sample[entry], np.repeat(np.arange(len(cells)), count), self._way[entry]

    def explained(self, faults: Sequence[FaultyPart]) -> tuple[Floats, Floats]:
        """The density of every sample given *faults*, and the loss that explains it."""
        found = self._given(faults, self._base)
        if not self._matrix.rounds or not faults:
            return found
        return self._given(faults, self._unblamed(found[1]))

    def _given(self, faults: Sequence[FaultyPart], base: Floats) -> tuple[Floats, Floats]:
        density, explained = base.copy(), np.zeros(len(base))
        losses = sorted(
            (loss.loss, number, loss.cell, loss) for number, one in enumerate(faults) for loss in one.losses
        )
        for *_, number, _, loss in losses:
            mine = self.during(faults[number], loss.cell)
            before = explained[mine]
            alone = loss.loss * self.grown(faults[number].part, mine, faults[number].follows)
            held = self.held(mine, np.maximum(alone, before), loss.spread)
            both = before > 0
            summed = self.held(mine, alone + before, loss.spread)
            slowed = loss.rho * np.where(both, (held + summed) / 2, held)
            density[mine] = slowed + (1 - loss.rho) * density[mine]
            by_it = slowed / density[mine]
            lost = np.where(both & (summed > held), alone + before, np.maximum(alone, before))
            explained[mine] = lost if loss.rho >= _RARE else np.where(by_it > 0.5, lost, before)
        return density, explained

    def open(self, explained: Floats) -> Bools:
        """Which slow samples are slower than the loss that explains them."""
        matrix = self._matrix
        found: Bools = matrix.slow & (-matrix.y > self.least(explained, slice(None)))
        return found

    def least(self, explained: Floats, samples: Ints | slice) -> Floats:
        """From which loss on samples ask for another part than that which explains them."""
        matrix, of_class = self._matrix, self._matrix.of_class[samples]
        found: Floats = explained + np.where(explained > 0, matrix.apart[of_class], matrix.least[of_class])
        return found

    def held(self, samples: Ints, loss: Floats | float, spread: float) -> Floats:
        """The density of samples that lose so much."""
        width = np.hypot(self._width[samples], spread)
        found: Floats = student((self._matrix.y[samples] + loss) / width, HEAVY) / width
        return found


def _background(matrix: SampleMatrix) -> float:
    """The share of slow samples that touch no part of which most samples are slow."""
    entries, parts = matrix.entries, len(matrix.entries.cost)
    count = np.bincount(entries.part, minlength=parts)
    slow = np.bincount(entries.part, matrix.slow[entries.sample], minlength=parts)
    bad = (slow >= _TOUCHED * count) & (count >= 2)
    touched = np.zeros(len(matrix.y), dtype=np.bool_)
    touched[entries.sample[bad[entries.part]]] = True
    share = (matrix.slow & ~touched).sum() / max(1, (~touched).sum())
    return float(np.clip(share, _LEAST_BACKGROUND, _MOST_BACKGROUND))
