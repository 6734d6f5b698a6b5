"""
The shortest description of what probes of several kinds measured: the few parts that are faulty, and their losses.

As ``description.py`` for pairs of hosts, with what is different here: probes of several kinds pass through one part,
and each kind shares its capacity differently. So a part has one loss for each class of probes (a *cell* is a part and a
class), and a class that should show a fault and does not speaks against it: that alone tells a cable from its RNIC (by
loopbacks), a GPU from its NVLink, a path from its RNIC. A fault may last for a part of the run only: from some time on,
or between two times.

A healthy sample is its class's level with Student t noise (4 degrees of freedom), or at the background rate a dip that
belongs to no part. Of several faulty parts on one way the slowest counts, or both: a host that is slow as a whole and a
slow cable of it multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, inf, log

import numpy as np

from fabric.judge.locate.structure import HEAVY, Bools, Floats, Ints, student

NOTHING = log(0.01)
"""What a probe that measured nothing counts as: a hundredth of the normal."""

DEAD = -NOTHING / 2
"""A loss (natural log) beyond which next to nothing passes: of what a tool called dead, or that carried nothing."""

LEAST_GAIN = 3.0
"""Nats from which a part is given as possible."""

SPREADS = ((0.004, 0.0), (0.05, 1.0), (0.25, 2.0))
"""Of a part's loss, and what each costs in nats."""

OFTEN = ((0.98, 0.5), (0.65, 1.0))
"""In which share of its samples a faulty part shows; how often half the logarithm of their number it costs to say."""

_ONE_MORE, _NOT_SHOWN, _NO_FIT = 0.5, 1.5, 3.0  # nats: a further loss, a class without any, and with one that fits none
_QUANTILES = (0.25, 0.5, 0.75)
_DIP_WIDTH = 3.0  # nats over which background dips are spread: down to a twentieth of the level
_FAILURE = 1e-4  # how much rarer than a dip it is that a healthy probe measures nothing
_LEAST_BACKGROUND, _MOST_BACKGROUND = 0.003, 0.4
_TOUCHED = 0.6  # of a part's samples that are slow: then they are no background
_RIVAL = 3.0  # nats within which another part is named beside the best: one in twenty
_MOST_CLEAR = 2  # samples of a class without a loss that count against a part
_MOST_BLAMED = 64
_LITTLE = (
    0.35  # of the least loss: a host that is so little low as a whole is no fault, and explains what its parts lack
)


@dataclass(frozen=True, slots=True)
class Loss:
    """In one cell: a *loss* (natural log), give or take *spread*, in a share *rho* of its samples."""

    cell: int
    loss: float
    spread: float
    rho: float


@dataclass(frozen=True, slots=True)
class FaultyPart:
    """A faulty *part* from *since_s* to *until_s*, its losses, its evidence in nats, and what would explain as much."""

    part: int
    gain: float
    losses: tuple[Loss, ...]
    since_s: float = -inf
    until_s: float = inf
    rivals: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class SampleMatrix:
    """
    Samples and the parts that they pass through.

    *y*: log of the share of its class's level that each sample reached; *of_class* its class; *at_s* when it began.
    Entry *e*: sample ``sample[e]`` passes through ``part[e]``. By class, natural logs: *noise*; *floor*, the loss from
    which a sample is slow; *least*, the least loss that a part may have, and *apart*, by how much it must exceed that
    of another part of the same samples; *level*, in Gb/s, of classes of single flows, in which one cap shows alike,
    else 0. By part: *cost*, the nats that it takes to say that it is faulty, and whether it is *large*: many samples
    pass through it. *timed*: parts may become faulty in the course of the run.
    """

    y: Floats
    of_class: Ints
    at_s: Floats
    sample: Ints
    part: Ints
    noise: Floats
    floor: Floats
    least: Floats
    apart: Floats
    level: Floats
    cost: Floats
    large: Bools
    timed: bool = False

    @cached_property
    def slow(self) -> Bools:
        """Which samples are slow."""
        found: Bools = self.y < -self.floor[self.of_class]
        return found


