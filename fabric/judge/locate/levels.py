"""Structures of what is normal, tried side by side: the levels that healthy samples may reach, by class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, inf, log

import numpy as np

from fabric.judge.locate.structure import FLOOR, HEAVY, LIGHT, Bools, Floats, Ints, Normal, student
from fabric.judge.normal.interval import LEAST_PEERS

LEAST_GROUP = 3
"""The fewest hosts that make a class of their own."""

LEAST_NOISE = 0.002
"""The smallest noise that is assumed: below it clocks and rounding count."""

PLACED = 0.06
"""The most that levels differ where leaves are known: real classes of hosts, in no file, are 4 to 6 % apart."""

OF_PLACE = PLACED + FLOOR
"""Groups of hosts that are slower by more than this do not stand elsewhere, but are bad."""

_WIDTHS = (0.004, 0.015)  # of the kernel: quiet and noisy fabrics
_LEAST_SHARE = 0.08  # least share of the samples in a level
_MOST_LEVELS = 4
_FAR = 4.0  # natural log: what is farther below the highest is no level
_LEVEL_COST = 2.0  # nats of a further level, wherever it is
_USUAL_GAP, _MOST_GAP_COST = 0.04, 8.0  # how far levels of real clusters are apart (natural log); nats of any gap
_MOST_HOSTS = 128  # among more hosts no groups are sought by linkage
_PRIOR_NOISE, _PRIOR_COUNT = 0.01, 4.0  # few samples say little of their spread: 1 % counts as four of them
_DISTINCT = 3.0  # times the noise: levels that are nearer are one wide level
_NARROW = 0.004  # noise to begin with: two levels 3 % apart stay two
_NOISY = 0.03  # noise to begin with: a noisy fabric
_LOUD = 0.3  # noise to begin with: a fabric that is emulated, or shared with others
CROWDED = 0.06
"""Noise to begin with where contention is sought: real clusters spread it between groups over 40 %."""

_WIDEST = 0.15  # largest noise there: the deviation of samples all over these 40 %; what spreads wider is bad
_LEAST_IN_LEVEL, _FEW = 4, 16  # least samples in a level; of fewer than 16 samples two are enough, of no peers one
_MOST_TURNS, _SETTLED = 30, 0.01  # turns at most, until the noise changes by less than this share
_ENOUGH = 1 << 16  # samples of a class: they say its noise to within 0.3 % of it
_ENOUGH_OF_HOST = 256  # so many samples of a host, and _ENOUGH in all, tell its group
_LEAST_SAMPLES = 6
_LEAD = 3.0  # nats by which light tails must lead to be taken
_HOST_COST = 0.9  # nats of a host's group, times ln of their number
_DIPS = 0.1  # share of samples that dip, while groups are sought (real clusters: 5 to 25 %)
_BEST = 0.8  # quantile of a host's samples that it reaches at best: not the maximum, which is one tail
_ALIKE = 0.03  # share of the noise: levels, and noises, that differ by less are the same
_MOST_TRIED, _MOST_SPLITS, _FEW_SPLITS = 3, 8, 2
_FEW_HOSTS = 32  # among so few hosts more splits are tried
_MOST_GROUPS = 4

_NONE: Ints = np.empty(0, dtype=np.int64)

FIFTH = 0.2
"""Faults are few: if more than this share of like parts have the same small loss, they are a class."""


Groups = tuple[Ints, float]
"""The group of each host, and the nats that it costs to say it."""


def structures(
    y: Floats,
    a: Ints,
    b: Ints,
    groupings: Sequence[Groups] = (),
    across: Bools | None = None,
    reference: Bools | None = None,
) -> Iterator[Normal]:
    """
    Yield every structure worth trying for samples *y* between hosts *a* and *b*.

    A structure has one level, several levels, or classes: under a leaf and across, within and between groups of hosts
    (*groupings*), or both together. *across*: which samples leave their leaf, where the inventory knows all leaves.
    Only *reference* samples, else all, say what is normal: samples that a fault held down do not.
    """
    reference = np.ones(len(y), dtype=np.bool_) if reference is None else reference
    leaf: Ints | None = None
    if across is not None and across.any() and not across.all():
        leaf = across.astype(np.int64)
    yield from _several_levels(y, reference, placed=across is not None)
    if leaf is not None:
        yield _classed(y, reference, leaf, 2.0, _LEAVES)
    for groups, cost in groupings:
        size = int(groups.max()) + 1
        between = (groups[a] != groups[b]).astype(np.int64)
        apart = np.minimum(groups[a], groups[b]) * size + np.maximum(groups[a], groups[b])
        names = [_between(*divmod(n, size)) for n in range(size * size)]
        crowded = [n for n in range(size * size) if n // size != n % size]  # wide if others' traffic is on the way
        for wide in (False, True):
            yield _classed(y, reference, between, cost, _GROUPS, groups, [1] if wide else [])
            yield _classed(y, reference, apart, cost, names, groups, crowded if wide else [])
            if leaf is not None:
                both = [f"{name}, {one}" for name in names for one in _LEAVES]
                more = [2 * n + k for n in crowded for k in (0, 1)] if wide else []
                yield _classed(y, reference, 2 * apart + leaf, cost + 2.0, both, groups, more)


_LEAVES, _GROUPS = ("same leaf", "across leaves"), ("within a group", "between groups")


def _several_levels(every: Floats, reference: Bools, *, placed: bool) -> Iterator[Normal]:
    """Yield structures with one level for all samples, or several, without classes."""
    everything, y = np.zeros(len(every), dtype=np.int64), every[reference]
    seen: list[Floats] = []
    for width in _WIDTHS:
        levels = levels_of(y, width=width)
        if placed:
            levels = levels[levels > levels[0] - PLACED]
        for count in range(1, len(levels) + 1):
            some = levels[:count]
            if any(len(some) == len(other) and np.abs(some - other).max() < width / 2 for other in seen):
                continue
            seen.append(some)
            found = _fitted(0.0, every, reference, everything, [some])
            if (-np.diff(found.level[0]) > _DISTINCT * found.noise[0]).all():
                yield from (_highest(found, fewer, len(every)) for fewer in range(count, 0, -1))
    for begun, middle in ((_NOISY, seen[0][:1]), (_LOUD, np.array([np.median(y[y > y.max() - _FAR])]))):
        level, weight, noise = _settled(y, middle, begun)
        noisy = Normal(0.0, everything, level[None], weight[None], np.array([noise]))
        yield _tailed(noisy, every, reference)


def without_duplicates(found: Iterable[Normal]) -> Iterator[Normal]:
    """Yield the structures without those that equal an earlier one to within a small share of the noise."""
    kept: list[Normal] = []
    for one in found:
        if not any(_are_alike(one, other) for other in kept):
            kept.append(one)
            yield one


def _are_alike(one: Normal, other: Normal) -> bool:
    if one.level.shape != other.level.shape or one.degrees != other.degrees or one.cost < other.cost:
        return False
    near = _ALIKE * one.noise
    alike = (abs(one.level - other.level) < near[:, None]).all() and (abs(one.noise - other.noise) < near).all()
    return bool(alike) and np.array_equal(one.of_class, other.of_class)


def _highest(normal: Normal, count: int, samples: int) -> Normal:
    """Return a single class with only its *count* highest levels: what is below them is faults."""
    level, weight = normal.level[:, :count], normal.weight[:, :count]
    cost = cost_of_levels(level[0, 0] - level[0, 1:], samples)
    return replace(normal, cost=cost, level=level, weight=weight / weight.sum())


def cost_of_levels(gaps: Floats, samples: int) -> float:
    """
    Return the nats of levels at these *gaps* (natural log) from the usual one, as so many *samples* tell them.

    Each level costs half the logarithm of *samples* (Schwarz 1978), and more the farther it is: an exponential prior.
    """
    return len(gaps) * (log(samples) / 2 + _LEVEL_COST) + float(np.minimum(gaps / _USUAL_GAP, _MOST_GAP_COST).sum())


def levels_of(y: Floats, *, width: float, least_share: float = _LEAST_SHARE) -> Floats:
    """Return the peaks of the density of *y* that hold a share of the samples, highest first; or else the median."""
    step, least = width / 4, _LEAST_IN_LEVEL if len(y) >= _FEW else 2 if len(y) >= LEAST_PEERS else 1
    low, high = float(y.min()) - 4 * width, float(y.max()) + 4 * width
    low = max(low, float(np.sort(y)[-least]) + 4 * width - _FAR)  # no level is above that sample
    count, edges = np.histogram(y, bins=max(int((high - low) / step), 8), range=(low, high))
    kernel = np.exp(-0.5 * (np.arange(-16, 17) / 4) ** 2)
    density = np.convolve(count, kernel, mode="same")
    middle = (edges[:-1] + edges[1:]) / 2
    inner = density[1:-1]
    peaks = np.flatnonzero((inner > density[:-2]) & (inner >= density[2:])) + 1
    found: list[float] = []
    for peak in sorted(peaks.tolist(), key=lambda i: -density[i]):
        level = float(middle[peak])
        near = np.abs(y - level) < 2.5 * width
        if near.mean() >= least_share and near.sum() >= least and all(abs(level - o) > 2.5 * width for o in found):
            found.append(level)
    return np.array(sorted(found, reverse=True)[:_MOST_LEVELS] or [float(np.median(y))])


def _fitted(
    cost: float,
    y: Floats,
    reference: Bools,
    key: Ints,
    levels: list[Floats],
    groups: Ints | None = None,
    wide: Ints = _NONE,
) -> Normal:
    """Return a structure with levels, weights and noise fitted class by class; noise of *wide* classes starts wide."""
    most = max(len(one) for one in levels)
    level, weight = np.zeros((len(levels), most)), np.zeros((len(levels), most))
    noise = np.full(len(levels), LEAST_NOISE)
    for number, some in enumerate(levels):
        begun = CROWDED if number in wide else _NARROW
        mine = _settled(y[reference & (key == number)], some, begun, _WIDEST if number in wide else inf)
        level[number, : len(some)], weight[number, : len(some)], noise[number] = mine
    return _tailed(Normal(cost, key, level, weight, noise, groups), y, reference)


def _settled(y: Floats, levels: Floats, noise: float = _NARROW, most: float = inf) -> tuple[Floats, Floats, float]:
    """
    Fit levels, weights and noise of the samples of one class: expectation and maximisation of Student's t and dips.

    Where the fit begins decides whether it ends at the narrow peak or at the wide one: *noise* is its start, *most* its
    limit.
    """
    y = y[:: 1 + len(y) // _ENOUGH]
    level, weight, dips = levels.astype(np.float64), np.full(len(levels), 1 / len(levels)), _DIPS
    part = np.ones((len(y), len(level)))
    for _ in range(_MOST_TURNS):
        z = (y[:, None] - level) / noise
        held = (1 - dips) * weight * student(z, HEAVY) / noise
        dip = np.where(y < level.max() - max(FLOOR, 3 * noise), dips / 3, 1e-9)
        part = held / (held.sum(axis=1) + dip)[:, None]
        drawn = part * (HEAVY + 1) / (HEAVY + z * z)
        level = np.where(
            drawn.sum(axis=0) > 0, (drawn * y[:, None]).sum(axis=0) / np.maximum(drawn.sum(axis=0), 1e-9), level
        )
        count = float(part.sum())
        seen = _noise_of(float((drawn * (y[:, None] - level) ** 2).sum()), count)
        weight = (part.sum(axis=0) + 1 / len(y)) / (count + len(level) / len(y))
        dips = float(np.clip(1 - count / len(y), 0.01, 0.4))
        before, noise = noise, min(seen, most)
        if abs(noise - before) < _SETTLED * noise:
            break
    return level, weight, min(_deviation(y, level, part), most)


def _deviation(y: Floats, level: Floats, part: Floats) -> float:
    """Return the standard deviation of normal noise with this middle half."""
    away = np.abs(y - level[part.argmax(axis=1)])
    order = np.argsort(away)
    total = np.cumsum(part.sum(axis=1)[order])
    seen = 1.4826 * float(away[order][np.searchsorted(total, total[-1] / 2)])
    return _noise_of(float(total[-1]) * seen**2, float(total[-1]))


def _noise_of(squares: float, count: float) -> float:
    """Return the noise of *count* samples with this sum of squares; few samples tell little: a prior counts, too."""
    return max(LEAST_NOISE, float(((squares + _PRIOR_COUNT * _PRIOR_NOISE**2) / (count + _PRIOR_COUNT)) ** 0.5))


def _classed(
    y: Floats,
    reference: Bools,
    key: Ints,
    cost: float,
    names: Sequence[str],
    groups: Ints | None = None,
    wide: Sequence[int] = (),
) -> Normal:
    """
    Return a structure with a level and a noise for each class of samples.

    *key* is the class of each sample; classes in *wide* may have wide noise. If a class has no *reference* sample, all
    its samples tell.
    """
    present, key = np.unique(key, return_inverse=True)
    reference = reference | ~np.isin(key, key[reference])
    levels = [_upper(y[reference & (key == n)]) for n in range(len(present))]
    below = np.sort([float(level[0]) for level in levels])
    cost += cost_of_levels(below[-1] - below[:-1], len(y))
    wider = np.flatnonzero(np.isin(present, wide))
    found = _fitted(cost, y, reference, key.astype(np.int64), levels, groups, wider)
    return replace(found, names=tuple(names[n] for n in present.tolist()))


def _upper(y: Floats) -> Floats:
    """Return the highest level that holds three of ten samples."""
    return levels_of(y, width=_WIDTHS[0], least_share=0.3)[:1]


def _between(one: int, other: int) -> str:
    return f"within group {one + 1}" if one == other else f"between groups {one + 1} and {other + 1}"


def are_classes(y: Floats, a: Ints, b: Ints, groups: Ints) -> bool:
    """
    Return whether groups are no faults: placement slows the way between them, or all pairs of a fifth of the hosts.

    Groups that are slower among themselves by more than places differ, or that are smaller, are bad. A host that was
    measured with none of its own group may be bad as well.
    """
    within = groups[a] == groups[b]
    met = np.zeros(len(groups), dtype=np.bool_)
    met[np.concatenate([a[within], b[within]])] = True
    if not met[np.concatenate([a, b])].all():
        return False
    inside = [y[within & (groups[a] == n)] for n in range(int(groups.max()) + 1)]
    level = np.array([np.quantile(one, _BEST, method="higher") if len(one) else -np.inf for one in inside])
    slow = level < level.max() - FLOOR
    size = np.bincount(groups)
    return bool((level >= level.max() - OF_PLACE).all() and (size[slow] >= FIFTH * len(groups)).all())


def groupings(y: Floats, a: Ints, b: Ints, hosts: int) -> list[Groups]:
    """Return the likeliest groups that the hosts fall into by what they reach."""
    if len(y) < 2 * hosts or hosts < 2 * LEAST_GROUP:
        return []
    some = slice(None, None, 1 + len(y) // max(_ENOUGH, _ENOUGH_OF_HOST * hosts))
    y, a, b = y[some], a[some], b[some]
    found: list[tuple[float, Ints, float]] = []
    for groups in {one.tobytes(): one for one in _first_groups(y, a, b, hosts)}.values():
        size = np.bincount(groups)
        if size.min() >= LEAST_GROUP and len(size) > 1 and are_classes(y, a, b, groups):
            cost = group_cost(groups)
            found.append((_likely(y, a, b, groups) - cost, groups, cost))
    found.sort(key=lambda one: -one[0])
    return [(groups, cost) for _, groups, cost in found[:_MOST_TRIED]]


def with_one_host_moved(groups: Ints, hosts: Ints, y: Floats, a: Ints, b: Ints) -> list[Groups]:
    """Return the likeliest groups with one of *hosts* in another group, if these are likelier than the groups now."""
    best, found = _likely(y, a, b, groups), None
    for host, group in product(hosts.tolist(), range(int(groups.max()) + 1)):
        other = groups.copy()
        other[host] = group
        score = _likely(y, a, b, other)
        if score > best and are_classes(y, a, b, other):
            best, found = score, other
    return [] if found is None else [(found, group_cost(found))]


def group_cost(groups: Ints) -> float:
    """Return the nats that it costs to say which group each host is in."""
    return _HOST_COST * len(groups) * log(int(groups.max()) + 1) + 4


def _likely(y: Floats, a: Ints, b: Ints, groups: Ints) -> float:
    """Return the log likelihood of the samples where each two groups have a level of their own, dips allowed for."""
    size = int(groups.max()) + 1
    key = np.minimum(groups[a], groups[b]) * size + np.maximum(groups[a], groups[b])
    crowded = [n for n in range(size * size) if n // size != n % size]
    return likelihood(y, _classed(y, np.ones(len(y), dtype=np.bool_), key, 0.0, [""] * size**2, groups, crowded))


def likelihood(y: Floats, normal: Normal) -> float:
    """Return the log likelihood of samples of which none is bad and some dip."""
    dips = _DIPS * np.where(y < normal.top.max(), 1 / 3, 1e-9)
    return float(np.log((1 - _DIPS) * normal.density(y, normal.of_class) + dips).sum())


def _first_groups(y: Floats, a: Ints, b: Ints, hosts: int) -> Iterator[Ints]:
    """
    Yield groups to begin with: by what hosts reach at best and, for few hosts, by who sees others alike.

    The second is average linkage of what each host sees. Linkage of cells, moving hosts from group to group, and the
    leading eigenvector of "above or below the middle" made no difference (benchmarks/real_pairs.py, seeds 401, 501 and
    971).
    """
    ends, values = np.concatenate([a, b]), np.concatenate([y, y])
    order = np.lexsort((values, ends))
    count = np.bincount(ends, minlength=hosts)
    place = np.cumsum(count) - count + np.rint(_BEST * (count - 1)).astype(np.int64)
    reach = np.where(count > 0, values[order][np.minimum(place, len(order) - 1)], float(y.max()))
    rank = np.argsort(np.argsort(reach, kind="stable"), kind="stable")
    least = max(LEAST_GROUP, ceil(FIFTH * hosts))
    gap = np.diff(np.sort(reach))[least - 1 : hosts - least]
    splits = _MOST_SPLITS if hosts <= _FEW_HOSTS else _FEW_SPLITS
    for place_of in np.argsort(-gap, kind="stable")[:splits].tolist():
        yield _renumbered((rank >= place_of + least).astype(np.int64))
    if hosts > _MOST_HOSTS:
        return
    yield from _linked(_cells(y, a, b, hosts))


def _cells(y: Floats, a: Ints, b: Ints, hosts: int) -> Floats:
    """Return the upper median of what was measured between every two hosts, whichever sent."""
    cell = np.minimum(a, b) * hosts + np.maximum(a, b)
    order = np.lexsort((y, cell))
    names, first, count = np.unique(cell[order], return_index=True, return_counts=True)
    matrix = np.full((hosts, hosts), np.nan)
    one, other = names // hosts, names % hosts
    matrix[one, other] = matrix[other, one] = y[order][first + count // 2]
    return matrix


def _linked(matrix: Floats) -> Iterator[Ints]:
    """
    Yield four, three and two groups of hosts by the mean difference of what they see of the others, 0.1 at most.

    The two nearest groups are joined; from other groups they are as far as their members on average (Sokal and Michener
    1958). SciPy has the same, but importing it takes longer than this, and 30 MiB.
    """
    total = np.array([np.nansum(np.minimum(np.abs(matrix - row), 0.1), axis=1) for row in matrix])
    seen = np.isfinite(matrix).astype(np.int64)
    count = seen @ seen.T  # hosts with which both were measured
    distance = np.where(count >= 2, total / np.maximum(count, 1), 0.05)
    np.fill_diagonal(distance, np.inf)
    groups, size = np.arange(len(matrix)), np.ones(len(matrix))
    for left in range(len(matrix) - 1, 1, -1):
        one, other = sorted(divmod(int(distance.argmin()), len(matrix)))
        joined = np.average(distance[[one, other]], axis=0, weights=size[[one, other]])
        distance[other] = distance[:, other] = np.inf
        joined[[one, other]] = np.inf
        distance[one] = distance[:, one] = joined
        size[one] += size[other]
        groups[groups == other] = one
        if left <= _MOST_GROUPS:
            yield _renumbered(groups)


def _renumbered(groups: Ints) -> Ints:
    """Return groups numbered from 0 in the order of their first host."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))
    return place[inverse].astype(np.int64)


