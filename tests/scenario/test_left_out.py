"""Whole runs on the mock: hosts that fail stop early, rounds end by the clock."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.analyze import analyze
from fabric.app.prepare import Asked
from fabric.app.status import status
from fabric.model.inventory import Fault, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.scenario import FilledTime
from fabric.model.verdict import JudgedRun
from fabric.plan import PhasePlan, plan_scenario
from fabric.report.progress import ConsoleProgress
from fabric.runs.events import Event, read_events
from tests import builders
from tests.builders import gone_on
from tests.places import INVENTORY

SCENARIO = """\
name: soak
inventory: {inventory}
hosts: gpu[001-004]
phases:
  - name: soak
    for: {lasts_s}s
    stop_host_on: fail
    probes:
      - all_to_all: {{sizes: [8G], halves: false}}
      - tor_all_reduce: {{sizes: [8G]}}
"""
ROUNDS = 5
BAD = "gpu003"
FOREVER_S = 1e9
SLOW = Fault(f"{BAD}/gpu2:nvlink", "slow", 0.5)


class Acts(ConsoleProgress):
    """Does something when a phase of this name begins."""

    def __init__(self, phase: str = "", act: Callable[[], None] = lambda: None) -> None:
        super().__init__(quiet=True)
        self._phase_name, self._act = phase, act

    def phase_started(self, plan: PhasePlan) -> None:
        """Perhaps now."""
        super().phase_started(plan)
        if plan.phase.name == self._phase_name:
            self._act()


def prepared(folder: Path, *faults: TimedFault, rounds: int = ROUNDS) -> Asked:
    """Rounds of a soak on four hosts of the pod."""
    path = folder / "soak.yaml"
    inventory = INVENTORY / "pod-64.yaml"
    path.write_text(SCENARIO.format(inventory=inventory, lasts_s=1))
    once_s = builders.asked(path).plan.duration_s
    path.write_text(SCENARIO.format(inventory=inventory, lasts_s=int(once_s * rounds) + rounds))
    return builders.with_timed(builders.asked(path), *faults)


def run(folder: Path, asked: Asked, watcher: ConsoleProgress) -> JudgedRun:
    """On the mock."""
    return builders.on_mock(asked, folder / "results", observer=watcher)


def run_of(folder: Path) -> Path:
    """The newest."""
    return (folder / "results" / "soak" / "latest").resolve()


def events(folder: Path, name: str) -> list[Event]:
    """Of the newest run."""
    return [event for event in read_events(run_of(folder) / "events.jsonl") if event["event"] == name]


def own(judged: JudgedRun, number: int) -> set[Outcome]:
    """Outcomes of what the bad host measures inside itself in one round."""
    start = f"soak-r{number}/{BAD}/all_to_all"
    found = {one.outcome for one in judged.verdict.probes if one.probe_id.startswith(start)}
    assert found
    return found


def _begins_s(folder: Path, phase: str, since_s: float = 0.0) -> float:
    """When a phase begins in a run in which the fault never ends."""
    run(folder, prepared(folder, TimedFault(since_s, FOREVER_S, SLOW)), Acts())
    return next(float(event["at_s"]) for event in events(folder, "phase_started") if event["phase"] == phase)


@pytest.mark.slow
def test_it_is_left_out_after_two_bad_rounds_and_its_peers_go_on(tmp_path: Path) -> None:
    judged = run(tmp_path, prepared(tmp_path, TimedFault(0.0, FOREVER_S, SLOW)), Acts())
    assert [event["left_out"].keys() for event in events(tmp_path, "round_judged")] == [set(), {BAD}]
    assert Outcome.FAIL in own(judged, 1)
    assert Outcome.FAIL in own(judged, 2)
    assert all(own(judged, number) == {Outcome.SKIPPED} for number in range(3, ROUNDS + 1))
    reasons = {one.reason for one in judged.verdict.probes if one.probe_id.startswith(f"soak-r4/{BAD}/all_to_all")}
    assert len(reasons) == 1
    assert f"{BAD}: left out after soak-r2: in 2 rounds one after the other its own probes were bad" in reasons.pop()
    others = [one for one in judged.verdict.probes if one.probe_id.startswith("soak-r5/") and BAD not in one.probe_id]
    assert {one.outcome for one in others} == {Outcome.PASS}
    assert judged.verdict.outcome is Outcome.FAIL


@pytest.mark.slow
def test_a_gpu_that_hangs_is_left_out_and_costs_no_whole_deadline(tmp_path: Path) -> None:
    """From the third round on, which takes as long as 13 others; two such rounds, and the host is out."""
    since_s = _begins_s(tmp_path, "soak-r3", FOREVER_S)
    hangs = TimedFault(since_s, FOREVER_S, Fault(f"{BAD}/gpu2", "hanging"))
    judged = run(tmp_path, prepared(tmp_path, hangs, rounds=30), Acts())
    assert own(judged, 3) == own(judged, 4) == {Outcome.ERROR}
    assert any(BAD in event["left_out"] for event in events(tmp_path, "round_judged"))
    late = [one for one in events(tmp_path, "finished") if one["probe"].startswith(f"soak-r3/{BAD}/all_to_all")]
    assert all("in earlier rounds" in one["reason"] for one in late)


@pytest.mark.slow
def test_a_run_that_goes_on_remembers_who_is_left_out(tmp_path: Path) -> None:
    """It was stopped after the fourth round began."""
    asked = prepared(tmp_path, TimedFault(0.0, FOREVER_S, SLOW))
    with pytest.raises(Exception, match="interrupted"):
        run(tmp_path, asked, Acts("soak-r4", lambda: (run_of(tmp_path) / "STOP").touch()))
    judged = builders.gone_on(run_of(tmp_path), force=True)
    assert own(judged, 5) == own(judged, 4) == {Outcome.SKIPPED}
    assert [event["left_out"].keys() for event in events(tmp_path, "round_judged")] == [set(), {BAD}]


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
    assert len(found) == ROUNDS
    return found[2][1] - found[0][1] - 0.5


def test_rounds_end_by_the_clock_and_what_is_left_is_not_missed(tmp_path: Path) -> None:
    within_s = time_of_two_rounds_s(tmp_path)
    judged = run(tmp_path, shortened(prepared(tmp_path), within_s), Acts())
    assert [name for name, _ in phases_begun(tmp_path)] == ["soak-r1", "soak-r2"]
    assert judged.verdict.outcome is Outcome.PASS
    assert {one.probe_id.split("/")[0] for one in judged.verdict.probes} == {"soak-r1", "soak-r2"}
    assert analyze(run_of(tmp_path)).judged.verdict == judged.verdict
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
