"""Who sends to whom: source RNICs, destination RNICs, and the job each flow belongs to."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from fabric.sim.net.clos import Clos, Ints
from fabric.sim.net.named_clos import NamedClos

Traffic: TypeAlias = tuple[Ints, Ints, Ints]


def ring(clos: Clos, hosts: Ints) -> Traffic:
    """One ring through *hosts* in this order, on every rail; all of it is one job."""
    order = np.asarray(hosts, dtype=np.int64)
    return _every_rail(clos, order, np.roll(order, -1), np.zeros(len(order), dtype=np.int64))


def all_to_all(clos: Clos, hosts: Ints) -> Traffic:
    """Every host sends to every other, on every rail; all of it is one job."""
    order = np.asarray(hosts, dtype=np.int64)
    src, dst = np.repeat(order, len(order)), np.tile(order, len(order))
    apart = src != dst
    return _every_rail(clos, src[apart], dst[apart], np.zeros(int(apart.sum()), dtype=np.int64))


def _every_rail(clos: Clos, src: Ints, dst: Ints, job: Ints) -> Traffic:
    rails = np.arange(clos.spec.rails, dtype=np.int64)
    ends = clos.nic(np.stack([src, dst])[:, :, np.newaxis], rails).reshape(2, -1)
    there = (ends >= 0).all(axis=0)  # a rail that one of them has no RNIC on carries nothing between them
    return ends[0, there], ends[1, there], np.repeat(job, clos.spec.rails)[there]


PATTERNS = ("permutation", "pairs", "ring", "all_to_all")
ORDERS = ("sorted", "random")
DEFAULT_ORDER = {"permutation": "random", "pairs": "random", "ring": "sorted", "all_to_all": "sorted"}
"""Ring: the rank order of a host list is the usual one, and decides the result. Pairs and permutations of a scheduler
that does not look at the network are as good as drawn."""


def flows_of(pattern: str, *, hosts: int, rails: int) -> int:
    """How many flows a pattern has."""
    each = {"permutation": 1, "pairs": 1, "ring": 1, "all_to_all": hosts - 1}[pattern]
    return each * (hosts - hosts % 2 if pattern == "pairs" else hosts) * rails


def traffic(pattern: str, net: NamedClos, *, hosts: Ints, order: str, seed: int) -> Traffic:
    """
    Source RNICs, destination RNICs and the job of each flow.

    ``permutation``: every RNIC sends to one and receives from one; sorted, to the same rail of the host half the list
    further; drawn, to any RNIC that the switches join it with. ``pairs``: two-host rings of each host of the first
    half with its counterpart in the second; an odd one is left out. ``ring``: one ring through all. ``all_to_all``:
    every host to every other. All but a drawn permutation stays on its rail. What nothing joins does not meet.
    """
    src, dst, job = _flows(pattern, net, hosts, order, seed)
    here, there = (net.part[net.clos.leaf_of(ends)] for ends in (src, dst))
    joined = here == there
    return src[joined], dst[joined], np.unique(job[joined], return_inverse=True)[1]


def _flows(pattern: str, net: NamedClos, hosts: Ints, order: str, seed: int) -> Traffic:
    if order == "random":
        if pattern == "permutation":
            return _drawn_permutation(net, hosts, seed)
        hosts = np.random.default_rng(seed).permutation(hosts)
    if pattern == "permutation":
        return _shifted(net, hosts)
    if pattern == "ring":
        return ring(net.clos, hosts)
    if pattern == "all_to_all":
        return all_to_all(net.clos, hosts)
    return _pairs(net, hosts)


def _pairs(net: NamedClos, hosts: Ints) -> Traffic:
    half = len(hosts) // 2
    one, other = hosts[:half], hosts[half : 2 * half]
    src, dst = np.concatenate([one, other]), np.concatenate([other, one])
    return _every_rail(net.clos, src, dst, np.tile(np.arange(half, dtype=np.int64), 2))


def _shifted(net: NamedClos, hosts: Ints) -> Traffic:
    src, dst, _ = _every_rail(net.clos, hosts, np.roll(hosts, -(len(hosts) // 2)), hosts)
    return src, dst, np.arange(len(src), dtype=np.int64)


def _drawn_permutation(net: NamedClos, hosts: Ints, seed: int) -> Traffic:
    """One cycle, drawn evenly, through the RNICs that the switches join."""
    rng = np.random.default_rng(seed)
    nics = net.clos.nic(hosts[:, np.newaxis], np.arange(net.clos.spec.rails)).ravel()
    nics = nics[nics >= 0]
    part = net.part[net.clos.leaf_of(nics)]
    cycles = [rng.permutation(nics[part == number]) for number in np.unique(part)]
    src = np.concatenate(cycles)
    dst = np.concatenate([np.roll(cycle, -1) for cycle in cycles])
    return src, dst, np.arange(len(src), dtype=np.int64)
