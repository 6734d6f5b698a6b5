"""
The shortest description of what was measured: a structure of what is normal, and the few parts that are faulty.

A hypothesis says what healthy samples reach (``Normal``) and which parts hold samples down (``Effect``). Its score is
the log likelihood of all samples minus what it costs to say the hypothesis, in nats. The best score wins (minimum
description length). What a part adds to the score is the evidence for it; parts that would add nearly as much in its
place are its rivals.

Samples are logarithms of bandwidth. A healthy sample is a mixture of levels with Student t noise (4 degrees of freedom:
heavy tails), or, at the background rate, a dip that belongs to no part. A faulty part has one loss *d* with a spread,
and shows in a share *rho* of its samples. Of several faulty parts on one path the slowest counts (the bottleneck).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi

import numpy as np

from fabric.judge.locate.structure import (
    FLOOR,
    Bools,
    Description,
    Effect,
    Floats,
    Incidence,
    Ints,
    Normal,
)

_DIP_WIDTH = 3.0  # nats over which background dips are spread: down to a twentieth of the level
_ALWAYS, _OFTEN = 0.98, 0.65  # shares of its samples in which a faulty part shows
_SPREADS = {
    0.004: 0.4,
    0.05: 1.4,
    0.25: 2.4,
}  # of a part's loss, and the nats of each: e times rarer than the one before
_NOT_ALWAYS = 1.6  # nats of a part that does not always show: one in five
_SELDOM = 0.2  # of a bundle, of which one thing is faulty
_SIZES = log(150)  # nats between the smallest loss (2 %) and the largest: each size is as likely as its half
_QUANTILES = (0.25, 0.5, 0.75)
_MOST_BLAMED = 64

LEAST_GAIN = 3.0
"""Nats from which a part is given as possible; ``CERTAIN`` from which it is called bad."""

CERTAIN = 5.0
"""A part is bad from so many nats on (chosen with benchmarks/real_pairs.py, seeds 1 to 12: 1 of 1,200 sets FAILs)."""
_LEAST_BACKGROUND, _MOST_BACKGROUND = 0.01, 0.4
_TOUCHED = 0.01  # chance of so many slow samples of a part: below it they are no background


def describe(
    y: Floats,
    normal: Normal,
    incidence: Incidence,
    least_gain: float = LEAST_GAIN,
    floor: float = FLOOR,
    background: float | None = None,
) -> Description:
    """
    Find the faulty parts given what is normal: greedy, then swaps and drops until nothing changes.

    No part is named for less than *least_gain* nats or for a loss below *floor*. *background* is the share of dips that
    belong to no part; without it the share of slow samples that no suspicious part explains.
    """
    search = _Search.of(y, normal, incidence, background or _background(y, normal, incidence), floor)
    effects = max((_settled(search, one, least_gain) for one in _begun(search, least_gain)), key=search.score)
    return _told(search, effects)


def left_over(found: Description) -> float:
    """The share of dips among the samples that no faulty part explains."""
    open_ = found.explained == 0
    return _share_of_dips(int((found.slow & open_).sum()), int(open_.sum()))


def _share_of_dips(dips: int, count: int) -> float:
    """Of so many samples; no less than what *count* samples without any do not exclude (rule of three: 3 / count)."""
    least = min(_LEAST_BACKGROUND, 3 / max(count, 1))
    return float(np.clip(dips / max(count, 1), least, _MOST_BACKGROUND))


def _background(y: Floats, normal: Normal, incidence: Incidence) -> float:
    """The share of slow samples that touch no part with more slow ones than chance explains (Chernoff's bound)."""
    slow = y < normal.least[normal.of_class]
    all_of_them = float(np.clip(slow.mean(), _LEAST_BACKGROUND, 1 - _LEAST_BACKGROUND))
    share = np.clip(incidence.share(slow), 1e-9, 1 - 1e-9)
    apart = share * np.log(share / all_of_them) + (1 - share) * np.log((1 - share) / (1 - all_of_them))
    bad = (share > all_of_them) & (incidence.count * apart > log(1 / _TOUCHED))
    touched = np.zeros(len(y), dtype=np.bool_)
    touched[incidence.sample[bad[incidence.part]]] = True
    return _share_of_dips(int((slow & ~touched).sum()), int((~touched).sum()))


@dataclass(frozen=True)
class _Search:
    """What stays the same while parts are tried."""

    y: Floats
    normal: Normal
    incidence: Incidence
    background: float
    base: Floats
    slow: Bools
    deviation: Floats
    beside_main: Floats
    noise: Floats  # of a part: the mean of its samples
    floor: float

    @classmethod
    def of(cls, y: Floats, normal: Normal, incidence: Incidence, background: float, floor: float) -> _Search:
        top = normal.top[normal.of_class]
        dip = np.where(y < top - FLOOR, 1 / _DIP_WIDTH, 1e-9)
        base = (1 - background) * normal.density(y, normal.of_class) + background * dip
        slow = y < normal.least[normal.of_class]
        beside = (normal.top - normal.main)[normal.of_class]
        noise = incidence.mean(normal.noise[normal.of_class])
        return cls(y, normal, incidence, background, base, slow, top - y, beside, noise, floor)

    def density(self, effects: list[Effect]) -> tuple[Floats, Floats]:
        """Of every sample given *effects*, and the loss that explains it: of several the largest, so it comes last."""
        density, explained = self.base.copy(), np.zeros(len(self.y))
        for effect in sorted(effects, key=lambda one: one.loss):
            mine = self.incidence.of(effect.part)
            density[mine] = (
                effect.rho * self.held_down(mine, effect.loss, effect.spread) + (1 - effect.rho) * density[mine]
            )
            explained[mine] = effect.loss
        return density, explained

    def score(self, effects: list[Effect]) -> float:
        """Log likelihood of all samples minus what it costs to say the hypothesis."""
        density, _ = self.density(effects)
        cost, taken = self.normal.cost, np.empty(0, dtype=np.int64)
        for one in effects:
            mine = np.array([one.part])
            cost += float(self.said(mine, np.array([one.loss]), one.spread, one.rho)[0])
            cost += float(self.incidence.costs(taken)[one.part])
            taken = np.append(taken, one.part)
        return float(np.log(density).sum() - cost)

    def held_down(self, samples: Ints, loss: Floats | float, spread: float) -> Floats:
        return self.normal.density(self.y[samples], self.normal.of_class[samples], loss, spread)

    def said(self, parts: Ints, loss: Floats, spread: float, rho: float) -> Floats:
        """
        The nats that it takes to say the effect of each of *parts*, beside that it is faulty.

        A loss of any size is as likely as one of half the size (a density of 1 / loss), and n samples tell it to within
        their noise / sqrt(n) (Laplace's approximation of what the best loss stands for); one of three spreads; and
        for a part that shows now and then that it does, and the share rho, as BIC has it.
        """
        count = np.maximum(self.incidence.count[parts], 2)
        width = np.hypot(self.noise[parts], spread)
        size = np.log(np.maximum(loss, 1e-9) * _SIZES / width) + np.log(count / (2 * pi)) / 2
        found: Floats = np.maximum(size, 0.0) + _SPREADS[spread]
        return found if rho == _ALWAYS else found + _NOT_ALWAYS + np.log(count) / 2

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
        rhos = (_ALWAYS, _OFTEN, _SELDOM) if bundles.any() else (_ALWAYS, _OFTEN)
        for guess in self._losses(local, sample, explained, len(parts)):
            at = guess[local]
            open_ = explained[sample] < at
            for width in _SPREADS if costs is not None else list(_SPREADS)[:1]:
                more = np.where(open_, self.held_down(sample, at, width) / before - 1, 0.0)
                for often in rhos if costs is not None else (_ALWAYS,):
                    paid = np.zeros(len(parts))
                    if costs is not None:
                        paid = costs[parts] + self.said(parts, guess, width, often)
                    gain: Floats = np.bincount(local, np.log1p(often * more), minlength=len(parts)) - paid
                    gain[(guess < self.floor) | ((often == _SELDOM) & ~bundles)] = -np.inf
                    better = gain > best
                    best[better], loss[better], spread[better], rho[better] = gain[better], guess[better], width, often
        return best, loss, spread, rho

    def _losses(self, local: Ints, sample: Ints, explained: Floats, parts: int) -> list[Floats]:
        """Where to look for the loss of each part: quartiles of its slow open samples, and the middle of all."""
        found = []
        slow = self.slow[sample] & (self.deviation[sample] > explained[sample] + self.floor / 2)
        for which, quantiles in ((slow, _QUANTILES), (explained[sample] == 0, (0.5,))):
            mine, value = local[which], self.deviation[sample[which]]
            order = np.lexsort((value, mine))
            mine, value = mine[order], value[order]
            count = np.bincount(mine, minlength=parts)
            start = np.cumsum(count) - count
            for quantile in quantiles:
                guess = np.zeros(parts)
                seen = count > 0
                place = start[seen] + np.rint(quantile * (count[seen] - 1)).astype(np.int64)
                guess[seen] = value[place]
                found.append(guess)
                if self.beside_main.any():
                    behind = np.zeros(parts)
                    behind[seen] = guess[seen] - self.beside_main[sample[which]][order][place]
                    found.append(behind)
        return found

    def possible(self, density: Floats, explained: Floats, taken: Ints, costs: Floats) -> Ints:
        """Parts worth trying: enough of their samples lie low to carry the cost of blaming them."""
        low = self.deviation - explained > self.floor / 2
        noise = self.normal.noise[self.normal.of_class[low]]
        room = np.zeros(len(low))
        room[low] = np.maximum(np.log(0.4 / noise / density[low]), 0.0)
        inc = self.incidence
        entry = np.flatnonzero(low[inc.sample])  # of a healthy fabric few are
        part = inc.part[entry]
        most = np.bincount(part, room[inc.sample[entry]], minlength=len(inc.extra))
        well = inc.count - np.bincount(part, minlength=len(inc.extra))
        least = np.where(inc.bundle, log(1 - _SELDOM), log(1 - _OFTEN))
        free = (most + well * least - costs > 0) & ~np.isin(inc.whole, inc.whole[taken])
        found: Ints = np.flatnonzero(free)
        return found


_NOBODY: Ints = np.empty(0, dtype=np.int64)
_WITHIN = 0.9  # of a part's samples: then it is inside another
_MANY = 2.0  # times the usual number of samples of a part


def _greedy(search: _Search, effects: list[Effect], least_gain: float, banned: Ints = _NOBODY) -> list[Effect]:
    """With further parts, the best first, until none is worth it; never the *banned* ones."""
    effects = list(effects)
    while len(effects) < _MOST_BLAMED:
        found = _candidates(search, effects, banned=banned)
        if not found or found[0].gain < least_gain:
            break
        effects.append(found[0])
    return effects


def _candidates(
    search: _Search, rest: list[Effect], *, instead: Effect | None = None, banned: Ints = _NOBODY
) -> list[Effect]:
    """What could be faulty beside *rest*, the best first; only what shares samples with *instead*, and that itself."""
    density, explained = search.density(rest)
    taken = np.array([one.part for one in rest], dtype=np.int64)
    costs = search.incidence.costs(taken)
    parts = search.possible(density, explained, taken, costs)
    if instead is not None:
        overlap = np.zeros(search.incidence.samples, dtype=np.bool_)
        overlap[search.incidence.of(instead.part)] = True
        parts = np.union1d(parts[search.incidence.share(overlap)[parts] > 0], instead.part)
    parts = parts[~np.isin(parts, banned)]
    if not len(parts):
        return []
    gain, loss, spread, rho = search.gains(density, explained, parts, costs)
    order = np.argsort(-gain, kind="stable")
    return [
        Effect(int(parts[i]), float(loss[i]), float(spread[i]), float(rho[i]), float(gain[i]))
        for i in order.tolist()
        if np.isfinite(gain[i])
    ]


def _gathered(search: _Search, effects: list[Effect]) -> list[Effect]:
    """Parts replaced by one that all their samples pass through (a host for its RNICs), where that is better."""
    inc = search.incidence
    inside = np.zeros(len(inc.extra), dtype=np.int64)
    for effect in effects:
        mine = np.zeros(inc.samples, dtype=np.bool_)
        mine[inc.of(effect.part)] = True
        hits = np.bincount(inc.part, mine[inc.sample], minlength=len(inc.extra))
        inside += hits >= _WITHIN * inc.count[effect.part]
    for part in np.argsort(-inside, kind="stable").tolist():
        if inside[part] < 2:
            break
        mine = np.zeros(inc.samples, dtype=np.bool_)
        mine[inc.of(part)] = True
        rest = [one for one in effects if mine[inc.of(one.part)].mean() < _WITHIN]
        found = [one for one in _candidates(search, rest, instead=Effect(part, 0.0, 0.0, 1.0)) if one.part == part]
        if len(rest) < len(effects) - 1 and found and search.score([*rest, found[0]]) > search.score(effects):
            effects = [*rest, found[0]]
    return effects


def _improved(search: _Search, effects: list[Effect], least_gain: float) -> list[Effect] | None:
    """With one part dropped that is needless beside the others, or swapped; None where nothing is better."""
    for number, effect in enumerate(effects):
        rest = effects[:number] + effects[number + 1 :]
        again = _candidates(search, rest, instead=effect)
        if not again or again[0].gain < least_gain:
            return rest
        mine = next((one for one in again if one.part == effect.part), None)
        if mine is None or again[0].gain > mine.gain + 0.1:
            return [*rest, again[0]]
    return None


def _begun(search: _Search, least_gain: float) -> list[list[Effect]]:
    """
    Where to begin: with whatever gains most, and with small parts before those that many samples pass through.

    A greedy search begins with a switch that seems to explain many bad hosts at once, and no single swap undoes that.
    """
    count = search.incidence.count
    large = np.flatnonzero((count > _MANY * float(np.median(count[count > 0]))) & (search.incidence.extra > 0))
    found = _greedy(search, [], least_gain)
    if not np.isin([one.part for one in found], large).any():
        return [found]
    small = _greedy(search, _greedy(search, [], least_gain, banned=large), least_gain)
    for effect in [one for one in found if one.part in large]:
        rest = [one for one in found if one.part != effect.part]
        found = max(found, _greedy(search, rest, least_gain, banned=large), key=search.score)
    return [found, small]


def _settled(search: _Search, effects: list[Effect], least_gain: float) -> list[Effect]:
    """Gathered, swapped and dropped until nothing is better."""
    effects = _gathered(search, effects)
    for _ in range(_MOST_BLAMED):
        improved = _improved(search, effects, least_gain)
        if improved is None:
            break
        effects = _greedy(search, improved, least_gain)
    return effects


_RIVAL = 5.0  # nats within which another part is named beside the best
_MOST_RIVALS = 8


def _several(search: _Search, effects: list[Effect], effect: Effect, gain: float) -> tuple[tuple[int, float], ...]:
    """Several parts that together would explain nearly as much as *effect*, where some of its samples are good."""
    if effect.rho == _ALWAYS:
        return ()
    rest = [one for one in effects if one.part != effect.part]
    apart = _greedy(search, rest, LEAST_GAIN, banned=np.array([effect.part]))
    lead = search.score(effects) - search.score(apart)
    return tuple((one.part, gain - lead) for one in apart[len(rest) :] if lead < _RIVAL)


def _told(search: _Search, effects: list[Effect]) -> Description:
    """With each part's gain beside all others, and its rivals."""
    found, whole = [], search.incidence.whole
    for number, effect in enumerate(effects):
        again = _candidates(search, effects[:number] + effects[number + 1 :], instead=effect)
        mine = next((one for one in again if one.part == effect.part), effect)
        least = max(mine.gain - _RIVAL, 0.0)
        others = [one for one in again if whole[one.part] != whole[effect.part] and one.gain > least]
        best = {int(whole[one.part]): (one.part, one.gain) for one in reversed(others)}
        rivals = tuple(sorted(best.values(), key=lambda one: -one[1])[:_MOST_RIVALS])
        rivals += _several(search, effects, effect, mine.gain)
        found.append(replace(effect, gain=mine.gain, rivals=rivals))
    found.sort(key=lambda one: -one.gain)
    _, explained = search.density(effects)
    score = search.score(effects)
    return Description(search.normal, tuple(found), explained, search.background, score, search.slow)


OPEN = 1.5
"""Nats, priors aside, from which a part that is not blamed is worth another test (localise.py A2, seeds 1 to 9)."""

_OPEN_LOSS = 0.7  # of the floor: what looks smaller now may turn out larger


def open_parts(found: Description, y: Floats, incidence: Incidence, floor: float) -> tuple[tuple[int, float], ...]:
    """
    Parts that are not blamed and may be bad, the likeliest first, with their gains, priors aside.

    Another test would tell.
    """
    search = _Search.of(y, found.normal, incidence, found.background, _OPEN_LOSS * floor)
    density, explained = search.density(list(found.effects))
    taken = np.array([one.part for one in found.effects], dtype=np.int64)
    parts = search.possible(density, explained, taken, np.zeros(len(incidence.extra)))
    if not len(parts):
        return ()
    gain, *_ = search.gains(density, explained, parts, None)
    order = np.argsort(-gain, kind="stable")
    return tuple((int(parts[i]), float(gain[i])) for i in order.tolist() if gain[i] > OPEN)