class Search:
    """Finds the faulty parts of a matrix: greedy, then swaps and drops until nothing is better."""

    def __init__(self, matrix: SampleMatrix) -> None:
        self._matrix = matrix
        classes = len(matrix.noise)
        key = matrix.part * classes + matrix.of_class[matrix.sample]
        order = np.argsort(key, kind="stable")
        self._sample = matrix.sample[order]
        cells, self._count = np.unique(key[order], return_counts=True)
        self._start = np.concatenate([[0], np.cumsum(self._count)])
        self._part_of_cell, self.class_of_cell = cells // classes, cells % classes
        self._first_cell = np.searchsorted(self._part_of_cell, np.arange(len(matrix.cost) + 1))
        self._width = matrix.noise[matrix.of_class]
        share = _background(matrix)
        dip = np.where(matrix.slow, 1 / _DIP_WIDTH, 1e-9) * np.where(matrix.y <= NOTHING, _FAILURE, 1.0)
        self._base = (1 - share) * student(matrix.y / self._width, HEAVY) / self._width + share * dip

    def faults(self) -> tuple[FaultyPart, ...]:
        """The faulty parts, the surest first, each with its evidence beside all others and its rivals."""
        found = self._greedy([])
        begun = [found]
        large = self._matrix.large
        if any(large[one.part] for one in found):
            begun.append(self._greedy(self._greedy([], without=large)))
        faults = max((self._settled(one) for one in begun), key=self._score)
        return tuple(sorted(self._told(faults), key=lambda one: -one.gain))

    def matters(self, fault: FaultyPart) -> bool:
        """Whether it loses as much as a faulty part must, on average over a class: a host may be a little low."""
        always = OFTEN[0][0]
        return any(
            one.rho * one.loss >= always * self._matrix.least[self.class_of_cell[one.cell]] for one in fault.losses
        )

    def samples_of(self, cell: int) -> Ints:
        """The samples of one part and class."""
        return self._sample[self._start[cell] : self._start[cell + 1]]

    def during(self, fault: FaultyPart, samples: Ints) -> Ints:
        """Those of *samples* that began while the part was faulty."""
        at_s = self._matrix.at_s[samples]
        return samples[(at_s >= fault.since_s) & (at_s <= fault.until_s)]

    def cells_of(self, part: int) -> range:
        """The cells of a part."""
        return range(int(self._first_cell[part]), int(self._first_cell[part + 1]))

    def explained(self, faults: Sequence[FaultyPart]) -> tuple[Floats, Floats]:
        """The density of every sample given *faults*, and the loss that explains it."""
        density, explained = self._base.copy(), np.zeros(len(self._base))
        losses = sorted(
            (loss.loss, number, loss.cell, loss) for number, one in enumerate(faults) for loss in one.losses
        )
        for *_, number, _, loss in losses:
            mine = self.during(faults[number], self.samples_of(loss.cell))
            before = explained[mine]
            held = self.held(mine, np.maximum(loss.loss, before), loss.spread)
            both = before > 0
            summed = self.held(mine, loss.loss + before, loss.spread)
            density[mine] = loss.rho * np.where(both, (held + summed) / 2, held) + (1 - loss.rho) * density[mine]
            explained[mine] = np.where(both & (summed > held), loss.loss + before, np.maximum(loss.loss, before))
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

    def _score(self, faults: Sequence[FaultyPart]) -> float:
        density, _ = self.explained(faults)
        return float(np.log(density).sum() - sum(self._cost(one) for one in faults))

    def _cost(self, fault: FaultyPart) -> float:
        told = {loss.cell: loss for loss in fault.losses}
        level = self._matrix.level
        cap = min((level[self.class_of_cell[one.cell]] * exp(-one.loss) for one in fault.losses), default=0.0)
        often = max((one.rho for one in fault.losses), default=0.0)
        dead = max((one.loss for one in fault.losses), default=0.0) > DEAD
        cost = float(self._matrix.cost[fault.part]) + self.when(fault.part, fault.since_s, fault.until_s)
        for cell in self.cells_of(fault.part):
            mine = self.during(fault, self.samples_of(cell))
            if cell in told:
                loss = told[cell]
                cost += _ONE_MORE + dict(SPREADS)[loss.spread] + dict(OFTEN)[loss.rho] * log(max(len(mine), 2))
            elif len(mine):
                of_class = level[self.class_of_cell[cell]]
                clear = 0.0 if 0 < of_class <= cap else _clear(len(mine), often, dead=dead)
                clear = _NOT_SHOWN if of_class == 0 and not dead else clear
                cost += _NO_FIT if self._matrix.slow[mine].any() else float(clear)
        return cost

    def when(self, part: int, since_s: float, until_s: float) -> float:
        """Nats that it takes to say when: each end is one of the times at which the part was measured."""
        cells = self.cells_of(part)
        count = int(self._start[cells.stop] - self._start[cells.start])
        return ((since_s > -inf) + (until_s < inf)) * log(max(count, 2))

    def _fits(self, parts: Ints, density: Floats, explained: Floats) -> list[FaultyPart]:
        """The best fault of each of *parts*, the best first."""
        best: dict[int, FaultyPart] = {}
        for since_s, until_s in self._spans(parts, explained):
            for one in _Fit(self, parts, density, explained, since_s, until_s).faults():
                if one.part not in best or one.gain > best[one.part].gain:
                    best[one.part] = one
        return sorted(best.values(), key=lambda one: (-one.gain, one.part))

    def _spans(self, parts: Ints, explained: Floats) -> list[tuple[Floats, Floats]]:
        """When each part may have been faulty: always, from its first slow samples on, or between first and last."""
        always = (np.full(len(parts), -inf), np.full(len(parts), inf))
        if not self._matrix.timed:
            return [always]
        first, tenth, last = always[0].copy(), always[0].copy(), always[1].copy()
        open_ = self.open(explained)
        for number, part in enumerate(parts.tolist()):
            cells = self.cells_of(part)
            mine = self._sample[self._start[cells.start] : self._start[cells.stop]]
            times = np.sort(self._matrix.at_s[mine[open_[mine]]])
            first[number], tenth[number], last[number] = times[0], times[len(times) // 10], times[-1]
        return [always, (first, always[1]), (tenth, always[1]), (first, last)]

    def _candidates(
        self, rest: Sequence[FaultyPart], *, instead: FaultyPart | None = None, without: Bools | None = None
    ) -> list[FaultyPart]:
        """What may be faulty beside *rest*, the best first; only what shares slow samples with *instead*."""
        density, explained = self.explained(rest)
        wanted = self.open(explained)
        if instead is not None:
            mine = np.zeros(len(wanted), dtype=np.bool_)
            cells = self.cells_of(instead.part)
            mine[self._sample[self._start[cells.start] : self._start[cells.stop]]] = True
            wanted &= mine
        possible = np.zeros(len(self._matrix.cost), dtype=np.bool_)
        possible[np.repeat(self._part_of_cell, self._count)[wanted[self._sample]]] = True
        possible[[one.part for one in rest]] = False
        if without is not None:
            possible &= ~without
        parts = np.flatnonzero(possible)
        return self._fits(parts, density, explained) if len(parts) else []

    def _greedy(self, faults: Sequence[FaultyPart], *, without: Bools | None = None) -> list[FaultyPart]:
        found = list(faults)
        while len(found) < _MOST_BLAMED:
            further = self._candidates(found, without=without)
            if not further or further[0].gain < LEAST_GAIN:
                break
            found.append(further[0])
        return found

    def _settled(self, faults: list[FaultyPart]) -> list[FaultyPart]:
        for _ in range(_MOST_BLAMED):
            improved = self._improved(faults)
            if improved is None:
                break
            faults = self._greedy(improved)
        return faults

    def _improved(self, faults: Sequence[FaultyPart]) -> list[FaultyPart] | None:
        """With one part dropped that is needless beside the others, or swapped; None where nothing is better."""
        for number, fault in enumerate(faults):
            rest = [*faults[:number], *faults[number + 1 :]]
            again = self._candidates(rest, instead=fault)
            if not again or again[0].gain < LEAST_GAIN:
                return rest
            mine = next((one for one in again if one.part == fault.part), None)
            if mine is None or again[0].gain > mine.gain + 0.1:
                return [*rest, again[0]]
        return None

    def _told(self, faults: Sequence[FaultyPart]) -> list[FaultyPart]:
        found = []
        for number, fault in enumerate(faults):
            again = self._candidates([*faults[:number], *faults[number + 1 :]], instead=fault)
            mine = next((one for one in again if one.part == fault.part), fault)
            least = max(mine.gain - _RIVAL, 0.0)
            rivals = tuple((one.part, one.gain) for one in again if one.part != fault.part and one.gain > least)
            found.append(replace(mine, rivals=rivals + self._several(faults, fault, mine.gain)))
        return found

    def _several(self, faults: Sequence[FaultyPart], fault: FaultyPart, gain: float) -> tuple[tuple[int, float], ...]:
        """Several parts that together would explain nearly as much as one of which some samples are good."""
        if all(one.rho == OFTEN[0][0] for one in fault.losses):
            return ()
        without = np.zeros(len(self._matrix.cost), dtype=np.bool_)
        without[fault.part] = True
        rest = [one for one in faults if one.part != fault.part]
        apart = self._greedy(rest, without=without)
        lead = self._score(faults) - self._score(apart)
        return tuple((one.part, gain - lead) for one in apart[len(rest) :] if lead < _RIVAL)

    def entries(self, parts: Ints) -> tuple[Ints, Ints, Ints]:
        """Of *parts*: their cells, the samples of these, and for each sample the place of its cell."""
        cells = np.concatenate([np.arange(self._first_cell[p], self._first_cell[p + 1]) for p in parts.tolist()])
        count = self._count[cells]
        ends = np.cumsum(count)
        entry = np.arange(ends[-1]) + np.repeat(self._start[cells] - (ends - count), count)
        return cells, self._sample[entry], np.repeat(np.arange(len(cells)), count)

    @property
    def matrix(self) -> SampleMatrix:
        """What is searched."""
        return self._matrix

    def part_of(self, cells: Ints) -> Ints:
        """The part of each cell."""
        found: Ints = self._part_of_cell[cells]
        return found


class _Fit:
    """The best losses of some parts in given times: every cell by itself."""

    def __init__(
        self, search: Search, parts: Ints, density: Floats, explained: Floats, since_s: Floats, until_s: Floats
    ) -> None:
        self._search, self._parts, self._since_s, self._until_s = search, parts, since_s, until_s
        self._cells, sample, local = search.entries(parts)
        matrix = search.matrix
        self._place = np.searchsorted(parts, search.part_of(self._cells))
        at_s = matrix.at_s[sample]
        within = (at_s >= since_s[self._place][local]) & (at_s <= until_s[self._place][local])
        self._sample, self._local = sample[within], local[within]
        self._count = np.bincount(self._local, minlength=len(self._cells))
        self._before, self._explained = density[self._sample], explained[self._sample]
        self._deviation = -matrix.y[self._sample]
        self._slow = search.open(explained)[self._sample]
        little = np.where(matrix.large[parts][self._place], _LITTLE, 1.0)
        self._least = little * matrix.least[search.class_of_cell[self._cells]]

    def faults(self) -> list[FaultyPart]:
        """One for each part that any loss fits, with its gain."""
        cells = len(self._cells)
        shows = np.bincount(self._local, self._slow, minlength=cells) > 0
        best = np.where(shows, -_NO_FIT, np.where(self._count > 0, -_NOT_SHOWN, 0.0))
        loss, spread, rho = np.zeros(cells), np.zeros(cells), np.zeros(cells)
        beyond = self._search.least(self._explained, self._sample)
        least = np.where(self._explained > 0, beyond, self._least[self._local])
        for guess in self._guesses():
            at = guess[self._local]
            open_ = at >= least
            for wide, dear in SPREADS:
                held = self._search.held(self._sample, at, wide)
                for often, more in OFTEN:
                    ratio = np.where(open_, often * held / self._before + (1 - often), 1.0)
                    gain = np.bincount(self._local, np.log(ratio), minlength=cells) - _ONE_MORE - dear
                    gain -= more * np.log(np.maximum(self._count, 2))
                    gain[guess < self._least] = -inf
                    better = gain > best
                    best[better], loss[better], spread[better], rho[better] = gain[better], guess[better], wide, often
        best = np.where(~shows & (rho == 0), -self._clear(loss, rho), best)
        whole = np.bincount(self._place, best, minlength=len(self._parts)) - self._search.matrix.cost[self._parts]
        return [
            self._fault(number, float(whole[number]), loss, spread, rho)
            for number in np.unique(self._place[rho > 0]).tolist()
        ]

    def _clear(self, loss: Floats, rho: Floats) -> Floats:
        """
        What it costs a part that a cell without slow samples is well.

        Nothing where there are no samples, or where the class is no faster than what the part still carries.
        """
        level = self._search.matrix.level[self._search.class_of_cell[self._cells]]
        cap, often, most = np.full(len(self._parts), inf), np.zeros(len(self._parts)), np.zeros(len(self._parts))
        np.minimum.at(cap, self._place, np.where(rho > 0, level * np.exp(-loss), inf))
        np.maximum.at(often, self._place, rho)
        np.maximum.at(most, self._place, loss)
        dead = most[self._place] > DEAD
        found = np.where(
            (level > 0) & (level <= cap[self._place]), 0.0, _clear(self._count, often[self._place], dead=dead)
        )
        found = np.where((level > 0) | dead, found, _NOT_SHOWN)
        none: Floats = np.where(self._count > 0, found, 0.0)
        return none

    def _fault(self, number: int, gain: float, loss: Floats, spread: Floats, rho: Floats) -> FaultyPart:
        since_s, until_s = float(self._since_s[number]), float(self._until_s[number])
        part = int(self._parts[number])
        told = np.flatnonzero((self._place == number) & (rho > 0)).tolist()
        losses = tuple(Loss(int(self._cells[i]), float(loss[i]), float(spread[i]), float(rho[i])) for i in told)
        return FaultyPart(part, gain - self._search.when(part, since_s, until_s), losses, since_s, until_s)

    def _guesses(self) -> list[Floats]:
        """Where to look for the loss of each cell: quartiles of its slow samples, and the middle of what is open."""
        found = []
        for which, quantiles in ((self._slow, _QUANTILES), (self._explained == 0, (0.5,))):
            mine, value = self._local[which], self._deviation[which]
            order = np.lexsort((value, mine))
            mine, value = mine[order], value[order]
            count = np.bincount(mine, minlength=len(self._cells))
            start, seen = np.cumsum(count) - count, count > 0
            for quantile in quantiles:
                guess = np.zeros(len(self._cells))
                guess[seen] = value[start[seen] + np.rint(quantile * (count[seen] - 1)).astype(np.int64)]
                found.append(guess)
        return found


def _clear(count: Ints | int, rho: Floats | float, *, dead: Bools | bool) -> Floats:
    """
    Nats against a part that shows in a share *rho* of its samples, of a class with *count* samples that are well.

    Classes share capacity differently, so few count; but through a *dead* part nothing passes in any class.
    """
    counted = np.where(dead, count, np.minimum(count, _MOST_CLEAR))
    found: Floats = -np.log(1 - np.asarray(rho)) * counted
    return found


def _background(matrix: SampleMatrix) -> float:
    """The share of slow samples that touch no part of which most samples are slow."""
    parts = len(matrix.cost)
    count = np.bincount(matrix.part, minlength=parts)
    slow = np.bincount(matrix.part, matrix.slow[matrix.sample], minlength=parts)
    bad = (slow >= _TOUCHED * count) & (count >= 2)
    touched = np.zeros(len(matrix.y), dtype=np.bool_)
    touched[matrix.sample[bad[matrix.part]]] = True
    share = (matrix.slow & ~touched).sum() / max(1, (~touched).sum())
    return float(np.clip(share, _LEAST_BACKGROUND, _MOST_BACKGROUND))
