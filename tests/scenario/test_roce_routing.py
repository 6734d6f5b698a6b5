"""A RoCE fabric in two tiers whose switches speak NVUE: adaptive routing off and on, and what rings gain by it."""

from pathlib import Path

import pytest

from fabric.app.restore import restore_hosts
from fabric.errors import ConfigError
from fabric.model.change import Change
from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from fabric.wiring import BACKENDS
from tests import builders
from tests.builders import Watcher
from tests.places import SHIPPED_BASELINES
from tests.scenario.changing import Watched, watched

RNICS = "\n".join(f"      - {{device: mlx5_{n}, rail: {n}, numa: 0, line_rate_gbps: 400}}" for n in range(4))
INVENTORY = f"""\
name: roce-pod
backend: mock
platforms:
  h100-roce:
    baseline: h100-ndr
    link_layer: ethernet
    numa_nodes: 1
    gpus: [{{index: 0-3, numa: 0}}]
    rnics:
{RNICS}
hosts:
  - {{names: "node[01-16]", platform: h100-roce, leaves: "u{{unit}}-leaf{{rail}}", hosts_per_unit: 8}}
switches:
  - names: "u[0-1]-leaf[0-3]"
    tier: leaf
    uplinks: {{to: "spine[0-3]", count: 2, line_rate_gbps: 400}}
    address: "{{name}}.mgmt"
    management: nvue
    user: cumulus
  - {{names: "spine[0-3]", tier: spine, address: "{{name}}.mgmt", management: nvue}}
changes:
  lease: {{ttl: 2m, max_hold: 30m}}
mock: {{routing: ecmp}}
"""
SCENARIO = """\
name: contention
inventory: inventory/roce.yaml
hosts: all
matrix: {adaptive_routing: [off, on]}
phases:
  - name: rings
    changes:
      - {adaptive_routing: $adaptive_routing, scope: fabric}
      - {adaptive_routing: $adaptive_routing, scope: host}
    probes: [{concurrent_rings: {groups_of: 2, pairing: random, seed: 3, sizes: [8G], repeat: 3}}]
expect:
  - {compare: rings, where: {adaptive_routing: on}, against: {adaptive_routing: off}, at_least: 1.1}
"""


class Reasons(Watcher):
    """Remembers reasons too."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []

    def change_state(self, change: Change, state: str, reason: str) -> None:
        """Remember both."""
        super().change_state(change, state, reason)
        self.reasons.append(reason)


LOSSLESS = INVENTORY.replace("{routing: ecmp}", "{routing: ecmp, lossless_class: 106, congestion: dcqcn}").replace(
    "link_layer: ethernet", "link_layer: ethernet\n    traffic_class: 106"
)
VICTIMS = """\
name: contention
inventory: inventory/roce.yaml
hosts: all
matrix: {ecn: [off, on]}
phases:
  - name: beside
    changes: [{ecn: $ecn, traffic_class: 3, scope: fabric}]
    probes: [{victim: {senders: [8], repeat: 2}}]
expect:
  - {compare: beside, where: {ecn: on}, against: {ecn: off}, at_least: 1.1}
"""


def place(folder: Path, *, inventory: str = INVENTORY, scenario: str = SCENARIO) -> Path:
    """The scenario and its inventory."""
    (folder / "inventory" / "baselines").mkdir(parents=True)
    for path in SHIPPED_BASELINES:
        (folder / "inventory" / "baselines" / path.name).write_text(path.read_text())
    (folder / "inventory" / "roce.yaml").write_text(inventory)
    (folder / "contention.yaml").write_text(scenario)
    return folder / "contention.yaml"


def run(path: Path, watcher: Watcher | None = None) -> tuple[JudgedRun, Watched]:
    """Run it on the mock."""
    made: list[Watched] = []
    results = path.parent / "results"
    judged = builders.on_mock(builders.asked(path), results, observer=watcher, make_executor=watched(made))
    return judged, made[0]


def test_adaptive_routing_by_nvue_ends_in_a_ratio(tmp_path: Path) -> None:
    watcher = Reasons()
    judged, executor = run(place(tmp_path), watcher)
    assert {result.state for result in judged.verdict.changes} == {"reverted"}, watcher.reasons
    (expected,) = judged.verdict.expectations
    assert expected.outcome is Outcome.PASS, expected
    switches = executor.mock.world.rack.nvue
    for name in executor.mock.world.rack.topology.switches:
        switch = switches.switches.get(name)
        assert switch is not None
        assert "router adaptive-routing enable" not in switch.applied
        assert [one.split()[0] for one in switch.commits] == ["fabric", "fabric"]


@pytest.mark.slow
def test_without_marks_at_switches_victims_wait_with_the_incast(tmp_path: Path) -> None:
    watcher = Reasons()
    judged, executor = run(place(tmp_path, inventory=LOSSLESS, scenario=VICTIMS), watcher)
    assert {result.state for result in judged.verdict.changes} == {"reverted"}, watcher.reasons
    (expected,) = judged.verdict.expectations
    assert expected.outcome is Outcome.PASS, expected
    switches = [executor.mock.world.rack.nvue.switches.get(name) for name in executor.mock.world.rack.topology.switches]
    assert not any(path.startswith("qos ") for one in switches if one is not None for path in one.applied)
    assert all(one is not None and len(one.commits) == 2 for one in switches)


def test_restore_asks_the_switches_as_well(tmp_path: Path) -> None:
    place(tmp_path)
    told = restore_hosts(
        tmp_path / "inventory" / "roce.yaml",
        backend=None,
        make_executor=lambda backend, inventory: BACKENDS[backend](inventory, 1),
    )
    assert any(one.text.startswith("spine3: ") and one.certain for one in told)


def test_switches_that_are_not_reached_are_named_before_anything_runs(tmp_path: Path) -> None:
    path = place(tmp_path, inventory=INVENTORY.replace(', address: "{name}.mgmt", management: nvue}', "}"))
    with pytest.raises(ConfigError, match=r"RoCE fabric 'spine\[0-3\]' need 'address' and 'management: nvue'"):
        builders.asked(path)
