"""What the links above the leaves have carried, counted when paths change or somebody asks, not while bytes flow."""

from __future__ import annotations

import numpy as np

from fabric.sim.net.arrays import Floats
from fabric.sim.net.clos import Clos
from fabric.sim.net.pooled import resources
from fabric.sim.net.route import Paths


class LinkTraffic:
    """Gigabits by directed link."""

    def __init__(self, clos: Clos) -> None:
        self._clos = clos
        self._links = np.zeros(clos.links + 1)
        self._trunks = np.zeros(resources(clos) + 1)

    def add(self, paths: Paths, gb: float, *, adaptive: bool) -> None:
        """Every edge of these paths carried so much."""
        into = self._trunks if adaptive else self._links
        np.add.at(into, paths.links, (paths.weight * gb)[:, np.newaxis])

    def deal_out(self, capacity_gbps: Floats) -> None:
        """What trunks carried since this was last done was on their links by capacity: call before that changes."""
        if not self._trunks.any():
            return
        clos, trunks = self._clos, self._trunks
        access, leaves, pods = 2 * clos.nics, clos.leaves, clos.pods
        self._links[:access] += trunks[:access]
        leaf, spine = np.ogrid[:leaves, : clos.spec.up]
        self._deal(clos.leaf_up(leaf, spine), trunks[access : access + leaves], capacity_gbps)
        self._deal(clos.leaf_dn(leaf, spine), trunks[access + leaves : access + 2 * leaves], capacity_gbps)
        if clos.cores_up:
            first = access + 2 * leaves
            pod, spine, core = np.ogrid[:pods, : clos.spec.up, : clos.cores_up]
            for links, at in (
                (clos.spine_up(pod, spine, core), first),
                (clos.spine_dn(pod, spine, core), first + pods),
            ):
                self._deal(links.reshape(pods, -1), trunks[at : at + pods], capacity_gbps)
        trunks[:] = 0.0

    def _deal(self, links: np.ndarray[tuple[int, ...], np.dtype[np.int64]], carried: Floats, capacity: Floats) -> None:
        """One row of links for each trunk."""
        share = capacity[links]
        total = share.sum(axis=1, keepdims=True)
        self._links[links] += carried[:, np.newaxis] * np.divide(
            share, total, out=np.zeros_like(share), where=total > 0
        )

    def of(self, link: int) -> float:
        """What one link has carried, as far as it was added and dealt out."""
        return float(self._links[link])
