"""A schedule breaks no claim and wastes none; stages load every link, checked against the simulated network."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.measured_rack import rack_topology
from fabric.changes.kinds import expand_changes
from fabric.model.change import ChangeSettings, ChangeSpec, Lease
from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.plan import PhasePlan, Schedule, hold_problems, schedule
from fabric.plan.link_coverage import (
    CoveragePlan,
    RoutedFabric,
    Stage,
    plan_by_chance,
    plan_coverage,
    routed_fabric,
    stage_bound,
)
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from fabric.sim.net.clos import Clos, ClosSpec, build
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.route import pooled, routes
from tests.changes.asked import link_down, port_flap
from tests.changes.played import topology


def probe(number: int, claims: tuple[str, ...], duration_s: float) -> Probe:
    """A probe of no kind."""
    return Probe(f"p{number}", "none", "phase", ("h",), claims, duration_s, {})


PROBES = st.lists(
    st.tuples(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4), st.sampled_from([1.0, 2.0, 5.0])),
    min_size=1,
    max_size=40,
).map(lambda rows: [probe(i, tuple(claims), duration) for i, (claims, duration) in enumerate(rows)])


def intervals(plan: Schedule) -> list[tuple[float, float, Probe]]:
    """Start, end and probe of every slot."""
    return [(s.start_s, s.start_s + s.probe.duration_s, s.probe) for s in plan.slots]


@given(PROBES)
def test_no_two_probes_hold_one_claim(probes: list[Probe]) -> None:
    """Probes that overlap in time share no claim."""
    slots = intervals(schedule(probes))
    for i, (start_a, end_a, a) in enumerate(slots):
        for start_b, end_b, b in slots[i + 1 :]:
            if start_a < end_b and start_b < end_a:
                assert not set(a.claims) & set(b.claims)


@given(PROBES)
def test_work_conserving(probes: list[Probe]) -> None:
    """At a probe's start minus nothing, it could not have started earlier: one of its claims was just released."""
    slots = intervals(schedule(probes))
    for start, _, p in slots:
        if start > 0:
            assert any(end == start and set(other.claims) & set(p.claims) for _, end, other in slots)


@given(PROBES)
def test_bound_is_a_bound(probes: list[Probe]) -> None:
    """No schedule beats the busiest claim's own work."""
    plan = schedule(probes)
    assert plan.makespan_s >= plan.lower_bound_s - 1e-9


def test_self_check_is_near_the_bound() -> None:
    """The intra-host phase of an 8-RNIC host is within 1.10 of the lower bound, the ToR ring is at it."""
    topology = rack_topology(8)
    hosts = tuple(topology.hosts)
    intra = Phase("intra-host", (LoopbackSpec(), RnicToRnicSpec(), AllToAllSpec()))
    plan = schedule(expand_phase(intra, topology, hosts))
    assert plan.makespan_s / plan.lower_bound_s <= 1.10
    ring = schedule(expand_phase(Phase("tor", (TorAllReduceSpec(),)), topology, hosts))
    assert ring.rounds == 2


@given(PROBES)
def test_each_probe_starts_as_early_as_those_before_it_leave_it(probes: list[Probe]) -> None:
    """No moment before its start would do: at each some probe before it in the list holds one of its claims."""
    slots = {slot.probe.probe_id: slot for slot in schedule(probes).slots}
    for number, late in enumerate(probes):
        before = [slots[one.probe_id] for one in probes[:number] if not set(one.claims).isdisjoint(late.claims)]
        moments = {0.0, *(slot.start_s + slot.probe.duration_s for slot in before)}
        for at_s in (one for one in moments if one < slots[late.probe_id].start_s):
            assert any(
                slot.start_s < at_s + late.duration_s and at_s < slot.start_s + slot.probe.duration_s for slot in before
            )


MIN_S = 60.0
LINK = ("gpu001/mlx5_0",)


def problems(spec: ChangeSpec, takes_s: float) -> list[str]:
    """Of one change in a phase that takes so long; a change is held 10 minutes at most."""
    phase = Phase("hurt", (), changes=(spec,))
    changes = expand_changes(phase, topology(), ChangeSettings(), ())
    return hold_problems(PhasePlan(phase, Schedule((), takes_s, takes_s, "", 1), (), changes), Lease(60.0, 600.0))


