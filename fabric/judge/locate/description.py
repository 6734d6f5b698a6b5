"""
The shortest description of what pairs of hosts measured, given a structure of what is normal.

Samples are logarithms of bandwidth. A healthy sample is a mixture of levels with Student t noise (4 degrees of freedom:
heavy tails), or, at the background rate, a dip that belongs to no part, as deep as others are. A faulty part has one
loss *d* with a spread, and shows in a share *rho* of its samples. Of several faulty parts on one path the slowest
counts (the bottleneck).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi

import numpy as np
from scipy.special import xlogy

from fabric.judge.locate.search import NOBODY, QUARTILES, FaultSearch, quartiles
from fabric.judge.locate.structure import (
    ALWAYS,
    FLOOR,
    OFTEN,
    Bools,
    Description,
    FaultyPart,
    Floats,
    Incidence,
    Ints,
    Loss,
    Normal,
)

_DIP_WIDTH = 3.0  # nats over which background dips are spread: down to a twentieth of the level
_DEPTH, _NEAR_DEPTH = 0.05, 0.4  # nats: bins of how deep other dips are, and how much nearer ones count (deviation)
_UNSEEN = 5.0  # dips of any depth that are taken to have been seen beside the others
_SPREADS = {
    0.004: 0.4,
    0.05: 1.4,
    0.25: 2.4,
}  # of a part's loss, and the nats of each: e times rarer than the one before
_SELDOM = 0.2  # of a bundle, of which one thing is faulty
_NOT_ALWAYS = 1.6  # nats of a part that does not always show: one in five
_SIZES = log(150)  # nats between the smallest loss (2 %) and the largest: each size is as likely as its half
_LEAST_BACKGROUND, _MOST_BACKGROUND = 0.01, 0.4
_TOUCHED = 0.01  # chance of so many slow samples of a part: below it they are no background
_FEW_SLOW = 64  # samples, of which no part may have enough to be suspicious; more take long to explain
_MANY = 2.0  # times the usual number of samples of a part


def describe(
    y: Floats,
    normal: Normal,
    incidence: Incidence,
    floor: float = FLOOR,
    known: Description | None = None,
    *,
    told: bool = True,
) -> Description:
    """
    Find the faulty parts given what is normal.

    No part is named for a loss below *floor*. Dips that belong to no part are as many and as deep as a *known*
    description leaves them; without it the likelier of the slow samples that no suspicious part explains, and (few are
    slow) none, so that parts explain them all: of few no part is suspicious by its share alone. Not *told*: without
    rivals, which take as long.
    """
    open_ = _untouched(y, normal, incidence) if known is None else known.explained == 0
    slow = y < normal.least[normal.of_class]
    none, seen = _share_of_dips(0, len(y)), _share_of_dips(int((slow & open_).sum()), int(open_.sum()))
    tried, deep = [], _depths(normal.top[normal.of_class] - y, slow & open_)
    few = known is None and seen > none and slow.sum() <= _FEW_SLOW
    for share in (seen, none) if few else (seen,):
        search = PairSearch(y, normal, incidence, share, floor, deep)
        said = log(len(y)) / 2 if share != none else 0.0  # the nats of a share that the samples tell, as BIC has it
        for begun in search.begun():
            effects = search.settled(begun)
            tried.append((search.score(effects) - said, search, effects))
    score, search, effects = max(tried, key=lambda one: one[0])
    found = search.told(effects) if told else effects
    explained = search.explained(effects)[1]
    return Description(normal, tuple(found), explained, search.background, score, search.slow)


def left_over(found: Description) -> float:
    """The share of dips among the samples that no faulty part explains."""
    open_ = found.explained == 0
    return _share_of_dips(int((found.slow & open_).sum()), int(open_.sum()))


def _share_of_dips(dips: int, count: int) -> float:
    """Of so many samples; no less than what *count* samples without any do not exclude (rule of three: 3 / count)."""
    least = min(_LEAST_BACKGROUND, 3 / max(count, 1))
    return float(np.clip(dips / max(count, 1), least, _MOST_BACKGROUND))


def _untouched(y: Floats, normal: Normal, incidence: Incidence) -> Bools:
    """Samples that touch no part with more slow ones than chance explains."""
    slow = y < normal.least[normal.of_class]
    through = np.bincount(incidence.part, slow[incidence.sample], minlength=len(incidence.extra))
    bad = beyond_chance(through, incidence.count, int(slow.sum()), len(y)) > log(1 / _TOUCHED)
    found = np.ones(len(y), dtype=np.bool_)
    found[incidence.sample[bad[incidence.part]]] = False
    return found


def _depths(deviation: Floats, dips: Bools) -> Floats:
    """
    How likely each sample's deviation is if it is a dip (a density): as the other *dips* are, or of any depth.

    No sample says so of itself. A fabric with traffic of others has dips of some depth, and many; of few, any may be.
    What was lost is no dip of others' traffic: it says nothing of their depth.
    """
    dips = dips & (deviation < _DIP_WIDTH)
    place = np.clip(deviation / _DEPTH, 0, _DIP_WIDTH / _DEPTH).astype(np.int64)
    away = np.arange(-4 * _NEAR_DEPTH, 4 * _NEAR_DEPTH + _DEPTH / 2, _DEPTH)
    kernel = np.exp(-0.5 * (away / _NEAR_DEPTH) ** 2)
    kernel /= kernel.sum() * _DEPTH
    bins = np.bincount(place[dips], minlength=max(len(kernel), int(place.max()) + 1))
    near = np.convolve(bins, kernel, mode="same")[place] - kernel.max() * dips
    found: Floats = (np.maximum(near, 0.0) + _UNSEEN / _DIP_WIDTH) / (dips.sum() - dips + _UNSEEN)
    return np.where(deviation < _DIP_WIDTH, found, 1 / _DIP_WIDTH)


def beyond_chance(slow: Ints | Floats, count: Ints, all_slow: int, samples: int) -> Floats:
    """
    Nats against chance alone that of the *count* samples through each part so many are *slow*, and no fewer.

    *all_slow* of all *samples* are. The G statistic of the two by two table, halved: Chernoff's bound on its tail.
    """
    seen = np.array([[slow, count - slow], [all_slow - slow, samples - count - all_slow + slow]], dtype=np.float64)
    expected = seen.sum(axis=1, keepdims=True) * seen.sum(axis=0) / samples
    nats: Floats = xlogy(seen, seen / np.maximum(expected, 1e-300)).sum(axis=(0, 1))
    return np.where(seen[0, 0] > expected[0, 0], nats, 0.0)


class PairSearch(FaultSearch):
    """The likelihood of pairs of hosts."""

    rival = 5.0

    def __init__(
        self, y: Floats, normal: Normal, incidence: Incidence, background: float, floor: float, deep: Floats
    ) -> None:
        self.y, self.normal, self.incidence, self.background, self.floor = y, normal, incidence, background, floor
        top, count = normal.top[normal.of_class], incidence.count
        dip = np.where(y < top - FLOOR, deep, 1e-9)
        self._base = (1 - background) * normal.density(y, normal.of_class) + background * dip
        self.slow: Bools = y < normal.least[normal.of_class]
        self._deviation = top - y
        self._beside_main = (normal.top - normal.main)[normal.of_class]
        self._noise = incidence.mean(normal.noise[normal.of_class])  # of a part: the mean of its samples
        usual = float(np.median(count[count > 0]))
        self.large = (count > _MANY * usual) & (incidence.extra > 0)
        self.whole = incidence.whole

    def explained(self, faults: Sequence[FaultyPart]) -> tuple[Floats, Floats]:
        """The density of every sample given *faults*, and the loss that explains it: of several the largest."""
        density, explained = self._base.copy(), np.zeros(len(self.y))
        for fault in sorted(faults, key=lambda one: one.loss):
            mine, (effect,) = self.incidence.of(fault.part), fault.losses
            density[mine] = (
                effect.rho * self._held_down(mine, effect.loss, effect.spread) + (1 - effect.rho) * density[mine]
            )
            explained[mine] = effect.loss
        return density, explained

    def score(self, faults: Sequence[FaultyPart]) -> float:
        """Log likelihood of all samples minus what it costs to say the hypothesis."""
        density, _ = self.explained(faults)
        cost, taken = self.normal.cost, NOBODY
        for one in faults:
            mine, (effect,) = np.array([one.part]), one.losses
            cost += float(self.said(mine, np.array([effect.loss]), effect.spread, effect.rho)[0])
            cost += float(self.incidence.costs(taken)[one.part])
            taken = np.append(taken, one.part)
        return float(np.log(density).sum() - cost)

    def candidates(
        self, rest: Sequence[FaultyPart], *, instead: int | None = None, banned: Ints = NOBODY
    ) -> list[FaultyPart]:
        """What could be faulty beside *rest*, the best first."""
        density, explained = self.explained(rest)
        taken = np.array([one.part for one in rest], dtype=np.int64)
        costs = self.incidence.costs(taken)
        parts = self.possible(density, explained, taken, costs)
        if instead is not None:
            parts = np.union1d(parts[self.incidence.share(self._through(instead))[parts] > 0], instead)
        parts = parts[~np.isin(parts, banned)]
        if not len(parts):
            return []
        gain, loss, spread, rho = self.gains(density, explained, parts, costs)
        found = []
        for i in [i for i in np.argsort(-gain, kind="stable").tolist() if np.isfinite(gain[i])]:
            part = int(parts[i])
            found.append(
                FaultyPart(part, float(gain[i]), (Loss(part, float(loss[i]), float(spread[i]), float(rho[i])),))
            )
        return found

    def _through(self, part: int) -> Bools:
        found = np.zeros(self.incidence.samples, dtype=np.bool_)
        found[self.incidence.of(part)] = True
        return found

    def _held_down(self, samples: Ints, loss: Floats | float, spread: float) -> Floats:
        return self.normal.density(self.y[samples], self.normal.of_class[samples], loss, spread)

    def said(self, parts: Ints, loss: Floats, spread: float, rho: float) -> Floats:
        """
        The nats that it takes to say the effect of each of *parts*, beside that it is faulty.

        A loss of any size is as likely as one of half the size (a density of 1 / loss), and n samples tell it to within
        their noise / sqrt(n) (Laplace's approximation of what the best loss stands for); one of three spreads; and
        for a part that shows now and then that it does, and the share rho, as BIC has it.
        """
        count = np.maximum(self.incidence.count[parts], 2)
        width = np.hypot(self._noise[parts], spread)
        size = np.log(np.maximum(loss, 1e-9) * _SIZES / width) + np.log(count / (2 * pi)) / 2
        found: Floats = np.maximum(size, 0.0) + _SPREADS[spread]
        return found if rho == ALWAYS else found + _NOT_ALWAYS + np.log(count) / 2

    def gains(
        self, density: Floats, explained: Floats, parts: Ints, costs: Floats | None
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """
        For each of *parts* the best gain in nats, and the loss, spread and rho that it takes.

        Without *costs* what always shows alone is looked for, and to say it is free.
        """
        inc = self.incidence
        entry = np.concatenate(
            [np.arange(inc.start[p], inc.start[p + 1]) for p in parts.tolist()] or [np.empty(0, np.int64)]
        )
        local = np.repeat(np.arange(len(parts)), inc.count[parts])
        sample = inc.sample[entry]
        before = density[sample]
        best = np.full(len(parts), -np.inf)
        loss, spread, rho = np.zeros(len(parts)), np.zeros(len(parts)), np.zeros(len(parts))
        bundles = inc.bundle[parts]
        rhos = (ALWAYS, OFTEN, _SELDOM) if bundles.any() else (ALWAYS, OFTEN)
        seldom = np.zeros(len(parts)) if costs is None else _NOT_ALWAYS + np.log(np.maximum(inc.count[parts], 2)) / 2
        for guess in self._losses(local, sample, explained, len(parts)):
            at = guess[local]
            open_ = explained[sample] < at
            for width in _SPREADS if costs is not None else list(_SPREADS)[:1]:
                more = np.where(open_, self._held_down(sample, at, width) / before - 1, 0.0)
                paid = np.zeros(len(parts))
                if costs is not None:
                    paid = costs[parts] + self.said(parts, guess, width, ALWAYS)
                for often in rhos if costs is not None else (ALWAYS,):
                    gain: Floats = np.bincount(local, np.log1p(often * more), minlength=len(parts)) - paid
                    if often != ALWAYS:
                        gain -= seldom
                    gain[(guess < self.floor) | ((often == _SELDOM) & ~bundles)] = -np.inf
                    better = gain > best
                    best[better], loss[better], spread[better], rho[better] = gain[better], guess[better], width, often
        return best, loss, spread, rho

    def _losses(self, local: Ints, sample: Ints, explained: Floats, parts: int) -> list[Floats]:
        """Where to look for the loss of each part: quartiles of its slow open samples, and the middle of all."""
        found = []
        slow = self.slow[sample] & (self._deviation[sample] > explained[sample] + self.floor / 2)
        for which, shares in ((slow, QUARTILES), (explained[sample] == 0, (0.5,))):
            mine = sample[which]
            value, behind = self._deviation[mine], self._beside_main[mine]
            for seen, place in quartiles(value, local[which], parts, shares):
                for guess in (value[place], value[place] - behind[place]) if behind.any() else (value[place],):
                    found.append(np.zeros(parts))
                    found[-1][seen] = guess
        return found

    def possible(self, density: Floats, explained: Floats, taken: Ints, costs: Floats) -> Ints:
        """Parts worth trying: enough of their samples lie low to carry the cost of blaming them."""
        low = self._deviation - explained > self.floor / 2
        noise = self.normal.noise[self.normal.of_class[low]]
        room = np.zeros(len(low))
        room[low] = np.maximum(np.log(0.4 / noise / density[low]), 0.0)
        inc = self.incidence
        entry = np.flatnonzero(low[inc.sample])  # of a healthy fabric few are
        part = inc.part[entry]
        most = np.bincount(part, room[inc.sample[entry]], minlength=len(inc.extra))
        well = inc.count - np.bincount(part, minlength=len(inc.extra))
        least = np.where(inc.bundle, log(1 - _SELDOM), log(1 - OFTEN))
        free = (most + well * least - costs > 0) & ~np.isin(inc.whole, inc.whole[taken])
        found: Ints = np.flatnonzero(free)
        return found


OPEN = 1.5
"""Nats, priors aside, from which a part that is not blamed is worth another test (localise.py A2, seeds 1 to 9)."""

_OPEN_LOSS = 0.7  # of the floor: what looks smaller now may turn out larger


def open_parts(found: Description, y: Floats, incidence: Incidence, floor: float) -> tuple[tuple[int, float], ...]:
    """Parts that are not blamed and may be bad, the likeliest first, with their nats, priors aside."""
    deep = _depths(found.normal.top[found.normal.of_class] - y, found.slow & (found.explained == 0))
    search = PairSearch(y, found.normal, incidence, found.background, _OPEN_LOSS * floor, deep)
    density, explained = search.explained(found.effects)
    taken = np.array([one.part for one in found.effects], dtype=np.int64)
    parts = search.possible(density, explained, taken, np.zeros(len(incidence.extra)))
    if not len(parts):
        return ()
    gain, *_ = search.gains(density, explained, parts, None)
    order = np.argsort(-gain, kind="stable")
    return tuple((int(parts[i]), float(gain[i])) for i in order.tolist() if gain[i] > OPEN)
