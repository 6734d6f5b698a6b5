"""What hangs in a later round is waited for as long as such a probe is worth, and no longer than its kind allows."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measured_rack import rack_topology
from fabric.engine.deadlines import MARGIN_S, TIMES, LearnedDeadlines
from fabric.model.command import Command
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, ProbeResult
from fabric.model.scenario import FilledTime, Phase, ProbeSpec
from fabric.plan.plan import PhasePlan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from tests.engine.test_run_plan import good, run

RACK = rack_topology(2)


def soak(number: int, spec: ProbeSpec, *, fills: bool = True) -> Phase:
    """A round."""
    return Phase(
        f"soak-r{number}", (spec,), label="soak", round=number, fills=FilledTime("soak", 1e6) if fills else None
    )


def planned(phase: Phase) -> PhasePlan:
    """Its plan on two hosts."""
    return PhasePlan(phase, schedule(expand_phase(phase, RACK, tuple(RACK.hosts))), ())


def took(plan: PhasePlan, seconds: float, outcome: Outcome | None = None) -> list[ProbeResult]:
    """Every probe of a plan took so long."""
    probes = plan.planned
    numbers = (Measurement("x", "busbw", 1.0, "Gb/s"),) if outcome is None else ()
    return [ProbeResult(probe.probe_id, 1, numbers, outcome, "", 0.0, seconds) for probe in probes]


def limits(learned: LearnedDeadlines, phase: Phase) -> set[float | None]:
    """Of all probes of a phase."""
    plan = planned(phase)
    return {learned.limit_s(plan, probe) for probe in plan.planned}


def test_the_longest_that_was_measured_in_earlier_rounds_counts() -> None:
    learned = LearnedDeadlines()
    assert limits(learned, soak(1, LoopbackSpec())) == {None}
    for number, seconds in ((1, 5.0), (2, 9.0), (3, 7.0)):
        plan = planned(soak(number, LoopbackSpec()))
        learned.learn(plan, took(plan, seconds))
    assert limits(learned, soak(4, LoopbackSpec())) == {TIMES * 9.0 + MARGIN_S}


def test_a_gpu_that_hangs_from_the_second_round_on_does_not_cost_a_whole_deadline(tmp_path: Path) -> None:
    """And its reason says why it was given up so soon; nobody gets more time than planned."""
    begun: dict[tuple[str, ...], int] = {}

    def script(command: Command) -> tuple[float, str | None]:
        begun[command.argv] = begun.get(command.argv, 0) + 1
        hangs = command.host == "gpu001" and begun[command.argv] > 1
        return (1e9, None) if hangs else good(command)

    spec = LoopbackSpec(size_bytes=8 << 20, duration_s=120)
    results, executor, _ = run(tmp_path, RACK, [soak(1, spec), soak(2, spec)], script)
    late = [one for name, one in results.items() if name.startswith("soak-r2/gpu001/") and one.attempt]
    assert late
    limit_s = TIMES * 5.2 + MARGIN_S
    assert all(0.0 < one.ended_s - one.started_s <= limit_s for one in late)
    assert any("more than 3 times what it took in earlier rounds" in one.reason for one in late)
    planned_s = {c.timeout_s for c in executor.commands if c.ready_port is not None}
    assert min(planned_s) > limit_s
