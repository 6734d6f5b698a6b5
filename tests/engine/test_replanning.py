"""Neighbours of who is left out are measured with the next one; rounds end by the clock; follow-ups in their phase."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.engine.deadlines import RoundClock
from fabric.engine.observer import FollowUp
from fabric.errors import HostUnreachable
from fabric.model.outcome import Outcome
from fabric.model.probe import Command, FollowUpLimits, Probe, ProbeResult
from fabric.model.scenario import FilledTime, Phase
from fabric.plan import PhasePlan, Plan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from fabric.runs.events import Progress, history_of, progress_of, read_events, replanned
from fabric.runs.run_directory import RunDirectory
from tests.engine.scripted import ScriptedExecutor, carried_out
from tests.engine.test_run_plan import good, run

PHASES = [Phase("a", (LoopbackSpec(),)), Phase("b", (TorAllReduceSpec(repeat=2),), needs=("a",))]
TOR = Phase("b", (TorAllReduceSpec(),))


def script(command: Command) -> tuple[float, str]:
    """All is well inside hosts; what several hosts say together does not matter here."""
    return good(command) if any(word.startswith("--ib-dev=") for word in command.argv) else (5.0, "no table")


def pair(a: int, b: int, name: str = "tor_all_reduce") -> str:
    """The probe id of two hosts."""
    return f"b/gpu{a:03d}+gpu{b:03d}/{name}"


def test_both_neighbours_of_a_host_that_did_not_pass_are_measured_with_each_other(tmp_path: Path) -> None:
    """Each repetition once, and the lost pairs say so."""
    results, _, _ = run(tmp_path, rack_topology(5), PHASES, script, gate={"gpu003": "slow"})
    assert {results[pair(2, 4, f"tor_all_reduce.r{n}")].attempt for n in (1, 2)} == {1}
    lost = results[pair(2, 3, "tor_all_reduce.r1")]
    assert lost.outcome is Outcome.SKIPPED
    assert lost.reason == "gpu003: did not pass a: slow; re-planned as gpu002+gpu004"
    assert len([name for name in results if name.startswith("b/")]) == 2 * (5 + 1)


def test_a_host_that_is_measured_with_others_anyway_lacks_nothing(tmp_path: Path) -> None:
    """Of three hosts in a ring the other two are each other's neighbours."""
    results, _, _ = run(tmp_path, rack_topology(3), PHASES, script, gate={"gpu002": "slow"})
    lost = results[pair(1, 2, "tor_all_reduce.r1")]
    assert lost.outcome is Outcome.SKIPPED
    assert lost.reason.endswith("gpu001 is measured with others as planned")
    assert results["b/gpu003+gpu001/tor_all_reduce.r1"].attempt == 1


def test_where_no_other_partner_is_left_it_is_inconclusive(tmp_path: Path) -> None:
    """Of three hosts in a ring one is left."""
    results, _, _ = run(tmp_path, rack_topology(3), PHASES, script, gate={"gpu002": "slow", "gpu003": "slow"})
    lost = results[pair(1, 2, "tor_all_reduce.r1")]
    assert lost.outcome is Outcome.INCONCLUSIVE
    assert lost.reason.endswith("no other partner for gpu001 is in the run")


def test_the_history_tells_all_of_a_new_probe(tmp_path: Path) -> None:
    """Enough to judge it from the run's directory alone."""
    run(tmp_path, rack_topology(5), PHASES, script, gate={"gpu003": "slow"})
    events = list(read_events(tmp_path / "t" / "latest" / "events.jsonl"))
    first = replanned(events)[0]
    assert first.hosts == ("gpu002", "gpu004")
    assert set(first.claims) == {
        f"{host}/{part}{n}" for host in first.hosts for part in ("gpu", "mlx5_") for n in range(8)
    }
    assert (first.params["series"], first.params["ranks"]) == ("gpu002+gpu004/tor_all_reduce", 16)
    assert isinstance(first.params["sizes_bytes"], tuple)
    assert {probe.probe_id for probe in replanned(events)} <= set(history_of(events).results)


def gone(command: Command) -> tuple[float, str | HostUnreachable | None]:
    """gpu003 is: what is started there cannot be, and who measures with it waits for ever."""
    if command.host == "gpu003":
        return 3.0, HostUnreachable("gpu003", "connect", "refused")
    return (0.0, None) if any("gpu003" in word for word in command.argv) else (5.0, "no table")


def test_a_host_that_goes_in_the_middle_leaves_its_neighbours_to_each_other(tmp_path: Path) -> None:
    """It is out after one of its probes, blamed alone, and what was lost with it is replaced."""
    results, _, watcher = run(tmp_path, rack_topology(5), [TOR], gone)
    assert watcher.out == ["gpu003"]
    assert results[pair(2, 4)].attempt == 1
    events = read_events(tmp_path / "t" / "latest" / "events.jsonl")
    assert [event["instead_of"] for event in events if event["event"] == "replanned"] == [pair(3, 4)]
    blamed = {result.error_host for result in results.values() if result.error_host is not None}
    assert blamed == {"gpu003"}


def test_a_tool_that_says_nothing_of_use_blames_no_host_that_answers(tmp_path: Path) -> None:
    """All are asked for a word, and all say it: whose the error is, nobody knows."""
    results, _, watcher = run(tmp_path, rack_topology(3), [TOR], script)
    assert watcher.out == []
    assert {(result.outcome, result.error_host) for result in results.values()} == {(Outcome.ERROR, None)}


