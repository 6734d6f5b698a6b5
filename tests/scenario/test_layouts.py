"""Healthy racks of different host layouts pass on the simulated rack, among them the one of docs/inventory.md."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.places import INVENTORY, ROOT
from tests.scenario.test_self_check import SCENARIO, fabric

pytestmark = pytest.mark.slow

SWITCHED = """\
    pcie_switches: [{name: "pcie[0-1]", numa: 0}, {name: "pcie[2-3]", numa: 1}]
    gpus:
      - {index: 0-1, pcie_switch: pcie0}
      - {index: 2-3, pcie_switch: pcie1}
      - {index: 4-5, pcie_switch: pcie2}
      - {index: 6-7, pcie_switch: pcie3}
"""
PLAIN = """\
    gpus: [{index: 0-3, numa: 0}, {index: 4-7, numa: 1}]
"""


def documented() -> str:
    """The RoCE example of docs/inventory.md, as it stands there."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "inventory.md").read_text(), flags=re.DOTALL)
    (text,) = [block for block in blocks if "name: roce-rack" in block]
    return text


def eight(baseline: str, rate: int, *, switched: bool, leaves: str) -> str:
    """Three hosts with eight GPUs and eight RNICs."""
    where = [f"pcie_switch: pcie{n // 2}" if switched else f"numa: {n // 4}" for n in range(8)]
    rnics = "".join(
        f"      - {{device: mlx5_{n}, rail: {n}, {where[n]}, line_rate_gbps: {rate}, nearest_gpus: [{n}]}}\n"
        for n in range(8)
    )
    return (
        f"name: eight\nbackend: mock\nplatforms:\n  eight:\n    baseline: {baseline}\n    link_layer: infiniband\n"
        f"    numa_nodes: 2\n{SWITCHED if switched else PLAIN}    rnics:\n{rnics}"
        f'hosts: [{{names: "gpu[1-3]", platform: eight, leaves: "{leaves}"}}]\n'
        'switches: [{names: "leaf[0-7]", tier: leaf}]\n'
    )


LAYOUTS = {
    "documented RoCE rack": documented(),
    "a100-hdr": eight("a100-hdr", 200, switched=True, leaves="leaf{rail}"),
    "h200-ndr": eight("h200-ndr", 400, switched=True, leaves="leaf{rail}"),
    "b200-ndr": eight("b200-ndr", 400, switched=True, leaves="leaf{rail}"),
    "a100-hdr without PCIe switches": eight("a100-hdr", 200, switched=False, leaves="leaf{rail}"),
    "h200-ndr on one leaf": eight("h200-ndr", 400, switched=True, leaves="leaf0"),
}


def run(folder: Path, text: str, *argv: str) -> dict[str, Any]:
    """The verdict of a self-check of an inventory on the simulated rack."""
    shutil.copytree(INVENTORY / "baselines", folder / "baselines")
    (folder / "rack.yaml").write_text(text)
    done = fabric("run", SCENARIO, "--inventory", "rack.yaml", "--backend", "mock", "--json", *argv, cwd=folder)
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == document["exit_code"]
    return document


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_healthy_rack_passes(tmp_path: Path, layout: str) -> None:
    """Every probe passes, ToR all-reduce among them, nobody is suspected, exit code 0."""
    document = run(tmp_path, LAYOUTS[layout])
    assert (document["outcome"], document["exit_code"], document["suspects"]) == ("pass", 0, [])
    assert document["not_passed"] == []


def test_a_slow_rnic_of_the_documented_rack_is_found(tmp_path: Path) -> None:
    """Without PCIe switches and with all rails on one ToR a bad RNIC still has a name."""
    document = run(tmp_path, LAYOUTS["documented RoCE rack"], "--fault", "node02/mlx5_3:slow=0.5")
    assert document["exit_code"] == 1
    assert [suspect["component"] for suspect in document["suspects"]] == ["node02/mlx5_3"]
