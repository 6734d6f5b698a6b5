"""Routes around cables that are down: what a subnet manager, or a switch that heals itself, makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fabric.sim.net.arrays import Bools, Ints, Words
from fabric.sim.net.choose import Trips
from fabric.sim.net.clos import Clos

HEALING = ("sm", "shield")


@dataclass(frozen=True, slots=True)
class Alive:
    """Which cables between switches are up; a cable is down when either direction is."""

    leaf: Bools  # [leaf, spine]
    core: Bools  # [pod, spine, core]


def alive(clos: Clos, down: Iterable[int]) -> Alive:
    """The cables left when the links *down* are not there."""
    up = np.ones(clos.links, dtype=np.bool_)
    up[np.fromiter(down, dtype=np.int64)] = False
    trunks, width = up[2 * clos.nics :], clos.spec.up
    leaf, rest = np.split(trunks, [2 * clos.leaves * width])
    leaf_up, leaf_dn = leaf.reshape(2, clos.leaves, width)
    core_up, core_dn = rest.reshape(2, clos.pods, width, clos.cores_up)
    return Alive(leaf_up & leaf_dn, core_up & core_dn)


def touched(trip: Trips, cables: Alive) -> Bools:
    """Which sub-flows have a dead cable among those they could have used."""
    leaf: Bools = np.logical_not(np.all(cables.leaf, axis=1))
    found: Bools = leaf[trip.src_leaf] | leaf[trip.dst_leaf]
    pod: Bools = np.logical_not(np.all(cables.core, axis=(1, 2)))
    across = trip.src_pod != trip.dst_pod
    found |= across & (pod[trip.src_pod] | pod[trip.dst_pod])
    found &= trip.src_leaf != trip.dst_leaf
    return found


def uplink_lost(trip: Trips, cables: Alive) -> Bools:
    """Which sub-flows start on a leaf with a dead uplink.

    OpenSM deals the rest of those uplinks out anew to every destination; leaves that only lost the way down to another
    leaf deal what is left out to the ports of that leaf.
    """
    lost: Bools = np.logical_not(np.all(cables.leaf, axis=1))
    return lost[trip.src_leaf]


def live_spines(trip: Trips, cables: Alive, rows: Ints) -> Bools:
    """[row, spine]: both ends reach the spine, and across pods the spines of one number still share a core."""
    reached: Bools = cables.leaf[trip.src_leaf[rows]] & cables.leaf[trip.dst_leaf[rows]]
    pods = len(cables.core)
    code, which = np.unique(trip.src_pod[rows] * pods + trip.dst_pod[rows], return_inverse=True)
    first, last = np.divmod(code, pods)
    shared: Bools = (cables.core[first] & cables.core[last]).any(axis=2) | (first == last)[:, np.newaxis]
    reached &= shared[which]
    return reached


def live_cores(trip: Trips, cables: Alive, rows: Ints, spine: Ints) -> Bools:
    """[row, core]: the cores of a spine that both pods still reach."""
    return cables.core[trip.src_pod[rows], spine] & cables.core[trip.dst_pod[rows], spine]


def picked(keys: Words, live: Bools, *, healing: str) -> Ints:
    """The live choice for each key; the healthy choice where nothing is live.

    ``sm`` spreads all keys anew over what is left, as OpenSM does; ``shield`` moves only keys whose choice died, to
    the next live one of the group, as a switch does by itself.
    """
    width = live.shape[1]
    healthy = (keys % np.uint64(width)).astype(np.int64)
    left = live.sum(axis=1)
    if healing == "sm":
        wanted = (keys % np.maximum(left, 1).astype(np.uint64)).astype(np.int64)
        chosen = np.argmax(np.cumsum(live, axis=1) > wanted[:, np.newaxis], axis=1)
    else:
        steps = (np.arange(width)[np.newaxis, :] - healthy[:, np.newaxis]) % width
        chosen = np.argmin(np.where(live, steps, width), axis=1)
    return np.where(left > 0, chosen, healthy)
