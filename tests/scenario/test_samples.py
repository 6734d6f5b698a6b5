"""``judge: {samples: auto}`` through a whole run on the simulated rack."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.places import INVENTORY
from tests.scenario.test_self_check import fabric

RACK = INVENTORY / "demo-rack-healthy.yaml"
SCENARIO = """
name: sampled
inventory: {inventory}
phases:
  - name: intra-host
    probes: [{{loopback: {{duration: 1s}}}}, {{rnic_to_rnic: {{duration: 1s}}}}]
  - name: after
    needs: [intra-host]
    probes: [{{all_to_all: {{halves: false, sizes: [1G]}}}}]
judge: {{samples: {samples}}}
"""


def ran(folder: Path, *, noise: float, samples: str, fault: str | None = None) -> tuple[Path, dict[str, Any]]:
    """The directory of a run with this noise, and its verdict."""
    inventory = folder / "rack.yaml"
    inventory.write_text(RACK.read_text().replace("noise_cv: 0.003", f"noise_cv: {noise}"))
    baselines = folder / "baselines"
    baselines.symlink_to(RACK.parent / "baselines", target_is_directory=True)
    (folder / "s.yaml").write_text(SCENARIO.format(inventory=inventory, samples=samples))
    words = ["run", str(folder / "s.yaml"), "--results", str(folder / "r"), "--seed", "3"]
    words += ["--fault", fault] if fault else []
    fabric(*words, cwd=folder)
    run = (folder / "r" / "sampled" / "latest").resolve()
    return run, json.loads((run / "verdict.json").read_text())


def results(run: Path) -> dict[str, str]:
    """How each probe ended, by id."""
    lines = (run / "events.jsonl").read_text().splitlines()
    events = [json.loads(line[line.index("{") :]) for line in lines]
    return {event["probe"]: event["outcome"] for event in events if event["event"] == "finished"}


@pytest.mark.slow
def test_a_small_loss_is_found_in_noise_that_hides_it_from_one_sample(tmp_path: Path) -> None:
    """CV 2 %: the very RNIC, and its host takes no part in the next phase; judged again from disk it is the same."""
    run, verdict = ran(tmp_path, noise=0.02, samples="auto", fault="gpu003/mlx5_2:slow=0.96")
    assert [suspect["component"] for suspect in verdict["suspects"]] == ["gpu003/mlx5_2"]
    ended = results(run)
    assert any(name.endswith(".r4") for name in ended)
    assert {outcome for name, outcome in ended.items() if name.startswith("after/gpu003/")} == {"skipped"}
    again = fabric("analyze", str(run), "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["suspects"] == verdict["suspects"]


@pytest.mark.slow
def test_as_written_asks_for_nothing(tmp_path: Path) -> None:
    """One sample each, as without the key."""
    run, _ = ran(tmp_path, noise=0.02, samples="as_written")
    assert not [name for name in results(run) if re.search(r"\.r\d+$", name)]
