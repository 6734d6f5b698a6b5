"""From a scenario to the phases that run: drills or none, rounds that fill a time, stages of a link burn."""

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.prepare import Given, prepare
from fabric.config.resolved import from_resolved, resolved_document
from fabric.config.scenario import load_scenario
from fabric.errors import ConfigError
from fabric.model.inventory import Inventory
from fabric.model.scenario import DRILLS, Phase, Scenario
from fabric.model.text import duration_text
from fabric.plan import PhasePlan, Plan, plan_scenario
from fabric.plan.as_run import longer_than_asked, rounds_alike, staged, timed, without_drills
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.link_burn import LinkBurnSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from tests.changes.asked import shield
from tests.places import INVENTORY, ROOT, SCENARIOS


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


def test_a_plan_that_is_longer_than_asked_says_so() -> None:
    """Of one that fits nothing is said."""
    scenario, inventory = asked(Phase("check", (LoopbackSpec(),)), Phase("soak", (LoopbackSpec(),), for_s=1.0))
    shortest = plan_scenario(timed(scenario, inventory)[0], inventory)
    line = longer_than_asked(shortest, 1.0)
    assert line is not None
    whole = duration_text(shortest.duration_s)
    assert line.startswith(f"this takes {whole} on hardware, not 1 s: every phase is run")
    assert longer_than_asked(shortest, shortest.duration_s) is None
    assert longer_than_asked(shortest, None) is None


BURN_IN = SCENARIOS / "burn-in.yaml"
HEAD = f"name: x\ninventory: {ROOT / 'inventory' / 'pod-64.yaml'}\nhosts: gpu[001-004]\nphases:\n"
FLAP = "changes: [{port_flap: {links: gpu001/mlx5_0, down: 5s, at: 1s}}]"


def shipped(*allow: str) -> tuple[Scenario, Inventory]:
    """The burn-in, on four hosts."""
    scenario, inventory = load_scenario(BURN_IN, hosts="gpu[001-004]")
    return replace(scenario, allow=allow), inventory


def test_without_allow_drills_and_what_is_expected_of_them_are_left_out_and_that_is_said() -> None:
    scenario, _ = shipped()
    kept, lines = without_drills(scenario)
    assert {phase.name for phase in kept.phases} == {"self-check", "burn", "soak", "hall", "bisection"}
    assert not any(phase.changes for phase in kept.phases)
    assert (len(scenario.expect), kept.expect) == (2, ())
    (line,) = lines
    assert line.startswith("drills are off: flap-drill, ber-drill are left out")
    assert "allow: [drills]" in line


def test_with_allow_they_stay_and_that_is_said_too() -> None:
    scenario, _ = shipped(DRILLS)
    kept, lines = without_drills(scenario)
    assert kept == scenario
    assert lines[0].startswith("drills are on: flap-drill, ber-drill alter the fabric")


@pytest.mark.slow
def test_the_plan_of_the_burn_in_alters_nothing_unless_drills_are_allowed() -> None:
    asked = prepare(Given(BURN_IN, hosts="gpu[001-004]", lasts_s=3600.0))
    assert any(note.startswith("drills are off") for note in asked.notes)
    assert not any(phase.changes for phase in asked.plan.phases)


