"""Mends a stage flow by flow: adds flows that cross links which are still wanted, between RNICs that are still free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabric.plan.link_coverage_load import Floats, Ints, RoutedFabric, covered_by

_ROUNDS = 12
_LEAST_TRIES = 64  # proposals for each link and round; a leaf of 64 uplinks is then hit two times in three
_MOST_TRIES = 4096  # where few links are left, these are the ones that few routes cross
_MOST_PROPOSALS = 1 << 17


def fill(
    net: RoutedFabric, src: Ints, dst: Ints, worth: Floats, least: float, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """
    The flows given and those added; *worth* is what each link counts for, 0 where it is not wanted.

    A flow is added only where no link on its way gets so many flows that one falls below *least* of the line rate: then
    host links stay covered, whatever is added.
    """
    most = np.append(np.maximum(1, np.floor(net.capacity_gbps / (least * net.line_rate_gbps) + 1e-9)), np.inf)
    crossed = net.links(src, dst) if len(src) else np.zeros((0, 1), dtype=np.int64)
    flows = np.bincount(crossed.ravel(), minlength=len(most))
    flows[-1] = 0
    idle = 0
    for _ in range(_ROUNDS):
        left = np.where(covered_by(net, src, dst, least), 0.0, worth)
        links = np.flatnonzero(left)
        if not len(links) or idle > 1:
            break
        new_src, new_dst = _proposals(net, links, _free(net, src), _free(net, dst), rng)
        taken = _accepted(net, new_src, new_dst, left, flows, most)
        idle = 0 if len(taken) else idle + 1
        src, dst = np.append(src, new_src[taken]), np.append(dst, new_dst[taken])
    return src, dst


def _free(net: RoutedFabric, busy: Ints) -> Ints:
    free = net.usable.copy()
    free[busy] = False
    return np.flatnonzero(free)


def _proposals(
    net: RoutedFabric, links: Ints, senders: Ints, receivers: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Random flows from below (or to below) each link, to (from) anywhere."""
    nothing = np.zeros(0, dtype=np.int64)
    if not len(senders) or not len(receivers):
        return nothing, nothing
    links = rng.permutation(links)[: _MOST_PROPOSALS // _LEAST_TRIES]
    tries = min(_MOST_TRIES, _MOST_PROPOSALS // len(links))
    found: list[tuple[Ints, Ints]] = []
    for tier in np.unique(net.tier[links]).tolist():
        owners = np.repeat(net.owner[links[net.tier[links] == tier]], tries)
        near, far = (senders, receivers) if tier % 2 == 0 else (receivers, senders)
        below = _one_below(net, tier, owners, near, rng)
        below = below[below >= 0]
        other = rng.choice(far, len(below))
        found.append((below, other) if tier % 2 == 0 else (other, below))
    src, dst = (np.concatenate(ends) for ends in zip(*found, strict=True))
    order = rng.permutation(np.flatnonzero(net.meet(src, dst)))
    return src[order], dst[order]


def _one_below(net: RoutedFabric, tier: int, owners: Ints, free: Ints, rng: np.random.Generator) -> Ints:
    """For each owner one of the free RNICs below it, at random; -1 where there is none."""
    place = (free, net.leaf[free], net.leaf[free] // net.leaves_per_pod)[tier // 2]
    order = np.argsort(place, kind="stable")
    ordered = place[order]
    first, end = np.searchsorted(ordered, owners), np.searchsorted(ordered, owners, side="right")
    count = end - first
    at = first + (rng.random(len(owners)) * np.maximum(count, 1)).astype(np.int64)
    return np.where(count > 0, free[order[np.minimum(at, len(free) - 1)]], -1)


def _accepted(
    net: RoutedFabric,
    src: Ints,
    dst: Ints,
    left: Floats,
    flows: NDArray[np.integer],
    most: NDArray[np.floating],
) -> Ints:
    """Which proposals to take, best first; *flows* counts them in."""
    if not len(src):
        return np.zeros(0, dtype=np.int64)
    crossed = net.links(src, dst)
    padded = np.append(left, 0.0)
    gains = padded[crossed].sum(axis=1)
    rows = np.argsort(-gains, kind="stable")
    rows = rows[gains[rows] > 0]
    used_src: set[int] = set()
    used_dst: set[int] = set()
    need = dict.fromkeys(np.flatnonzero(left).tolist(), 0)
    enough = np.append(np.ceil(net.capacity_gbps * 0.5 / net.line_rate_gbps - 1e-9), 0)
    taken = []
    for row, a, b, path in zip(
        rows.tolist(), src[rows].tolist(), dst[rows].tolist(), crossed[rows].tolist(), strict=True
    ):
        if a in used_src or b in used_dst:
            continue
        short = [link for link in path if link in need and need[link] < enough[link]]
        if not short or any(flows[link] >= most[link] for link in path):
            continue
        for link in path[:]:
            if link < len(most) - 1:
                flows[link] += 1
            if link in need:
                need[link] += 1
        used_src.add(a)
        used_dst.add(b)
        taken.append(row)
    return np.array(taken, dtype=np.int64)
