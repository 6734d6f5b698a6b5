"""Whole runs of the shipped jobs on the simulated rack, and what is named when a part goes bad during a soak."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabric.model.inventory import Fault, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from tests import builders
from tests.cli.command_line import Said, called
from tests.places import INVENTORY, SCENARIOS
from tests.scenario.test_left_out import Acts, run

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
        (["run", str(SCENARIO), "--backend", "sssh"], 2, "expected one of mock, ssh, slurm, process"),
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


BURN_IN = """\
name: soak
inventory: {inventory}
hosts: gpu[001-008]
sample: {{every: 10s}}
judge: {{zero_growth: [link_downed]}}
phases:
  - name: self-check
    probes: [loopback]
  - name: soak
    needs: [self-check]
    for: {lasts_s}s
    probes:
      - tor_all_reduce: {{sizes: [8G]}}
      - pairwise: {{rounds: 2, duration: 10s}}
"""
FOREVER_S = 1e9


def soaked(folder: Path, rounds: int, *faults: Fault) -> JudgedRun:
    """
    So many rounds on eight hosts under one leaf a rail; the faults come after a third of the time.

    Few rounds are judged by their limits alone; from eight on parts have a course over time as well.
    """
    path = folder / "soak.yaml"
    inventory = INVENTORY / "pod-64.yaml"
    path.write_text(BURN_IN.format(inventory=inventory, lasts_s=1))
    plan = builders.asked(path).plan
    before_s = replace(plan, phases=plan.phases[:1]).duration_s
    once_s = plan.duration_s - before_s
    path.write_text(BURN_IN.format(inventory=inventory, lasts_s=int(once_s * rounds) + rounds))
    begin_s = before_s + once_s * rounds / 3
    asked = builders.asked(path, timed=[TimedFault(begin_s, FOREVER_S, fault) for fault in faults])
    return run(folder, asked, Acts())


@pytest.mark.parametrize(
    ("rounds", "kind", "factor", "since"),
    [
        (4, "broken", 1.0, "before that it was good"),
        (12, "slow", 0.6, "lost 40% of its bandwidth at once, at about 0.1 h, and kept it lost"),
    ],
)
def test_a_leaf_that_goes_bad_is_one_suspect_and_its_rnics_are_none(
    tmp_path: Path, rounds: int, kind: str, factor: float, since: str
) -> None:
    verdict = soaked(tmp_path, rounds, Fault("su0-leaf3", kind, factor)).verdict
    (one,) = (suspect for suspect in verdict.suspects if suspect.outcome is Outcome.FAIL)
    assert (one.component, one.kind, one.outcome) == ("su0-leaf3", "leaf", Outcome.FAIL)
    assert one.hosts == tuple(f"gpu00{number}" for number in range(1, 9))
    assert any(since in line for line in one.evidence)
    bad = {part.component for part in verdict.components if part.outcome is Outcome.FAIL}
    assert bad == {"su0-leaf3"}


def test_a_pcie_switch_that_becomes_slow_is_named_and_not_its_cables(tmp_path: Path) -> None:
    """In many rounds: in a few, two slow RNICs and their rings may be the host."""
    found = soaked(tmp_path, 12, Fault("gpu003/pcie1", "slow", 0.6)).verdict.suspects
    (one,) = (suspect for suspect in found if suspect.outcome is Outcome.FAIL)
    assert (one.component, one.kind, one.hosts) == ("gpu003/pcie1", "pcie_switch", ("gpu003",))
    assert "reseat the riser" in one.next_step


@pytest.mark.parametrize("rounds", [4, 12])
def test_an_rnic_that_becomes_slow_is_listed_once_and_not_cleared_by_its_old_loopback(
    tmp_path: Path, rounds: int
) -> None:
    """Of four rounds two pairs show it: too few to say more than that it, or its port, holds its rings down."""
    (one,) = soaked(tmp_path, rounds, Fault("gpu003/mlx5_2", "slow", 0.5)).verdict.suspects
    assert one.outcome is Outcome.FAIL
    assert {one.component, *one.ambiguous_with} == {"gpu003/mlx5_2", "gpu003/mlx5_2:port"}
    if rounds > 4:
        assert one.component == "gpu003/mlx5_2"
        assert any("before it became bad" in line or "over time" in line for line in one.evidence)
    assert not any("reaches 100%" in line for line in one.evidence)