def refitted(normal: Normal, y: Floats, healthy: Bools) -> Normal:
    """Return the same structure with levels and noise fitted to *healthy* samples alone, class by class."""
    level, weight, noise = normal.level.copy(), normal.weight.copy(), normal.noise.copy()
    for number in range(len(noise)):
        mine, used = y[healthy & (normal.of_class == number)], weight[number] > 0
        if len(mine) >= _LEAST_SAMPLES:
            before = float(noise[number])
            level[number, used], weight[number, used], noise[number] = _settled(mine, level[number, used], before)
    return _tailed(replace(normal, level=level, weight=weight, noise=noise), y, healthy)


def _tailed(found: Normal, y: Floats, healthy: Bools) -> Normal:
    """Return it with light tails where the samples show them; else with heavy ones, as real clusters have."""
    kept = healthy & (y >= found.slow_below[found.of_class])
    light = replace(found, degrees=LIGHT)
    lead = np.log(light.density(y[kept], found.of_class[kept]) / found.density(y[kept], found.of_class[kept])).sum()
    return light if lead > _LEAD else found


def level_and_noise(values: Floats) -> tuple[float, float]:
    """
    Return the highest level that a share of positive *values* reach, and their coefficient of variation around it.

    Both come from medians within a window: a fifth of the values may belong to slower parts, and that is no noise.
    """
    y = np.log(values)
    level, window, noise = float(levels_of(y, width=_WIDTHS[1])[0]), FLOOR, _PRIOR_NOISE
    for _ in range(_MOST_TURNS):
        near = np.abs(y - level) < window
        count = int(near.sum())
        if count < 3:
            break
        level += float(np.median(y[near] - level))
        seen, before = 1.4826 * float(np.median(np.abs(y[near] - level))), noise
        noise = _noise_of(count * seen**2, count)
        if window >= 3 * noise and abs(noise - before) < _SETTLED * noise:
            break  # a window that was too narrow for wide noise has grown with it
        window = max(FLOOR, 3 * noise)
    return float(np.exp(level)), noise
