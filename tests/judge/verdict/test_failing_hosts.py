"""Which hosts fail by themselves."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.measured_rack import one_number, rack_topology
from fabric.judge.verdict.during_run import failing_hosts
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import JudgeSettings
from fabric.model.verdict import Baseline, Limit

RACK = rack_topology(3)
LIMITS = (Limit("loopback", 380.0, "f"), Limit("pairwise", 380.0, "f"))
JUDGE = Judge({"h100-ndr": Baseline("h100-ndr", "f", LIMITS)}, JudgeSettings(marginal=0.005), RACK)


def probe(kind: str, *hosts: str, number: int = 1) -> Probe:
    """One of a soak; *number* counts its repetitions."""
    params = {"rnic": "mlx5_0", "peer_rnic": "mlx5_0", "endpoint": "gpu0", "series": "x", "size_bytes": 8 << 20}
    return Probe(f"soak-r1/{'+'.join(hosts)}/{kind}.r{number}", kind, "soak-r1", hosts, (), 5.0, params)


def result(one: Probe, value: float | None) -> ProbeResult:
    """What it measured, or that it could not."""
    if value is None:
        return ProbeResult(one.probe_id, 1, (), Outcome.ERROR, "lost", 0.0, 5.0, one.hosts[0])
    return one_number(one.probe_id, value, 8 << 20, s=5.0)


def test_probes_of_its_own_decide_and_those_with_another_host_do_not() -> None:
    """And who could not be measured is bad, too."""
    asked = (
        *((probe("loopback", "gpu001", number=number), 200.0) for number in (1, 2, 3)),
        *((probe("loopback", "gpu002", number=number), 392.0) for number in (1, 2, 3)),
        (probe("pairwise", "gpu002", "gpu003"), 100.0),
        (probe("loopback", "gpu003"), None),
    )
    results = {one.probe_id: result(one, value) for one, value in asked}
    found = failing_hosts([one for one, _ in asked], results, judge=JUDGE)
    assert found.failed == {"gpu001": "3 loopback fail", "gpu003": "1 loopback error"}
    assert found.well == {"gpu002"}


def test_one_low_number_keeps_nobody_out() -> None:
    """It is measured again, or in the next round."""
    asked = [(probe("loopback", "gpu001"), 200.0), (probe("loopback", "gpu002"), 392.0)]
    results = {one.probe_id: result(one, value) for one, value in asked}
    assert failing_hosts([one for one, _ in asked], results, judge=JUDGE).failed == {}


def test_a_probe_that_was_not_reached_says_nothing() -> None:
    found = failing_hosts([probe("loopback", "gpu001")], {}, judge=JUDGE)
    assert (dict(found.failed), found.well) == ({}, frozenset())


def test_who_alone_cannot_be_measured_is_bad_by_itself() -> None:
    """What hangs says nothing; that the others did the same well shows that the fault is not ours."""
    asked = ((probe("loopback", "gpu001"), None), (probe("loopback", "gpu002"), 392.0))
    results = {one.probe_id: result(one, value) for one, value in asked}
    assert failing_hosts([one for one, _ in asked], results, judge=JUDGE).failed == {"gpu001": "1 loopback error"}
    never_begun = {name: replace(one, attempt=0) for name, one in results.items()}
    assert failing_hosts([one for one, _ in asked], never_begun, judge=JUDGE).failed == {}


def test_what_nobody_could_measure_makes_nobody_bad() -> None:
    asked = [probe("loopback", host) for host in ("gpu001", "gpu002")]
    found = failing_hosts(asked, {one.probe_id: result(one, None) for one in asked}, judge=JUDGE)
    assert (dict(found.failed), found.well) == ({}, frozenset())