PAIRS = Phase("b", (PairwiseSpec(size_bytes=8 << 20, rounds=2, repeat=2),), needs=("a",))


@pytest.mark.slow
@pytest.mark.parametrize("out", [{"gpu003"}, {"gpu001", "gpu003"}, {"gpu003", "gpu004"}])
def test_pairs_of_a_host_that_is_left_out_are_measured_with_hosts_that_are_in(tmp_path: Path, out: set[str]) -> None:
    """Everybody else is measured in each round, on each rail, as often as planned."""
    rack = rack_topology(6)
    results, _, _ = run(tmp_path, rack, [PHASES[0], PAIRS], script, gate=dict.fromkeys(out, "slow"))
    measured: dict[tuple[str, str], set[str]] = {}
    for name, result in results.items():
        phase, hosts, test = name.split("/")
        if phase == "b" and result.attempt:
            assert out.isdisjoint(hosts.split("+"))
            for host in hosts.split("+"):
                measured.setdefault((host, test), set()).add(name)
    tests = {test for _, test in measured}
    assert len(tests) == 8 * 2 * 2
    assert {key for key in measured} == {(host, test) for host in rack.hosts if host not in out for test in tests}


def test_two_hosts_that_lost_their_partners_are_given_each_other(tmp_path: Path) -> None:
    """One test serves both, and each repetition of it is begun once."""
    gate = {"gpu001": "slow", "gpu003": "slow"}
    phases = [PHASES[0], Phase("b", (PairwiseSpec(size_bytes=8 << 20, rounds=1, repeat=2),), needs=("a",))]
    results, _, _ = run(tmp_path, rack_topology(6), phases, script, gate=gate)
    added = {name for name in results if "/gpu002+gpu004/" in name}
    assert len(added) == 8 * 2
    assert all(results[name].attempt == 1 for name in added)
    assert len([name for name in results if name.startswith("b/")]) == 8 * 2 * (3 + 1)


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


def run_followed(tmp_path: Path, *follow_ups: FollowUp) -> tuple[list[ProbeResult], ScriptedExecutor]:
    """Two phases of loopbacks on one host; only the first has follow-ups."""
    topology = rack_topology(1)
    made = [Phase(name, (LoopbackSpec(),)) for name in "ab"]
    plan = Plan(tuple(PhasePlan(p, schedule(expand_phase(p, topology, tuple(topology.hosts))), ()) for p in made))
    executor, directory = ScriptedExecutor(good), RunDirectory.create(tmp_path, "t", {})
    results = carried_out(plan, topology, executor, directory, follow_ups=follow_ups)
    directory.close()
    return results, executor


def extra(results: Sequence[ProbeResult]) -> list[str]:
    """The names of what no plan had."""
    return [result.probe_id.removeprefix("a/gpu001/") for result in results if "loopback" not in result.probe_id]


def once(*names: str) -> Wanted:
    """These, the first time."""
    return lambda _results, added: () if added else names


def test_what_is_wanted_runs_after_the_plan_and_before_the_next_phase(tmp_path: Path) -> None:
    results, _ = run_followed(tmp_path, Wants("more", once("x", "y")))
    order = [result.probe_id.split("/")[0] if "loop" in result.probe_id else "more" for result in results]
    assert order == ["a"] * 80 + ["more"] * 2 + ["b"] * 80
    assert all(result.outcome is None for result in results)


def test_the_history_tells_who_asked_and_all_of_the_probe(tmp_path: Path) -> None:
    run_followed(tmp_path, Wants("more", once("x")))
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

    results, _ = run_followed(tmp_path, Wants("more", wanted))
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
    assert len(extra(run_followed(tmp_path, Wants("more", for_ever, limits))[0])) == most


def test_what_the_phase_has_already_is_not_run_twice(tmp_path: Path) -> None:
    planned = lambda _results, _added: ["loopback.mlx5_0.numa0", "x"]  # noqa: E731
    results, _ = run_followed(tmp_path, Wants("more", planned))
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
    run_followed(tmp_path, first)
    events = list(read_events(tmp_path / "t" / "latest" / "events.jsonl"))
    topology, later = rack_topology(1), Learns("more", once("x"))
    made = [Phase(name, (LoopbackSpec(),)) for name in "ab"]
    plan = Plan(tuple(PhasePlan(p, schedule(expand_phase(p, topology, tuple(topology.hosts))), ()) for p in made))
    past, executor = progress_of(events), ScriptedExecutor(good)
    directory = RunDirectory(tmp_path / "t" / "latest", added=past.added)
    carried_out(plan, topology, executor, directory, follow_ups=(later,), progress=past)
    assert later.told == first.told


def test_hosts_that_are_left_out_stay_out(tmp_path: Path) -> None:
    """What is wanted of them is answered, not run, and that comes to an end."""
    topology = rack_topology(2)
    phases = [Phase("z", (LoopbackSpec(),)), Phase("a", (LoopbackSpec(),), needs=("z",))]
    plan = Plan(tuple(PhasePlan(p, schedule(expand_phase(p, topology, tuple(topology.hosts))), ()) for p in phases))
    directory = RunDirectory.create(tmp_path, "t", {})
    results = carried_out(
        plan,
        topology,
        ScriptedExecutor(good),
        directory,
        gate=lambda _plan, _results: {"gpu001": "slow"},
        follow_ups=(Wants("more", for_ever),),
    )
    directory.close()
    outcomes = {result.outcome for result in results if "/x" in result.probe_id}
    assert (len([r for r in results if "/x" in r.probe_id]), outcomes) == (30, {Outcome.SKIPPED})
