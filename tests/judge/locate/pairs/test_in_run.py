"""A run that localises: its rounds, what they name, and what the probes inside hosts add; without any host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

import pytest

from benchmarks.measured_rack import one_number
from benchmarks.pair_fabric import PairState, next_round
from fabric.judge.locate.pairs.fitted import fit
from fabric.judge.locate.pairs.further_rounds import FurtherRounds
from fabric.judge.locate.pairs.in_verdict import Inside
from fabric.judge.locate.pairs.rounds import verifying
from fabric.judge.verdict.conclude import conclude
from fabric.judge.verdict.probes import Judge
from fabric.model.change import ChangeSettings
from fabric.model.diagnosis import PairTest
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.scenario import JudgeSettings, LocaliseSettings, Phase
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, Limit, Verdict
from fabric.plan import PhasePlan, schedule
from fabric.probes import routes
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from tests.probes.test_pairwise import pod

GOOD_GBPS, RATES = 392.0, {400.0: 392.0, 200.0: 196.0}
LIMITS = tuple(Limit(kind, 100.0, "test") for kind in ("pairwise", "loopback"))
STATIC = LocaliseSettings(paths="static")
Slow = Mapping[str, float]
"""Component to the share that is lost."""


ONE_ROUND = Phase("pairs", (PairwiseSpec(rounds=1),))


def spine_of(host: str) -> str:
    """Static routes: by destination."""
    return f"spine{int(host[3:]) % 2}"


@dataclass
class World:
    """
    Answers probes: the least of what is on the way, and half a percent of noise that depends on the probe's id.

    Hosts in *skipped* measure nothing; without *tables*, and on *blind* hosts, no routes are read; cables in *dead*
    (``leaf--spine``) are not up.
    """

    topology: Topology
    slow: Slow = field(default_factory=dict)
    tables: bool = True
    skipped: frozenset[str] = frozenset()
    blind: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()

    def result(self, probe: Probe, number: int) -> ProbeResult:
        """What one probe measures."""
        if not self.skipped.isdisjoint(probe.hosts):
            return ProbeResult(probe.probe_id, 0, (), Outcome.SKIPPED, "did not pass", float(number), number + 1.0)
        if probe.kind == routes.KIND:
            return self._routes(probe, number)
        noise = int(sha256(probe.probe_id.encode()).hexdigest()[:8], 16) / 2**32 - 0.5
        lost = max((self.slow.get(part, 0.0) for part in self._way(probe)), default=0.0)
        rnic = self.topology.hosts[probe.hosts[0]].platform.rnic_by_device[str(probe.params["rnic"])]
        value = RATES[rnic.line_rate_gbps] * (1 - lost) * (1 + 0.005 * noise)
        return one_number(probe.probe_id, value, at_s=float(number))

    def _way(self, probe: Probe) -> list[str]:
        if probe.kind == "loopback":
            return [f"{probe.hosts[0]}/{probe.params['rnic']}"]
        a, b = probe.hosts
        rail = int(str(probe.params["rail"]))
        leaves = [self.topology.hosts[name].leaves[rail] for name in (a, b)]
        way = [f"{a}/mlx5_{rail}", f"{b}/mlx5_{rail}", f"{a}/mlx5_{rail}:port", f"{b}/mlx5_{rail}:port", *leaves]
        way += [f"{a}/mlx5_{rail}:tx", f"{b}/mlx5_{rail}:rx"]
        if leaves[0] != leaves[1]:
            over = spine_of(b)
            way += [over, *(f"{leaf}--{over}" for leaf in leaves), f"{leaves[0]}->{over}", f"{over}->{leaves[1]}"]
        return way

    def _routes(self, probe: Probe, number: int) -> ProbeResult:
        if not self.tables or probe.hosts[0] in self.blind:
            return ProbeResult(probe.probe_id, 1, (), Outcome.INCONCLUSIVE, "no ibroute", float(number), number + 1.0)
        rows = [Measurement(probe.probe_id, name, float(value), "number") for name, value in self._numbers(probe)]
        return ProbeResult(probe.probe_id, 1, tuple(rows), Outcome.PASS, "", float(number), number + 1.0)

    def _numbers(self, probe: Probe) -> Iterable[tuple[str, int]]:
        hosts = list(self.topology.hosts)
        if probe.params["lid"]:
            for lid in probe.params["lids"]:  # type: ignore[union-attr]
                yield f"route {lid}", 17 + int(spine_of(hosts[int(lid) - 1000])[-1])
            return
        for place, leaf in enumerate(str(probe.params["leaves"]).split("\n")):
            yield f"lid {leaf}", 1 + place
            alive = (n for n in range(2) if f"{leaf}--spine{n}" not in self.dead)
            yield from ((f"peer {leaf}:{17 + n} spine{n}", 17 + n) for n in alive)
        yield from ((f"lid {host}/{probe.params['device']}", 1000 + place) for place, host in enumerate(hosts))


@dataclass
class Ran:
    """All probes and results of a run, and how many further rounds it had."""

    probes: list[Probe]
    results: dict[str, ProbeResult]
    rounds: list[list[Probe]]
    topology: Topology

    @property
    def verdict(self) -> Verdict:
        """What is concluded."""
        judge = Judge({"h100-ndr": Baseline("h100-ndr", "test", LIMITS)}, JudgeSettings(marginal=0.0), self.topology)
        return conclude(self.probes, self.results, topology=self.topology, judge=judge)

    @property
    def named(self) -> list[str]:
        """The suspects."""
        return sorted(suspect.component for suspect in self.verdict.suspects)


def ran(
    world: World, *, localise: LocaliseSettings | None = STATIC, loopback: bool = False, asker: str | None = None
) -> Ran:
    """Planned rounds, then whatever is asked for until nothing is."""
    specs = (LoopbackSpec(), PairwiseSpec()) if loopback else (PairwiseSpec(),)
    phase = Phase("p", specs, localise=localise)
    probes = expand_phase(phase, world.topology, tuple(world.topology.hosts))
    plan, further = PhasePlan(phase, schedule(probes), ()), FurtherRounds(world.topology, ChangeSettings(via=asker))
    results = {probe.probe_id: world.result(probe, n) for n, probe in enumerate(probes)}
    found = Ran(list(probes), results, [], world.topology)
    for _ in range(40):
        added = found.probes[len(probes) :]
        more = further.more(plan, list(results.values()), added)
        if not more:
            return found
        found.rounds.append(list(more))
        found.probes += more
        results.update((probe.probe_id, world.result(probe, len(results))) for probe in more)
    raise AssertionError("it never ends")


POD = pod(4, 6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "kind", "loss"),
    [
        ("gpu007/mlx5_1", "rnic", 0.05),
        ("u2-leaf0", "leaf", 0.4),
        ("u1-leaf1--spine0", "link", 0.05),
        ("spine1", "spine", 0.05),
        ("spine1", "spine", 0.4),
    ],
)
def test_each_kind_of_part_is_named_alone(bad: str, kind: str, loss: float) -> None:
    verdict = ran(World(POD, {bad: loss})).verdict
    assert [(s.component, s.kind, s.outcome) for s in verdict.suspects] == [(bad, kind, Outcome.FAIL)]
    assert verdict.outcome is Outcome.FAIL
    assert verdict.suspects[0].probes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "component", "loss"),
    [
        ("u0-leaf0->spine0", "u0-leaf0--spine0", 0.75),
        ("u3-leaf1->spine0", "u3-leaf1--spine0", 0.05),
        ("spine0->u1-leaf1", "u1-leaf1--spine0", 0.05),
        ("spine1->u3-leaf0", "u3-leaf0--spine1", 0.75),
    ],
)
def test_an_uplink_that_is_slow_in_one_direction_is_named_with_the_direction(
    bad: str, component: str, loss: float
) -> None:
    (suspect,) = ran(World(POD, {bad: loss})).verdict.suspects
    assert (suspect.component, suspect.kind, suspect.outcome) == (component, "link", Outcome.FAIL)
    assert suspect.ambiguous_with == ()
    (said,) = (line.removeprefix("by direction: ") for line in suspect.evidence if line.startswith("by direction: "))
    slow = {ways.split(" ")[0]: int(ways.split(" ")[1]) for ways in said.split(", ")}
    assert slow.pop(bad) >= 2
    assert list(slow.values()) == [0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "leaf", "end"), [("u3-leaf0->spine1", "u3-leaf0", 0), ("spine1->u3-leaf0", "u3-leaf0", 1)]
)
def test_what_is_suspected_in_one_direction_is_tested_in_that_direction(bad: str, leaf: str, end: int) -> None:
    """Until it is certain; the last round goes both ways."""
    found = ran(World(POD, {bad: 0.3}))
    told = [probe for probe in found.probes if probe.params.get("why") == "tells about u3-leaf0--spine1"]
    assert told
    assert {POD.hosts[probe.hosts[end]].leaves[0] for probe in told} == {leaf}


@pytest.mark.slow
@pytest.mark.parametrize(("way", "text"), [("tx", "sends"), ("rx", "receives")])
@pytest.mark.parametrize("host", ["gpu003", "gpu023"])
def test_a_host_side_that_is_slow_in_one_direction_is_named(host: str, way: str, text: str) -> None:
    bad = f"{host}/mlx5_1:{way}"
    (suspect,) = ran(World(POD, {bad: 0.2})).verdict.suspects
    assert (suspect.component, suspect.kind, suspect.outcome) == (bad, "rnic", Outcome.FAIL)
    assert suspect.evidence[0].startswith(f"what the host {text} is slow")


def test_a_fast_loopback_leaves_the_cable_of_one_direction() -> None:
    found = ran(World(POD, {"gpu007/mlx5_1:tx": 0.2}), loopback=True)
    (suspect,) = found.verdict.suspects
    assert (suspect.component, suspect.kind) == ("gpu007/mlx5_1:port", "link")
    assert any("gpu007/mlx5_1:rx 0 of" in line for line in suspect.evidence)


def ways(world: World, probes: Iterable[Probe]) -> set[str]:
    """Every direction of an uplink that these probes cross."""
    return {step for probe in probes if probe.kind == "pairwise" for step in world._way(probe) if "->" in step}


def test_every_direction_that_is_in_use_is_crossed_before_a_fabric_passes() -> None:
    """Two rounds across eight leaves leave directions out; a further round does not, with two of them in each test."""
    world = World(pod(8, 4))
    found = ran(world)
    leaves = [f"u{unit}-leaf{rail}" for unit in range(8) for rail in range(2)]
    every = {f"{a}->{b}" for leaf in leaves for s in ("spine0", "spine1") for a, b in ((leaf, s), (s, leaf))}
    more = [probe for added in found.rounds for probe in added if "--" in str(probe.params.get("why"))]
    planned = [probe for probe in found.probes if probe.params.get("round") in (0, 1, 2)]
    missing = every - ways(world, planned)
    assert ways(world, found.probes) == every
    assert len(missing) == 2 * len(more) > 0
    assert found.verdict.outcome is Outcome.PASS


def test_an_uplink_that_no_pair_crossed_is_not_cleared() -> None:
    """Without a round to spare for it, and with routes that say it is in use."""
    found = ran(World(pod(8, 4)), localise=LocaliseSettings(rounds=3, paths="static"))
    assert found.verdict.outcome is Outcome.INCONCLUSIVE
    assert any("directions of uplinks are not cleared" in reason for reason in found.verdict.lines)


@pytest.mark.slow
def test_two_bad_parts_are_both_named() -> None:
    assert ran(World(POD, {"gpu003/mlx5_0": 0.2, "u3-leaf1": 0.1})).named == ["gpu003/mlx5_0", "u3-leaf1"]


def test_a_good_fabric_passes_and_asks_for_no_further_pair() -> None:
    """Only for the routes."""
    found = ran(World(POD))
    assert {probe.kind for more in found.rounds for probe in more} == {"routes"}
    assert (found.verdict.outcome, found.verdict.lines) == (Outcome.PASS, ())


def test_the_last_round_measures_the_suspect_and_the_good_hosts_once_more() -> None:
    found = ran(World(POD, {"gpu007/mlx5_1": 0.2}))
    last = found.rounds[-1]
    ends = [host for probe in last for host in probe.hosts]
    assert {probe.params["why"] for probe in last} == {"once more"}
    assert {probe.params["rail"] for probe in last} == {1}
    assert len(ends) == len(set(ends)) == 24


@pytest.mark.slow
def test_the_rounds_end_where_the_scenario_says_and_the_last_one_measures_once_more() -> None:
    """However much is open: here every sample is something else."""
    topology = pod(3, 4)
    found = ran(
        World(topology, {f"gpu{n:03d}/mlx5_0": 0.06 * n for n in range(1, 6)}), localise=LocaliseSettings(rounds=5)
    )
    assert max(int(str(probe.params["round"])) for probe in found.probes) == 4
    assert {probe.params["why"] for probe in found.probes if probe.params["round"] == 4} == {"once more"}


@pytest.mark.slow
def test_unknown_paths_leave_the_model_and_the_verdict_says_so() -> None:
    """Which uplink it is cannot be told, and no host is blamed in its place."""
    found = ran(World(pod(3, 4), {"spine1": 0.4}), localise=LocaliseSettings())
    assert not any(probe.kind == "routes" for probe in found.probes)
    assert any(reason.startswith("note: pairs: which uplinks and spine") for reason in found.verdict.lines)
    assert not any(s.component.startswith("gpu") and s.kind != "path" for s in found.verdict.suspects)


def test_two_line_rates_are_two_classes_and_nobody_is_blamed() -> None:
    slower = frozenset(f"gpu{n:03d}" for n in range(0, 24, 2))
    topology = pod(4, 6, slower=slower)
    found = ran(World(topology))
    assert (found.verdict.outcome, found.named) == (Outcome.PASS, [])
    assert ran(World(topology, {"gpu004/mlx5_0": 0.2})).named == ["gpu004/mlx5_0"]


def test_a_fast_loopback_leaves_the_cable() -> None:
    found = ran(World(POD, {"gpu007/mlx5_1:port": 0.2}), loopback=True)
    assert [(s.component, s.kind) for s in found.verdict.suspects] == [("gpu007/mlx5_1:port", "link")]


def test_a_part_found_bad_inside_its_host_explains_what_pairs_say() -> None:
    """One suspect, from the loopbacks, and none for the pairs."""
    found = ran(World(POD, {"gpu007/mlx5_1": 0.8}), loopback=True)
    assert [(s.component, s.kind) for s in found.verdict.suspects] == [("gpu007/mlx5_1", "rnic")]
    assert "loopback" in " ".join(found.verdict.suspects[0].evidence)


def test_a_pair_that_nothing_explains_blames_no_host() -> None:
    """Two hosts alone that are slow with each other: the way between them, or nobody."""
    found = ran(World(POD), localise=None)
    first = found.probes[0]
    low = found.results[first.probe_id].measurements[0]
    found.results[first.probe_id] = replace(
        found.results[first.probe_id], measurements=(replace(low, value=0.7 * low.value),)
    )
    assert found.named == []
    assert found.verdict.outcome is Outcome.MARGINAL


def test_pairs_of_one_host_that_are_all_slow_are_not_within_the_noise() -> None:
    topology = pod(units=4, hosts=1)
    first, *others = topology.hosts
    probes = [one for other in others for one in expand_phase(ONE_ROUND, topology, [first, other])[:1]]
    results = {
        one.probe_id: one_number(one.probe_id, 60.0 + number / 10, at_s=0.0) for number, one in enumerate(probes)
    }
    found = Ran(probes, results, [], topology).verdict
    assert len(found.probes) == 3
    for one in found.probes:
        assert one.outcome is Outcome.INCONCLUSIVE
        assert "no slower than all 3 tests like it, of too few pairs to say what is bad" in one.reason


def test_with_too_few_hosts_the_limit_alone_judges() -> None:
    """Three hosts have no peers; a pair below its limit is one suspect that stands for both."""
    topology = pod(1, 3)
    found = ran(World(topology, {"gpu001/mlx5_0": 0.9}), localise=None)
    assert found.verdict.outcome is Outcome.FAIL
    assert len(found.verdict.suspects) == 1
    assert "gpu001" in found.named[0]


def test_a_host_that_was_not_measured_is_in_no_round() -> None:
    world = World(POD, {"gpu007/mlx5_1": 0.2})
    good: Callable[[Probe, int], ProbeResult] = world.result

    def result(probe: Probe, number: int) -> ProbeResult:
        found = good(probe, number)
        skipped = replace(found, attempt=0, measurements=(), outcome=Outcome.SKIPPED, reason="gpu006: did not pass")
        return skipped if "gpu006" in probe.hosts else found

    world.result = result  # type: ignore[method-assign]
    found = ran(world)
    assert not any("gpu006" in probe.hosts for more in found.rounds for probe in more)
    assert found.named == ["gpu007/mlx5_1"]


def test_a_slow_loopback_leaves_the_host_side_as_it_is() -> None:
    """It is no proof against the cable, nor for it."""
    found = ran(World(POD, {"gpu007/mlx5_1": 0.2}), loopback=True)
    (suspect,) = ran(World(POD, {"gpu007/mlx5_1": 0.2})).verdict.suspects
    inside = Inside((), found.probes, found.results, POD)
    assert inside.refined(suspect, 0.2) == suspect
    assert inside.refined(suspect, 0.0) == suspect
    other = replace(suspect, component="gpu008/mlx5_1", hosts=("gpu008",))
    assert inside.refined(other, 0.2).component == "gpu008/mlx5_1:port"


def test_a_test_that_tells_of_an_uplink_really_crosses_it() -> None:
    """Partners are chosen by the route: the test's spine is the one that its leaf sends over."""
    leaf_of = {host: POD.hosts[host].leaves[0] for host in POD.hosts}
    leaves = {leaf: tuple(h for h in leaf_of if leaf_of[h] == leaf) for leaf in dict.fromkeys(leaf_of.values())}
    known = {(leaf, host): spine_of(host) for leaf in leaves for host in leaf_of if leaf_of[host] != leaf}
    bad = "u1-leaf0--spine0"
    state = PairState(leaves, ("spine0", "spine1"), routes=known, directed=True)
    asked: list[PairTest] = []
    for _ in range(6):
        tests = next_round(state) or tuple(verifying(fit(state.samples())))
        asked += tests if state.rounds > 2 else ()
        crossed = [replace(t, via=known.get((leaf_of[t.a], t.b))) for t in tests]
        ways = [{f"{leaf_of[end]}--{t.via}" for end in (t.a, t.b)} if t.via else set() for t in crossed]
        state = state.with_results((t, 300.0 if bad in way else 390.0) for t, way in zip(crossed, ways, strict=True))
    told = [test for test in asked if test.via]
    assert told
    assert all(known[leaf_of[test.a], test.b] == test.via for test in told)


