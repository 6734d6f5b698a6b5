"""Who was good in earlier rounds and is bad by itself from some round on is a suspect."""

from __future__ import annotations

from benchmarks.measured_rack import rack_topology
from fabric.judge.verdict.conclude import conclude
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.scenario import JudgeSettings, Phase
from fabric.model.verdict import Baseline, Limit, Suspect
from fabric.probes.all_to_all import AllToAllSpec
from tests.builders import failure_in

RACK = rack_topology(4)
GPUS = tuple(range(8))
ECC = "gpu002: Test CUDA failure common.cu:1030 'uncorrectable ECC error encountered'"
LOST = "gpu002: Invalid number of GPUs: 8 requested but only 7 were found."
LIMITS = {"h100-ndr": Baseline("h100-ndr", "test", (Limit("all_to_all", 2000.0, "a choice"),))}
Answer = tuple[Outcome | None, str, float]
"""An outcome and a reason, or None and the Gb/s."""

GOOD: Answer = (None, "", 2700.0)


def named(bad: list[Answer]) -> list[Suspect]:
    """All hosts well for six rounds; then gpu002 answers so, one round after the other."""
    count = 6 + len(bad)
    phases = [Phase(f"soak-r{n}", (AllToAllSpec(),), label="soak", round=n) for n in range(count)]
    probes, results = [], {}
    for number, phase in enumerate(phases):
        for host in RACK.hosts:
            params = {"gpus": GPUS, "series": "all", "name": "all_to_all", "ranks": 8}
            probe = Probe(f"{phase.name}/{host}/all_to_all", "all_to_all", phase.name, (host,), (), 10.0, params)
            answer = bad[number - 6] if host == "gpu002" and number >= 6 else GOOD
            probes.append(probe)
            results[probe.probe_id] = _result(probe.probe_id, 100.0 * number, answer)
    judge = Judge(LIMITS, JudgeSettings(marginal=0.0), RACK)
    return list(conclude(probes, results, topology=RACK, judge=judge, phases=phases).suspects)


def _result(name: str, began_s: float, answer: Answer) -> ProbeResult:
    outcome, reason, gbps = answer
    measured = () if outcome else (Measurement(name, "busbw_in_place", gbps, "Gb/s", 1 << 34),)
    return ProbeResult(name, 1, measured, outcome, reason, began_s, began_s + 10.0, failure=failure_in(reason))


def test_a_host_that_a_tool_calls_bad_later_is_a_suspect_though_it_was_good() -> None:
    (one,) = named([(Outcome.FAIL, ECC, 0.0)] * 2)
    assert (one.component, one.kind, one.outcome, one.hosts) == ("gpu002", "host", Outcome.FAIL, ("gpu002",))
    assert any("uncorrectable ECC error" in line for line in one.evidence)


def test_a_host_that_lost_a_gpu_lacks_a_part() -> None:
    """Its other GPUs worked, and the other hosts have all of theirs."""
    (one,) = named([(Outcome.ERROR, LOST, 0.0)] * 3)
    assert (one.component, one.outcome) == ("gpu002/gpus", Outcome.FAIL)
    assert "nvidia-smi -L" in one.next_step


def test_what_a_tool_called_bad_stands_when_it_went_well_afterwards() -> None:
    (one,) = named([(Outcome.FAIL, ECC, 0.0), GOOD, GOOD, GOOD])
    assert one.component == "gpu002"


def test_an_all_to_all_that_is_slow_from_some_round_on_is_nvlink() -> None:
    (one,) = named([(None, "", 1500.0)] * 2)
    assert (one.component, one.kind, one.outcome) == ("gpu002/nvlink", "nvlink", Outcome.FAIL)
    assert "cable" not in one.next_step


def test_a_single_slow_round_names_nobody() -> None:
    assert named([(None, "", 1500.0), *[GOOD] * 4]) == []


def test_a_lost_gpu_and_an_error_of_another_are_two_troubles() -> None:
    found = named([(Outcome.FAIL, ECC, 0.0), *[(Outcome.ERROR, LOST, 0.0)] * 2])
    assert {(one.component, one.outcome) for one in found} == {("gpu002/gpus", Outcome.FAIL), ("gpu002", Outcome.FAIL)}


def test_healthy_rounds_name_nobody() -> None:
    assert named([GOOD] * 3) == []
