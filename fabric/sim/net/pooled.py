"""Adaptive routing as pooled trunks: the parallel links of a leaf, or of a pod, act as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabric.sim.net.arrays import Floats, Links
from fabric.sim.net.choose import Trips
from fabric.sim.net.clos import Clos

AR_ETA = 0.95
"""What distributed adaptive routing reaches of a trunk; 0.77 to 1.0 measured (Geoffray and Hoefler, HotI 2008)."""
AR_ALPHA = {"infiniband": 1.0, "ethernet": 0.0}
"""Whether a switch knows the far side: credits push back on InfiniBand; plain packet spray on Ethernet is blind."""


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Resources instead of links: RNICs up and down, leaf trunks up and down, pod trunks up and down."""

    capacity_gbps: Floats


def pooled(clos: Clos, capacity_gbps: Floats, *, eta: float = 0.95, alpha: float = 1.0) -> Pooled:
    """The trunks that links of these capacities make; a link of capacity 0 is out of its group.

    *eta* is what distributed choices reach of a trunk (Geoffray and Hoefler measured 0.77 to 1.0). *alpha* says how
    well a switch knows the far side: 1 is the best split there is, 0 sprays blindly, so that the slowest link of the
    way down sets the pace of all.
    """
    if not 0 < eta <= 1 or not 0 <= alpha <= 1:
        raise ValueError(f"eta {eta} must be above 0 and at most 1, alpha {alpha} from 0 to 1")
    if len(capacity_gbps) != clos.links:
        raise ValueError(f"{len(capacity_gbps)} capacities for {clos.links} links")
    width, uplinks = clos.spec.up, clos.leaves * clos.spec.up
    core_width = width * clos.cores_up
    cores = clos.pods * core_width
    access, leaf_up, leaf_dn, spine_up, spine_dn = np.split(
        capacity_gbps, np.cumsum([2 * clos.nics, uplinks, uplinks, cores])
    )
    parts = [access, eta * leaf_up.reshape(-1, width).sum(axis=1), eta * _down(leaf_dn.reshape(-1, width), alpha)]
    if cores:
        parts.append(eta * spine_up.reshape(-1, core_width).sum(axis=1))
        parts.append(eta * _down(spine_dn.reshape(-1, core_width), alpha))
    return Pooled(np.concatenate(parts))


def _down(links: Floats, alpha: float) -> Floats:
    total: Floats = links.sum(axis=1)
    if alpha == 1:
        return total
    live = links > 0
    slowest = np.where(live, links, np.inf).min(axis=1)
    slowest[~live.any(axis=1)] = 0.0
    mixed: Floats = alpha * total + (1 - alpha) * live.sum(axis=1) * slowest
    return mixed


def resources(clos: Clos) -> int:
    """How many there are; also the id of the dummy that pads a short path."""
    pods = clos.pods if clos.cores_up else 0
    return 2 * (clos.nics + clos.leaves + pods)


def trunk_links(clos: Clos, trip: Trips) -> Links:
    """The resources each sub-flow uses, padded."""
    dummy = resources(clos)
    leaf, pod = 2 * clos.nics, 2 * (clos.nics + clos.leaves)
    links = np.full((len(trip.src), 6), dummy, dtype=np.int32)
    links[:, 0] = trip.src
    links[:, 5] = clos.nics + trip.dst
    away = trip.src_leaf != trip.dst_leaf
    links[:, 1] = np.where(away, leaf + trip.src_leaf, dummy)
    links[:, 4] = np.where(away, leaf + clos.leaves + trip.dst_leaf, dummy)
    if clos.cores_up:
        across = trip.src_pod != trip.dst_pod
        links[:, 2] = np.where(across, pod + trip.src_pod, dummy)
        links[:, 3] = np.where(across, pod + clos.pods + trip.dst_pod, dummy)
    return links