@pytest.mark.parametrize(("bad", "rounds"), [("gpu023/mlx5_1:rx", 3), ("gpu003/mlx5_1:tx", 4)])
def test_two_slow_samples_make_neither_their_part_nor_the_run_fail(bad: str, rounds: int) -> None:
    """The verdict of a run is no surer than its suspect."""
    verdict = ran(World(POD, {bad: 0.3}), localise=LocaliseSettings(rounds=rounds, paths="static")).verdict
    assert [(s.component, s.outcome) for s in verdict.suspects] == [(bad, Outcome.INCONCLUSIVE)]
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_a_rail_of_two_parts_is_two_planes() -> None:
    """Leaves that no switch joins are measured apart, and judged so: a slow RNIC of one part is found."""
    whole = pod(4, 4)
    apart = tuple(
        replace(
            whole.uplinks[0], lower=tuple(f"u{unit}-leaf{rail}" for unit in units for rail in (0, 1)), upper=(spine,)
        )
        for units, spine in (((0, 1), "spine0"), ((2, 3), "spine1"))
    )
    found = ran(World(replace(whole, uplinks=apart), {"gpu009/mlx5_1": 0.3}), localise=LocaliseSettings())
    assert [(s.component, s.outcome) for s in found.verdict.suspects] == [("gpu009/mlx5_1", Outcome.FAIL)]
