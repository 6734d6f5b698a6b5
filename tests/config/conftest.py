"""A small valid inventory and scenario that the tests damage in one place at a time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fabric.errors import ConfigError

INVENTORY = """\
name: small
backend: mock
platforms:
  duo:
    baseline: h100-ndr
    link_layer: infiniband
    numa_nodes: 2
    pcie_switches:
      - {name: pcie0, numa: 0}
      - {name: pcie1, numa: 1}
    gpus:
      - {index: 0, pcie_switch: pcie0}
      - {index: 1, numa: 1}
    rnics:
      - {device: mlx5_0, rail: 0, pcie_switch: pcie0, line_rate_gbps: 400}
      - {device: mlx5_1, rail: 1, numa: 1, line_rate_gbps: 400, nearest_gpus: [1]}
hosts:
  - names: "gpu[1-4]"
    platform: duo
    address: "{name}.mgmt"
    rack: "r{rack}"
    hosts_per_rack: 2
    leaves: "leaf{rail}"
switches:
  - {names: "leaf[0-1]", tier: leaf, uplinks: {to: "spine[0-1]", count: 2, line_rate_gbps: 400}}
  - {names: "spine[0-1]", tier: spine}
ssh:
  user: root
  port: 22
  agent: true
  connect_timeout: 15s
process:
  prefix: [ip, netns, exec, "{host}"]
mock:
  noise_cv: 0.003
  faults:
    - {component: gpu3, kind: hanging}
"""

SCENARIO = """\
name: look
description: A look at a small rack
inventory: inventory.yaml
hosts: all
phases:
  - name: inside
    probes:
      - loopback: {size: 8M, duration: 5s}
      - rnic_to_rnic
  - name: tor
    needs: [inside]
    probes:
      - tor_all_reduce:
          sizes: [1G, 2G, 4G]
judge:
  marginal: 0.01
"""

BASELINE = """\
name: h100-ndr
limits:
  - {kind: loopback, link_class: pix, at_least_gbps: 380, source: "a datasheet"}
"""

SETTINGS = """\
changes:
  via: gpu1
  lease: {ttl: 30s, max_hold: 2h}
  subnet_managers: [{host: gpu2, reload: [systemctl, restart, opensmd]}]
  adaptive_on: {routing_engine: ar_ftree}
  blast_radius: {links_fraction: 0.25}
"""
CHANGING = """\
name: look
inventory: inventory.yaml
matrix: {down: [1s, 2s], routing: [off, on]}
rounds: 2
order: abba
expect:
  - {compare: degraded, where: {routing: on}, against: {routing: off}, at_least: 0.9}
  - {phase: degraded, recovers_within: 30s}
  - {phase: degraded, where: {down: 1s}, ends: completed}
phases:
  - name: degraded
    env: {NCCL_IB_TIMEOUT: 22}
    changes:
      - port_flap: {links: [gpu1/mlx5_0, leaf0--spine1#1], down: $down, count: 2, period: 9s, at: 0.5s}
      - ber: {links: {tier: spine, count: 4, seed: 7, of: ["leaf[0-1]"]}, effective: 3e-5}
      - {adaptive_routing: $routing, scope: fabric}
      - {shield: on, scope: fabric}
    probes: [{group_all_reduce: {sizes: [1G, 2G]}}]
"""
Decode = Callable[[], object]
Explained = Callable[[Decode, list[str]], None]


@pytest.fixture
def inventory_text() -> str:
    """A valid inventory of four hosts."""
    return INVENTORY


@pytest.fixture
def scenario_text() -> str:
    """A valid scenario for it."""
    return SCENARIO


@pytest.fixture
def settings_text() -> str:
    """What may follow the inventory: how changes are made."""
    return SETTINGS


@pytest.fixture
def changing_text() -> str:
    """A valid scenario with a matrix, changes and expectations, for the inventory with those settings."""
    return CHANGING


@pytest.fixture
def baseline_text() -> str:
    """A valid baseline for it."""
    return BASELINE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with inventory.yaml, scenario.yaml and baselines/h100-ndr.yaml."""
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "h100-ndr.yaml").write_text(BASELINE)
    return tmp_path


@pytest.fixture
def explained() -> Explained:
    """A check: decoding fails with exactly the expected problems, given as "line: part of the message"."""

    def check(decode: Decode, expected: list[str]) -> None:
        with pytest.raises(ConfigError) as caught:
            decode()
        found = [(str(problem.line), problem.text) for problem in caught.value.problems]
        wanted = [tuple(part.split(": ", 1)) for part in expected]
        assert len(found) == len(wanted), found
        for (line, text), (wanted_line, part) in zip(found, sorted(wanted, key=lambda one: int(one[0])), strict=True):
            assert line == wanted_line, found
            assert part in text, found

    return check
