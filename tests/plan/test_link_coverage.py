"""Stages that load every link: checked against what the simulated network really gives, not against the plan's word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.plan.link_coverage import (
    CoveragePlan,
    RoutedFabric,
    Stage,
    plan_by_chance,
    plan_coverage,
    routed_fabric,
    stage_bound,
)
from fabric.sim.net.clos import Clos, ClosSpec, build
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.route import pooled, routes

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
