"""The losses that fit a part best: each cell by itself, in the times at which the part may have been faulty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, log, pi
from typing import NamedTuple

import numpy as np

from fabric.judge.locate.cells import NOTHING, Likelihood, SampleMatrix
from fabric.judge.locate.structure import ALWAYS, OFTEN, UNKNOWN, Bools, FaultyPart, Floats, Follows, Ints, Loss

DEAD = -NOTHING / 2
"""A loss (natural log) beyond which next to nothing passes: a tool called the part dead, or it carried nothing."""

NOT_SHOWN, NO_FIT = 1.5, 3.0
"""Nats against a part: for a class of samples that does not show it, and for one that no loss fits."""

SPREADS = {0.004: 0.0, 0.05: 1.0, 0.25: 2.0}
"""Possible spreads of a part's loss, with the nats of each: each is e times rarer than the one before."""

SAME_LOSS = 0.03
"""Losses (natural logarithm) that differ by less count as the same."""

_QUARTILES = (0.25, 0.5, 0.75)
_ONE_MORE = 0.5  # nats of each loss
_SIZES = log(150)  # nats between the smallest loss (2 %) and the largest: each size is as likely as its half
_NARROW = 0.4  # nats of the narrowest spread, where a loss of any size is as likely as its half
_NOT_ALWAYS = 1.6  # nats of a part that does not always show: one in five
_LEAST_OF_LINE = 3  # least samples in each third that a line goes through
_LEAST_WAYS = 2  # least faulty ways of a bundle: one alone is a part of its own
_CLEAR = 0.4  # share of the loss from which a sample is slow: with a smaller loss it was not slowed by this part


class OtherFaults(NamedTuple):
    """
    Given some faults: the density of each sample, the loss that explains it, and what a further fault costs.

    *costs* are nats by part. None: it is free to say what a part does; then the part always shows, or is drawn.
    """

    density: Floats
    explained: Floats
    costs: Floats | None


