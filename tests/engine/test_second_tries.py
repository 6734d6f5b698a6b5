"""Who may run a probe, how long it is waited for, when it is run once more, and who is left out of later rounds."""

from collections.abc import Callable, Iterator, KeysView, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measured_rack import rack_topology
from fabric.engine.admission import HostHealth, LeftOut, ProbeAdmission, Waiting
from fabric.engine.deadlines import LONGEST_FACTOR, MARGIN_S, LearnedDeadlines
from fabric.engine.observer import Means
from fabric.errors import ExecutorError, HostRefused, HostUnreachable, JumpHostUnreachable, SessionLost
from fabric.model.outcome import Outcome
from fabric.model.probe import Command, Measurement, NamedPart, Probe, ProbeResult
from fabric.model.scenario import FilledTime, Phase, ProbeSpec
from fabric.model.verdict import OwnFails
from fabric.plan import PhasePlan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.runs.events import Progress, progress_of, read_events
from fabric.runs.run_directory import RunDirectory
from tests.builders import Watcher
from tests.engine.scripted import Script
from tests.engine.test_run_plan import good, run

LOOPBACK = Phase("intra-host", (LoopbackSpec(),))
LOST = SessionLost("gpu002", "waiting for ib_write_bw", "connection lost")
NAME = "intra-host/gpu002/loopback.mlx5_0.numa0"


def failing(error: ExecutorError, times: int, on: Callable[[Command], bool] = lambda command: True) -> Script:
    """The first so many commands of gpu002 (of those *on* says) are lost after a second; all else is good."""
    left = [times]

    def script(command: Command) -> tuple[float, str | ExecutorError]:
        if command.host == "gpu002" and left[0] and on(command):
            left[0] -= 1
            return 1.0, error
        return good(command)

    return script


def is_client(command: Command) -> bool:
    """Not the server, which has a port to listen on."""
    return command.ready_port is None


def attempts(tmp_path: Path, name: str) -> list[tuple[int, str]]:
    """Attempt and outcome of every end of a probe, as the history tells."""
    events = read_events(tmp_path / "t" / "latest" / "events.jsonl")
    return [(e["attempt"], e["outcome"]) for e in events if e["event"] == "finished" and e["probe"] == name]


def test_a_lost_session_costs_one_more_attempt(tmp_path: Path) -> None:
    """The result is the second's, the history has both, and the host stays in the run."""
    results, _, watcher = run(tmp_path, rack_topology(2), [LOOPBACK], failing(LOST, 1, is_client))
    assert watcher.out == []
    assert all(result.outcome is None for result in results.values())
    (again,) = (name for name, result in results.items() if result.attempt == 2)
    assert attempts(tmp_path, again) == [(1, "error"), (2, "measured")]


def test_a_host_that_loses_every_session_is_out_after_the_second_attempt(tmp_path: Path) -> None:
    results, executor, watcher = run(tmp_path, rack_topology(2), [LOOPBACK], failing(LOST, 10_000))
    assert watcher.out == ["gpu002"]
    assert {r.outcome for name, r in results.items() if "gpu002" in name} == {Outcome.ERROR}
    assert max(result.attempt for result in results.values()) == 2
    assert sum(command.host == "gpu002" for command in executor.commands) <= 48
    assert all(result.outcome is None for name, result in results.items() if "gpu001" in name)


@pytest.mark.parametrize(
    ("error", "condition"), [(HostUnreachable, "silent"), (HostRefused, "refusing"), (JumpHostUnreachable, "behind")]
)
def test_why_a_host_is_not_reached_is_kept(tmp_path: Path, error: type[HostUnreachable], condition: str) -> None:
    """What to do next depends on it."""
    script = failing(error("gpu002", "connecting", "no"), 10_000)
    results, *_ = run(tmp_path, rack_topology(2), [LOOPBACK], script)
    assert {one.named for one in results.values() if one.named} == {NamedPart("gpu002", condition)}


def test_a_second_attempt_that_is_not_made_leaves_the_first_to_tell(tmp_path: Path) -> None:
    """The host goes out at the same moment: the result says what ran, not that nothing did."""
    hanging = failing(LOST, 1)

    def script(command: Command) -> tuple[float, str | ExecutorError | None]:
        after_s, answer = hanging(command)
        if command.host != "gpu002":
            return after_s, answer
        return (25.0, answer) if isinstance(answer, ExecutorError) else (0.0, None)

    results, _, watcher = run(tmp_path, rack_topology(2), [LOOPBACK], script)
    assert watcher.out == ["gpu002"]
    lost = [result for result in results.values() if "connection lost" in result.reason]
    assert [result.attempt for result in lost] == [1]
    assert all(len(attempts(tmp_path, name)) == 1 for name in results if "gpu002" in name)


