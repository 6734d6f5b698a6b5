"""Collectives by NCCL's own numbers: bus bandwidth by size and scale."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.sim.nccl_tuning import (
    A100,
    H100,
    OPERATIONS,
    SWEEP_BYTES,
    Job,
    Platform,
    bus_bandwidth_gbps,
    bus_factor,
    choice,
    time_s,
)

NIC_GBPS = 48.5 * 8
GIB = 1 << 30


def busbw(op, size_bytes, hosts, **more):
    """Bus bandwidth in GB/s, as nccl-tests prints it."""
    ranks = 8 * hosts
    rate = more.pop("rate_gbps", NIC_GBPS)
    took = time_s(op, size_bytes, ranks=ranks, hosts=hosts, rate_gbps=rate, **more)
    return bus_bandwidth_gbps(op, size_bytes, ranks=ranks, time_s=took) / 8


@pytest.mark.parametrize(("hosts", "expected"), [(2, 386), (8, 381), (64, 337), (512, 175), (2048, 66)])
def test_rings_collapse_with_scale(hosts, expected):
    """H100, 8x400G: all-reduce over rings at 8 GiB, from 386 GB/s on 2 hosts to 66 on 2,048."""
    found = busbw("all_reduce", 8 * GIB, hosts, algorithms=("ring",), protocols=("simple",))
    assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("hosts", "expected"), [(512, 302), (2048, 301)])
def test_trees_do_not(hosts, expected):
    """Trees keep 302 and 301 GB/s on 512 and 2,048 hosts, and are what is chosen there."""
    job = Job(8 * hosts, hosts, NIC_GBPS)
    assert choice("all_reduce", 8 * GIB, job=job).algorithm == "tree"
    assert busbw("all_reduce", 8 * GIB, hosts) == pytest.approx(expected, rel=0.01)


def test_one_host():
    """On one host NVLS gives an H100 465 GB/s (Azure accepts 460); an A100 has none and gives 230."""
    assert busbw("all_reduce", 16 * GIB, 1) == pytest.approx(465, rel=0.01)
    assert choice("all_reduce", 16 * GIB, job=Job(8, 1, NIC_GBPS)).algorithm == "nvls"
    assert busbw("all_reduce", 16 * GIB, 1, platform=A100) == pytest.approx(231, rel=0.01)
    assert busbw("all_reduce", 16 * GIB, 1, algorithms=("ring",)) == pytest.approx(367, rel=0.02)


def test_two_hosts_hide_a_slow_network_from_nvls_trees():
    """On two hosts NVLSTree's bus bandwidth exceeds what the RNICs carry: judge the network with rings."""
    assert busbw("all_reduce", 8 * GIB, 2, algorithms=("nvls_tree",)) == pytest.approx(464, rel=0.01)
    assert busbw("all_reduce", 8 * GIB, 2, algorithms=("ring",)) < 388


def test_alltoall():
    """8 GiB alltoall on one host 342 GB/s, on two hosts 91 (91.8 recorded), and one RNIC's rate at scale."""
    assert busbw("alltoall", 8 * GIB, 1) == pytest.approx(342, rel=0.01)
    assert busbw("alltoall", 8 * GIB, 2) == pytest.approx(91.8, rel=0.02)
    assert busbw("alltoall", 8 * GIB, 128) == pytest.approx(48.5, rel=0.02)


def test_nvlink_bounds_rings_and_not_alltoall():
    """With RNICs of 1,600 Gb/s rings stop at NVLink's 450 GB/s; an alltoall sends straight from each GPU's RNIC."""
    assert busbw("all_reduce", 16 * GIB, 4, rate_gbps=1600.0, algorithms=("ring",)) == pytest.approx(450, rel=0.01)
    assert busbw("alltoall", 8 * GIB, 128, rate_gbps=1600.0) == pytest.approx(200, rel=0.05)


