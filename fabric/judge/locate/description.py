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

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, lgamma, log, pi

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNKNOWN = -1
"""In an array of indexes: not known, or there is none."""

FLOOR = 0.03
"""The smallest loss worth naming (InfiniBand practice warns at 10 %, published GEMM checks at 3.5 %)."""

HEAVY, LIGHT = 4.0, 30.0
"""Degrees of freedom of the noise: heavy tails as real clusters have, or nearly normal where the samples show it."""

_DIP_WIDTH = 3.0  # nats over which background dips are spread: down to a twentieth of the level
_ALWAYS, _OFTEN = 0.98, 0.65  # shares of its samples in which a faulty part shows
_SPREADS = ((0.004, 0.0), (0.05, 1.0), (0.25, 2.0))  # of a part's loss, and what each costs in nats
Form = tuple[float, float, float, float]
"""Spread and rho of an effect, what that costs, and how often half the logarithm of its samples on top."""
_FORMS: tuple[Form, ...] = tuple(
    (width, often, dear, more) for width, dear in _SPREADS for often, more in ((_ALWAYS, 0.5), (_OFTEN, 1.0))
)
_QUANTILES = (0.25, 0.5, 0.75)
_MOST_BLAMED = 64

LEAST_GAIN = 3.0
"""Nats from which a part is given as possible; ``CERTAIN`` from which it is called bad."""

CERTAIN = 5.0
"""A part is bad from so many nats on (chosen with benchmarks/real_pairs.py, seeds 1 to 12: 1 of 1,200 sets FAILs)."""
_LEAST_BACKGROUND, _MOST_BACKGROUND = 0.01, 0.4
_TOUCHED = 0.6  # of a part's samples that are slow: then they are no background


def student(z: Floats, degrees: float) -> Floats:
    """Density of Student's t distribution."""
    scale = exp(lgamma((degrees + 1) / 2) - lgamma(degrees / 2)) / (degrees * pi) ** 0.5
    found: Floats = scale * (1 + z * z / degrees) ** (-(degrees + 1) / 2)
    return found


@dataclass(frozen=True)
class Normal:
    """
    What healthy samples reach. Class ``of_class[i]`` of sample *i* has *level* (log Gb/s), a *weight*, one *noise*.

    *level* and *weight* have a row a class; a class with fewer levels than others has weights of 0. *cost*: nats that
    it takes to say this structure. *groups*: the hosts' groups where the classes are those of groups, else None;
    *names* those of the classes; *known*: an inventory says the groups.
    """

    name: str
    cost: float
    of_class: Ints
    level: Floats
    weight: Floats
    noise: Floats
    groups: Ints | None = None
    names: tuple[str, ...] = ("all pairs",)
    known: bool = False
    degrees: float = HEAVY

    def expected(self, y: Floats) -> Floats:
        """What each sample should be: its nearest level, of those that are no fault; its main one where it is slow."""
        near = (self.weight > 0) & (self.level >= self.top[:, None] - NEAR)
        level = np.where(near, self.level, np.inf)[self.of_class]
        nearest = np.abs(y[:, None] - level).argmin(axis=1)
        found: Floats = level[np.arange(len(y)), nearest]
        slow = y < self.least[self.of_class]
        found[slow] = np.minimum(self.top, np.maximum(self.main, self.top - NEAR))[self.of_class][slow]
        return found

    @cached_property
    def top(self) -> Floats:
        """By class: its highest level."""
        found: Floats = np.where(self.weight > 0, self.level, -np.inf).max(axis=1)
        return found

    @cached_property
    def main(self) -> Floats:
        """By class: its most frequent level."""
        found: Floats = self.level[np.arange(len(self.level)), self.weight.argmax(axis=1)]
        return found

    @cached_property
    def least(self) -> Floats:
        """By class: a sample below it is slow, by the floor or the noise below the lowest level that is no fault."""
        near = (self.weight > 0) & (self.level >= self.top[:, None] - NEAR)
        lowest: Floats = np.where(near, self.level, np.inf).min(axis=1)
        found: Floats = lowest - np.maximum(FLOOR, 3 * self.noise)
        return found

    def density(self, y: Floats, of_class: Ints, loss: Floats | float = 0.0, spread: float = 0.0) -> Floats:
        """Of samples of these classes, held down by *loss* with a *spread*."""
        width = np.hypot(self.noise, spread)[of_class]
        found = np.zeros(len(y))
        for number in range(self.level.shape[1]):
            weight = self.weight[of_class, number]
            if weight.any():
                found += weight * student((y - self.level[of_class, number] + loss) / width, self.degrees)
        return found / width


NEAR = 0.13
"""Levels farther than this below the highest (a ratio of 0.88) are faults: real classes of hosts are 4 to 6 % apart."""


