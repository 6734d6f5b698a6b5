"""The routed fabric of a Clos network: what `link_coverage` plans on, with OpenSM's routes or adaptive routing."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from fabric.plan.link_coverage_load import Bools, Floats, Ints, RoutedFabric
from fabric.sim.net.clos import Clos
from fabric.sim.net.route import routes

KNOWN = ("ftree", "updn", "minhop", "ar")
"""Routings with paths that can be known before: OpenSM's tables, and trunks that are loaded evenly."""


def routed_fabric(
    clos: Clos, *, routing: str, usable: Bools | None = None, part: Ints | None = None, salt: int = 0
) -> RoutedFabric:
    """
    A Clos with its routes; without *usable* every RNIC takes part, without *part* all leaves are joined.

    With ``ar`` the parallel cables of a leaf, and of a pod, are one trunk, taken to be loaded evenly. ``ecmp`` gives
    the routes of the hash *salt*: to judge a plan that does not know it.
    """
    rnics = np.arange(clos.nics, dtype=np.int64)
    tier, owner, cables, capacity = _trunks(clos) if routing == "ar" else _links(clos)
    return RoutedFabric(
        leaf=clos.leaf_of(rnics),
        port=clos.port_of(rnics),
        leaves_per_pod=clos.leaves_per_pod,
        rail_step=clos.spec.rails if clos.spec.rail_optimised else 1,
        usable=np.ones(clos.nics, dtype=np.bool_) if usable is None else usable,
        line_rate_gbps=clos.spec.line_rate_gbps,
        capacity_gbps=capacity,
        tier=tier,
        owner=owner,
        cables=cables,
        links=partial(_crossed, clos, routing, salt),
        part=np.zeros(clos.leaves, dtype=np.int64) if part is None else part,
    )


def _crossed(clos: Clos, routing: str, salt: int, src: Ints, dst: Ints) -> NDArray[np.integer]:
    return routes(clos, src, dst, engine=routing, salt=salt).links


_Parts = tuple[Ints, Ints, Ints, Floats]


def _links(clos: Clos) -> _Parts:
    """Tier, owner, cables and capacity of each link, in the order of `fabric.sim.net.clos`."""
    width, cores = clos.spec.up, clos.spec.up * clos.cores_up
    owners = [np.arange(clos.nics), np.arange(clos.nics)]
    owners += [np.repeat(np.arange(clos.leaves), width)] * 2
    owners += [np.repeat(np.arange(clos.pods), cores)] * 2
    tier = np.repeat(np.arange(len(owners)), [len(one) for one in owners])
    return tier, np.concatenate(owners), np.ones(len(tier), dtype=np.int64), clos.capacity_gbps


def _trunks(clos: Clos) -> _Parts:
    """The same of each trunk, in the order of `fabric.sim.net.pooled`."""
    width, cores = clos.spec.up, clos.spec.up * clos.cores_up
    groups = [(clos.nics, 1), (clos.nics, 1), (clos.leaves, width), (clos.leaves, width)]
    groups += [(clos.pods, cores)] * 2 if cores else []
    rates = [clos.spec.line_rate_gbps] * 2 + [clos.spec.uplink_gbps] * (len(groups) - 2)
    counts = [count for count, _ in groups]
    cables = np.repeat([each for _, each in groups], counts)
    capacity = np.repeat(rates, counts) * cables
    tier = np.repeat(np.arange(len(groups)), counts)
    return tier, np.concatenate([np.arange(count) for count in counts]), cables, capacity
