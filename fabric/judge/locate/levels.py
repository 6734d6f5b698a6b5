"""What healthy samples may reach: the structures of what is normal that are tried side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import log

import numpy as np

from fabric.judge.locate.structure import FLOOR, LIGHT, NEAR, Bools, Floats, Ints, Normal

LEAST_NOISE = 0.002
"""The noise is never taken to be less: below it clocks and rounding count."""

PLACED = 0.06
"""Real classes of hosts that no file mentions are 4 to 6 % apart: levels are no farther where leaves are known."""

_WIDTHS = (0.004, 0.015)  # of the kernel: quiet and noisy fabrics
_LEAST_SHARE = 0.08  # of the samples in a level
_MOST_LEVELS = 4
_LEVEL_COST, _FAR_COST = 3.0, 4.0  # nats of a further level, and of one that is far below
_MOST_HOSTS = 128  # among which groups are looked for
_PRIOR_NOISE, _PRIOR_COUNT = 0.01, 4.0  # few samples say little of their spread: 1 % counts as four of them
_LEAST_IN_LEVEL, _FEW = 4, 16  # samples; of fewer than the second one is enough
_MOST_TURNS, _SETTLED = 12, 0.01  # until the noise changes less than this share
_LEAST_GROUP, _MOST_GROUPS = 3, 4
_STEPS = 64  # of power iteration: a ratio of eigenvalues of 0.9 is 1e-3 of error then
_LEAST_SAMPLES = 6
_LEAD = 3.0  # nats from which light tails are taken

FIFTH = 0.2
"""Faults are few: more of alike parts than this that share one small loss are a class."""


def structures(y: Floats, a: Ints, b: Ints, hosts: int, known: Ints | None) -> Iterator[Normal]:
    """
    Every structure worth trying for samples *y* between hosts *a* and *b*.

    *known* is the leaf of each host where the inventory says it. One level, several levels, hosts in groups: within and
    between them, or each with its own.
    """
    everything = np.zeros(len(y), dtype=np.int64)
    seen: list[Floats] = []
    for width in _WIDTHS:
        levels = levels_of(y, width=width)
        if known is not None:
            levels = levels[levels > levels[0] - PLACED]
        for count in range(1, len(levels) + 1):
            some = levels[:count]
            if any(len(some) == len(other) and np.abs(some - other).max() < width / 2 for other in seen):
                continue
            seen.append(some)
            yield _fitted(f"{count} levels", _cost(some, len(y)), y, everything, [some])
    for groups, cost, given in groupings(y, a, b, hosts, known):
        size = int(groups.max()) + 1
        slow = _slow_in_all(y, a, b, groups)
        if slow is None or (np.bincount(groups)[slow] < FIFTH * hosts).any():
            continue
        across = (groups[a] != groups[b]).astype(np.int64)
        apart = np.minimum(groups[a], groups[b]) * size + np.maximum(groups[a], groups[b])
        for key in (apart,) if slow.any() else (across, apart):
            if key is across or not given:
                yield _grouped(cost, y, key, groups, across=key is across, given=given)


def _cost(levels: Floats, samples: int) -> float:
    """Nats of every level but the first."""
    far = int((levels[0] - levels[1:] > NEAR).sum())
    return (len(levels) - 1) * (log(samples) / 2 + _LEVEL_COST) + far * _FAR_COST


def levels_of(y: Floats, *, width: float, least_share: float = _LEAST_SHARE) -> Floats:
    """Peaks of the density of *y*, each with a share of the samples, the highest first; at least the middle."""
    step = width / 4
    low, high = float(y.min()) - 4 * width, float(y.max()) + 4 * width
    low = max(low, high - 4.0)  # what is far below is no level
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
        if (
            near.mean() >= least_share
            and near.sum() >= (_LEAST_IN_LEVEL if len(y) >= _FEW else 1)
            and all(abs(level - o) > 2.5 * width for o in found)
        ):
            found.append(level)
    return np.array(sorted(found, reverse=True)[:_MOST_LEVELS] or [float(np.median(y))])


def _fitted(name: str, cost: float, y: Floats, key: Ints, levels: list[Floats], groups: Ints | None = None) -> Normal:
    """Levels moved to the middle of their samples, with weights and noise, class by class."""
    most = max(len(one) for one in levels)
    level, weight = np.zeros((len(levels), most)), np.zeros((len(levels), most))
    noise = np.full(len(levels), LEAST_NOISE)
    for number, some in enumerate(levels):
        mine = y[key == number]
        level[number, : len(some)], weight[number, : len(some)], noise[number] = _settled(mine, some)
    return _tailed(Normal(name, cost, key, level, weight, noise, groups), y, np.ones(len(y), dtype=np.bool_))


def _settled(y: Floats, levels: Floats) -> tuple[Floats, Floats, float]:
    """Levels, weights and noise of the samples of one class."""
    window, noise = FLOOR, 0.01
    for _ in range(_MOST_TURNS):
        nearest = np.abs(y[:, None] - levels[None]).argmin(axis=1)
        residual = y - levels[nearest]
        near = np.abs(residual) < window
        if near.sum() < 3:
            break
        levels = np.array(
            [
                level + (np.median(residual[mine]) if (mine := near & (nearest == n)).any() else 0.0)
                for n, level in enumerate(levels)
            ]
        )
        spread = np.abs((y - levels[nearest])[near])
        seen, count, before = 1.4826 * float(np.median(spread)), len(spread), noise
        noise = max(LEAST_NOISE, ((count * seen**2 + _PRIOR_COUNT * _PRIOR_NOISE**2) / (count + _PRIOR_COUNT)) ** 0.5)
        if window >= 3 * noise and abs(noise - before) < _SETTLED * noise:
            break  # a window that was too narrow for wide noise has grown with it
        window = max(FLOOR, 3 * noise)
    weight = np.bincount(nearest[near], minlength=len(levels)) + 1.0
    return levels, weight / weight.sum(), noise


def _grouped(cost: float, y: Floats, key: Ints, groups: Ints, *, across: bool, given: bool) -> Normal:
    """A level and a noise for each class of pairs: within and between groups, or every two groups."""
    present, key = np.unique(key, return_inverse=True)
    levels = [levels_of(y[key == n], width=_WIDTHS[0], least_share=0.3)[:1] for n in range(len(present))]
    highest = max(float(level[0]) for level in levels)
    cost += (len(levels) - 1) * (log(len(y)) / 2 + _LEVEL_COST)
    cost += sum(_FAR_COST for level in levels if highest - float(level[0]) > NEAR)
    found = _fitted("groups", cost, y, key.astype(np.int64), levels, groups)
    within = ("same leaf", "across leaves") if given else ("within a group", "between groups")
    size = int(groups.max()) + 1
    names = tuple(within[n] if across else _between(*divmod(n, size)) for n in present.tolist())
    return replace(found, names=names, known=given)


def _between(one: int, other: int) -> str:
    return f"within group {one + 1}" if one == other else f"between groups {one + 1} and {other + 1}"


def _slow_in_all(y: Floats, a: Ints, b: Ints, groups: Ints) -> Bools | None:
    """
    Which groups are slower inside than the fastest by more than the floor: placement makes only the way between slow.

    None where one is so much slower that it is no class: its hosts are bad.
    """
    inside = [y[(groups[a] == n) & (groups[b] == n)] for n in range(int(groups.max()) + 1)]
    level = np.array([np.median(one) if len(one) else -np.inf for one in inside])
    found: Bools = level < level.max() - FLOOR
    return None if (level < level.max() - NEAR).any() else found


def groupings(y: Floats, a: Ints, b: Ints, hosts: int, known: Ints | None) -> Iterator[tuple[Ints, float, bool]]:
    """Hosts in groups, with the nats that it takes to say them: by the inventory, and as the samples fall apart."""
    if known is not None and len(set(known.tolist())) > 1:
        yield _renumbered(known), 2.0, True
        return
    if len(y) < 2 * hosts or not 2 * _LEAST_GROUP <= hosts <= _MOST_HOSTS:
        return
    seen = set()
    for groups in _found_groups(y, a, b, hosts):
        size = np.bincount(groups)
        if len(size) > 1 and size.min() >= _LEAST_GROUP and tuple(groups) not in seen:
            seen.add(tuple(groups))
            yield groups, 0.9 * hosts * log(len(size)) + 4, False


def _found_groups(y: Floats, a: Ints, b: Ints, hosts: int) -> Iterator[Ints]:
    """By the leading eigenvector of "above or below the middle", and by average linkage of rows and of cells."""
    matrix = np.full((hosts, hosts), np.nan)
    matrix[a, b] = y
    matrix[b, a] = y
    middle, highest = float(np.median(y)), float(y.max())
    yield _renumbered((_leading(np.sign(np.nan_to_num(matrix - middle, nan=0.0))) > 0).astype(np.int64))
    cells = np.minimum(np.nan_to_num(highest - matrix, nan=highest - middle), 0.12)
    for distance in (_row_distance(matrix), cells):
        yield from _linked(distance)


def _leading(matrix: Floats) -> Floats:
    """The eigenvector of the largest eigenvalue of a symmetric matrix, near enough to tell signs: power iteration."""
    shift = float(np.abs(matrix).sum(axis=1).max()) / 2  # so that the largest is the farthest from 0, too
    found = np.cos(np.arange(len(matrix), dtype=np.float64))
    for _ in range(_STEPS):
        found = matrix @ found + shift * found
        found /= float(np.abs(found).max())
    return found


def _linked(distance: Floats) -> Iterator[Ints]:
    """Average linkage: the two nearest groups become one, again and again; the last 4, 3 and 2 groups of it."""
    far = distance.copy()
    np.fill_diagonal(far, np.inf)
    group, size = np.arange(len(far)), np.ones(len(far))
    for left in range(len(far) - 1, 1, -1):
        one, other = divmod(int(far.argmin()), len(far))
        far[one] = (size[one] * far[one] + size[other] * far[other]) / (size[one] + size[other])
        far[one, one] = np.inf
        far[:, one] = far[one]
        far[other] = far[:, other] = np.inf
        size[one] += size[other]
        group[group == other] = one
        if left <= _MOST_GROUPS:
            yield _renumbered(group)


def _row_distance(matrix: Floats) -> Floats:
    """How differently two hosts see all others: the mean difference of their rows, each at most 0.1."""
    found = np.full(matrix.shape, 0.05)
    for host, row in enumerate(matrix):
        apart = np.minimum(np.abs(matrix - row), 0.1)
        count = np.count_nonzero(apart == apart, axis=1)  # where both were measured with that host
        both = count >= 2
        found[host, both] = np.nansum(apart[both], axis=1) / count[both]
    return found


def _renumbered(groups: Ints) -> Ints:
    """Groups numbered from 0 in the order of their first host."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))
    found: Ints = place[inverse].astype(np.int64)
    return found