class Fit:
    """The best losses of some parts in given times, each cell by itself."""

    def __init__(
        self,
        data: Likelihood,
        parts: Ints,
        given: OtherFaults,
        since_s: Floats | float = -inf,
        until_s: Floats | float = inf,
        follows: Follows | None = None,
        *,
        narrow: bool = False,
    ) -> None:
        density, explained, costs = given
        self._follows, self._free, self._narrow = follows, costs is None, narrow
        self._costs = 0.0 if costs is None else costs[parts]
        self._data, self._parts = data, parts
        self._since_s, self._until_s = (np.broadcast_to(one, len(parts)) for one in (since_s, until_s))
        self._cells, sample, local, way = data.cells.of_parts(parts)
        matrix = data.matrix
        self._place = np.searchsorted(parts, data.cells.part[self._cells])
        self._first = np.searchsorted(self._place, np.arange(len(parts) + 1))
        self._of_class = data.cells.of_class[self._cells]
        within = np.ones(len(sample), dtype=np.bool_)
        if matrix.timed:
            at_s = matrix.at_s[sample]
            since, until = self._since_s[self._place][local], self._until_s[self._place][local]
            within = (at_s >= since) & (at_s <= until)
        if follows is not None:
            within &= data.along(int(parts[0]), sample, warm=follows.warm) >= follows.least
        self._ways: dict[int, frozenset[int]] = {}
        slow = data.unexplained(explained, sample)
        within &= self._chosen(self._place[local], way, slow)
        self._count = np.bincount(local[within], minlength=len(self._cells))
        if not matrix.faint:
            within &= (explained[sample] > 0) | (-matrix.y[sample] > _CLEAR * matrix.floor[matrix.of_class[sample]])
        self._sample, self._local = sample[within], local[within]
        self._well = self._count - np.bincount(self._local, minlength=len(self._cells))
        self._explained_all = explained
        self._before, self._explained = density[self._sample], explained[self._sample]
        self._grown = data.grown(int(parts[0]), self._sample, follows)
        self._deviation = -matrix.y[self._sample]
        self._slow = slow[within]
        self._least = matrix.least[self._of_class]
        self._noise: Floats | None = None
        if matrix.faint:
            self._noise = np.bincount(local, matrix.normal.noise[matrix.of_class[sample]]) / np.bincount(local)

    def _chosen(self, place: Ints, way: Ints, slow: Bools) -> Bools:
        """
        Return which entries count: for a bundle, those on ways that are mostly slow, if two or more ways are; else all.

        With static routes a way takes one thing of the bundle, and all samples that take the faulty one are slow. One
        way is enough where other evidence says that the bundle is faulty: then it costs nothing to say so.
        """
        chosen = np.ones(len(way), dtype=np.bool_)
        for number in np.unique(place[way != UNKNOWN]).tolist():
            mine = np.flatnonzero(place == number)
            names, of = np.unique(way[mine], return_inverse=True)
            bad = 2 * np.bincount(of, slow[mine]) >= np.bincount(of)
            known = self._data.cells.entries.cost[self._parts[number]] == 0
            least = 1 if known else _LEAST_WAYS
            if least <= bad.sum() < len(names):
                chosen[mine] = bad[of]
                self._ways[number] = frozenset(names[bad].tolist())
        return chosen

    def faults(self) -> list[FaultyPart]:
        """Return one fault, with its gain, for each part that a loss fits; faint ones only if they gain anything."""
        cells = len(self._cells)
        shows = np.bincount(self._local, self._slow, minlength=cells) > 0
        best = np.where(shows, -NO_FIT, np.where(self._count > 0, -NOT_SHOWN, 0.0))
        loss, spread, rho, best_cost = np.zeros((4, cells))
        beyond = self._data.least_unexplained_loss(self._explained, self._sample)
        least = np.where(self._explained > 0, beyond, self._least[self._local])
        shares = self._shares()
        for guess in self._guesses():
            at = guess[self._local] * self._grown
            open_ = at >= least
            for wide in self._spreads():
                held = np.where(open_, self._data.slowed(self._sample, at, wide)[0] / self._before - 1, 0.0)
                of_loss = 0.0 if self._free else price(guess, wide, self._count, self._noise)
                for often, of_share in shares:
                    cost = of_loss + of_share
                    gain = np.bincount(self._local, np.log1p(often[self._local] * held), minlength=cells) - cost
                    gain += self._well * np.log1p(-often)
                    gain[(guess < self._least) | (often == 0)] = -inf
                    better = gain > best
                    best[better], loss[better], rho[better] = gain[better], guess[better], often[better]
                    spread[better], best_cost[better] = wide, cost[better]
        again = self._said_before(loss, rho)
        best, best_cost = np.where(again, best + best_cost, best), np.where(again, 0.0, best_cost)
        best = np.where(~shows & (rho == 0), -self._clear(loss, rho), best)
        whole = np.bincount(self._place, best, minlength=len(self._parts)) + self._of_others() - self._costs
        paid = np.bincount(self._place, np.where(rho > 0, best_cost, -best), minlength=len(self._parts))
        numbers = np.unique(self._place[rho > 0])
        if self._data.matrix.faint:
            numbers = numbers[whole[numbers] > 0]
        return [
            self._fault(number, float(whole[number]), float(paid[number]), loss, spread, rho)
            for number in numbers.tolist()
        ]

    def _said_before(self, loss: Floats, rho: Floats) -> Bools:
        """
        Return by cell whether another says its loss already, so that it costs nothing to say.

        One cap of a part shows in all classes of single flows: what it leaves is the same number of Gb/s in each.
        """
        level = self._data.matrix.level[self._of_class]
        flows = np.flatnonzero((level > 0) & (rho > 0))
        cap, place = np.log(level[flows]) - loss[flows], self._place[flows]
        first = np.searchsorted(place, place)
        found = np.zeros(len(loss), dtype=np.bool_)
        found[flows] = (first < np.arange(len(flows))) & (np.abs(cap - cap[first]) < SAME_LOSS)
        return found

    def _of_others(self) -> Floats:
        """Return by part what is gained, with many rounds, as others dip less often when its dips are its own."""
        matrix, parts = self._data.matrix, len(self._parts)
        if not matrix.rounds:
            return np.zeros(parts)
        left = self._explained_all == 0
        dips, of = int((matrix.slow & left & ~matrix.together).sum()), int(left.sum())
        mine = self._slow & (self._explained == 0) & ~matrix.together[self._sample]
        own = np.bincount(self._place[self._local], mine, minlength=parts)
        rest: Floats = np.maximum(float(dips) - own, 0.0)
        n: Floats = np.maximum(float(of) - np.bincount(self._place, self._count, minlength=parts), 0.0)
        before, after = (dips + 0.5) / (of + 1.0), (rest + 0.5) / (n + 1.0)
        return np.maximum(0.0, rest * np.log(after / before) + n * (before - after))

    def _shares(self) -> list[tuple[Floats, Floats]]:
        """Return the shares of each cell's samples in which its part may show, and the nats to say each of them."""
        cells, matrix, entries = len(self._cells), self._data.matrix, self._data.cells.entries
        found: list[Floats] = [np.full(cells, ALWAYS)]
        if not self._free:
            # With pairs, a large part that seemed to show at times stood for small parts that always show.
            seldom = ~(entries.large & matrix.faint)[self._parts]
            found.append(np.where(seldom[self._place], OFTEN, 0.0))
        may = ~entries.large | self._data.rare_of_large if matrix.rounds else entries.is_drawn
        if may[self._parts].any():
            slow = np.bincount(self._local, self._slow & ~matrix.together[self._sample], minlength=cells)
            rare = np.clip(slow / np.maximum(self._count, 1), 1e-9, OFTEN)
            found.append(np.where(may[self._parts][self._place], rare, 0.0))
        known = entries.share[self._parts][self._place]
        if known.any():
            found.append(known)
        none = np.zeros(cells)
        return [(one, none if self._free else price_of_share(one, self._count, matrix, known)) for one in found]

    def _spreads(self) -> list[float]:
        """
        Return the spreads to try; losses that follow a thermometer are never narrow: it may be a degree or two off.
        """
        if self._free or self._narrow:
            return list(SPREADS)[:1]
        return list(SPREADS)[1 if self._follows is not None and self._follows.warm else 0 :]

    def _clear(self, loss: Floats, rho: Floats) -> Floats:
        """
        Return by cell what it costs a part that a cell without slow samples is well.

        It costs nothing where there are no samples, or where what the part still carries, by the classes of single
        flows, would hold the class down by too little to be named. A sample that another part slows as much, or more,
        does not count, nor does a class of which nothing says what is normal, unless the part is dead.
        """
        level = self._data.matrix.level[self._of_class]
        cap, often, most = np.full(len(self._parts), inf), np.zeros(len(self._parts)), np.zeros(len(self._parts))
        np.minimum.at(cap, self._place, np.where((rho > 0) & (level > 0), level * np.exp(-loss), inf))
        np.maximum.at(often, self._place, np.where((level > 0) | (rho >= OFTEN), rho, 0.0))
        np.maximum.at(most, self._place, loss)
        most = most[self._place]
        cap, known = cap[self._place], (level > 0) & np.isfinite(cap[self._place])
        with np.errstate(divide="ignore", invalid="ignore"):
            here = np.where(known, np.log(level / cap), most)
        beyond = self._data.least_unexplained_loss(self._explained, self._sample)
        hidden = (self._explained > 0) & (beyond >= here[self._local])
        count = self._count - np.bincount(self._local, hidden, minlength=len(rho))
        dead = most > DEAD
        shown = unshown(count, often[self._place], level > 0, dead=dead)
        free = (self._count == 0) | (known & (level * np.exp(-self._least) <= cap)) | (~dead & (self._least >= DEAD))
        return np.where(free, 0.0, shown)

    def _fault(self, number: int, gain: float, cost: float, loss: Floats, spread: Floats, rho: Floats) -> FaultyPart:
        showing = [i for i in range(int(self._first[number]), int(self._first[number + 1])) if rho[i] > 0]
        found = FaultyPart(
            int(self._parts[number]),
            gain,
            cost,
            tuple(Loss(int(self._cells[i]), float(loss[i]), float(spread[i]), float(rho[i])) for i in showing),
            float(self._since_s[number]),
            float(self._until_s[number]),
            self._follows,
            self._ways.get(number),
        )
        when = self._data.cost_of_when(found)
        return replace(found, gain=gain - when, cost=cost + when) if when else found

    def _guesses(self) -> list[Floats]:
        """Return losses to try for each cell: quartiles of its slow samples, and the median of the unexplained."""
        found, main = [], self._data.matrix.normal.main[self._data.matrix.of_class[self._sample]]
        least = ((self._slow, _QUARTILES[:1]),)
        for which, shares in least if self._narrow else ((self._slow, _QUARTILES), (self._explained == 0, (0.5,))):
            value, behind = (self._deviation / self._grown)[which], main[which]
            for seen, place in quantiles(value, self._local[which], len(self._cells), shares):
                # Of several levels the sample is below the highest, or below the most frequent one.
                for guess in (value[place], value[place] + behind[place]) if behind.any() else (value[place],):
                    found.append(np.zeros(len(self._cells)))
                    found[-1][seen] = guess
        return found


