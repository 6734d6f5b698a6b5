"""Pooled trunks are what the best split over parallel links reaches."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.sim.net.clos import ClosSpec, build
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.route import pooled, routes
from tests.sim.net.link_names import cable, permutation, shift


def best_split(clos, src, dst, capacity_gbps):
    """The most that all flows can get at once when each may split over all spines as it likes."""
    flows, width = len(src), clos.spec.up
    a, b = clos.leaf_of(src), clos.leaf_of(dst)
    away = np.flatnonzero(a != b)
    load = np.zeros((clos.links, len(away) * width + 1))
    for column, flow in enumerate(away):
        for spine in range(width):
            load[[clos.leaf_up(a[flow], spine), clos.leaf_dn(b[flow], spine)], column * width + spine] = 1
    np.add.at(load[:, -1], np.concatenate([clos.nic_up(src), clos.nic_dn(dst)]), 1)
    whole = np.zeros((len(away), load.shape[1]))
    for column in range(len(away)):
        whole[column, column * width : (column + 1) * width] = 1
    whole[:, -1] = -1
    goal = np.zeros(load.shape[1])
    goal[-1] = -1
    assert flows
    from scipy.optimize import linprog  # slow to import: only where it is used

    return -linprog(goal, A_ub=load, b_ub=capacity_gbps, A_eq=whole, b_eq=np.zeros(len(away))).fun


@pytest.mark.parametrize(("bad", "within"), [(1, 1e-3), (2, 1e-3), (3, 1e-3), (6, 0.04)])
def test_trunks_reach_the_best_split(bad, within):
    """Up to 3 degraded cables of 48 exactly, at 6 within 0.04 of what linear programming finds."""
    clos = build(ClosSpec(48, 1, 8, 8, 2, 0, 0, False, 1.0, 1.0))
    for seed in range(8):
        rng = np.random.default_rng(seed)
        capacity = clos.capacity_gbps.copy()
        cables = rng.choice(48, bad, replace=False)
        capacity[2 * clos.nics + cables] *= 0.25
        capacity[2 * clos.nics + 48 + cables] *= 0.25
        src, dst, _ = permutation(clos, seed)
        paths = routes(clos, src, dst, engine="ar")
        rate = max_min(paths.links, pooled(clos, capacity, eta=1.0), job=np.zeros(48, dtype=np.int64))
        best = best_split(clos, src, dst, capacity)
        assert best - 1e-9 <= rate[0] <= best + within


@pytest.mark.parametrize("width", [4, 8, 16, 32])
def test_a_lost_uplink_costs_its_part(width, job_shares):
    """A full leaf that lost one of K uplinks runs at exactly (K-1)/K; all others keep their rate."""
    clos = build(ClosSpec(4 * width, 1, width, width, 2, 0, 0, False, 400.0, 400.0))
    capacity = clos.capacity_gbps.copy()
    capacity[list(cable(clos, "leaf0-spine0"))] = 0.0
    shares = job_shares(clos, shift(clos, width), "ar", capacity_gbps=capacity)
    touched = np.isin(np.arange(clos.nics) // width, [0, 3])
    assert (shares[touched] == (width - 1) / width).all()
    assert (shares[~touched] == 1).all()


def test_blind_spraying_runs_at_the_slowest_link():
    """alpha 0 knows nothing of the far side: one of 8 links at a quarter makes the whole way down a quarter."""
    clos = build(ClosSpec(16, 1, 8, 8, 2, 0, 0, False, 400.0, 400.0))
    capacity = clos.capacity_gbps.copy()
    capacity[clos.leaf_dn(1, 0)] *= 0.25
    assert trunk_down(clos, capacity, alpha=0.0) == 8 * 100
    assert trunk_down(clos, capacity, alpha=1.0) == 7 * 400 + 100
    assert trunk_down(clos, capacity, alpha=0.5) == (800 + 2900) / 2
    capacity[clos.leaf_dn(1, 0)] = 0.0  # down, not slow: out of the group
    assert trunk_down(clos, capacity, alpha=0.0) == 7 * 400
    capacity[clos.leaf_dn(1, np.arange(8))] = 0.0
    assert trunk_down(clos, capacity, alpha=0.0) == 0


def trunk_down(clos, capacity_gbps, *, alpha):
    """The capacity of the way down to leaf 1."""
    return pooled(clos, capacity_gbps, eta=1.0, alpha=alpha)[2 * clos.nics + clos.leaves + 1]
