"""A routed fabric as arrays, and the load that a stage of flows puts on its links at least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

TIERS = ("host to leaf", "leaf to host", "leaf to spine", "spine to leaf", "spine to core", "core to spine")
"""Names of the tiers of directed links, by number; even ones go up and belong to the senders below them."""

_ROUNDING = 1e-9  # of sums of shares


@dataclass(frozen=True, slots=True, eq=False)
class RoutedFabric:
    """
    RNICs by number, directed links by number, and which links a flow crosses.

    *links* of sources and destinations gives one row a flow, padded with the number of links. With adaptive routing a
    "link" is a trunk: the parallel cables of a leaf or pod, which the switch is taken to load evenly; *cables* says how
    many directed links it stands for (1 for a plain link), *capacity_gbps* is of all of them together. *owner* is the
    RNIC, the leaf or the pod below a link, by its *tier*. Only *usable* RNICs take part.
    """

    leaf: Ints  # of each RNIC
    port: Ints  # of each RNIC, on its leaf
    leaves_per_pod: int
    rail_step: int  # leaves until the next one of the same rail
    part: Ints  # of each leaf: where rails have spines of their own, only RNICs of the same part meet
    usable: Bools  # of each RNIC
    line_rate_gbps: float
    capacity_gbps: Floats
    tier: Ints
    owner: Ints
    cables: Ints
    links: Callable[[Ints, Ints], NDArray[np.integer]]
    tiers: tuple[str, ...] = TIERS

    @property
    def pods(self) -> int:
        """How many pods there are; two levels are one pod."""
        return -(-(int(self.leaf.max()) + 1) // self.leaves_per_pod)

    def meet(self, src: Ints, dst: Ints) -> Bools:
        """Which of these pairs are two RNICs with a way between them."""
        apart: Bools = (src != dst) & (self.part[self.leaf[src]] == self.part[self.leaf[dst]])
        return apart

    def below(self, tier: int, owners: int) -> Ints:
        """How many usable RNICs are below each owner of a tier's links."""
        rnics = np.flatnonzero(self.usable)
        place = (rnics, self.leaf[rnics], self.leaf[rnics] // self.leaves_per_pod)[tier // 2]
        return np.bincount(place, minlength=owners)[:owners]


def flow_rates(net: RoutedFabric, crossed: NDArray[np.integer]) -> Floats:
    """
    What each flow gets at least, Gb/s: the least equal share on its way.

    With n flows on a link of capacity c, max-min fairness gives each of them c / n or more unless it is held down
    elsewhere, and then the same is true there; so this never says too much.
    """
    flows = np.bincount(crossed.ravel(), minlength=len(net.capacity_gbps) + 1)[:-1]
    share = np.append(net.capacity_gbps / np.maximum(flows, 1), np.inf)
    rates: Floats = share[crossed].min(axis=1)
    return rates


def covered_by(net: RoutedFabric, src: Ints, dst: Ints, least: float) -> Bools:
    """Which links carry at least *least* of their capacity while these flows run."""
    if not len(src):
        return np.zeros(len(net.capacity_gbps), dtype=np.bool_)
    crossed = net.links(src, dst)
    rates = np.repeat(flow_rates(net, crossed), crossed.shape[1])
    load = np.bincount(crossed.ravel(), weights=rates, minlength=len(net.capacity_gbps) + 1)[:-1]
    covered: Bools = load >= least * net.capacity_gbps * (1 - _ROUNDING)
    return covered
