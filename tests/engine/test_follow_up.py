"""Follow-ups run in the phase that they belong to, are written down, and spend no more than they may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.engine.observer import FollowUp
from fabric.engine.run import run_plan
from fabric.model.outcome import Outcome
from fabric.model.probe import FollowUpLimits, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.plan.plan import PhasePlan, Plan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.runs.events import history_of, progress_of, read_events, replanned
from fabric.runs.run_directory import RunDirectory
from tests.builders import Watcher
from tests.engine.scripted import ScriptedExecutor
from tests.engine.test_run_plan import good

ENOUGH = FollowUpLimits(10, 100, 1e6)
Wanted = Callable[[Sequence[ProbeResult], Sequence[Probe]], Sequence[str]]


class Wants:
    """Wants copies of the first planned probe, named by what *wanted* says."""

    def __init__(self, name: str, wanted: Wanted, limits: FollowUpLimits | None = ENOUGH) -> None:
        self._name, self._wanted, self._limits = name, wanted, limits
        self.asked = 0

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    def limits(self, phase_plan: PhasePlan) -> FollowUpLimits | None:
        """Only in phase a."""
        return self._limits if phase_plan.phase.name == "a" else None

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """Copies, and counts how often it was asked."""
        self.asked += 1
        first = phase_plan.planned[0]
        return [replace(first, probe_id=f"a/gpu001/{name}") for name in self._wanted(results, added)]


def run(tmp_path: Path, *follow_ups: FollowUp) -> tuple[list[ProbeResult], ScriptedExecutor]:
    """Two phases of loopbacks on one host; only the first has follow-ups."""
    topology = rack_topology(1)
    made = [Phase(name, (LoopbackSpec(),)) for name in "ab"]
    plan = Plan(tuple(PhasePlan(p, schedule(expand_phase(p, topology, tuple(topology.hosts))), ()) for p in made))
    executor, directory = ScriptedExecutor(good), RunDirectory.create(tmp_path, "t", {})
    results = run_plan(
        plan,
        topology=topology,
        executor=executor,
        directory=directory,
        observer=Watcher(),
        gate=lambda _plan, _results: {},
        follow_ups=follow_ups,
    )
    directory.close()
    return results, executor


def extra(results: Sequence[ProbeResult]) -> list[str]:
    """The names of what no plan had."""
    return [result.probe_id.removeprefix("a/gpu001/") for result in results if "loopback" not in result.probe_id]


def once(*names: str) -> Wanted:
    """These, the first time."""
    return lambda _results, added: () if added else names


def test_what_is_wanted_runs_after_the_plan_and_before_the_next_phase(tmp_path: Path) -> None:
    results, _ = run(tmp_path, Wants("more", once("x", "y")))
    order = [result.probe_id.split("/")[0] if "loop" in result.probe_id else "more" for result in results]
    assert order == ["a"] * 80 + ["more"] * 2 + ["b"] * 80
    assert all(result.outcome is None for result in results)


def test_the_history_tells_who_asked_and_all_of_the_probe(tmp_path: Path) -> None:
    run(tmp_path, Wants("more", once("x")))
    events = list(read_events(tmp_path / "t" / "latest" / "events.jsonl"))
    assert [event["because"] for event in events if event["event"] == "replanned"] == ["more"]
    (probe,) = replanned(events)
    assert (probe.probe_id, probe.phase, probe.kind) == ("a/gpu001/x", "a", "loopback")
    assert history_of(events).results["a/gpu001/x"].measurements[0].value == 391.2


def test_it_is_asked_again_with_all_results_until_it_wants_nothing(tmp_path: Path) -> None:
    seen: list[int] = []

    def wanted(results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[str]:
        seen.append(len(results))
        return (f"x{len(added)}",) if len(added) < 3 else ()

    results, _ = run(tmp_path, Wants("more", wanted))
    assert (extra(results), seen) == (["x0", "x1", "x2"], [80, 81, 82, 83])


def for_ever(_results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[str]:
    """Three more, always."""
    return tuple(f"x{len(added) + n}" for n in range(3))


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        (FollowUpLimits(2, 100, 1e6), 6),
        (FollowUpLimits(10, 4, 1e6), 4),
        (FollowUpLimits(10, 100, 10.0), 3),
        (FollowUpLimits(10, 100, 0.0), 0),
    ],
    ids=["rounds", "probes", "time", "no time"],
)
def test_it_spends_no_more_than_it_may(tmp_path: Path, limits: FollowUpLimits, most: int) -> None:
    """A round takes three times five seconds: after the first there is no time for another."""
    assert len(extra(run(tmp_path, Wants("more", for_ever, limits))[0])) == most


def test_what_the_phase_has_already_is_not_run_twice(tmp_path: Path) -> None:
    planned = lambda _results, _added: ["loopback.mlx5_0.numa0", "x"]  # noqa: E731
    results, _ = run(tmp_path, Wants("more", planned))
    assert len(results) == 161
    assert extra(results) == ["x"]


class Learns(Wants):
    """Remembers what it is told of phases that are over."""

    def __init__(self, name: str, wanted: Wanted) -> None:
        super().__init__(name, wanted)
        self.told: list[tuple[str, int, list[str]]] = []

    def ended(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> None:
        """The phase, how many results, and what was added."""
        self.told.append((phase_plan.phase.name, len(results), [probe.probe_id for probe in added]))


def test_who_remembers_is_told_of_phases_from_before_an_interruption(tmp_path: Path) -> None:
    first = Learns("more", once("x"))
    run(tmp_path, first)
    events = list(read_events(tmp_path / "t" / "latest" / "events.jsonl"))
    topology, later = rack_topology(1), Learns("more", once("x"))
    made = [Phase(name, (LoopbackSpec(),)) for name in "ab"]
    plan = Plan(tuple(PhasePlan(p, schedule(expand_phase(p, topology, tuple(topology.hosts))), ()) for p in made))
    past, executor = progress_of(events), ScriptedExecutor(good)
    run_plan(
        plan,
        topology=topology,
        executor=executor,
        directory=RunDirectory(tmp_path / "t" / "latest", added=past.added),
        observer=Watcher(),
        gate=lambda _plan, _results: {},
        follow_ups=(later,),
        progress=past,
    )
    assert later.told == first.told


def test_hosts_that_are_left_out_stay_out(tmp_path: Path) -> None:
    """What is wanted of them is answered, not run, and that comes to an end."""
    topology = rack_topology(2)
    phases = [Phase("z", (LoopbackSpec(),)), Phase("a", (LoopbackSpec(),), needs=("z",))]
    plan = Plan(tuple(PhasePlan(p, schedule(expand_phase(p, topology, tuple(topology.hosts))), ()) for p in phases))
    directory = RunDirectory.create(tmp_path, "t", {})
    results = run_plan(
        plan,
        topology=topology,
        executor=ScriptedExecutor(good),
        directory=directory,
        observer=Watcher(),
        gate=lambda _plan, _results: {"gpu001": "slow"},
        follow_ups=(Wants("more", for_ever),),
    )
    directory.close()
    outcomes = {result.outcome for result in results if "/x" in result.probe_id}
    assert (len([r for r in results if "/x" in r.probe_id]), outcomes) == (30, {Outcome.SKIPPED})
