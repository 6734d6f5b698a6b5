"""
Permutations that load a fat tree evenly: everyone sends so many pods, leaves and ports on.

Shift permutations are free of contention where destinations are dealt out to uplinks in turn (Zahavi, JPDC 2012), which
OpenSM's engines do when leaves are full. Two numbers make room where they are not free of it: only the first *out*
ports of a leaf leave it, the others stay under it; and of the leaves of a pod only *across* send each port out of the
pod, another set of leaves for each port, so that every spine gets as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fabric.plan.link_coverage_load import Ints, RoutedFabric

_MOST_STEPS = 6  # leaf shifts tried; a choice: with regular leaves the first does, the others tile uneven ones


@dataclass(frozen=True, slots=True)
class _Shift:
    leaves: int
    across: int
    out: int
    turn: int  # ports


def shifts(net: RoutedFabric) -> Iterator[tuple[Ints, Ints]]:
    """Sources and destinations of each permutation of the family, the most likely first; none has a flow to itself."""
    grid = _grid(net)
    for shift in _family(net, grid.shape[1]):
        yield _flows(net, grid, shift)


def _family(net: RoutedFabric, ports: int) -> Iterator[_Shift]:
    width = net.leaves_per_pod
    across = [0] if net.pods == 1 else sorted({width, *_powers(width), 0}, reverse=True)
    outs = sorted({ports, *(ports - ports // part for part in (2, 3, 4) if ports // part > 1)}, reverse=True)
    steps = [step % max(width, 1) for step in range(0, (_MOST_STEPS + 1) * net.rail_step, net.rail_step)]
    for turn in (0, ports // 2) if ports > 1 else (0,):
        for out in outs:
            for wide in across:
                for step in dict.fromkeys(steps):
                    if step or (wide == width and net.pods > 1):
                        yield _Shift(step, wide, out, turn)


def _powers(width: int) -> list[int]:
    return [1 << power for power in range(width.bit_length()) if 1 << power < width]


def _grid(net: RoutedFabric) -> Ints:
    """The usable RNIC on each port of each leaf; -1 where there is none. Leaves fill up whole pods."""
    leaves, ports = net.pods * net.leaves_per_pod, int(net.port.max()) + 1
    grid = np.full((leaves, ports), -1, dtype=np.int64)
    rnics = np.flatnonzero(net.usable)
    grid[net.leaf[rnics], net.port[rnics]] = rnics
    return grid


def _flows(net: RoutedFabric, grid: Ints, shift: _Shift) -> tuple[Ints, Ints]:
    leaves, ports = grid.shape
    leaf, port = np.divmod(np.arange(leaves * ports), ports)
    pod, place = np.divmod(leaf, net.leaves_per_pod)
    crosses = (place - port) % net.leaves_per_pod < shift.across
    far = (pod + crosses) % net.pods * net.leaves_per_pod + (place + shift.leaves) % net.leaves_per_pod
    stays = port >= shift.out
    to_leaf = np.where(stays, leaf, far)
    inside = shift.out + (port - shift.out + 1) % max(ports - shift.out, 1)
    to_port = np.where(stays, inside, (port + shift.turn) % shift.out)
    src, dst = grid.ravel(), grid[to_leaf, np.minimum(to_port, ports - 1)]
    there = (src >= 0) & (dst >= 0)
    src, dst = src[there], dst[there]
    runs = net.meet(src, dst)
    return src[runs], dst[runs]
