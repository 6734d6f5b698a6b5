"""What counts of a host that was repaired while the run went on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.judge.repair.readmitted import SetAside, before_repair, samples_since, with_repairs
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.repair import Readmission
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.verdict import ProbeVerdict, Verdict

BACK = {"gpu002": 100.0}
TIMES = (Readmission("gpu002", 100.0),)
OLD = SetAside({"early": "gpu002", "pair": "gpu002"}, frozenset(BACK))


def probe(name: str, *hosts: str) -> Probe:
    """One of a soak."""
    return Probe(name, "loopback", "soak", hosts, (), 5.0, {})


PROBES = (
    probe("early", "gpu002"),
    probe("pair", "gpu001", "gpu002"),
    probe("other", "gpu001"),
    probe("late", "gpu002"),
)
ENDED = {"early": 50.0, "pair": 100.0, "other": 60.0, "late": 160.0}
RESULTS = {name: ProbeResult(name, 1, (), None, "", 0.0, ended_s) for name, ended_s in ENDED.items()}


def test_what_was_measured_with_it_before_does_not_count_alone_or_with_another() -> None:
    assert before_repair(PROBES, RESULTS, BACK) == OLD
    assert before_repair(PROBES, RESULTS, {}) == SetAside({})


@pytest.mark.parametrize(
    ("attempt", "outcome"), [(0, Outcome.SKIPPED), (1, Outcome.ERROR), (1, Outcome.INCONCLUSIVE), (0, None)]
)
def test_until_it_is_measured_again_everything_before_stands_and_that_is_said(
    attempt: int, outcome: Outcome | None
) -> None:
    results = {**RESULTS, "late": replace(RESULTS["late"], attempt=attempt, outcome=outcome)}
    old = before_repair(PROBES, results, BACK)
    assert not old
    judged = tuple(ProbeVerdict(probe.probe_id, Outcome.FAIL, "") for probe in PROBES)
    found = with_repairs(Verdict(Outcome.FAIL, (), (), (), judged), PROBES, old, TIMES, 40.0)
    assert (found.outcome, found.probes) == (Outcome.FAIL, judged)
    assert found.reasons == (
        "gpu002 was readmitted after 1 min 00 s and was not measured since: what was measured before stands",
    )


def test_a_host_that_fails_again_was_measured_again() -> None:
    results = {**RESULTS, "late": replace(RESULTS["late"], outcome=Outcome.FAIL)}
    assert before_repair(PROBES, results, BACK) == OLD


def test_it_is_skipped_in_its_place_and_that_is_said() -> None:
    """A whole run that is only judged in part is no PASS."""
    judged = tuple(ProbeVerdict(name, Outcome.PASS, "") for name in ("other", "late"))
    verdict = Verdict(Outcome.PASS, (), (), (), judged)
    found = with_repairs(verdict, PROBES, OLD, TIMES, 40.0)
    assert [one.probe_id for one in found.probes] == ["early", "pair", "other", "late"]
    outcomes = [one.outcome for one in found.probes]
    assert outcomes == [Outcome.SKIPPED, Outcome.SKIPPED, Outcome.PASS, Outcome.PASS]
    assert found.outcome is Outcome.SKIPPED
    assert found.reasons == (
        "gpu002 was readmitted after 1 min 00 s and is judged from then on: 2 probes of before SKIPPED",
    )
    assert with_repairs(verdict, PROBES, SetAside({}), (), 0.0) is verdict


def test_what_its_ports_counted_before_does_not_count_either() -> None:
    """It begins with the value that it had then; other hosts keep all of theirs."""
    course = CounterCourse([0.0, 50.0, 120.0], [0, 3, 4], 200.0)
    samples = Samples(10.0, {CounterReading(host, "mlx5_0", "link_downed"): course for host in ("gpu001", "gpu002")})
    found = samples_since(samples, BACK).courses
    assert found[CounterReading("gpu002", "mlx5_0", "link_downed")] == CounterCourse([100.0, 120.0], [3, 4], 200.0)
    assert found[CounterReading("gpu001", "mlx5_0", "link_downed")] == course
    late = Samples(10.0, {CounterReading("gpu002", "mlx5_0", "x"): CounterCourse([150.0], [1], 200.0)})
    assert samples_since(late, BACK).courses == late.courses


def test_a_counter_that_was_not_read_since_stands() -> None:
    reading = CounterReading("gpu002", "mlx5_0", "link_downed")
    samples = Samples(10.0, {reading: CounterCourse([0.0, 50.0], [0, 3], 200.0)})
    assert samples_since(samples, BACK).courses == samples.courses


def test_each_time_that_a_host_came_back_is_told_with_its_reason() -> None:
    """What it was out for the first time, and that it was still bad then."""
    times = (
        Readmission("gpu002", 70.0, "left out after soak-r2", "left out again after soak-r3: 1 loopback fail"),
        Readmission("gpu002", 100.0, "left out again after soak-r3"),
    )
    found = with_repairs(Verdict(Outcome.PASS, (), (), (), ()), (), SetAside({}, frozenset(BACK)), times, 40.0)
    assert found.reasons == (
        "gpu002 was readmitted after 30 s and was still bad: left out again after soak-r3: 1 loopback fail",
        "gpu002 was readmitted after 1 min 00 s and is judged from then on: 0 probes of before SKIPPED; "
        "it had been out: left out again after soak-r3",
    )
