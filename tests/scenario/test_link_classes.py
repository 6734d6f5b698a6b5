"""What is fast alike is compared alike: two line rates, one lucky pair and a rack that is slow as a whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fabric import load
from tests.places import INVENTORY
from tests.scenario.test_self_check import fabric

pytestmark = pytest.mark.slow

PLATFORM = """\
  {name}:
    baseline: {baseline}
    link_layer: infiniband
    numa_nodes: 1
    gpus: [{{index: 0-1, numa: 0}}]
    rnics:
      - {{device: mlx5_0, rail: 0, numa: 0, line_rate_gbps: {rate}, nearest_gpus: [0]}}
      - {{device: mlx5_1, rail: 1, numa: 0, line_rate_gbps: {rate}, nearest_gpus: [1]}}
"""
RACK = (
    "name: mixed\nbackend: mock\nplatforms:\n"
    + PLATFORM.format(name="fast", baseline="h100-ndr", rate=400)
    + PLATFORM.format(name="slower", baseline="a100-hdr", rate=200)
    + """\
hosts:
  - {names: "gpu[01-12]", platform: fast, leaves: "su{unit}-leaf{rail}", hosts_per_unit: 6}
  - {names: "old[01-12]", platform: slower, leaves: "su{unit}-leaf{rail}", hosts_per_unit: 6}
switches:
  - {names: "su[0-1]-leaf[0-1]", tier: leaf, uplinks: {to: "spine[0-3]", count: 3, line_rate_gbps: 400}}
  - {names: "spine[0-3]", tier: spine}
mock: {noise_cv: 0.003}
"""
)
PAIRS = """\
name: pairs
inventory: rack.yaml
phases: [{name: pairs, localise: auto, probes: [pairwise]}]
"""
LOOSE = "name: loose\nlimits: [{kind: pairwise, at_least_gbps: 200, source: a limit that the slow pairs meet}]\n"
FAST = [f"gpu{number:02d}" for number in range(1, 13)]


def verdict(folder: Path, *argv: str, rack: str = RACK) -> dict[str, Any]:
    """Of a run that localises, its exit code checked against the document's own."""
    shutil.copytree(INVENTORY / "baselines", folder / "baselines")
    (folder / "baselines" / "loose.yaml").write_text(LOOSE, encoding="utf-8")
    (folder / "rack.yaml").write_text(rack, encoding="utf-8")
    (folder / "pairs.yaml").write_text(PAIRS, encoding="utf-8")
    done = fabric("run", "pairs.yaml", "--json", *argv, cwd=folder)
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == document["exit_code"]
    return document


def slow(hosts: list[str], factor: float) -> list[str]:
    """Each of these hosts with all it has."""
    return [word for host in hosts for word in ("--fault", f"{host}:slow={factor}")]


def test_two_line_rates_are_two_classes_and_nobody_is_blamed(tmp_path: Path) -> None:
    document = verdict(tmp_path)
    assert (document["outcome"], document["exit_code"], document["suspects"]) == ("pass", 0, [])
    (said,) = (reason for reason in document["reasons"] if "classes" in reason)
    assert "2 classes, each compared with itself alone" in said
    assert "pairwise 400G 397" in said
    assert "pairwise 200G 198" in said


def test_a_bad_rnic_is_found_among_those_of_its_own_line_rate(tmp_path: Path) -> None:
    """It is as fast as good ones of the other class: half of 400 Gb/s."""
    document = verdict(tmp_path, "--fault", "gpu05/mlx5_1:slow=0.5")
    assert [suspect["component"] for suspect in document["suspects"]] == ["gpu05/mlx5_1"]


def test_one_lucky_fast_pair_does_not_make_all_others_bad(tmp_path: Path) -> None:
    """Ten of twelve hosts reach 70 % of what two neighbours reach with each other, and all of them the limit."""
    rack = RACK.replace("h100-ndr", "loose")
    others = [host for host in FAST if host not in ("gpu03", "gpu04")]
    document = verdict(tmp_path, "--hosts", "gpu[01-12]", *slow(others, 0.7), rack=rack)
    measured = sorted(load(tmp_path / document["path"]).samples["gbps"])
    assert measured[-1] > 1.35 * measured[len(measured) // 2]
    assert (document["outcome"], document["exit_code"], document["suspects"]) == ("pass", 0, [])