def test_nothing_is_tried_again_where_the_tool_answered(tmp_path: Path) -> None:
    """The client has failed by itself; that the server's session was lost afterwards changes nothing."""

    def script(command: Command) -> tuple[float, str | ExecutorError]:
        if command.host == "gpu002":
            return (4.0, "fatal") if is_client(command) else (5.0, LOST)
        return good(command)

    results, _, _ = run(tmp_path, rack_topology(2), [LOOPBACK], script)
    assert max(result.attempt for result in results.values()) == 1
    assert results[NAME].outcome is Outcome.ERROR


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


def limits(learned: LearnedDeadlines, phase: Phase) -> set[float]:
    """Of all probes of a phase."""
    plan = planned(phase)
    return {learned.limit_s(plan, probe) for probe in plan.planned}


def test_the_longest_that_was_measured_in_earlier_rounds_counts() -> None:
    learned = LearnedDeadlines()
    assert limits(learned, soak(1, LoopbackSpec())) == {inf}
    for number, seconds in ((1, 5.0), (2, 9.0), (3, 7.0)):
        plan = planned(soak(number, LoopbackSpec()))
        learned.learn(plan, took(plan, seconds))
    assert limits(learned, soak(4, LoopbackSpec())) == {LONGEST_FACTOR * 9.0 + MARGIN_S}


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
    limit_s = LONGEST_FACTOR * 5.2 + MARGIN_S
    assert all(0.0 < one.ended_s - one.started_s <= limit_s for one in late)
    assert any("more than 3 times what it took in earlier rounds" in one.reason for one in late)
    planned_s = {c.timeout_s for c in executor.commands if c.ready_port is not None}
    assert min(planned_s) > limit_s


WELL, BAD, UNKNOWN = "well", "bad", "unknown"


class Soak:
    """Rounds of a phase in which gpu001 does as it is told."""

    def __init__(self, folder: Path) -> None:
        self.directory = RunDirectory.create(folder, "t", {})
        self.now_s = 0.0
        self.watcher = Watcher()
        self.begin(Progress())

    def begin(self, past: Progress) -> None:
        """From what is known of the run."""
        executor: Any = SimpleNamespace(now=lambda: self.now_s)
        self.left_out = LeftOut(self._own, Means(RACK, executor, self.directory, self.watcher), past)

    def go_on(self) -> None:
        """As after a kill: from what is on disk."""
        self.directory.flush()
        self.begin(progress_of(list(read_events(self.directory.path / "events.jsonl"))))

    def round(self, number: int, how: str, *, stop: bool = True) -> None:
        """One round, judged."""
        self.now_s += 100.0
        self._how = how
        self.left_out.judge(self.plan(number, stop=stop), ())

    def plan(self, number: int, *, stop: bool = True) -> PhasePlan:
        """That of a round."""
        phase = Phase(f"soak-r{number}", (LoopbackSpec(),), label="soak", stop_host_on="fail" if stop else None)
        return PhasePlan(phase, schedule([]), ())

    def out(self) -> set[str]:
        """Who takes no part in the next round."""
        return set(self.left_out.excluded(self.plan(99).phase))

    def _own(self, plan: PhasePlan, results: Sequence[ProbeResult]) -> OwnFails:
        failed = {"gpu001": "1 loopback fail"} if self._how == BAD else {}
        return OwnFails(failed, frozenset({"gpu001"} if self._how == WELL else ()))


@pytest.mark.parametrize(
    ("rounds", "out"),
    [
        ([BAD], set()),
        ([BAD, BAD], {"gpu001"}),
        ([BAD, WELL, BAD], set()),
        ([BAD, UNKNOWN, BAD], {"gpu001"}),
        ([BAD, BAD, UNKNOWN, UNKNOWN], {"gpu001"}),
    ],
)
@pytest.mark.parametrize("killed", [False, True])
def test_two_bad_rounds_without_a_good_one_between_leave_a_host_out(
    tmp_path: Path, rounds: list[str], out: set[str], *, killed: bool
) -> None:
    """And after a kill between any two of them."""
    soak = Soak(tmp_path)
    for number, how in enumerate(rounds, start=1):
        soak.round(number, how)
        if killed:
            soak.go_on()
    assert soak.out() == out


def test_a_round_that_is_judged_again_after_a_kill_counts_once(tmp_path: Path) -> None:
    """It died after it had been judged, and before the phase was noted as ended."""
    soak = Soak(tmp_path)
    soak.round(1, BAD)
    soak.go_on()
    soak.round(1, BAD)
    assert soak.out() == set()


CLAIMS = st.lists(st.sampled_from("abcde"), unique=True, max_size=3).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("release"), st.sampled_from("abcde")),
        st.tuples(st.sampled_from(["append", "put_first"]), CLAIMS),
        st.tuples(st.just("refuse"), st.sampled_from("xy")),
    ),
    max_size=30,
)


