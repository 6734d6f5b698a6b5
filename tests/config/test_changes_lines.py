"""Each phase knows the line of its changes, for what is found wrong only once they are planned."""

from __future__ import annotations

from pathlib import Path

from fabric import config

SCENARIO = """\
name: drill
inventory: inventory.yaml
phases:
  - name: before
    probes: [loopback]
  - name: during
    probes: [loopback]
    changes:
      - {link_down: {links: gpu1/mlx5_0}}
  - {name: after, changes: [{link_down: {links: gpu1/mlx5_1}}], probes: [loopback]}
"""


def test_each_phase_with_changes_has_its_line(folder: Path) -> None:
    path = folder / "drill.yaml"
    path.write_text(SCENARIO)
    scenario, _ = config.load_scenario(path)
    assert {phase.name: phase.changes_line for phase in scenario.phases} == {"before": 0, "during": 8, "after": 10}
