"""The losses that fit a part best: every cell by itself, in the times at which the part may have been faulty."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from fabric.judge.locate.cells import NOTHING, SPREADS, Cells
from fabric.judge.locate.search import QUARTILES, quartiles
from fabric.judge.locate.structure import ALWAYS, OFTEN, UNKNOWN, Bools, FaultyPart, Floats, Follows, Ints, Loss

DEAD = -NOTHING / 2
"""A loss (natural log) beyond which next to nothing passes: of what a tool called dead, or that carried nothing."""

SHARES = {ALWAYS: 0.5, OFTEN: 1.0}
"""In which share of its samples a faulty part shows; how often the logarithm of their number it costs to say."""

SOMETIMES = 0.5
"""The same cost of a share that is estimated: half the logarithm for one parameter (Schwarz 1978)."""

ONE_MORE, NOT_SHOWN, NO_FIT = 0.5, 1.5, 3.0
"""Nats that a part costs: each loss, a class of samples that does not show it, and one that no loss fits."""

_LEAST_OF_LINE = 3  # samples in each third that a line goes through
_LEAST_WAYS = 2  # of a bundle: one alone is a part of its own
_CLEAR = 0.4  # of the loss from which a sample is slow: who lost less was not slowed by a part that loses more
_LITTLE = 0.35  # of the least loss: a host that is so little low as a whole is no fault, and explains its parts' rest


class Fit:
    """The best losses of some parts in given times: every cell by itself."""

    def __init__(
        self,
        data: Cells,
        parts: Ints,
        density: Floats,
        explained: Floats,
        since_s: Floats,
        until_s: Floats,
        follows: Follows | None = None,
    ) -> None:
        self._follows = follows
        self._data, self._parts, self._since_s, self._until_s = data, parts, since_s, until_s
        self._cells, sample, local, way = data.entries(parts)
        matrix = data.matrix
        self._place = np.searchsorted(parts, data.part_of(self._cells))
        at_s = matrix.at_s[sample]
        within = (at_s >= since_s[self._place][local]) & (at_s <= until_s[self._place][local])
        if follows is not None:
            within &= data.along(int(parts[0]), sample, warm=follows.warm) >= follows.least
        self._ways: dict[int, frozenset[int]] = {}
        within &= self._chosen(self._place[local], way, data.open(explained)[sample])
        self._count = np.bincount(local[within], minlength=len(self._cells))
        within &= (explained[sample] > 0) | (-matrix.y[sample] > _CLEAR * matrix.floor[matrix.of_class[sample]])
        self._sample, self._local = sample[within], local[within]
        self._well = self._count - np.bincount(self._local, minlength=len(self._cells))
        self._explained_all = explained
        self._before, self._explained = density[self._sample], explained[self._sample]
        self._grown = data.grown(int(parts[0]), self._sample, follows)
        self._deviation = -matrix.y[self._sample]
        self._slow = data.open(explained)[self._sample]
        little = np.where(matrix.entries.large[parts][self._place] & (not matrix.rounds), _LITTLE, 1.0)
        self._least = little * matrix.least[data.class_of_cell[self._cells]]

    def _chosen(self, place: Ints, way: Ints, slow: Bools) -> Bools:
        """
        Of a bundle the entries on ways of which most samples are slow, where two or more are; of all else all.

        With static routes a way takes one thing of the bundle, and all that takes the faulty one is slow. One way is
        enough where the bundle is known to be faulty by other evidence: to say so costs nothing.
        """
        chosen = np.ones(len(way), dtype=np.bool_)
        for number in np.unique(place[way != UNKNOWN]).tolist():
            mine = np.flatnonzero(place == number)
            names, of = np.unique(way[mine], return_inverse=True)
            bad = 2 * np.bincount(of, slow[mine]) >= np.bincount(of)
            least = _LEAST_WAYS if self._data.matrix.entries.cost[self._parts[number]] else 1
            if least <= bad.sum() < len(names):
                chosen[mine] = bad[of]
                self._ways[number] = frozenset(names[bad].tolist())
        return chosen

    def faults(self) -> list[FaultyPart]:
        """One for each part that any loss fits, with its gain."""
        cells = len(self._cells)
        shows = np.bincount(self._local, self._slow, minlength=cells) > 0
        best = np.where(shows, -NO_FIT, np.where(self._count > 0, -NOT_SHOWN, 0.0))
        loss, spread, rho = np.zeros(cells), np.zeros(cells), np.zeros(cells)
        beyond = self._data.least(self._explained, self._sample)
        least = np.where(self._explained > 0, beyond, self._least[self._local])
        shares = self._shares()
        for guess in self._guesses():
            at = guess[self._local] * self._grown
            open_ = at >= least
            for wide, dear in SPREADS.items():
                held = self._data.held(self._sample, at, wide)
                for often, more in shares:
                    each = often[self._local]
                    ratio = np.where(open_, each * held / self._before + (1 - each), 1.0)
                    gain = np.bincount(self._local, np.log(ratio), minlength=cells) - ONE_MORE - dear
                    gain += self._well * np.log1p(-often)
                    gain -= more * np.log(np.maximum(self._count, 2))
                    gain[guess < self._least] = -inf
                    better = gain > best
                    best[better], loss[better], spread[better], rho[better] = (
                        gain[better],
                        guess[better],
                        wide,
                        often[better],
                    )
        best = np.where(~shows & (rho == 0), -self._clear(loss, rho), best)
        whole = np.bincount(self._place, best, minlength=len(self._parts)) - self._data.matrix.entries.cost[self._parts]
        whole += self._of_others()
        return [
            self._fault(number, float(whole[number]), loss, spread, rho)
            for number in np.unique(self._place[rho > 0]).tolist()
        ]

    def _of_others(self) -> Floats:
        """Of many rounds: what is gained as others dip the less often when the dips of a part are its own."""
        matrix, parts = self._data.matrix, len(self._parts)
        if not matrix.rounds:
            return np.zeros(parts)
        left = self._explained_all == 0
        dips, of = int((matrix.slow & left).sum()), int(left.sum())
        own = np.bincount(self._place[self._local], self._slow & (self._explained == 0), minlength=parts)
        rest: Floats = np.maximum(float(dips) - own, 0.0)
        n: Floats = np.maximum(float(of) - np.bincount(self._place, self._count, minlength=parts), 0.0)
        before, after = (dips + 0.5) / (of + 1.0), (rest + 0.5) / (n + 1.0)
        found: Floats = np.maximum(0.0, rest * np.log(after / before) + n * (before - after))
        return found

    def _shares(self) -> list[tuple[Floats, float]]:
        """In which share of the samples of each cell its part may show, and what that costs."""
        cells = len(self._cells)
        found = [(np.full(cells, often), cost) for often, cost in SHARES.items()]
        if self._data.matrix.rounds:
            slow = np.bincount(self._local, self._slow, minlength=cells)
            rare = np.clip(slow / np.maximum(self._count, 1), 1e-9, OFTEN)
            large = self._data.matrix.entries.large[self._parts][self._place] & (not self._data.rare_of_large)
            found.append((np.where(large, 1e-9, rare), SOMETIMES))
        return found

    def _clear(self, loss: Floats, rho: Floats) -> Floats:
        """
        What it costs a part that a cell without slow samples is well.

        Nothing where there are no samples, or where the class is no faster than what the part still carries.
        """
        level = self._data.matrix.level[self._data.class_of_cell[self._cells]]
        cap, often, most = np.full(len(self._parts), inf), np.zeros(len(self._parts)), np.zeros(len(self._parts))
        np.minimum.at(cap, self._place, np.where(rho > 0, level * np.exp(-loss), inf))
        np.maximum.at(often, self._place, np.where((level > 0) | (rho >= OFTEN), rho, 0.0))
        np.maximum.at(most, self._place, loss)
        dead = most[self._place] > DEAD
        shown = unshown(self._count, often[self._place], level > 0, dead=dead)
        none: Floats = np.where((self._count == 0) | ((level > 0) & (level <= cap[self._place])), 0.0, shown)
        return none

    def _fault(self, number: int, gain: float, loss: Floats, spread: Floats, rho: Floats) -> FaultyPart:
        since_s, until_s = float(self._since_s[number]), float(self._until_s[number])
        part = int(self._parts[number])
        told = np.flatnonzero((self._place == number) & (rho > 0)).tolist()
        losses = tuple(Loss(int(self._cells[i]), float(loss[i]), float(spread[i]), float(rho[i])) for i in told)
        found = FaultyPart(part, gain, losses, since_s, until_s, self._follows, self._ways.get(number))
        return replace(found, gain=gain - self._data.when(found))

    def _guesses(self) -> list[Floats]:
        """Where to look for the loss of each cell: quartiles of its slow samples, and the middle of what is open."""
        found = []
        for which, shares in ((self._slow, QUARTILES), (self._explained == 0, (0.5,))):
            value = (self._deviation / self._grown)[which]
            for seen, place in quartiles(value, self._local[which], len(self._cells), shares):
                found.append(np.zeros(len(self._cells)))
                found[-1][seen] = value[place]
        return found


def unshown(count: Ints, rho: Floats, of_one: Bools, *, dead: Bools) -> Floats:
    """
    Nats against a part that shows in a share *rho* of its samples, of a class with *count* samples that are well.

    Those *of_one* flow count as often as they were well. Other classes share capacity differently, so that they hardly
    count; but through a *dead* part nothing passes in any class.
    """
    against: Floats = -np.log(1 - np.asarray(rho)) * count
    found: Floats = np.where(of_one | dead, against, np.minimum(NOT_SHOWN, against))
    return found


def line(x: Floats, loss: Floats, floor: float, *, warm: bool) -> Follows | None:
    """
    With what the losses of slow samples grow; None where they do not. From *floor* on it is seen.

    Through the medians of the lowest and the highest third of *x* (Tukey's resistant line).
    """
    third = len(x) // 3
    known = np.isfinite(x)
    if third < _LEAST_OF_LINE or not known.all():
        return None
    order = np.argsort(x, kind="stable")
    low, high = order[:third], order[-third:]
    run = float(np.median(x[high]) - np.median(x[low]))
    rise = float(np.median(loss[high]) - np.median(loss[low]))
    if run <= 0 or rise <= 0:
        return None
    zero = float(np.median(x[low])) - float(np.median(loss[low])) * run / rise
    return Follows(warm, zero, float(x.max()), zero + floor * run / rise)
