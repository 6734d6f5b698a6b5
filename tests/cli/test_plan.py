"""``fabric plan`` says what a run costs and, within a budget, what it would leave out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric.cli.main import main
from tests.cli.command_line import called
from tests.places import INVENTORY, ROOT, SCENARIOS

SELF_CHECK = str(SCENARIOS / "self-check.yaml")


def plan(*argv: str) -> str:
    """What the command prints."""
    result = CliRunner().invoke(main, ["plan", *argv], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == 0
    return result.output


def test_the_cost_is_said_for_people() -> None:
    said = plan(SELF_CHECK)
    assert "GPU-hours: 64 GPUs for" in said
    assert "within" not in said


def test_what_would_be_reserved_is_said_and_nobody_is_asked() -> None:
    """Its planned time and ten minutes."""
    assert "  reserved in Slurm: gpu[001-008] for 16 min, margin included" in plan(SELF_CHECK, "--reserve")
    assert json.loads(plan(SELF_CHECK, "--reserve", "--json"))["reservation"] == {
        "nodes": "gpu[001-008]",
        "minutes": 16,
    }


def test_a_budget_names_what_it_does_not_cover() -> None:
    said = plan(SELF_CHECK, "--budget", "2m")
    assert "within 2m:" in said
    assert "probes left out" in said
    assert "not covered:" in said


def test_a_phase_of_which_nothing_fits_is_said_to_have_no_probes() -> None:
    said = plan(SELF_CHECK, "--budget", "2m").splitlines()
    at = next(number for number, line in enumerate(said) if line.startswith("  tor "))
    note = "    note: tor: 8 of 8 probes left out: no more fits into the budget"
    assert said[at + 1 : at + 4] == ["    0 probes", note, ""]


def test_a_plan_in_json_has_its_cost_and_budget() -> None:
    whole = json.loads(plan(SELF_CHECK, "--json"))
    cut = json.loads(plan(SELF_CHECK, "--json", "--budget", "2m"))
    assert whole["budget"] is None
    assert whole["cost"]["gpu_hours"] == pytest.approx(64 * whole["duration_s"] / 3600)
    assert cut["duration_s"] <= 120 < whole["duration_s"]
    assert cut["budget"]["coverable"] == cut["budget"]["covered"] + len(cut["budget"]["uncovered"])
    assert sum(cut["budget"]["dropped"].values()) == whole["probes"] - cut["probes"]


def test_the_stages_of_a_burn_in_and_what_they_cover_are_said(tmp_path: Path) -> None:
    path = tmp_path / "burn.yaml"
    text = f"name: burn\ndescription: x\ninventory: {ROOT / 'inventory' / 'pod-64.yaml'}\nhosts: all\n"
    path.write_text(f"{text}phases:\n  - name: burn\n    probes: [link_burn: {{routing: ftree, duration: 30m}}]\n")
    said = plan(str(path))
    assert "512 probes: 512 link_burn" in said
    assert "1 round, 30 min 02 s" in said
    assert "leaf to spine: 512 of 512 links at half their rate or more" in said


def test_a_stage_runs_as_one_and_leaves_every_flow_its_rate(tmp_path: Path) -> None:
    """512 flows at once on the mock: no two in each other's way, and none waits for another."""
    inventory = tmp_path / "pod.yaml"
    text = (INVENTORY / "pod-64.yaml").read_text()
    inventory.write_text(text.replace("mock: {noise_cv: 0.003}", "mock: {noise_cv: 0.0, routing: ftree}"))
    shutil.copytree(INVENTORY / "baselines", tmp_path / "baselines")
    path = tmp_path / "burn.yaml"
    path.write_text(
        f"name: burn\ndescription: x\ninventory: {inventory}\nhosts: all\nphases:\n  - name: burn\n"
        "    probes: [link_burn: {routing: ftree, duration: 10s}]\n"
    )
    CliRunner().invoke(main, ["run", str(path), "--results", str(tmp_path / "results")], standalone_mode=False)
    (events,) = (tmp_path / "results" / "burn").glob("2*/events.jsonl")
    rows = [json.loads(line) for line in events.read_text().splitlines()]
    ended = [row for row in rows if row["event"] == "finished"]
    assert len(ended) == 512
    assert {row["started_s"] for row in ended} == {ended[0]["started_s"]}
    assert min(value for row in ended for _, value, *_ in row["measurements"]) > 0.95 * 400


def test_a_password_is_told_what_to_write_instead(tmp_path: Path) -> None:
    inventory = tmp_path / "rack.yaml"
    inventory.write_text("name: x\nbackend: ssh\nssh: {user: root, password: secret}\n")
    said = called(["inventory", "show", str(inventory)]).stderr
    assert "unknown key 'password'; there are no passwords here: name a key_file, or use the SSH agent" in said
    assert "secret" not in said
