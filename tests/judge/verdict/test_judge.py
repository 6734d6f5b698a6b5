"""A number passes only against a limit that matches its key."""

from __future__ import annotations

import pytest

from benchmarks.measured_rack import one_number
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, Limit

LIMITS = (
    Limit("tor_all_reduce", 46.0, "per NIC", per_rnic=True),
    Limit("loopback", 300.0, "anything"),
    Limit("loopback", 380.0, "pix", link_class="pix"),
    Limit("all_to_all", 1000.0, "8 ranks", ranks=8),
)


def judged(rack: Topology, probe: Probe, *rows: tuple[float, int], outcome: Outcome | None = None) -> Outcome:
    """The outcome of one probe that measured these (value, size) rows."""
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", LIMITS)}, topology=rack, marginal=0.01)
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
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", LIMITS)}, topology=rack, marginal=0.01)
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
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", LIMITS)}, topology=rack, marginal=0.01)
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
