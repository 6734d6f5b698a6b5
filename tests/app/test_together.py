"""Runs of parts of a fleet judged as one: what both saw is named once, and what cannot be one run is refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from fabric.app.together import judged_together
from fabric.cli.main import main as command_line
from fabric.errors import ConfigError
from fabric.lab.layout import Box, baseline_text, inventory_text
from fabric.model.outcome import Outcome

SCENARIO = "name: pairs\nhosts: all\nphases:\n  - {name: pairs, probes: [pairwise: {queue_pairs: 1, rounds: 3}]}\n"
PARTS = ("h[1-2],h[5-6],h[9-10]", "h[3-4],h[7-8],h[11-12]")
"""Each half of three leaves."""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A folder with the inventory of twelve hosts under three leaves, and a scenario."""
    (tmp_path / "baselines").mkdir()
    box = Box("box", str(tmp_path), hosts=12, leaves=3)
    (tmp_path / "box.yaml").write_text(inventory_text(box, with_mpi=False))
    (tmp_path / "baselines" / "box.yaml").write_text(baseline_text(box))
    (tmp_path / "pairs.yaml").write_text(SCENARIO)
    return tmp_path


def said(words: Sequence[str]) -> dict[str, Any]:
    """What a command prints with ``--json``."""
    document: dict[str, Any] = json.loads(CliRunner().invoke(command_line, [*words, "--json"]).stdout)
    return document


def measured(fleet: Path, hosts: str, *faults: str) -> Path:
    """The directory of a run on some of the hosts."""
    words = ["run", str(fleet / "pairs.yaml"), f"--inventory={fleet / 'box.yaml'}", f"--results={fleet / 'results'}"]
    words += ["--backend=mock", f"--hosts={hosts}", *(f"--fault={one}" for one in faults)]
    return Path(said(words)["path"])


@pytest.mark.slow
def test_healthy_parts_pass_together_and_it_is_said_what_nobody_measured(fleet: Path) -> None:
    runs = [measured(fleet, hosts) for hosts in PARTS]
    before = {path: path.stat().st_mtime_ns for run in runs for path in run.rglob("*")}
    found = judged_together(runs).judged
    assert found.verdict.outcome is Outcome.PASS
    assert len(found.scenario.hosts) == 12
    assert len({run.name for run in runs}) == 2
    assert found.run_id == f"{runs[0].name}+1"
    assert "between the hosts of two of them nothing was measured" in str(found.verdict.reasons[-1])
    assert {path: path.stat().st_mtime_ns for run in runs for path in run.rglob("*")} == before


@pytest.mark.slow
def test_what_two_parts_cross_is_one_suspect_by_the_samples_of_both(fleet: Path) -> None:
    runs = [measured(fleet, hosts, "l1->s1:slow=0.2", "l1->s2:slow=0.2") for hosts in PARTS]
    found = said(["analyze", *map(str, runs)])
    assert (found["outcome"], found["exit_code"]) == ("fail", 1)
    (suspect,) = found["suspects"]
    assert suspect["component"].startswith("l1"), suspect
    alone = [said(["report", str(run)]) for run in runs]
    assert sum(found["counts"].values()) == sum(sum(one["counts"].values()) for one in alone)
    text = CliRunner().invoke(command_line, ["analyze", *map(str, runs)]).stdout
    assert f"Show again:        fabric analyze {runs[0]} {runs[1]}" in text


@pytest.mark.slow
def test_a_bad_host_of_one_part_is_named_and_its_output_is_found(fleet: Path) -> None:
    runs = [measured(fleet, PARTS[0]), measured(fleet, PARTS[1], "h7/mlx5_0:port:slow=0.3")]
    found = said(["analyze", *map(str, runs)])
    assert found["suspects"][0]["component"].startswith("h7")
    assert found["path"] == str(runs[1])


@pytest.mark.slow
def test_runs_that_cannot_be_one_are_refused_all_at_once(fleet: Path) -> None:
    one, two = measured(fleet, PARTS[0]), measured(fleet, "h[2-4],h11")
    (fleet / "pairs.yaml").write_text(SCENARIO.replace("rounds: 3", "rounds: 2"))
    other = measured(fleet, "h[7-8],h12")
    events = two / "events.jsonl"
    events.write_bytes(b"".join(line for line in events.read_bytes().splitlines(True) if b"run_ended" not in line))
    with pytest.raises(ConfigError) as caught:
        judged_together([one, two, other])
    text = str(caught.value)
    assert f"h2: measured by {one}, too" in text
    assert "has not ended" in text
    assert f"another scenario than {one}" in text
    assert orjson.loads((one / "run.json").read_bytes())["run_id"] == one.name
