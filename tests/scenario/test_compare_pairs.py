"""Two runs with pairs of hosts, through the command line: what the slow pairs share is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.places import INVENTORY
from tests.scenario.test_self_check import fabric

pytestmark = pytest.mark.slow

SCENARIO = """\
name: pairs
description: Pairs of hosts, and the switches' tables
inventory: {inventory}
hosts: all
phases:
  - name: pairs
    localise: {{rounds: 6, budget: 20m, paths: static}}
    probes:
      - pairwise: {{size: 64K, duration: 3s, queue_pairs: 2}}
"""


@pytest.mark.parametrize("part", ["su0-leaf0--spine03", "su1-leaf2", "gpu020/mlx5_4"])
def test_the_part_that_slow_pairs_share_is_named_and_no_rnic_beside_it(tmp_path: Path, part: str) -> None:
    """An uplink, a leaf, an RNIC: only that became worse, and it becomes better again."""
    scenario = tmp_path / "pairs.yaml"
    scenario.write_text(SCENARIO.format(inventory=INVENTORY / "pod-64.yaml"))
    for name, fault in (("a", ()), ("b", (f"--fault={part}:slow=0.5",))):
        fabric("run", scenario, "--no-html", "--results", tmp_path / name, *fault, cwd=tmp_path)

    def rows(first: str, second: str) -> list[dict[str, Any]]:
        runs = [tmp_path / name / "pairs" / "latest" for name in (first, second)]
        found: list[dict[str, Any]] = json.loads(fabric("compare", *runs, "--json", cwd=tmp_path).stdout)["rows"]
        return [row for row in found if row["change"] != "same"]

    assert [(row["component"], row["change"]) for row in rows("a", "b")] == [(part, "worse")]
    assert [(row["component"], row["change"]) for row in rows("b", "a")] == [(part, "better")]