def refitted(normal: Normal, y: Floats, healthy: Bools) -> Normal:
    """The same structure with the levels and the noise of *healthy* samples alone, class by class."""
    level, weight, noise = normal.level.copy(), normal.weight.copy(), normal.noise.copy()
    for number in range(len(noise)):
        mine, used = y[healthy & (normal.of_class == number)], weight[number] > 0
        if len(mine) >= _LEAST_SAMPLES:
            level[number, used], weight[number, used], noise[number] = _settled(mine, level[number, used])
    return _tailed(replace(normal, level=level, weight=weight, noise=noise), y, healthy)


def _tailed(found: Normal, y: Floats, healthy: Bools) -> Normal:
    """With light tails where the samples show them; else with heavy ones, as real clusters have."""
    kept = healthy & (y >= found.least[found.of_class])
    light = replace(found, degrees=LIGHT)
    lead = np.log(light.density(y[kept], found.of_class[kept]) / found.density(y[kept], found.of_class[kept])).sum()
    return light if lead > _LEAD else found


def level_and_noise(values: Floats) -> tuple[float, float]:
    """The highest level that a share of positive *values* reach, and their coefficient of variation around it."""
    y = np.log(values)
    level, _, noise = _settled(y, levels_of(y, width=_WIDTHS[1])[:1])
    return float(np.exp(level[0])), noise
