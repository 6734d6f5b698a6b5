"""Who sends to whom: source RNICs, destination RNICs, and the job each flow belongs to."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from fabric.sim.net.arrays import Ints
from fabric.sim.net.clos import Clos

Traffic: TypeAlias = tuple[Ints, Ints, Ints]


def permutation(clos: Clos, seed: int) -> Traffic:
    """Every RNIC sends to another one and receives from another one, drawn evenly; each flow is a job."""
    order = np.random.default_rng(seed).permutation(clos.nics).astype(np.int64)
    # One cycle through all: nobody sends to itself.
    return order, np.roll(order, -1), np.arange(clos.nics, dtype=np.int64)


def shift(clos: Clos, by: int) -> Traffic:
    """Every RNIC sends to the one *by* places on; each flow is a job."""
    src = np.arange(clos.nics, dtype=np.int64)
    return src, (src + by) % clos.nics, src.copy()


def bisection(clos: Clos, seed: int) -> Traffic:
    """RNICs split into two random halves, each of one half sends to one of the other; each flow is a job."""
    order = np.random.default_rng(seed).permutation(clos.nics).astype(np.int64)
    half = clos.nics // 2
    return order[:half], order[half : 2 * half], np.arange(half, dtype=np.int64)


def pairs(clos: Clos, hosts: Ints, seed: int) -> Traffic:
    """Hosts in random pairs, each pair a ring of two: every rail, both directions; each pair is a job."""
    order = np.random.default_rng(seed).permutation(np.asarray(hosts, dtype=np.int64))
    half = len(order) // 2
    one, other = order[:half], order[half : 2 * half]
    src, dst = np.stack([one, other], axis=1), np.stack([other, one], axis=1)
    job = np.broadcast_to(np.arange(half, dtype=np.int64)[:, np.newaxis], src.shape)
    return _every_rail(clos, src.ravel(), dst.ravel(), job.ravel())


def ring(clos: Clos, hosts: Ints, *, job: int = 0) -> Traffic:
    """One ring through *hosts* in this order, on every rail; all of it is one job."""
    order = np.asarray(hosts, dtype=np.int64)
    return _every_rail(clos, order, np.roll(order, -1), np.full(len(order), job, dtype=np.int64))


def all_to_all(clos: Clos, hosts: Ints, *, job: int = 0) -> Traffic:
    """Every host sends to every other, on every rail; all of it is one job."""
    order = np.asarray(hosts, dtype=np.int64)
    src, dst = np.repeat(order, len(order)), np.tile(order, len(order))
    apart = src != dst
    return _every_rail(clos, src[apart], dst[apart], np.full(int(apart.sum()), job, dtype=np.int64))


def _every_rail(clos: Clos, src: Ints, dst: Ints, job: Ints) -> Traffic:
    rails = np.arange(clos.spec.rails, dtype=np.int64)
    first = clos.nic(src[:, np.newaxis], rails).ravel()
    return first, clos.nic(dst[:, np.newaxis], rails).ravel(), np.repeat(job, clos.spec.rails)