@dataclass(frozen=True)
class Incidence:
    """
    Which samples pass through which part: entry *e* says that sample ``sample[e]`` passes through part ``part[e]``.

    Entries are sorted by part; those of part *p* are ``start[p]:start[p + 1]``. *family* is the kind of each part: to
    say which *k* of the *n* things of a family are faulty takes ln C(n, k) + k nats, and *extra* on top for a rarer
    part. *whole* is the part that both directions of one thing belong to: they are never rivals.
    """

    samples: int
    sample: Ints
    part: Ints
    start: Ints
    family: Ints
    extra: Floats
    whole: Ints

    @classmethod
    def of_paths(cls, paths: Ints, family: Ints, extra: Floats, whole: Ints) -> Incidence:
        """*paths*: a row a sample, the parts on its way, filled up with UNKNOWN."""
        part = paths.ravel()
        known = part != UNKNOWN
        sample = np.repeat(np.arange(len(paths)), paths.shape[1])[known]
        part = part[known]
        order = np.argsort(part, kind="stable")
        count = np.bincount(part, minlength=len(extra))
        start = np.concatenate([[0], np.cumsum(count)])
        return cls(len(paths), sample[order], part[order], start, family, extra, whole)

    @property
    def count(self) -> Ints:
        """How many samples pass through each part."""
        found: Ints = np.diff(self.start)
        return found

    def of(self, part: int) -> Ints:
        """The samples that pass through a part."""
        return self.sample[self.start[part] : self.start[part + 1]]

    @cached_property
    def things(self) -> Ints:
        """By family: how many things it has; both directions of one are one thing."""
        own = (self.whole == np.arange(len(self.whole))) & (self.count > 0)
        found: Ints = np.bincount(self.family[own], minlength=int(self.family.max()) + 1)
        return found

    def costs(self, taken: Ints) -> Floats:
        """By part: the nats that it takes to say that it is faulty, too, when *taken* are."""
        faulty = np.bincount(self.family[taken], minlength=len(self.things))
        further = np.log(np.maximum(self.things - faulty, 1) / (faulty + 1)) + 1
        found: Floats = np.maximum(further, 1.0)[self.family] + self.extra
        return found

    def share(self, which: Bools) -> Floats:
        """By part: the share of its samples that are among *which*; 0 of none."""
        hits = np.bincount(self.part, which[self.sample], minlength=len(self.extra))
        found: Floats = hits / np.maximum(self.count, 1)
        return found


@dataclass(frozen=True, slots=True)
class Effect:
    """A faulty part: its samples lose *loss* (natural log), give or take *spread*, in a share *rho* of them."""

    part: int
    loss: float
    spread: float
    rho: float
    gain: float = 0.0
    rivals: tuple[tuple[int, float], ...] = ()

    @property
    def share_lost(self) -> float:
        """The loss as a share of the normal bandwidth."""
        return 1 - exp(-self.loss)


@dataclass(frozen=True)
class Description:
    """
    The best hypothesis found: *effects*, the best first, over *normal*; *explained* is each sample's loss by them.

    *background* is the share of dips that belong to no part, *score* the nats of the whole.
    """

    normal: Normal
    effects: tuple[Effect, ...]
    explained: Floats
    background: float
    score: float
    slow: Bools = field(repr=False)


def describe(
    y: Floats, normal: Normal, incidence: Incidence, least_gain: float = LEAST_GAIN, floor: float = FLOOR
) -> Description:
    """
    Find the faulty parts given what is normal: greedy, then swaps and drops until nothing changes.

    No part is named for less than *least_gain* nats or for a loss below *floor*.
    """
    search = _Search.of(y, normal, incidence, _background(y, normal, incidence), floor)
    effects = _gathered(search, _started(search, least_gain))
    for _ in range(_MOST_BLAMED):
        improved = _improved(search, effects, least_gain)
        if improved is None:
            break
        effects = _greedy(search, improved, least_gain)
    return _told(search, effects)


