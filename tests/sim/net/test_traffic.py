"""Who sends to whom."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.sim.net.clos import ClosSpec, build
from fabric.sim.what_if import all_to_all, ring
from tests.sim.net.link_names import bisection, pairs, permutation

CLOS = build(ClosSpec(8, 2, 4, 4, 2, 0, 0, True, 400.0, 400.0))


def test_a_permutation_uses_every_nic_once_each_way():
    """And nobody sends to itself; the seed alone decides."""
    src, dst, job = permutation(CLOS, 4)
    assert sorted(src) == sorted(dst) == sorted(job) == list(range(16))
    assert (src != dst).all()
    assert permutation(CLOS, 4)[1].tolist() == dst.tolist() != permutation(CLOS, 5)[1].tolist()


def test_a_bisection_sends_from_half_to_half():
    """No NIC is in both halves."""
    src, dst, _ = bisection(CLOS, 1)
    assert sorted([*src, *dst]) == list(range(16))


def test_pairs_are_rings_of_two():
    """Every rail, both directions, rail to the same rail; a host is in one pair, one host of an odd number in none."""
    src, dst, job = pairs(CLOS, np.arange(7), 3)
    assert len(src) == 3 * 2 * 2
    assert (src % 2 == dst % 2).all()
    assert {(a, b) for a, b in zip(src, dst, strict=True)} == {(b, a) for a, b in zip(src, dst, strict=True)}
    for one in range(3):
        assert len({*(src[job == one] // 2), *(dst[job == one] // 2)}) == 2


def test_a_ring_goes_in_the_order_of_its_hosts():
    """On every rail, and the last host sends to the first."""
    src, dst, job = ring(CLOS, np.array([5, 0, 2]))
    assert src.tolist() == [10, 11, 0, 1, 4, 5]
    assert dst.tolist() == [0, 1, 4, 5, 10, 11]
    assert job.tolist() == [0] * 6


@pytest.mark.parametrize("hosts", [1, 2, 5])
def test_all_to_all_is_everybody_to_everybody_else(hosts):
    """On every rail."""
    src, dst, _ = all_to_all(CLOS, np.arange(hosts))
    assert len(set(zip(src.tolist(), dst.tolist(), strict=True))) == len(src) == hosts * (hosts - 1) * 2
    assert (src // 2 != dst // 2).all()
