"""Whole runs on the mock whose rounds take longer than planned: they end in time, and nothing is missed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.analyze import analyze
from fabric.app.prepare import Asked
from fabric.app.status import status
from fabric.model.outcome import Outcome
from fabric.model.scenario import FilledTime
from fabric.plan.plan import plan_scenario
from fabric.runs.events import read_events
from tests.builders import gone_on
from tests.scenario.test_left_out import Acts, prepared, run, run_of


def phases_begun(folder: Path) -> list[tuple[str, float]]:
    """The phases that the run began, and when; one that was begun twice is told twice."""
    events = read_events(run_of(folder) / "events.jsonl")
    return [(event["phase"], event["at_s"]) for event in events if event["event"] == "phase_started"]


def shortened(asked: Asked, within_s: float) -> Asked:
    """The same rounds, with less time for them than they take."""
    phases = tuple(replace(phase, fills=FilledTime("soak", within_s)) for phase in asked.scenario.phases)
    scenario = replace(asked.scenario, phases=phases)
    return replace(asked, scenario=scenario, plan=plan_scenario(scenario, asked.inventory))


def time_of_two_rounds_s(folder: Path) -> float:
    """A little less than what two rounds take in a run that is given all its time."""
    run(folder, prepared(folder), Acts())
    found = phases_begun(folder)
    assert len(found) == 7
    return found[2][1] - found[0][1] - 0.5


def test_rounds_end_by_the_clock_and_what_is_left_is_not_missed(tmp_path: Path) -> None:
    within_s = time_of_two_rounds_s(tmp_path)
    judged = run(tmp_path, shortened(prepared(tmp_path), within_s), Acts())
    assert [name for name, _ in phases_begun(tmp_path)] == ["soak-r1", "soak-r2"]
    assert judged.verdict.outcome is Outcome.PASS
    assert {one.probe_id.split("/")[0] for one in judged.verdict.probes} == {"soak-r1", "soak-r2"}
    assert analyze(run_of(tmp_path), baseline_path=None, rewrite=False).verdict == judged.verdict
    found = status(run_of(tmp_path))
    assert (found.state, found.done) == ("ended", found.planned)


def test_a_run_that_goes_on_runs_only_what_its_time_allows(tmp_path: Path) -> None:
    """It was interrupted in its second round, which it runs to its end."""
    within_s = time_of_two_rounds_s(tmp_path)
    asked = shortened(prepared(tmp_path), within_s)
    with pytest.raises(Exception, match="interrupted"):
        run(tmp_path, asked, Acts("soak-r2", lambda: (run_of(tmp_path) / "STOP").touch()))
    judged = gone_on(run_of(tmp_path), force=True)
    assert [name for name, _ in phases_begun(tmp_path)] == ["soak-r1", "soak-r2", "soak-r2"]
    assert {one.probe_id.split("/")[0] for one in judged.verdict.probes} == {"soak-r1", "soak-r2"}
    assert judged.verdict.outcome is Outcome.PASS
