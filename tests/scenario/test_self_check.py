"""The main job on the simulated rack, through the command line as a user has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Said, called
from tests.places import INVENTORY, SCENARIOS

pytestmark = pytest.mark.slow

SCENARIO = SCENARIOS / "self-check.yaml"
HEALTHY = INVENTORY / "demo-rack-healthy.yaml"


def fabric(*argv: str | Path, cwd: Path) -> Said:
    """The command line in a folder of the test's own."""
    return called([str(word) for word in argv], cwd)


def verdict(*argv: str | Path, cwd: Path) -> dict[str, Any]:
    """The verdict of a self-check, its exit code checked against the document's own."""
    done = fabric("run", SCENARIO, *argv, "--json", cwd=cwd)
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == document["exit_code"]
    return document


def names(document: dict[str, Any]) -> list[str]:
    """Which components are suspected."""
    return sorted(suspect["component"] for suspect in document["suspects"])


FAULTS = [
    ("gpu002/mlx5_3:slow=0.6", "fail", ["gpu002/mlx5_3"]),
    ("gpu002/gpu4:slow=0.6", "fail", ["gpu002/gpu4:pcie"]),
    ("gpu002/numa1:slow=0.5", "fail", ["gpu002/numa1"]),
    ("gpu002/pcie1:slow=0.4", "fail", ["gpu002/pcie1"]),
    ("gpu002/mlx5_1->gpu1:slow=0.5", "fail", ["gpu002/mlx5_1->gpu1"]),
    ("gpu002/gpu0:nvlink:slow=0.5", "fail", ["gpu002/gpu0:nvlink"]),
    ("gpu002/mlx5_3:broken", "fail", ["gpu002/mlx5_3:port"]),
    ("su0-leaf3:broken", "fail", ["su0-leaf3"]),
    ("su0-leaf3:slow=0.5", "fail", ["su0-leaf3"]),
    ("gpu002/mlx5_3:absent", "fail", ["gpu002/mlx5_3"]),
    ("gpu002:broken", "error", ["gpu002"]),
    ("gpu002:hanging", "error", ["gpu002"]),
    ("gpu002:garbage", "error", ["gpu002"]),
    ("gpu002:absent", "error", ["gpu002"]),
    ("gpu002/mlx5_3:hanging", "error", ["gpu002/mlx5_3"]),
    ("gpu002/gpu4:broken", "fail", ["gpu002/gpu4"]),
    ("gpu002/gpu4:absent", "fail", ["gpu002/gpus"]),
    ("gpu002/gpu4:nvlink:broken", "fail", ["gpu002/gpu4:nvlink"]),
]


@pytest.mark.parametrize(("fault", "outcome", "suspected"), FAULTS, ids=[row[0] for row in FAULTS])
def test_one_fault_one_suspect(tmp_path: Path, fault: str, outcome: str, suspected: list[str]) -> None:
    """Each fault ends as the right outcome of the right component, while every other host is measured in full."""
    document = verdict("--inventory", HEALTHY, "--hosts", "gpu[001-004]", "--fault", fault, cwd=tmp_path)
    assert (document["outcome"], names(document)) == (outcome, suspected)
    others = {row["probe_id"] for row in document["not_passed"] if "gpu002" not in row["probe_id"]}
    if "gpu002" in fault:
        assert len([name for name in others if "/tor_all_reduce" not in name]) <= 3


def test_gate_skips_only_the_failed_host(tmp_path: Path) -> None:
    """The host that failed inside is not measured with its neighbours, and the reason is in the verdict."""
    document = verdict("--inventory", HEALTHY, "--fault", "gpu002/mlx5_3:slow=0.5", cwd=tmp_path)
    skipped = [row for row in document["not_passed"] if row["outcome"] == "skipped"]
    assert [row["probe_id"] for row in skipped] == [
        "tor/gpu001+gpu002/tor_all_reduce",
        "tor/gpu002+gpu003/tor_all_reduce",
    ]
    assert all("gpu002: did not pass intra-host" in row["reason"] for row in skipped)


def test_analyze_gives_the_same_verdict(tmp_path: Path) -> None:
    """What is derived can be deleted and made again from the run directory alone."""
    document = verdict("--hosts", "gpu[003-004]", cwd=tmp_path)
    latest = tmp_path / "results" / "self-check" / "latest"
    measured = (latest / "measurements.parquet").read_bytes()
    (latest / "verdict.json").unlink()
    (latest / "measurements.parquet").unlink()
    again = fabric("analyze", latest, "--json", cwd=tmp_path)
    assert again.returncode == 1
    assert json.loads(again.stdout)["suspects"] == document["suspects"]
    assert (latest / "measurements.parquet").read_bytes() == measured


def test_cut_history_is_inconclusive_never_a_pass(tmp_path: Path) -> None:
    """A run whose history ends early cannot pass: what was not reached is said."""
    verdict("--inventory", HEALTHY, "--hosts", "gpu001", cwd=tmp_path)
    events = tmp_path / "results" / "self-check" / "latest" / "events.jsonl"
    events.write_bytes(events.read_bytes()[: events.stat().st_size // 2])
    again = fabric("analyze", events.parent, "--json", cwd=tmp_path)
    assert (again.returncode, json.loads(again.stdout)["outcome"]) == (3, "inconclusive")


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["run", "missing.yaml"], 2, "missing.yaml"),
        (["runn"], 2, "did you mean 'run'?"),
        (["run", str(SCENARIO), "--backend", "sssh"], 2, "expected one of mock, ssh, process"),
        (["run", str(SCENARIO), "--hosts", "gpu[900-901]"], 2, "gpu[900-901]"),
        (["run", str(SCENARIO), "--hosts", "gpu[1-"], 2, "--hosts"),
        (["run", str(SCENARIO), "--fault", "gpu003/mlx5_99:slow=0.5"], 2, "mlx5_99"),
        (["run", str(SCENARIO), "--fault", "gpu003:slwo"], 2, "slow"),
        (["run", str(SCENARIO), "--seed", "-1"], 2, "--seed"),
        (["run", str(SCENARIO), "--results", "/proc/nowhere"], 3, "cannot write"),
        (["report", "nowhere"], 2, "not a run directory"),
        (["parse", "perftest", "nowhere"], 2, "cannot read"),
        (["parse", "iperf", "nowhere"], 2, "perftest"),
        (["inventory", "show", str(SCENARIO)], 2, "self-check.yaml:"),
    ],
)
def test_bad_command_lines(tmp_path: Path, argv: list[str], code: int, message: str) -> None:
    """Each wrong call is one clear message, the promised exit code, and no traceback."""
    done = fabric(*argv, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_host_without_neighbour_is_not_a_pass(tmp_path: Path) -> None:
    """What was asked for and could not be planned is SKIPPED, exit code 3."""
    document = verdict("--inventory", HEALTHY, "--hosts", "gpu001", cwd=tmp_path)
    assert (document["outcome"], document["exit_code"]) == ("skipped", 3)
    assert "SKIPPED: no tor_all_reduce on gpu001: it needs GPUs, and a neighbour" in str(document["reasons"])


@pytest.mark.parametrize("argv", [["run", "missing.yaml"], ["runn"], ["report", "nowhere"], ["run", "--seed", "x"]])
def test_json_is_one_document_also_when_it_fails(tmp_path: Path, argv: list[str]) -> None:
    """A pipeline that asked for JSON gets JSON, with the exit code and the problems, whatever went wrong."""
    done = fabric(*argv, "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.returncode == 2
    assert document["error"]
