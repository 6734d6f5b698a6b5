"""
Classes of links in one data set: pairs of one leaf and pairs across leaves differ, and nobody is bad.

Where the leaves are known, they are the classes if their levels differ. Where not, a class shows itself by structure:
the values have two modes (a valley in their smoothed histogram), and the hosts fall into groups such that pairs within
a group are fast and pairs between groups are slow (average-linkage clustering, scipy.cluster.hierarchy). A bad host is
slow with everybody: it is in no group, so it is not mistaken for a class; it counts to the group with which it is
faster than with the others, if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fabric.analysis.pairs.reference import reference
from fabric.analysis.pairs.samples import Bools, Floats, Ints, PairSamples

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
