"""Both directions at once: what is asked, what half the sum says, and what the simulated rack makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.altered_answers import ended
from fabric.app.prepare import Given, prepare
from fabric.model.probe import ProbeResult
from fabric.probes.bidirectional import BidirectionalSpec
from fabric.probes.kinds import expand_phase
from fabric.tools.perftest import command
from fabric.wiring import BACKENDS

RACK = Path(__file__).parents[2] / "inventory" / "demo-rack-healthy.yaml"


def measured(folder: Path, *faults: str) -> list[tuple[str, float]]:
    """Id and Gb/s of a round of both kinds of pair on two hosts of the simulated rack."""
    probes = "[{bidirectional: {rounds: 1}}, {pairwise: {rounds: 1}}]"
    (folder / "s.yaml").write_text(f"name: both\ninventory: {RACK}\nphases: [{{name: p, probes: {probes}}}]\n")
    asked = prepare(Given(folder / "s.yaml", hosts="gpu[001-002]", faults=faults))
    found: list[ProbeResult] = [
        ended(probe, asked.inventory.topology, BACKENDS["mock"](asked.inventory, 0)).result()
        for probe in expand_phase(asked.scenario.phases[0], asked.inventory.topology, asked.scenario.hosts)
        if probe.params["rnic"] == "mlx5_3"
    ]
    assert [one.reason for one in found] == ["", ""]
    return [(one.probe_id, one.measurements[0].value) for one in found]


def test_a_healthy_pair_has_the_same_each_way_as_one_way(tmp_path: Path) -> None:
    (_, both), (_, one_way) = measured(tmp_path)
    assert both == pytest.approx(one_way, rel=0.02)


def test_each_side_is_told_that_both_send_and_claims_both_ways(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"name: b\ninventory: {RACK}\nphases: [{{name: p, probes: [bidirectional]}}]\n")
    asked = prepare(Given(tmp_path / "s.yaml"))
    probe = expand_phase(asked.scenario.phases[0], asked.inventory.topology, asked.scenario.hosts)[0]
    made = BidirectionalSpec.commands(probe, asked.inventory.topology)
    assert all("--bidirectional" in side.argv for side in (*made.servers, made.client))
    assert made.client.argv[-1] == probe.hosts[1]
    ways = [claim.rpartition(":")[2] for claim in probe.claims if "/pcie" in claim]
    assert ways == ["down", "up", "down", "up"]
    assert command.asked(made.client.argv, "IB").both_ways


def test_a_slow_rnic_slows_both_directions(tmp_path: Path) -> None:
    (_, both), (_, one_way) = measured(tmp_path, "gpu001/mlx5_3:slow=0.5")
    assert both == pytest.approx(one_way, rel=0.05)
    assert both < 250