@pytest.mark.parametrize(
    ("phases", "says"),
    [
        ("  - {name: a, drill: true, probes: [loopback]}\n", "it needs 'changes'"),
        (
            f"  - {{name: a, drill: true, {FLAP}, probes: [loopback]}}\n"
            "  - {name: b, needs: [a], probes: [loopback]}\n",
            "only a drill can need it",
        ),
        (f"  - {{name: a, stop_host_on: fail, {FLAP}, probes: [loopback]}}\n", "may be our doing"),
        ("  - {name: a, stop_host_on: error, probes: [loopback]}\n", "expected fail"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, phases: str, says: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + phases)
    with pytest.raises(ConfigError) as caught:
        load_scenario(path)
    assert [says in problem.text for problem in caught.value.problems] == [True], caught.value.problems


TEXT = """\
name: burn
description: x
inventory: {inventory}
hosts: all
phases:
  - name: burn
    probes: [loopback, {{link_burn: {{routing: {routing}, duration: 60s}}}}]
  - name: after
    needs: [burn]
    probes: [rnic_to_rnic]
"""


def loaded(folder: Path, routing: str = "ecmp", inventory: str = "pod-64") -> tuple[Scenario, Inventory]:
    """A burn-in and a phase that needs it."""
    path = folder / "burn.yaml"
    path.write_text(TEXT.format(routing=routing, inventory=INVENTORY / f"{inventory}.yaml"))
    return load_scenario(path, inventory_path=None, hosts=None, faults=())


def test_each_stage_is_a_phase_and_what_follows_needs_all_of_them(tmp_path: Path) -> None:
    scenario, inventory = loaded(tmp_path)
    made, lines = staged(scenario, inventory)
    burns, after = made.phases[:-1], made.phases[-1]
    assert len(burns) > 1
    assert [phase.name for phase in burns] == [f"burn-s{number}" for number in range(1, len(burns) + 1)]
    assert {phase.written for phase in burns} == {"burn"}
    assert after.needs == tuple(phase.name for phase in burns)
    assert [any(isinstance(spec, LoopbackSpec) for spec in phase.probes) for phase in burns[:2]] == [True, False]
    assert "probability that every link reaches half its rate" in "\n".join(lines)


def test_a_stage_starts_all_its_flows_at_once(tmp_path: Path) -> None:
    scenario, inventory = loaded(tmp_path)
    made, _ = staged(scenario, inventory)
    plan = plan_scenario(replace(made, phases=made.phases[1:-1]), inventory)
    for phase_plan in plan.phases:
        assert phase_plan.probes_by_kind == {"link_burn": 512}
        assert phase_plan.schedule.rounds == 1
    ids = [probe.probe_id for probe in plan.planned]
    assert len(set(ids)) == len(ids)


def test_what_is_planned_stays_so_when_the_run_is_read_again(tmp_path: Path) -> None:
    scenario, inventory = loaded(tmp_path, "ftree")
    made, _ = staged(scenario, inventory)
    again, _ = from_resolved(resolved_document(made, inventory))
    assert again.phases == made.phases


def test_a_network_that_is_no_fat_tree_is_refused_with_the_reason(tmp_path: Path) -> None:
    scenario, inventory = loaded(tmp_path, "ftree")
    half = replace(inventory.topology.uplinks[0], lower=inventory.topology.uplinks[0].lower[:8])
    bare = replace(inventory, topology=replace(inventory.topology, uplinks=(half,)))
    with pytest.raises(ConfigError, match="burn: link_burn: leaf su1-leaf0 has no uplinks"):
        staged(scenario, bare)


def test_without_uplinks_the_cables_of_hosts_are_loaded(tmp_path: Path) -> None:
    scenario, inventory = loaded(tmp_path, "ecmp")
    made, lines = staged(scenario, replace(inventory, topology=replace(inventory.topology, uplinks=())))
    assert (
        lines[0]
        == "burn: 1 stage (1 at least, whatever the plan); no uplinks are given: only cables of hosts are loaded"
    )
    assert "burn: host to leaf: 512 of 512 links at half their rate or more" in lines
    assert len(made.phases) == 2


def test_a_plan_for_other_routes_than_the_fabrics_is_refused(tmp_path: Path) -> None:
    scenario, inventory = loaded(tmp_path, "ar")
    with pytest.raises(ConfigError, match=r"planned for 'routing: ar', and .*pod-64.yaml routes by ftree"):
        staged(scenario, inventory)
    adaptive = replace(inventory, mock=replace(inventory.mock, routing="ar"))
    assert "routes: ar" in staged(scenario, adaptive)[1][0]


def test_on_hardware_somebody_has_to_say_how_it_routes(tmp_path: Path) -> None:
    scenario, inventory = loaded(tmp_path, "ar")
    real = replace(inventory, backend="ssh")
    assert "routes: ar" in staged(scenario, real)[1][0]
    burn = scenario.phases[0]
    asked = replace(
        burn, probes=tuple(spec.changed(routing=None) if spec.kind == "link_burn" else spec for spec in burn.probes)
    )
    silent = replace(scenario, phases=(asked,))
    with pytest.raises(ConfigError, match="how do the switches of pod-64 choose paths"):
        staged(silent, real)
    assert "routes: updn" in staged(silent, replace(real, routing="updn"))[1][0]


def test_flows_that_share_a_link_say_what_is_left_to_them(tmp_path: Path) -> None:
    scenario, inventory = loaded(tmp_path, "ftree")
    uplinks = replace(inventory.topology.uplinks[0], upper=tuple(f"spine{n:02d}" for n in range(5)))
    made, _ = staged(scenario, replace(inventory, topology=replace(inventory.topology, uplinks=(uplinks,))))
    flows = [
        flow
        for phase in made.phases
        for spec in phase.probes
        if isinstance(spec, LinkBurnSpec)
        for flow in spec.stages[-1]
    ]
    assert {25, 33, 100} & {flow.share for flow in flows}
    probes = plan_scenario(made, inventory).planned
    shared = [probe.params["share_percent"] for probe in probes if "share_percent" in probe.params]
    assert 0 < max(shared, default=0) < 100