class Plain:
    """One list, looked through from its beginning each time."""

    def __init__(self, probes: list[Probe]) -> None:
        self._probes = probes

    def __iter__(self) -> Iterator[Probe]:
        return iter(self._probes)

    def append(self, probe: Probe) -> None:
        """At the end."""
        self._probes.append(probe)

    def put_first(self, probe: Probe) -> None:
        """At the beginning."""
        self._probes.insert(0, probe)

    def start(self, held: set[str]) -> list[Probe]:
        """Whatever is free."""
        held, started, kept = set(held), [], []
        for probe in self._probes:
            if held.isdisjoint(probe.claims):
                held.update(probe.claims)
                started.append(probe)
            else:
                kept.append(probe)
        self._probes = kept
        return started

    def pop_refused(self, out: list[str]) -> list[Probe]:
        """All of these hosts."""
        gone = [probe for probe in self._probes if not set(out).isdisjoint(probe.hosts)]
        self._probes = [probe for probe in self._probes if probe not in gone]
        return gone


def probe_of(number: int, claims: tuple[str, ...]) -> Probe:
    """Of one of two hosts."""
    return Probe(f"p{number}", "loopback", "x", ("xy"[number % 2],), claims, 1.0, {})


@given(st.lists(CLAIMS, max_size=12), STEPS)
def test_groups_start_what_a_look_at_every_probe_starts(
    planned: list[tuple[str, ...]], steps: list[tuple[str, object]]
) -> None:
    probes = [probe_of(number, claims) for number, claims in enumerate(planned)]
    plain, grouped = Plain(list(probes)), Waiting(probes)
    held: dict[str, float] = {}
    freed: set[str] = set()
    out: list[str] = []
    for number, (what, of) in enumerate(steps, start=len(probes)):
        if what == "release":
            held.pop(str(of), None)
            freed.add(str(of))
        elif what == "refuse":
            out.extend({str(of)}.difference(out))
            assert grouped.pop_refused(lambda probe: not set(out).isdisjoint(probe.hosts), out) == plain.pop_refused(
                out
            )
        else:
            assert isinstance(of, tuple)
            for waiting in (plain, grouped):
                getattr(waiting, what)(probe_of(number, of))
        expected = plain.start(set(held))
        assert grouped.start(held, freed, 0.0) == expected
        assert held.keys() >= {claim for probe in expected for claim in probe.claims}
        freed.clear()
        assert list(grouped) == list(plain)


class Held(dict[str, float]):
    """Claims that are held; counts how often a group's claims were looked up."""

    looks = 0

    def keys(self) -> KeysView[str]:
        """Once a group."""
        self.looks += 1
        return super().keys()


def test_a_claim_that_falls_free_costs_looks_until_it_is_taken() -> None:
    """A hundred groups wait for each of ten claims: the first of them may start, and the others need not be asked."""
    claims = [("abcdefghij"[number % 10], f"own{number}") for number in range(1000)]
    waiting = Waiting(probe_of(number, pair) for number, pair in enumerate(claims))
    held = Held()
    assert len(waiting.start(held, (), 0.0)) == 10
    held.looks = 0
    del held["c"]
    assert [probe.probe_id for probe in waiting.start(held, "c", 1.0)] == ["p12"]
    assert held.looks == 1


def test_nobody_is_asked_again_before_something_changes() -> None:
    """And then those alone that a name is of: a host, or a claim."""
    waiting = Waiting([probe_of(0, ("a",)), probe_of(1, ("b",)), probe_of(2, ("c",)), probe_of(4, ("d",))])
    asked: list[str] = []

    def refused(probe: Probe) -> bool:
        asked.append(probe.probe_id)
        return probe.hosts == ("y",)

    assert [probe.probe_id for probe in waiting.pop_refused(refused, ["y"])] == ["p1"]
    assert (waiting.pop_refused(refused, ["y"]), asked) == ([], ["p1"])
    waiting.append(probe_of(3, ("c",)))
    assert [probe.probe_id for probe in waiting.pop_refused(refused, ["y"])] == ["p3"]
    assert (waiting.pop_refused(refused, ["y", "a"]), asked) == ([], ["p1", "p3", "p0"])


ROUTES = Probe("pairs/gpu001/routes.x", "routes", "pairs", ("gpu001",), (), 1.0, {})
LEFT_OUT = {"gpu001": "did not pass intra-host: 1 loopback fail"}


def test_a_slow_host_that_was_left_out_may_still_read_tables_of_switches() -> None:
    admission = ProbeAdmission(LEFT_OUT, HostHealth({}))
    assert admission.refusal(ROUTES) is None
    assert admission.refusal(replace(ROUTES, kind="loopback")) is not None


def test_a_host_that_does_not_answer_may_not() -> None:
    assert ProbeAdmission(LEFT_OUT, HostHealth({"gpu001": "no route to host"})).refusal(ROUTES) is not None