@pytest.mark.parametrize("hosts", [1, 2, 3, 64, 512])
@pytest.mark.parametrize("op", OPERATIONS)
def test_the_usual_sweep(op, hosts):
    """From 8 B to 16 GiB time never falls and bus bandwidth stays below what the wires carry."""
    job = Job(8 * hosts, hosts, NIC_GBPS)
    times = [choice(op, size, job=job).time_s for size in SWEEP_BYTES]
    assert (SWEEP_BYTES[0], SWEEP_BYTES[-1]) == (8, 16 * GIB)
    assert all(one <= other for one, other in pairwise(times))
    assert times[0] > 5e-6
    ceiling = 470 if hosts == 1 else 388 * (2 if op == "alltoall" else 1)
    assert all(busbw(op, size, hosts) <= ceiling for size in SWEEP_BYTES)


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("all_reduce", 15 / 8),
        ("all_gather", 15 / 16),
        ("reduce_scatter", 15 / 16),
        ("alltoall", 15 / 16),
        ("gather", 15 / 16),
        ("scatter", 15 / 16),
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("sendrecv", 1.0),
        ("hypercube", 1.0),
    ],
)
def test_bus_factors(op, factor):
    """Bus over algorithm bandwidth on 16 ranks, as nccl-tests documents."""
    assert bus_factor(op, 16) == factor


def test_small_sizes_take_the_low_latency_protocol():
    """Between hosts a small all-reduce takes tens of microseconds over a tree with LL."""
    found = choice("all_reduce", 8, job=Job(16, 2, NIC_GBPS))
    assert (found.algorithm, found.protocol) == ("tree", "ll")
    assert 2e-5 < found.time_s < 5e-5


def test_latency_of_one_rank_per_host():
    """With one GPU per host nothing hides the network's latency, and one RNIC is all there is."""
    found = choice("all_reduce", 8 * GIB, job=Job(8, 8, NIC_GBPS), algorithms=("ring",))
    assert bus_bandwidth_gbps("all_reduce", 8 * GIB, ranks=8, time_s=found.time_s) / 8 == pytest.approx(48.5, rel=0.01)


@given(
    st.sampled_from(OPERATIONS),
    st.integers(1, 1 << 35),
    st.integers(1, 4096),
    st.integers(1, 8),
    st.floats(1e-3, 1e5),
    st.floats(1.0, 10.0),
)
def test_faster_rnics_are_never_slower(op, size, hosts, per_host, rate, more):
    """Time is positive and finite, and falls, or stays, when every RNIC carries more."""
    ranks = max(2, hosts * per_host)
    slow, fast = (time_s(op, size, ranks=ranks, hosts=hosts, rate_gbps=one) for one in (rate, rate * more))
    assert isfinite(slow)
    assert 0 < fast <= slow * (1 + 1e-12)


@given(st.integers(1, 1 << 35), st.integers(2, 2048))
def test_more_choice_is_never_slower(size, hosts):
    """The choice among all is at least as fast as any one."""
    job = Job(8 * hosts, hosts, NIC_GBPS)
    best = choice("all_reduce", size, job=job)
    for algorithm in ("ring", "tree"):
        for protocol in ("ll", "ll128", "simple"):
            alone = choice("all_reduce", size, job=job, algorithms=(algorithm,), protocols=(protocol,))
            assert best.time_s <= alone.time_s


def test_nonsense_is_refused():
    """Jobs, operations and platforms that cannot be are errors."""
    job = Job(16, 2, NIC_GBPS)
    for attempt, said in (
        (lambda: Job(1, 1, NIC_GBPS), "no collective"),
        (lambda: Job(8, 9, NIC_GBPS), "no collective"),
        (lambda: Job(8, 1, 0.0), "rate_gbps"),
        (lambda: choice("all_to_some", 8, job=job), "no operation"),
        (lambda: bus_factor("all_to_some", 8), "no operation"),
        (lambda: choice("all_reduce", 0, job=job), "size_bytes"),
        (lambda: choice("all_gather", 8, job=job, algorithms=("tree",)), "none of tree"),
        (lambda: choice("all_reduce", 8, job=job, algorithms=("star",)), "no 'star'"),
        (lambda: Platform("volta", 1, 1, 1, 1), "generation"),
        (lambda: Platform("hopper", 1, 1, 1, 1, cpu="power"), "CPU"),
    ):
        with pytest.raises(ValueError, match=said):
            attempt()
    assert H100.nics_per_host == 8
