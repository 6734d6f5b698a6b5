"""Phases that fill a time: how many rounds, under which names, with which partners."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.config import load_scenario
from fabric.errors import ConfigError
from fabric.model.inventory import Inventory
from fabric.model.scenario import Phase, Scenario
from fabric.model.text import duration_text
from fabric.plan.as_run import longer_than_asked, rounds_alike, timed
from fabric.plan.cost import Cost, cost
from fabric.plan.plan import PhasePlan, Plan, plan_scenario
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from tests.changes.asked import shield
from tests.places import SCENARIOS


def asked(*phases: Phase, lasts_s: float | None = None) -> tuple[Scenario, Inventory]:
    """These phases on the demonstration rack."""
    scenario, inventory = load_scenario(SCENARIOS / "self-check.yaml")
    return replace(scenario, phases=phases, lasts_s=lasts_s), inventory


def test_a_phase_is_run_as_often_as_fits_into_its_time() -> None:
    scenario, inventory = asked(Phase("soak", (LoopbackSpec(),)))
    once_s = plan_scenario(scenario, inventory).duration_s
    longer, _ = asked(Phase("soak", (LoopbackSpec(),), for_s=3.5 * once_s))
    found, lines = timed(longer, inventory)
    assert [phase.name for phase in found.phases] == ["soak-r1", "soak-r2", "soak-r3"]
    assert {phase.written for phase in found.phases} == {"soak"}
    assert lines[0].startswith("soak: 3 rounds of ")


def test_a_share_is_of_the_whole_run() -> None:
    scenario, inventory = asked(Phase("soak", (LoopbackSpec(),), share=0.5), lasts_s=3600.0)
    found, _ = timed(scenario, inventory)
    assert 1500.0 < plan_scenario(found, inventory).duration_s <= 1800.0


def test_pairs_and_drawn_groups_are_others_each_round() -> None:
    phase = Phase("soak", (PairwiseSpec(rounds=2), ConcurrentRingsSpec(pairing="random", seed=5)), for_s=1000.0)
    scenario, inventory = asked(phase)
    found, _ = timed(scenario, inventory)
    specs = [phase.probes for phase in found.phases[:2]]
    assert [(pairs.first, rings.seed) for pairs, rings in specs] == [(0, 5), (2, 6)]  # type: ignore[union-attr]


def loads(found: Cost) -> set[tuple[str, int, float]]:
    """Of hosts and leaves; sums of seconds may differ in their last digits."""
    return {(one.name, one.probes, round(one.work_s, 6)) for one in (*found.hosts, *found.leaves)}


def numbers(plan: Plan) -> list[object]:
    """What is printed of each phase."""
    return [
        (
            one.phase,
            one.probes_by_kind,
            one.busiest_host,
            one.notes,
            one.schedule.makespan_s,
            one.schedule.rounds,
            one.schedule.lower_bound_s,
        )
        for one in plan.phases
    ]


@pytest.mark.parametrize(
    ("hosts", "pairs", "planned"),
    [
        pytest.param(64, PairwiseSpec(rounds=2), 2, marks=pytest.mark.slow),  # two units of 32
        (64, PairwiseSpec(rounds=2, only=("gpu001",)), 5),
        pytest.param(
            63, PairwiseSpec(rounds=2), 5, marks=pytest.mark.slow
        ),  # one is over each round, another one each time
        (7, PairwiseSpec(rounds=2), 5),
        (8, PairwiseSpec(rounds=2), 2),
    ],
)
def test_rounds_in_which_everybody_has_a_partner_are_planned_twice(
    hosts: int, pairs: PairwiseSpec, planned: int
) -> None:
    """The first, under the leaves, and one of the others: the plan's numbers are those of planning all."""
    scenario, inventory = load_scenario(SCENARIOS / "burn-in.yaml")
    phases = (Phase("soak", (AllToAllSpec(sizes_bytes=(1 << 33,), iterations=2000), pairs), for_s=1.0),)
    scenario = replace(scenario, hosts=scenario.hosts[:hosts], phases=phases)
    once_s = plan_scenario(timed(scenario, inventory)[0], inventory).duration_s
    known: dict[str, PhasePlan] = {}
    scenario = replace(scenario, phases=(replace(phases[0], for_s=5.5 * once_s),))
    scenario, _ = timed(scenario, inventory, known=known)
    alike = rounds_alike(scenario.hosts, inventory.topology)
    found = plan_scenario(scenario, inventory, known=known, alike=alike)
    whole = plan_scenario(scenario, inventory)
    assert len({id(one.schedule) for one in found.phases}) == planned
    assert numbers(found) == numbers(whole)
    one, other = (cost(plan, scenario, inventory.topology) for plan in (found, whole))
    assert (one.gpu_hours, loads(one)) == (other.gpu_hours, loads(other))


def test_a_phase_that_alters_the_fabric_is_like_no_other() -> None:
    spec = shield(False)
    scenario, inventory = asked()
    alike = rounds_alike(scenario.hosts, inventory.topology)
    one, two = (Phase(name, (LoopbackSpec(),), changes=(spec,)) for name in ("a-r1", "a-r2"))
    assert alike(one) != alike(two)
    assert alike(replace(one, changes=())) == alike(replace(two, changes=()))


def test_stages_are_repeated_together() -> None:
    spec = (LoopbackSpec(),)
    scenario, inventory = asked(
        Phase("burn-s1", spec, label="burn", for_s=1e9 / 1e6), Phase("burn-s2", spec, label="burn", for_s=1000.0)
    )
    found, _ = timed(scenario, inventory)
    assert [phase.name for phase in found.phases[:4]] == ["burn-s1-r1", "burn-s2-r1", "burn-s1-r2", "burn-s2-r2"]


@pytest.mark.parametrize(
    ("phases", "lasts_s", "says"),
    [
        ((Phase("soak", (LoopbackSpec(),), share=0.5),), None, "share of soak: of what?"),
        (
            (Phase("a", (LoopbackSpec(),), share=0.6), Phase("b", (LoopbackSpec(),), share=0.6)),
            3600.0,
            "add up to 1.2: expected at most 1",
        ),
        ((Phase("soak", (LoopbackSpec(),), for_s=1e7),), None, "expected at most 2,000"),
    ],
)
def test_a_time_that_cannot_be_is_refused(phases: tuple[Phase, ...], lasts_s: float | None, says: str) -> None:
    scenario, inventory = asked(*phases, lasts_s=lasts_s)
    with pytest.raises(ConfigError, match=says.replace("?", r"\?")):
        timed(scenario, inventory)


def test_a_plan_that_is_longer_than_asked_says_so_and_the_shortest_possible() -> None:
    """All phases, and one round of what is repeated; of one that fits nothing is said."""
    once = Phase("check", (LoopbackSpec(),))
    scenario, inventory = asked(once, Phase("soak", (LoopbackSpec(),), for_s=1.0))
    shortest = plan_scenario(timed(scenario, inventory)[0], inventory)
    line = longer_than_asked(shortest, 1.0)
    assert line is not None
    whole = duration_text(shortest.duration_s)
    assert line.startswith(f"this takes {whole} on hardware, not 1 s: the shortest possible is {whole}")
    assert longer_than_asked(shortest, shortest.duration_s) is None
    assert longer_than_asked(shortest, None) is None
    scenario, inventory = asked(once, Phase("soak", (LoopbackSpec(),), for_s=10 * shortest.duration_s))
    more = longer_than_asked(plan_scenario(timed(scenario, inventory)[0], inventory), 2.0)
    assert more is not None
    assert f"the shortest possible is {whole}" in more
    assert not more.startswith(f"this takes {whole}")