def _background(y: Floats, normal: Normal, incidence: Incidence) -> float:
    """The share of slow samples that touch no part of which most samples are slow."""
    slow = y < normal.least[normal.of_class]
    bad = (incidence.share(slow) >= _TOUCHED) & (incidence.count >= 2)
    touched = np.zeros(len(y), dtype=np.bool_)
    touched[incidence.sample[bad[incidence.part]]] = True
    share = (slow & ~touched).sum() / max(1, (~touched).sum())
    return float(np.clip(share, _LEAST_BACKGROUND, _MOST_BACKGROUND))


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
    floor: float

    @classmethod
    def of(cls, y: Floats, normal: Normal, incidence: Incidence, background: float, floor: float) -> _Search:
        top = normal.top[normal.of_class]
        dip = np.where(y < top - FLOOR, 1 / _DIP_WIDTH, 1e-9)
        base = (1 - background) * normal.density(y, normal.of_class) + background * dip
        slow = y < normal.least[normal.of_class]
        return cls(
            y, normal, incidence, background, base, slow, top - y, (normal.top - normal.main)[normal.of_class], floor
        )

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
            more = 0.5 if one.rho == _ALWAYS else 1.0
            cost += dict(_SPREADS)[one.spread] + more * log(max(int(self.incidence.count[one.part]), 2))
            cost += float(self.incidence.costs(taken)[one.part])
            taken = np.append(taken, one.part)
        return float(np.log(density).sum() - cost)

    def held_down(self, samples: Ints, loss: Floats | float, spread: float) -> Floats:
        return self.normal.density(self.y[samples], self.normal.of_class[samples], loss, spread)

    def gains(
        self, density: Floats, explained: Floats, parts: Ints, costs: Floats, forms: tuple[Form, ...] = _FORMS
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """For each of *parts* the best gain in nats, and the loss, spread and rho that it takes."""
        inc = self.incidence
        entry = np.concatenate(
            [np.arange(inc.start[p], inc.start[p + 1]) for p in parts.tolist()] or [np.empty(0, np.int64)]
        )
        local = np.repeat(np.arange(len(parts)), inc.count[parts])
        sample = inc.sample[entry]
        count = np.maximum(inc.count[parts], 1)
        before = density[sample]
        best = np.full(len(parts), -np.inf)
        loss, spread, rho = np.zeros(len(parts)), np.zeros(len(parts)), np.zeros(len(parts))
        for guess in self._losses(local, sample, explained, len(parts)):
            at = guess[local]
            open_ = explained[sample] < at
            for width, often, dear, more in forms:
                held = self.held_down(sample, at, width)
                ratio = np.where(open_, often * held / before + (1 - often), 1.0)
                cost = dear + more * np.log(np.maximum(count, 2)) + costs[parts]
                gain: Floats = np.bincount(local, np.log(ratio), minlength=len(parts)) - cost
                gain[guess < self.floor] = -np.inf
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
        low = (self.deviation - explained > self.floor / 2).astype(np.float64)
        room = low * np.maximum(np.log(0.4 / self.normal.noise[self.normal.of_class] / density), 0.0)
        inc = self.incidence
        most = np.bincount(inc.part, room[inc.sample], minlength=len(inc.extra))
        well = inc.count - np.bincount(inc.part, low[inc.sample], minlength=len(inc.extra))
        free = (most + well * log(1 - _OFTEN) - costs > 0) & ~np.isin(inc.whole, inc.whole[taken])
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


def _started(search: _Search, least_gain: float) -> list[Effect]:
    """
    The better of two beginnings: whatever gains most first, or small parts before those that many samples pass through.

    A greedy search begins with a switch that seems to explain many bad hosts at once, and no single swap undoes that.
    """
    count = search.incidence.count
    large = np.flatnonzero((count > _MANY * float(np.median(count[count > 0]))) & (search.incidence.extra > 0))
    found = _greedy(search, [], least_gain)
    if not np.isin([one.part for one in found], large).any():
        return found
    small = _greedy(search, _greedy(search, [], least_gain, banned=large), least_gain)
    for effect in [one for one in found if one.part in large]:
        rest = [one for one in found if one.part != effect.part]
        apart = _greedy(search, rest, least_gain, banned=large)
        found = max(found, apart, key=search.score)
    return max(found, small, key=search.score)


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


OPEN = 1.2
"""Nats, priors aside, from which a part that is not blamed is worth another test (tests against misses)."""

_OPEN_LOSS = 0.7  # of the floor: what looks smaller now may turn out larger


def open_parts(found: Description, y: Floats, incidence: Incidence, floor: float) -> tuple[tuple[int, float], ...]:
    """
    Parts that are not blamed and may be bad, the likeliest first, with their gains, priors aside.

    Another test would tell.
    """
    search = _Search.of(y, found.normal, incidence, found.background, _OPEN_LOSS * floor)
    density, explained = search.density(list(found.effects))
    taken = np.array([one.part for one in found.effects], dtype=np.int64)
    free = np.zeros(len(incidence.extra))
    parts = search.possible(density, explained, taken, free)
    if not len(parts):
        return ()
    gain, *_ = search.gains(density, explained, parts, free, _FORMS[:1])
    gain += 0.5 * np.log(np.maximum(incidence.count[parts], 2))
    order = np.argsort(-gain, kind="stable")
    return tuple((int(parts[i]), float(gain[i])) for i in order.tolist() if gain[i] > OPEN)
