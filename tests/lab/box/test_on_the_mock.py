"""The same faults on the simulated rack, given the same inventory, are judged as on real traffic (``test_box.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.lab.box_matrix import CASES, judged
from fabric.lab.layout import Box, baseline_text, inventory_text

NAMES = ("none", "host tx slow", "host rx slow", "uplink one way", "spine grey", "spine dead", "cable down")
NAMES += ("cable flapping", "two faults", "no data network")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_mock_and_the_box_agree(name: str, tmp_path: Path) -> None:
    """What costs something is found, at its place and nowhere else; what is routed around passes."""
    box = Box("simulated", "/var/lib/fabric-lab/simulated")
    inventory = tmp_path / "box.yaml"
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "simulated.yaml").write_text(baseline_text(box))
    inventory.write_text(inventory_text(box, with_mpi=False))
    case = next(case for case in CASES if case.name == name)
    row = judged(case, box, 1, tmp_path, inventory)
    assert (row.healthy, row.passed) == ((), not case.costs), row
    assert row.first or not case.costs, row
