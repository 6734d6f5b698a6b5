"""Cables by name in tests of the network, ``leaf12-spine3``, and patterns that only they ask for."""

import re

import numpy as np

from fabric.sim.what_if import ring


def cable(clos, ends):
    """Both directions, up and down; spines and cores count through the whole network."""
    lower, m, upper, n = re.fullmatch(r"(leaf|spine)(\d+)-(spine|core)(\d+)", ends).groups()
    pod, spine = divmod(int(n) if upper == "spine" else int(m), clos.spec.up)
    if lower == "leaf":
        return int(clos.leaf_up(int(m), spine)), int(clos.leaf_dn(int(m), spine))
    core = int(n) % clos.spec.core_up
    return int(clos.spine_up(pod, spine, core)), int(clos.spine_dn(pod, spine, core))


def permutation(clos, seed):
    """Every RNIC sends to another one and receives from another one, drawn evenly; each flow is a job."""
    order = np.random.default_rng(seed).permutation(clos.nics).astype(np.int64)
    # One cycle through all: nobody sends to itself.
    return order, np.roll(order, -1), np.arange(clos.nics, dtype=np.int64)


def pairs(clos, hosts, seed):
    """Hosts in random pairs, each pair a ring of two on every rail and a job."""
    order = np.random.default_rng(seed).permutation(np.asarray(hosts, dtype=np.int64))
    rings = [ring(clos, two) for two in order[: len(order) // 2 * 2].reshape(2, -1).T]
    src, dst = (np.concatenate([one[end] for one in rings]) for end in (0, 1))
    return src, dst, np.repeat(np.arange(len(rings)), len(rings[0][0]))


def shift(clos, by):
    """Every RNIC sends to the one *by* places on; each flow is a job."""
    src = np.arange(clos.nics, dtype=np.int64)
    return src, (src + by) % clos.nics, src.copy()


def bisection(clos, seed):
    """RNICs split into two random halves, each of one half sends to one of the other; each flow is a job."""
    order = np.random.default_rng(seed).permutation(clos.nics).astype(np.int64)
    half = clos.nics // 2
    return order[:half], order[half : 2 * half], np.arange(half, dtype=np.int64)
