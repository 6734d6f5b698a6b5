"""With as many samples as it takes, every probe is planned three times at least."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.config import from_resolved, load_scenario
from fabric.config.resolved import resolved_document
from tests.places import INVENTORY

RACK = INVENTORY / "demo-rack-healthy.yaml"
BODY = """
name: x
inventory: {inventory}
phases:
  - name: a
    probes: [loopback, {{rnic_to_rnic: {{repeat: 5}}}}, concurrent_rings]
judge: {judge}
"""


def written(tmp_path: Path, judge: str) -> Path:
    """A scenario file with this ``judge``."""
    path = tmp_path / "x.yaml"
    path.write_text(BODY.format(inventory=RACK, judge=judge))
    return path


@pytest.mark.parametrize(
    ("judge", "repeats"),
    [("{samples: auto}", [3, 5, 1]), ("{samples: as_written}", [1, 5, 1]), ("{marginal: 0.01}", [1, 5, 1])],
)
def test_what_can_be_repeated_is_planned_three_times(tmp_path: Path, judge: str, repeats: list[int]) -> None:
    """More stays more, and rings that run at once stay as they are written."""
    scenario, _ = load_scenario(written(tmp_path, judge))
    assert [spec.repeat for spec in scenario.phases[0].probes] == repeats
    assert scenario.judge.samples == ("auto" if "auto" in judge else "as_written")


def test_a_phase_with_changes_stays_as_written(tmp_path: Path) -> None:
    path = written(tmp_path, "{samples: auto}")
    path.write_text(path.read_text().replace("probes:", "changes: [{link_down: {links: gpu001/mlx5_0}}]\n    probes:"))
    scenario, _ = load_scenario(path)
    assert [spec.repeat for spec in scenario.phases[0].probes] == [1, 5, 1]


def test_a_run_remembers_how_it_was_to_be_judged(tmp_path: Path) -> None:
    """And one from before there was such a key is judged as it was."""
    scenario, inventory = load_scenario(written(tmp_path, "{samples: auto}"))
    document = resolved_document(scenario, inventory)
    assert from_resolved(document)[0].judge == scenario.judge
    del document["scenario"]["judge"]["samples"]
    assert from_resolved(document)[0].judge.samples == "as_written"
