"""All-reduces by NCCL's own numbers: bus bandwidth by size and scale."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fabric.sim.tools.nccl_tests.model import PLATFORMS, AllReduce, all_reduce_us

NIC_GBPS = 48.5 * 8
GIB = 1 << 30
SWEEP_BYTES = tuple(8 << step for step in range(32))


def job(hosts, *, platform="h100", rate_gbps=NIC_GBPS):
    """Eight GPUs and RNICs a host."""
    return AllReduce(8 * hosts, hosts, 8 * rate_gbps, PLATFORMS[platform])


def busbw(size_bytes, one, **more):
    """Bus bandwidth in GB/s, as nccl-tests prints it."""
    return size_bytes * 1e-3 / all_reduce_us(size_bytes, one, **more) * 2 * (one.ranks - 1) / one.ranks


@pytest.mark.parametrize(("hosts", "expected"), [(2, 386), (8, 381), (64, 337), (512, 175), (2048, 66)])
def test_rings_collapse_with_scale(hosts, expected):
    """H100, 8x400G: all-reduce over rings at 8 GiB, from 386 GB/s on 2 hosts to 66 on 2,048."""
    found = busbw(8 * GIB, job(hosts), algorithms=("ring",), protocols=("simple",))
    assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("hosts", "expected"), [(512, 302), (2048, 301)])
def test_trees_do_not(hosts, expected):
    """Trees keep 302 and 301 GB/s on 512 and 2,048 hosts, and are what is chosen there."""
    assert all_reduce_us(8 * GIB, job(hosts)) == all_reduce_us(8 * GIB, job(hosts), ("tree",))
    assert busbw(8 * GIB, job(hosts)) == pytest.approx(expected, rel=0.01)


def test_one_host():
    """On one host NVLS gives an H100 465 GB/s (Azure accepts 460); an A100 has none and gives 230."""
    assert busbw(16 * GIB, job(1)) == pytest.approx(465, rel=0.01)
    assert all_reduce_us(16 * GIB, job(1)) == all_reduce_us(16 * GIB, job(1), ("nvls",))
    assert busbw(16 * GIB, job(1, platform="a100")) == pytest.approx(231, rel=0.01)
    assert busbw(16 * GIB, job(1), algorithms=("ring",)) == pytest.approx(367, rel=0.02)


def test_two_hosts_hide_a_slow_network_from_nvls_trees():
    """On two hosts NVLSTree's bus bandwidth exceeds what the RNICs carry: judge the network with rings."""
    assert busbw(8 * GIB, job(2), algorithms=("nvls_tree",)) == pytest.approx(464, rel=0.01)
    assert busbw(8 * GIB, job(2), algorithms=("ring",)) < 388


@pytest.mark.parametrize("hosts", [1, 2, 3, 64, 512])
def test_the_usual_sweep(hosts):
    """From 8 B to 16 GiB time never falls and bus bandwidth stays below what the wires carry."""
    times = [all_reduce_us(size, job(hosts)) for size in SWEEP_BYTES]
    assert all(one <= other for one, other in pairwise(times))
    assert times[0] > 5.0
    assert all(busbw(size, job(hosts)) <= (470 if hosts == 1 else 388) for size in SWEEP_BYTES)
