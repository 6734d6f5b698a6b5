"""Burning links in: one phase a stage, in order, and nothing that needs it before the last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.config import from_resolved, load_scenario, resolved_document
from fabric.errors import ConfigError
from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario
from fabric.plan.burn_stages import staged
from fabric.plan.plan import plan_scenario
from fabric.probes.link_burn import LinkBurnSpec
from fabric.probes.loopback import LoopbackSpec
from tests.places import INVENTORY

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
    assert staged(again, inventory) == (again, ())


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