def quantiles(value: Floats, of: Ints, count: int, shares: Sequence[float]) -> Iterator[tuple[Bools, Ints]]:
    """
    Yield for each share which of *count* things have values, and where in *value* each of these has that quantile.

    *of* is the thing of each value.
    """
    order = np.lexsort((value, of))
    number = np.bincount(of, minlength=count)
    start, seen = np.cumsum(number) - number, number > 0
    for share in shares:
        yield seen, order[start[seen] + np.rint(share * (number[seen] - 1)).astype(np.int64)]


def price(loss: Floats, spread: float, count: Ints, noise: Floats | None = None) -> Floats:
    """
    Return the nats that it costs to say a loss with a *spread* in some of *count* samples, but not how many they are.

    Where the *noise* of a sample is given, a loss of any size is as likely as one of half the size (a density of 1 /
    loss), and n samples tell it to within their noise / sqrt(n) (Laplace's approximation of what the best loss stands
    for). To lose everything is one loss, and costs nothing to say.
    """
    if noise is None:
        return np.full(len(loss), SPREADS[spread] + _ONE_MORE)
    size = np.log(np.maximum(loss, 1e-9) * _SIZES / np.hypot(noise, spread)) - log(2 * pi) / 2
    size = np.where(loss > -NOTHING, 0.0, size)
    return np.maximum(size, -0.5 * np.log(np.maximum(count, 2))) + SPREADS[spread] + _NARROW


