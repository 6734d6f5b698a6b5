"""Traps of published thresholds: what must never be compared, and numbers that a log itself contradicts."""

from __future__ import annotations

import pytest

from fabric.judge.normal.keys import key_of
from fabric.judge.normal.series import representative
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, Limit
from fabric.tools import nccl, perftest
from tests.tools.samples import sample

GIB = 1 << 30


def all_reduce(algorithm: str) -> Probe:
    """Two hosts under one ToR."""
    params = {"algorithm": algorithm, "ranks": 16, "series": "s", "sizes_bytes": (GIB, 8 * GIB)}
    return Probe("p", "tor_all_reduce", "x", ("gpu001", "gpu002"), (), 5, params)


def test_a_limit_for_ring_says_nothing_of_another_algorithm(rack: Topology) -> None:
    """On two hosts Tree and NVLSTree exceed the network's bottleneck: their number is no proof of a good rail."""
    limits = (Limit("tor_all_reduce", 368.0, "RING on two hosts", algorithm="RING"),)
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", limits)}, topology=rack, marginal=0.005)
    outcomes = {}
    for algorithm in ("RING", "NVLSTREE"):
        numbers = (Measurement("p", "busbw_out_of_place", 3760.0, "Gb/s", 8 * GIB),)
        (verdict,) = judge.judge([(all_reduce(algorithm), ProbeResult("p", 1, numbers, None, "", 0, 1))])
        outcomes[algorithm] = verdict.outcome
    assert outcomes == {"RING": Outcome.PASS, "NVLSTREE": Outcome.INCONCLUSIVE}


def test_the_algorithm_is_part_of_what_is_recorded(rack: Topology) -> None:
    keys = {key_of(all_reduce(algorithm), 8 * GIB, rack) for algorithm in ("RING", "TREE")}
    assert len(keys) == 2


def test_the_peak_of_the_largest_size_counts_and_no_average_over_sizes() -> None:
    """ "Avg bus bandwidth" mixes sizes, and out of place with in place: limits are given for either, never for both."""
    numbers = tuple(
        Measurement("p", metric, value, "Gb/s", size)
        for size, metric, value in (
            (GIB, "busbw_out_of_place", 3000.0),
            (GIB, "busbw_in_place", 3100.0),
            (8 * GIB, "busbw_out_of_place", 3800.0),
            (8 * GIB, "busbw_in_place", 3790.0),
        )
    )
    assert representative(ProbeResult("p", 1, numbers, None, "", 0, 1)) == (3790.0, 8 * GIB)


def test_algorithm_bandwidth_is_below_bus_bandwidth_in_an_all_reduce() -> None:
    """busbw = algbw 2 (n - 1) / n: "algbw is always at least busbw" is wrong for it."""
    (test,) = nccl.parse(sample("nccl-tests/15-oci-h100-2node-16gpu.txt")).tests
    for row in test.rows:
        place = row.out_of_place
        assert place is not None
        assert place.busbw_gbps == pytest.approx(place.algbw_gbps * 2 * 15 / 16, rel=0.01)


def test_units_of_perftest_and_of_nccl_tests_are_told_apart() -> None:
    """MB/sec of perftest are MiB, GB/s of nccl-tests are 10^9 bytes; both become decimal Gb/s."""
    (first, *_) = perftest.parse(sample("perftest/01-superbench-loopback-8M.txt")).tests
    assert first.rows[0].bw_average_gbps == pytest.approx(24056.72 * 2**20 * 8 / 1e9, rel=1e-4)
    (test,) = nccl.parse(sample("nccl-tests/15-oci-h100-2node-16gpu.txt")).tests
    assert test.avg_busbw_gbps == pytest.approx(464.075 * 8)


def test_a_log_whose_rows_do_not_make_its_average_is_not_believed() -> None:
    """Its author left rows out: mean of the rows 208.7, printed 52.9753."""
    (test,) = nccl.parse(sample("nccl-tests/11-aws-eks-mpirun-tag-output-elided.txt")).tests
    assert test.problems
