"""docs/notebook.ipynb runs from its first cell to its last, and finds the cable that was made sick."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from fabric.app.prepare import Given, prepare
from tests import builders
from tests.places import INVENTORY, ROOT, SCENARIOS

NOTEBOOK = json.loads((ROOT / "docs" / "notebook.ipynb").read_text("utf-8"))


@pytest.mark.slow
def test_it_finds_the_cable_that_cannot_bear_warmth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = prepare(
        Given(
            SCENARIOS / "burn-in.yaml",
            inventory=INVENTORY / "demo-rack-healthy.yaml",
            faults=("gpu004/mlx5_4:heat_sick=0.8",),
            lasts_s=86_400.0,
        )
    )
    builders.on_mock(wanted, tmp_path / "results", seed=101)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["part"] == "gpu004/mlx5_4"
    assert names["found"].loc["gpu004/mlx5_4", "with_warmth"] < -0.5
    assert all(isinstance(names[one], Figure) for one in ("course", "hosts", "timeline"))


def test_it_is_kept_without_what_it_printed() -> None:
    """Else every run of it is a change of the file."""
    assert all(not cell.get("outputs") for cell in NOTEBOOK["cells"])