@pytest.mark.parametrize(
    ("spec", "takes_s"),
    [
        (port_flap(*LINK, down=1.0, at=5.0), 18 * MIN_S),
        (port_flap(*LINK, down=5.0, count=10, period=20.0), 18 * MIN_S),
        (port_flap(*LINK, down=5.0, count=1000, period=60.0), 9 * MIN_S),
        (link_down(*LINK, at=5.0, for_=60.0), 18 * MIN_S),
        (link_down(*LINK), 9 * MIN_S),
        (link_down(*LINK, at=10 * MIN_S), 18 * MIN_S),
        (link_down(*LINK, at=0.0), 0.0),
    ],
)
def test_what_ends_in_time_is_no_problem(spec: ChangeSpec, takes_s: float) -> None:
    assert problems(spec, takes_s) == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            link_down(*LINK),
            "hurt takes about 18 min 00 s, and a change is held 10 min .*at most .* give the change a 'for'",
        ),
        (port_flap(*LINK, down=900.0), "port_flap of hurt takes 15 min .* held 10 min .*at most .*'count' or 'period'"),
        (port_flap(*LINK, down=5.0, count=100, period=20.0), "port_flap of hurt takes 33 min"),
    ],
)
def test_what_is_held_too_long_is_told_with_what_would_help(spec: ChangeSpec, text: str) -> None:
    (said,) = problems(spec, 18 * MIN_S)
    assert re.search(text, said), said


def test_what_begins_after_its_phase_is_told() -> None:
    (said,) = problems(link_down(*LINK, at=23 * 60 * MIN_S, for_=1.0), 5 * MIN_S)
    assert said.startswith("hurt takes about 5 min 00 s, and link_down is to begin after 23 h")


POD_64 = ClosSpec(64, 8, 16, 16, 2, 0, 0, True, 400.0, 400.0)
HALL_2L = ClosSpec(2048, 8, 32, 32, 2, 0, 0, True, 400.0, 400.0)
HALL_3L = ClosSpec(2048, 8, 32, 32, 3, 32, 32, True, 400.0, 400.0)
KNOWN = ("ftree", "updn", "minhop", "ar")


def simulated(clos: Clos, routing: str, stages: tuple[Stage, ...]) -> np.ndarray:
    """The part of its capacity that each link (or trunk) carries in the stage in which it carries most."""
    capacity = pooled(clos, clos.capacity_gbps, eta=1.0) if routing == "ar" else clos.capacity_gbps
    best = np.zeros(len(capacity))
    for stage in stages:
        paths = routes(clos, stage.src, stage.dst, engine=routing)
        rates = np.repeat(max_min(paths.links, capacity), paths.links.shape[1])
        load = np.bincount(paths.links.ravel(), weights=rates, minlength=len(capacity) + 1)[:-1]
        best = np.maximum(best, load / capacity)
    return best


def planned(spec: ClosSpec, routing: str) -> tuple[Clos, RoutedFabric, CoveragePlan]:
    """A network and its plan."""
    clos = build(spec)
    net = routed_fabric(clos, routing=routing)
    return clos, net, plan_coverage(net)


@pytest.mark.parametrize("routing", KNOWN)
@pytest.mark.parametrize("spec", [POD_64, replace(POD_64, rail_optimised=False), HALL_2L], ids=["64", "plain", "2048"])
def test_one_stage_loads_every_link_of_two_levels(spec: ClosSpec, routing: str) -> None:
    clos, _, plan = planned(spec, routing)
    assert (len(plan.stages), plan.bound) == (1, 1)
    assert simulated(clos, routing, plan.stages).min() >= 0.5 - 1e-9


@pytest.mark.parametrize("routing", ["ftree", "ar"])
def test_one_stage_loads_every_link_of_three_levels(routing: str) -> None:
    clos, _, plan = planned(HALL_3L, routing)
    assert (len(plan.stages), plan.bound) == (1, 1)
    assert simulated(clos, routing, plan.stages).min() >= 0.5 - 1e-9
    assert sum(tier.links for tier in plan.tiers) == sum(tier.covered for tier in plan.tiers) == 6 * 16_384


def test_links_on_no_route_are_named_and_the_others_are_loaded() -> None:
    """OpenSM's updn uses one core of each spine on such a tree (seen with OpenSM 3.3.23)."""
    clos, net, plan = planned(replace(HALL_3L, hosts=512), "updn")
    load = simulated(clos, "updn", plan.stages)
    never = np.array(plan.never)
    assert len(never) == 4 * 32 * 31 * 2
    assert set(net.tier[never]) == {4, 5}
    assert not load[never].any()
    assert np.delete(load, never).min() >= 0.5 - 1e-9
    assert (len(plan.stages), plan.missed) == (1, ())


UNEVEN = {
    "fewer RNICs than uplinks": ClosSpec(32, 4, 8, 16, 2, 0, 0, True, 400.0, 400.0),
    "not a divisor": ClosSpec(96, 4, 24, 32, 2, 0, 0, True, 400.0, 400.0),
    "two to one": ClosSpec(64, 8, 32, 16, 2, 0, 0, True, 400.0, 400.0),
    "three to one": ClosSpec(64, 8, 32, 10, 2, 0, 0, True, 400.0, 400.0),
    "a leaf that is half full": ClosSpec(10, 2, 4, 4, 2, 0, 0, True, 400.0, 400.0),
    "faster uplinks": ClosSpec(64, 8, 16, 8, 2, 0, 0, True, 400.0, 800.0),
    "few cores": ClosSpec(512, 8, 32, 32, 3, 32, 16, True, 400.0, 400.0),
}


