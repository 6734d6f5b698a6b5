"""What fits into a time: the rounds that tell most, and a word on what the rest would have told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.config import load_scenario
from fabric.errors import ConfigError
from fabric.model.inventory import Inventory
from fabric.model.probe import Probe
from fabric.model.scenario import FilledTime, Phase, Scenario
from fabric.plan.as_run import as_run
from fabric.plan.budget import Part, within
from fabric.plan.plan import PhasePlan, Plan, assembled, plan_scenario, schedule
from tests.places import INVENTORY

MIXED = f"""\
name: mixed
inventory: {INVENTORY / "pod-64.yaml"}
hosts: gpu[001-003]
phases:
  - name: check
    probes: [all_to_all]
  - name: burn
    for: 100s
    probes: [link_burn: {{routing: ftree, duration: 10s}}]
  - name: altered
    needs: [check]
    changes: [{{ber: {{links: gpu001/mlx5_0, effective: 1e-6, direction: up}}}}]
    probes: [{{tor_all_reduce: {{sizes: [1G], repeat: 3}}}}]
  - name: soak
    for: 80s
    probes: [pairwise: {{rounds: 2}}, all_to_all: {{sizes: [1G]}}]
"""


def probe(name: str, takes_s: float, *parts: str) -> Probe:
    """A probe of the one host there is; *parts* are what it would show."""
    return Probe(name, "k", "p", ("h",), ("h/all",), takes_s, {"parts": " ".join(parts)})


def covers(of: Probe) -> Iterator[Part]:
    """What it would show."""
    return (("part", name) for name in str(of.params["parts"]).split())


def planned(*phases: list[Probe]) -> Plan:
    """One phase for each list."""
    return Plan(tuple(PhasePlan(Phase(f"p{n}", ()), schedule(probes), ()) for n, probes in enumerate(phases)))


def repeated(*rounds: list[Probe], within_s: float = 1e3) -> Plan:
    """One phase that fills a time with these rounds."""
    fills = FilledTime("soak", within_s)
    phases = [Phase(f"soak-r{n}", (), label="soak", round=n, fills=fills) for n in range(1, len(rounds) + 1)]
    return Plan(tuple(PhasePlan(one, schedule(probes), ()) for one, probes in zip(phases, rounds, strict=True)))


def kept(plan: Plan) -> set[str]:
    """Ids of all its probes."""
    return {probe.probe_id for probe in plan.planned}


def test_what_fits_as_a_whole_is_kept_as_a_whole() -> None:
    plan = planned([probe("a", 10, "x"), probe("b", 10, "x")])
    chosen = within(plan, 20, covers)
    assert chosen.plan is plan
    assert (chosen.covered, chosen.coverable, chosen.uncovered, chosen.dropped) == (1, 1, (), ())


def test_new_components_per_second_decide() -> None:
    plan = planned([probe("again", 10, "x"), probe("long", 30, "y", "z"), probe("short", 10, "x", "w")])
    chosen = within(plan, 40, covers)
    assert kept(chosen.plan) == {"short", "long"}
    assert chosen.covered == chosen.coverable == 4


def test_what_is_left_out_and_what_it_would_have_told_is_said() -> None:
    plan = planned([probe("a", 10, "x")], [probe("b", 100, "y"), probe("c", 10, "x")])
    chosen = within(plan, 15, covers)
    assert chosen.uncovered == (("part", "y"),)
    assert (chosen.covered, chosen.coverable) == (1, 2)
    assert dict(chosen.dropped) == {"p1": 2}


def test_the_time_that_overlapping_rounds_save_is_used() -> None:
    """One after the other they take 60 s; b, c and d run beside a, and all but the longest is done after 40 s."""
    long = Probe("a", "k", "p", ("a",), ("a",), 30.0, {"parts": "x y"})
    beside = [Probe(name, "k", "p", ("b",), ("b",), 10.0, {"parts": name}) for name in "bcd"]
    chosen = within(planned([long, *beside], [probe("other", 10, "z")], [probe("longest", 99, "w")]), 50, covers)
    assert kept(chosen.plan) == {"a", "b", "c", "d", "other"}


def test_rounds_that_fit_together_less_well_are_not_all_kept() -> None:
    """Found by search: a fourth round would fit after the others, and not among them."""
    claims = (("v", 30, "w"), ("u", 30, "x"), ("sv", 30, "y"), ("su", 40, "y"), ("tv", 30, "x"), ("tu", 40, "x"))
    probes = [
        Probe(str(n), "k", "p", ("h",), tuple(held), float(takes_s), {"parts": parts})
        for n, (held, takes_s, parts) in enumerate((*claims, ("s", 30, "x"), ("st", 30, "w")))
    ]
    chosen = within(planned(probes), 110, covers)
    assert chosen.plan.duration_s <= 110
    assert chosen.covered == 3


def test_the_shortest_that_would_fit_is_known() -> None:
    chosen = within(planned([probe("a", 10, "x"), probe("b", 7, "y")]), 5, covers)
    assert chosen.shortest_s == 7
    assert within(planned([probe("a", 10, "x"), probe("b", 7, "y")]), 7, covers).plan.probes == 1
    assert within(repeated([probe("a", 10, "x")], [probe("b", 7, "x")]), 5, covers).shortest_s == 10


def test_a_phase_notes_what_is_left_out_of_it() -> None:
    chosen = within(planned([probe("a", 10, "x"), probe("b", 10, "y")], [probe("c", 10, "z")]), 20, covers)
    notes = [phase.notes for phase in chosen.plan.phases]
    assert notes == [(), ("p1: 1 of 1 probes left out: no more fits into the budget",)]


def test_rounds_of_a_repeated_phase_are_kept_in_order_and_as_a_whole() -> None:
    """The last is shorter and would fit; and the first of the others would fit in half."""
    once = [[probe(f"{n}a", 10, "x"), probe(f"{n}b", 10, "y")] for n in range(3)]
    chosen = within(repeated(*once, [probe("3a", 5, "x")]), 55, covers)
    assert kept(chosen.plan) == {"0a", "0b", "1a", "1b"}
    assert [phase.kept for phase in chosen.phases] == [None, None, (), ()]


def test_what_repeats_a_phase_comes_after_all_that_is_new() -> None:
    plan = Plan(
        (*repeated([probe("0", 10, "x")], [probe("1", 10, "x", "z")]).phases, *planned([probe("n", 40, "y")]).phases)
    )
    assert kept(within(plan, 50, covers).plan) == {"0", "n"}


def test_a_repeated_phase_has_the_time_that_is_left_of_it() -> None:
    """A round that is left out fills none of it."""
    chosen = within(repeated(*([probe(str(n), 10, "x")] for n in range(5))), 24, covers)
    assert [phase.fills for phase in chosen.phases] == [FilledTime("soak", 20.0)] * 2 + [None] * 3
    assert [one.phase for one in chosen.plan.phases] == list(chosen.phases[:2])


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scenario, Inventory]:
    """Stages of a link burn and a soak that are repeated, and changes."""
    path = tmp_path_factory.mktemp("mixed") / "mixed.yaml"
    path.write_text(MIXED)
    scenario, inventory = load_scenario(path)
    return as_run(scenario, inventory)[0], inventory


def by_claim(of: Probe) -> Iterator[Part]:
    """All that a probe holds."""
    return (("claim", name) for name in of.claims)


@settings(max_examples=20, deadline=None)
@given(budget=st.integers(1, 330))
def test_planned_again_from_its_phases_it_is_the_very_same_plan(mixed: tuple[Scenario, Inventory], budget: int) -> None:
    scenario, inventory = mixed
    chosen = within(plan_scenario(scenario, inventory), budget, by_claim)
    assert plan_scenario(replace(scenario, phases=chosen.phases), inventory) == chosen.plan
    assert chosen.plan.duration_s <= budget
    assert [phase.name for phase in chosen.phases] == [phase.name for phase in scenario.phases]


@pytest.mark.parametrize(("budget_s", "probes"), [(128, 0), (300, 9)])
def test_a_phase_with_changes_is_taken_as_a_whole_or_alters_nothing(
    mixed: tuple[Scenario, Inventory], budget_s: float, probes: int
) -> None:
    chosen = within(plan_scenario(*mixed), budget_s, by_claim)
    (altered,) = [one for one in chosen.plan.phases if one.phase.name == "altered"]
    assert altered.schedule.probes == probes
    assert bool(altered.changes) == bool(probes)


@pytest.mark.parametrize("kept_rounds", [(0, 2), (-1,)])
def test_a_round_that_there_is_not_is_refused(kept_rounds: tuple[int, ...]) -> None:
    (one,) = planned([probe("a", 10), probe("b", 10)]).phases
    with pytest.raises(ConfigError, match="phase p0: 'kept' names round"):
        assembled([replace(one, phase=replace(one.phase, kept=kept_rounds))])


@settings(max_examples=25, deadline=None)
@given(
    rounds=st.lists(st.tuples(st.integers(1, 60), st.sets(st.sampled_from("abcdefgh"))), min_size=1, max_size=12),
    budget=st.integers(1, 300),
)
def test_the_choice_always_fits_and_nothing_that_is_left_out_would(
    rounds: list[tuple[int, set[str]]], budget: int
) -> None:
    plan = planned([probe(str(n), float(takes), *sorted(parts)) for n, (takes, parts) in enumerate(rounds)])
    chosen = within(plan, budget, covers)
    assert chosen.plan.duration_s <= budget
    left_out = [takes for n, (takes, _) in enumerate(rounds) if str(n) not in kept(chosen.plan)]
    assert all(chosen.plan.duration_s + takes > budget for takes in left_out)
    assert chosen.covered + len(chosen.uncovered) == chosen.coverable
