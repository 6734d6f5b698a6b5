"""
What a good pair reaches, and how much good pairs vary: robust against many bad hosts and against one lucky pair.

The median of all samples is the fault itself once three hosts in ten are bad (half of the pairs are then slow), and the
maximum is one lucky pair. So each host first gives the best it reached (its upper quartile: a good host needs a good
partner in a quarter of its samples), and the level of the fleet is the 65th percentile of those (choices: 35 % of the
hosts may be fast by chance, or 60 % bad, before it moves). The median of the samples near that level is the reference.

Nothing that is broken makes a pair faster, so the spread is taken from the samples above the reference alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fabric.judge.locate.pairs.samples import Bools, Floats, Ints, PairSamples

LEAST_NOISE = 0.002
"""The noise is never taken to be less than this (a choice: below it clocks and rounding count)."""

PRIOR_NOISE, PRIOR_COUNT = 0.01, 4.0
"""A few samples say little of their spread: 1 % counts as four of them (a choice)."""

_HOST_QUANTILE, _FLEET_QUANTILE = 0.75, 0.65
_START_WINDOW, _WINDOW_SIGMAS, _STEPS = 0.04, 1.5, 20
_CUT = 0.9866  # standard deviation of a normal distribution cut at 3 sigma
_LUCKY = 0.2  # further above the level is no noise


@dataclass(frozen=True, slots=True)
class Reference:
    """*gbps* is what a good pair reaches, *noise* the coefficient of variation of good samples."""

    gbps: float
    noise: float


def reference(a: Ints, b: Ints, gbps: Floats) -> Reference:
    """Of samples between hosts *a* and *b*, of which at least one is above 0."""
    level = _level(a, b, gbps)
    window, noise = _START_WINDOW, PRIOR_NOISE
    for _ in range(_STEPS):
        near = gbps[np.abs(gbps - level) <= window * level]
        before = level
        level = float(np.median(near)) if len(near) else level
        noise = _noise(gbps, level)
        window = max(_WINDOW_SIGMAS * noise, 0.01)
        if abs(level - before) < 1e-6 * level:
            break
    return Reference(level, noise)


def _level(a: Ints, b: Ints, gbps: Floats) -> float:
    """The 65th percentile of what each host reached at its best."""
    ends, values = np.concatenate([a, b]), np.concatenate([gbps, gbps])
    order = np.lexsort((values, ends))
    ends, values = ends[order], values[order]
    start = np.flatnonzero(np.r_[True, ends[1:] != ends[:-1]])
    count = np.diff(np.r_[start, len(ends)])
    best = values[start + np.ceil(_HOST_QUANTILE * (count - 1)).astype(np.int64)]
    found = float(np.quantile(best, _FLEET_QUANTILE, method="nearest"))
    return found if found > 0 else float(gbps.max())


def _noise(gbps: Floats, level: float) -> float:
    """1.4826 times the median distance above the level (a half normal's), drawn to 1 % where samples are few."""
    above = gbps[(gbps >= level) & (gbps <= level * (1 + _LUCKY))] / level - 1
    if not len(above):
        return PRIOR_NOISE
    seen = 1.4826 * float(np.median(above))
    return _drawn(seen, len(above))


def _drawn(noise: float, count: int) -> float:
    """The noise of *count* samples, drawn to what is usual where they are few."""
    drawn = (count * noise**2 + PRIOR_COUNT * PRIOR_NOISE**2) / (count + PRIOR_COUNT)
    return max(float(np.sqrt(drawn)), LEAST_NOISE)


def of_healthy(found: Reference, gbps: Floats) -> Reference:
    """The reference if all samples are good, or dips: their median and its distances; *found* if it is 0."""
    level = float(np.median(gbps)) if len(gbps) else 0.0
    if level <= 0:
        return found
    noise = _drawn(1.4826 * float(np.median(np.abs(gbps / level - 1))), len(gbps))
    return of_good(Reference(level, noise), gbps)


def of_good(found: Reference, gbps: Floats) -> Reference:
    """A better estimate from samples of which (nearly) all are good: both sides of the reference count."""
    level, noise = found.gbps, found.noise
    for _ in range(4):
        near = gbps[np.abs(gbps / level - 1) <= 3 * noise]
        if len(near) < 2:
            return found
        level = float(np.median(near))
        seen = float(np.std(near / level)) / _CUT
        noise = _drawn(seen, len(near))
    return Reference(level, noise)


LEAST_DIFFERENCE = 0.03
"""Levels nearer than this are one class (a choice: the effect floor)."""

_AGREE = 0.9  # share of pairs within and between groups that must fit
_REACH = 0.1  # share of the slower class's samples that may be nearer to the faster level
_IN_GROUPS = 0.75  # share of hosts that must have a partner of their own group
_LEAST_PARTNERS = 2  # of a group, to say that a host is of it
_LEAST_HOSTS, _LEAST_SAMPLES, _MOST_HOSTS = 4, 6, 2048
_BINS = 400
_LEAST_MODE = 0.02  # height of a mode, of the highest


@dataclass(frozen=True, slots=True)
class Grouping:
    """*name* (``same leaf``, ``across leaves``, ``within a group``, ``between groups``, ``all pairs``) and groups."""

    name: str
    groups: tuple[tuple[str, ...], ...] = ()


ALL = Grouping("all pairs")


def classes_of(samples: PairSamples) -> tuple[tuple[Grouping, ...], Ints]:
    """The classes, and which of them each sample is of."""
    one = (ALL,), np.zeros(len(samples.a), dtype=np.int64)
    if samples.leaves:
        across = samples.crosses
        names = (Grouping("same leaf"), Grouping("across leaves"))
        return (names, across.astype(np.int64)) if _differ(samples, across) else one
    groups = _groups(samples)
    if groups is None:
        return one
    across = groups[samples.a] != groups[samples.b]
    members = tuple(
        tuple(host for host, group in zip(samples.hosts, groups, strict=True) if group == number)
        for number in dict.fromkeys(groups.tolist())
    )
    between = Grouping("between groups", tuple(group for group in members if len(group) > 1))
    return (Grouping("within a group", between.groups), between), across.astype(np.int64)


def _differ(samples: PairSamples, across: Bools) -> bool:
    """
    Whether both classes were measured and have different levels.

    Hardly any sample of the slower class may reach the level of the faster: where some do, others are held down by
    something bad, and the class is not slower.
    """
    found = []
    for mine in (~across, across):
        if mine.sum() < _LEAST_SAMPLES or samples.gbps[mine].max() <= 0:
            return False
        found.append((reference(samples.a[mine], samples.b[mine], samples.gbps[mine]), samples.gbps[mine]))
    (slow, values), (fast, _) = sorted(found, key=lambda one: one[0].gbps)
    if fast.gbps - slow.gbps <= LEAST_DIFFERENCE * fast.gbps:
        return False
    middle = (slow.gbps + fast.gbps) / 2
    return float((values > middle).mean()) <= _REACH


def _groups(samples: PairSamples) -> Ints | None:
    """The group of each host, when the samples fall into classes by groups of hosts."""
    hosts = len(samples.hosts)
    measured = samples.gbps[samples.gbps > 0]
    if not _LEAST_HOSTS <= hosts <= _MOST_HOSTS or len(measured) < _LEAST_SAMPLES:
        return None
    pairs, values = _by_pair(samples)
    if len(pairs[0]) < hosts * 3 / 2:
        return None
    for valley in valleys(measured):
        groups = _clustered(pairs, values > valley, hosts)
        if groups is not None:
            return _adopted(groups, pairs, values)
    return None


def _by_pair(samples: PairSamples) -> tuple[tuple[Ints, Ints], Floats]:
    """The mean of every pair, whichever way it was measured."""
    low, high = np.minimum(samples.a, samples.b), np.maximum(samples.a, samples.b)
    key, inverse = np.unique(low * len(samples.hosts) + high, return_inverse=True)
    mean = np.bincount(inverse, samples.gbps) / np.bincount(inverse)
    return (key // len(samples.hosts), key % len(samples.hosts)), mean


def valleys(values: Floats) -> list[float]:
    """Where the smoothed histogram of positive values has a valley between two modes, the deepest first."""
    logs = np.log(values)
    low, high = float(logs.min()), float(logs.max())
    if high - low < LEAST_DIFFERENCE:
        return []
    pad = 0.1 * (high - low)
    counts, edges = np.histogram(logs, bins=_BINS, range=(low - pad, high + pad))
    # A width of a third of the least difference, and at most a twentieth of the range, keeps noise from making modes.
    sigma = max(min(LEAST_DIFFERENCE / 3, (high - low) / 20) / (edges[1] - edges[0]), 2.0)
    reach = np.arange(-int(4 * sigma), int(4 * sigma) + 1)
    smooth = np.convolve(counts, np.exp(-((reach / sigma) ** 2) / 2), mode="same")
    top = np.r_[False, (smooth[1:-1] > smooth[:-2]) & (smooth[1:-1] >= smooth[2:]), False]
    peaks = np.flatnonzero(top & (smooth > _LEAST_MODE * smooth.max()))
    found = []
    for left, right in pairwise(peaks.tolist()):
        between = smooth[left : right + 1]
        at = left + int(np.median(np.flatnonzero(between <= between.min() + 1e-12)))
        found.append((float(between.min()) / float(min(smooth[left], smooth[right])), float(np.exp(edges[at]))))
    return [value for depth, value in sorted(found) if depth < 0.5]


def _clustered(pairs: tuple[Ints, Ints], fast: Bools, hosts: int) -> Ints | None:
    """Groups of hosts within which pairs are fast and between which they are slow, None when there are none."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    apart = np.full((hosts, hosts), 0.5)
    apart[pairs] = np.where(fast, 0.0, 1.0)
    apart[pairs[::-1]] = apart[pairs]
    np.fill_diagonal(apart, 0.0)
    groups: Ints = fcluster(linkage(squareform(apart, checks=False), "average"), 0.45, "distance").astype(np.int64)
    size = np.bincount(groups)
    inside = groups[pairs[0]] == groups[pairs[1]]
    settled = (size[groups] > 1).mean() >= _IN_GROUPS and (size > 1).sum() > 1
    if not settled or not inside.any() or inside.all():
        return None
    agrees = fast[inside].mean() >= _AGREE and (~fast[~inside]).mean() >= _AGREE
    return groups if agrees else None


def _adopted(groups: Ints, pairs: tuple[Ints, Ints], values: Floats) -> Ints:
    """
    The same groups, and in them hosts that were in none: with one group they are faster than with all others.

    A bad host is slow with everybody, so it is no neighbour of anybody; but with its own group it loses from the faster
    class. It is adopted when that group's median is further above the others' than half of what the classes differ.
    """
    size = np.bincount(groups)
    inside = groups[pairs[0]] == groups[pairs[1]]
    step = float(np.sqrt(np.median(values[inside]) / max(np.median(values[~inside]), 1e-9)))
    found = groups.copy()
    for host in np.flatnonzero(size[groups] == 1).tolist():
        mine = (pairs[0] == host) | (pairs[1] == host)
        with_group = groups[np.where(pairs[0] == host, pairs[1], pairs[0])]
        levels = {
            group: float(np.median(values[mine & (with_group == group)]))
            for group in np.unique(with_group[mine]).tolist()
            if size[group] > 1 and (mine & (with_group == group)).sum() >= _LEAST_PARTNERS
        }
        if len(levels) < 2:
            continue
        best = max(levels, key=lambda group: levels[group])
        if levels[best] > step * max(level for group, level in levels.items() if group != best):
            found[host] = best
    return found
