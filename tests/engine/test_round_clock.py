"""Rounds that fill a time end by the clock, whatever the plan guessed, and over an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.engine.deadlines import RoundClock
from fabric.model.scenario import FilledTime, Phase
from fabric.plan.plan import PhasePlan, Plan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.runs.events import Progress, progress_of, read_events
from fabric.runs.run_directory import RunDirectory

RACK = rack_topology(1)
SOAK = FilledTime("soak", 100.0)


def planned(name: str, number: int = 1, fills: FilledTime | None = None) -> PhasePlan:
    """A phase of one host."""
    phase = Phase(name, (LoopbackSpec(),), label=name.split("-")[0], round=number, fills=fills)
    return PhasePlan(phase, schedule(expand_phase(phase, RACK, tuple(RACK.hosts))), ())


class Run:
    """Phases by their names, and a clock that is set by hand."""

    def __init__(self, folder: Path, *phases: PhasePlan) -> None:
        self.plan = Plan(phases)
        self.now_s = 0.0
        self.directory = RunDirectory.create(folder, "t", {})
        self._ask(Progress())

    def _ask(self, past: Progress) -> None:
        self.clock = RoundClock(self.plan, past, directory=self.directory, clock=lambda: self.now_s)

    def begins(self, name: str, *, took_s: float) -> bool:
        """Whether this phase is begun, and then takes so long."""
        phase = next(one.phase for one in self.plan.phases if one.phase.name == name)
        if self.clock.is_over(phase):
            return False
        fields = {"phase": name, "probes": 1, "excluded": {}}
        self.directory.events.append("phase_started", self.now_s, fields)
        self.directory.flush()
        self.now_s += took_s
        return True

    def goes_on(self) -> None:
        """After an interruption that its clock does not count."""
        self._ask(progress_of(read_events(self.directory.path / "events.jsonl")))

    def begun(self, took_s: float) -> list[str]:
        """All phases that are begun, each taking so long."""
        return [one.phase.name for one in self.plan.phases if self.begins(one.phase.name, took_s=took_s)]


ROUNDS = tuple(planned(f"soak-r{number}", number, SOAK) for number in range(1, 6))
BEFORE, AFTER = planned("check"), planned("after")


@pytest.mark.parametrize(("took_s", "rounds"), [(10.0, 5), (40.0, 3), (50.0, 2), (99.0, 2), (100.0, 1), (500.0, 1)])
def test_no_round_is_begun_after_its_time(tmp_path: Path, took_s: float, rounds: int) -> None:
    """It counts from the first round on; what follows is run; one round is run in any case."""
    run = Run(tmp_path, BEFORE, *ROUNDS, AFTER)
    found = run.begun(took_s)
    assert found == ["check", *(f"soak-r{number}" for number in range(1, rounds + 1)), "after"]


def test_rounds_that_are_left_are_noted_once(tmp_path: Path) -> None:
    run = Run(tmp_path, *ROUNDS)
    run.begun(60.0)
    (over,) = [event for event in read_events(run.directory.path / "events.jsonl") if event["event"] == "rounds_over"]
    assert over["phases"] == ["soak-r3", "soak-r4", "soak-r5"]
    assert over["probes"] == 3 * ROUNDS[0].schedule.probes


def test_the_stages_of_a_round_that_was_begun_are_all_run(tmp_path: Path) -> None:
    stages = [planned(f"burn-s{stage}-r{number}", number, SOAK) for number in (1, 2) for stage in (1, 2)]
    assert Run(tmp_path, *stages).begun(70.0) == ["burn-s1-r1", "burn-s2-r1"]
    assert Run(tmp_path, *stages).begun(49.0) == [one.phase.name for one in stages]


def test_a_run_that_goes_on_has_what_is_left(tmp_path: Path) -> None:
    """The round that was interrupted is run to its end."""
    run = Run(tmp_path, *ROUNDS)
    assert run.begins("soak-r1", took_s=60.0)
    assert run.begins("soak-r2", took_s=60.0)
    run.goes_on()
    assert run.begins("soak-r2", took_s=1.0)
    assert not run.begins("soak-r3", took_s=1.0)
    run.goes_on()
    assert not run.begins("soak-r4", took_s=1.0)