LONG = ("minhop", "ftree")
"""What takes the shortest way on trees as ``updn`` does."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "routing"),
    [
        pytest.param(name, routing, marks=[pytest.mark.slow] if routing in LONG else [])
        for name in UNEVEN
        for routing in KNOWN
    ],
)
def test_uneven_fabrics_take_at_most_half_as_many_stages_again_as_any_plan_must(name: str, routing: str) -> None:
    clos, _, plan = planned(UNEVEN[name], routing)
    assert plan.missed == ()
    assert len(plan.stages) <= 1.5 * plan.bound
    load = simulated(clos, routing, plan.stages)
    assert np.delete(load, np.array(plan.never, dtype=int)).min() >= 0.5 - 1e-9


def test_each_rnic_sends_once_and_receives_once_a_stage() -> None:
    _, _, plan = planned(UNEVEN["not a divisor"], "updn")
    for stage in plan.stages:
        assert len(set(stage.src.tolist())) == len(stage.src)
        assert len(set(stage.dst.tolist())) == len(stage.dst)
        assert not (stage.src == stage.dst).any()


def test_the_bound_is_what_a_leaf_with_half_its_rnics_forces() -> None:
    """Four uplinks and two senders below: two stages, whatever the plan."""
    _, net, plan = planned(UNEVEN["a leaf that is half full"], "updn")
    assert plan.bound == 2
    assert stage_bound(net, net.tier == 2) == 2
    assert stage_bound(net, net.tier == 0) == 1


def test_rnics_that_are_not_in_the_run_neither_send_nor_receive() -> None:
    usable = np.ones(512, dtype=np.bool_)
    usable[:24] = False  # three hosts
    clos = build(POD_64)
    plan = plan_coverage(routed_fabric(clos, routing="ftree", usable=usable))
    for stage in plan.stages:
        assert usable[stage.src].all()
        assert usable[stage.dst].all()
    assert len(plan.stages) <= 1.5 * plan.bound
    assert simulated(clos, "ftree", plan.stages)[np.flatnonzero(usable)].min() >= 0.5 - 1e-9


def test_a_trunk_that_its_rnics_cannot_fill_is_named() -> None:
    """Adaptive routing spreads 8 RNICs over 32 uplinks: a quarter of their rate is the most."""
    clos = build(ClosSpec(16, 2, 8, 32, 2, 0, 0, True, 400.0, 400.0))
    plan = plan_coverage(routed_fabric(clos, routing="ar"))
    assert [(tier.name, tier.never) for tier in plan.tiers if tier.never] == [
        ("leaf to spine", 4 * 32),
        ("spine to leaf", 4 * 32),
    ]
    assert plan.missed == ()


def test_rails_with_spines_of_their_own_never_meet() -> None:
    clos = build(POD_64)
    part = np.arange(clos.leaves) % 8
    plan = plan_coverage(routed_fabric(clos, routing="updn", part=part))
    for stage in plan.stages:
        assert ((stage.src - stage.dst) % 8 == 0).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), flows=st.integers(1, 400), routing=st.sampled_from(KNOWN))
def test_the_planned_load_is_never_more_than_the_simulated(seed: int, flows: int, routing: str) -> None:
    """Whatever the flows: what is said to be covered is."""
    clos = build(UNEVEN["not a divisor"])
    rng = np.random.default_rng(seed)
    src = rng.integers(0, clos.nics, flows)
    dst = (src + rng.integers(1, clos.nics, flows)) % clos.nics
    said = routed_fabric(clos, routing=routing).covered(src, dst)
    assert (simulated(clos, routing, (Stage(src, dst),))[said] >= 0.5 - 1e-6).all()


def test_stages_for_an_unknown_hash_cover_all_with_hashes_they_have_not_seen() -> None:
    """95 % promised: of 20 hashes most are covered whole, and hardly a link is left by any."""
    clos = build(POD_64)
    plan = plan_by_chance(lambda salt: routed_fabric(clos, routing="ecmp", salt=salt))
    assert plan.likely >= 0.95
    whole = 0
    for salt in range(100, 120):
        net = routed_fabric(clos, routing="ecmp", salt=salt)
        done = np.zeros(clos.links, dtype=np.bool_)
        for stage in plan.stages:
            done |= net.covered(stage.src, stage.dst)
        whole += bool(done.all())
        assert (~done).sum() <= 2
    assert whole >= 16
