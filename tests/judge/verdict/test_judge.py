"""A number passes only against a limit that matches its key; traps of published thresholds."""

from __future__ import annotations

import pytest

from benchmarks.measured_rack import one_number
from fabric.judge.normal.keys import key_of
from fabric.judge.normal.series import number_of
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.scenario import JudgeSettings
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, Limit
from fabric.tools import nccl, perftest
from tests.tools.samples import sample

LIMITS = (
    Limit("tor_all_reduce", 46.0, "per NIC", per_rnic=True),
    Limit("loopback", 300.0, "anything"),
    Limit("loopback", 380.0, "pix", link_class="pix"),
    Limit("all_to_all", 1000.0, "8 ranks", ranks=8),
)


def judged(rack: Topology, probe: Probe, *rows: tuple[float, int], outcome: Outcome | None = None) -> Outcome:
    """The outcome of one probe that measured these (value, size) rows."""
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", LIMITS)}, JudgeSettings(marginal=0.01), rack)
    measurements = tuple(Measurement(probe.probe_id, "bandwidth", value, "Gb/s", size) for value, size in rows)
    return judge.judge([(probe, ProbeResult(probe.probe_id, 1, measurements, outcome, "", 0, 1))])[0].outcome


def loopback(link_class: str) -> Probe:
    """A loopback probe of a class."""
    return Probe("p", "loopback", "x", ("gpu001",), (), 5, {"link_class": link_class, "series": "s"})


@pytest.mark.parametrize(
    ("link_class", "value", "outcome"),
    [
        ("pix", 379.9, Outcome.FAIL),
        ("pix", 380.0, Outcome.MARGINAL),
        ("pix", 383.7, Outcome.MARGINAL),
        ("pix", 384.0, Outcome.PASS),
        ("sys", 304.0, Outcome.PASS),
        ("sys", 299.0, Outcome.FAIL),
    ],
)
def test_most_specific_limit_counts(rack: Topology, link_class: str, value: float, outcome: Outcome) -> None:
    """The limit of the very class is used where there is one; near it is MARGINAL."""
    assert judged(rack, loopback(link_class), (value, 8 << 20)) is outcome


def test_no_limit_is_never_a_pass(rack: Topology) -> None:
    """A number without a matching limit is INCONCLUSIVE, however large."""
    probe = Probe("p", "all_to_all", "x", ("gpu001",), (), 5, {"ranks": 4, "series": "s"})
    assert judged(rack, probe, (9e9, 1 << 30)) is Outcome.INCONCLUSIVE


def test_largest_size_and_lower_place_count(rack: Topology) -> None:
    """Small messages do not fail a probe, and the better of two places does not save it."""
    probe = Probe("p", "all_to_all", "x", ("gpu001",), (), 5, {"ranks": 8, "series": "s"})
    assert judged(rack, probe, (10.0, 1 << 20), (1100.0, 1 << 30), (1200.0, 1 << 30)) is Outcome.PASS
    assert judged(rack, probe, (1100.0, 1 << 30), (900.0, 1 << 30)) is Outcome.FAIL


def test_measured_nothing(rack: Topology) -> None:
    """A probe that ended well without a number is INCONCLUSIVE."""
    assert judged(rack, loopback("pix")) is Outcome.INCONCLUSIVE


def test_what_the_tool_said_stays(rack: Topology) -> None:
    """FAIL and ERROR that come from the tool are not judged away."""
    assert judged(rack, loopback("pix"), outcome=Outcome.ERROR) is Outcome.ERROR


def test_repetitions_are_judged_by_their_median_and_a_dip_is_said(rack: Topology) -> None:
    """One bad sample among three does not fail a part, and does not pass unseen."""
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", LIMITS)}, JudgeSettings(marginal=0.01), rack)
    pairs = [
        (
            Probe(f"x/gpu001/l.s.r{i}", "loopback", "x", ("gpu001",), (), 5, {"link_class": "pix", "series": "s"}),
            one_number(f"p{i}", value, 1),
        )
        for i, value in enumerate((390.0, 100.0, 391.0))
    ]
    assert {(verdict.outcome, verdict.reason) for verdict in judge.judge(pairs)} == {
        (Outcome.MARGINAL, "unstable: median of 3, least 100.0 Gb/s, CV 0.571, 1 dip")
    }


@pytest.mark.parametrize(("value", "outcome"), [(367.0, Outcome.FAIL), (373.0, Outcome.PASS)])
def test_a_limit_per_rnic_grows_with_the_host(rack: Topology, value: float, outcome: Outcome) -> None:
    """46 Gb/s per RNIC is 368 on a host with eight, so fewer rails are not called bad for being fewer."""
    probe = Probe("p", "tor_all_reduce", "x", ("gpu001", "gpu002"), (), 5, {"series": "s"})
    assert judged(rack, probe, (value, 1 << 30)) is outcome


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ((14.0, 385.0), Outcome.INCONCLUSIVE),
        ((14.0, 370.0), Outcome.FAIL),
        ((379.0, 381.0), Outcome.MARGINAL),
        ((372.0, 381.0), Outcome.FAIL),
        ((386.0, 500.0), Outcome.PASS),
    ],
)
def test_two_samples_far_apart_fail_only_when_both_do(
    rack: Topology, values: tuple[float, float], outcome: Outcome
) -> None:
    """Their middle was never measured; near each other they are judged by it."""
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", LIMITS)}, JudgeSettings(marginal=0.01), rack)
    pairs = [
        (
            Probe(f"x/gpu001/l.s.r{i}", "loopback", "x", ("gpu001",), (), 5, {"link_class": "pix", "series": "s"}),
            one_number(f"p{i}", value, 1),
        )
        for i, value in enumerate(values)
    ]
    found = judge.judge(pairs)
    assert {verdict.outcome for verdict in found} == {outcome}
    assert all(("too few to tell" in verdict.reason) == (outcome is Outcome.INCONCLUSIVE) for verdict in found)


GIB = 1 << 30


def all_reduce(algorithm: str) -> Probe:
    """Two hosts under one ToR."""
    params = {"algorithm": algorithm, "ranks": 16, "series": "s", "sizes_bytes": (GIB, 8 * GIB)}
    return Probe("p", "tor_all_reduce", "x", ("gpu001", "gpu002"), (), 5, params)


def test_a_limit_for_ring_says_nothing_of_another_algorithm(rack: Topology) -> None:
    """On two hosts Tree and NVLSTree exceed the network's bottleneck: their number is no proof of a good rail."""
    limits = (Limit("tor_all_reduce", 368.0, "RING on two hosts", algorithm="RING"),)
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", limits)}, JudgeSettings(marginal=0.005), rack)
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
    assert number_of(ProbeResult("p", 1, numbers, None, "", 0, 1)) == (3790.0, 8 * GIB)


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