def price_of_share(rho: Floats, count: Ints, matrix: SampleMatrix, known: Floats) -> Floats:
    """
    Return the nats that it costs to say in which share *rho* of *count* samples a part shows.

    The *known* share costs nothing.
    """
    # Half the logarithm for one parameter (Schwarz 1978).
    logs = np.where((rho == ALWAYS) | ((rho != OFTEN) & matrix.rounds), 0.5, 1.0)
    found: Floats = logs * np.log(np.maximum(count, 2)) + (_NOT_ALWAYS * (rho != ALWAYS) if matrix.faint else 0.0)
    return np.where(rho == known, 0.0, found)


def unshown(count: Ints, rho: Floats, of_one: Bools, *, dead: Bools) -> Floats:
    """
    Return the nats against a part that shows in a share *rho* of its samples, by a class with *count* good samples.

    In classes *of_one* flow each good sample counts in full. Other classes share capacity differently, so they hardly
    count; but nothing passes through a *dead* part in any class.
    """
    against: Floats = -np.log(1 - np.asarray(rho)) * count
    return np.where(of_one | dead, against, np.minimum(NOT_SHOWN, against))


def line(x: Floats, loss: Floats, floor: float, *, warm: bool) -> Follows | None:
    """
    Return what the losses of slow samples grow with; None where they do not grow. The loss is seen from *floor* on.

    The line goes through the medians of the lowest and the highest third of *x* (Tukey's resistant line). *loss* and
    *floor* are natural logarithms. The line is fitted to the share of bandwidth lost: fitted to the logarithms it would
    be several percent off in the middle, for a part that loses half.
    """
    third = len(x) // 3
    known = np.isfinite(x)
    if third < _LEAST_OF_LINE or not known.all():
        return None
    order = np.argsort(x, kind="stable")
    low, high = order[:third], order[-third:]
    lost, seen = -np.expm1(-loss), -np.expm1(-floor)
    run = float(np.median(x[high]) - np.median(x[low]))
    rise = float(np.median(lost[high]) - np.median(lost[low]))
    if run <= 0 or rise <= 0:
        return None
    zero, full = float(np.median(x[low])) - float(np.median(lost[low])) * run / rise, float(x.max())
    return Follows(warm, zero, full, zero + seen * run / rise, min((full - zero) * rise / run, -np.expm1(NOTHING)))
