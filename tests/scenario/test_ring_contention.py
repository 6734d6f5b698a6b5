"""32 rings at once on the simulated pod: consistent in direction with what Meta measured (arXiv 2410.21680, 5.2)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from tests.cli.command_line import Said
from tests.places import INVENTORY
from tests.scenario.test_self_check import fabric

pytestmark = pytest.mark.slow

# The shipped scenario, without what alters the routing: here the inventory says how paths are chosen.
SCENARIO = """\
name: rings
inventory: unused
phases:
  - name: rings
    probes: [{concurrent_rings: {groups_of: 2, pairing: random, seed: 7, sizes: [8G], repeat: 3}}]
"""


def run(folder: Path, engine: str, *argv: str | Path) -> Said:
    """Run the scenario on the pod under one routing."""
    folder.mkdir(exist_ok=True)
    shutil.copytree(INVENTORY, folder / "inventory", dirs_exist_ok=True)
    scenario = folder / "rings.yaml"
    scenario.write_text(SCENARIO)
    path = folder / "inventory" / "pod-64.yaml"
    path.write_text(re.sub(r"mock: .*", f"mock: {{routing: {engine}}}", path.read_text()))
    return fabric("run", scenario, "--inventory", path, *argv, cwd=folder)


def bandwidths(folder: Path, engine: str) -> list[float]:
    """The bus bandwidth of each of the 32 groups, Gb/s: the median of its three measurements."""
    done = run(folder, engine, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["outcome"], document["probes"]) == (3, "inconclusive", 96)
    found = {row["probe_id"].split("/")[1]: row["value_gbps"] for row in document["not_passed"]}
    assert len(found) == 32
    return list(found.values())


def test_adaptive_routing_is_faster_and_steadier(tmp_path: Path) -> None:
    """Simulated: higher mean and lower CV than hashed paths and than forwarding tables."""
    means, cvs = {}, {}
    for engine in ("ecmp", "ftree", "ar"):
        values = bandwidths(tmp_path / engine, engine)
        means[engine], cvs[engine] = fmean(values), pstdev(values) / fmean(values)
    assert means["ecmp"] < means["ftree"] < means["ar"]
    assert cvs["ecmp"] > cvs["ftree"] > 5 * cvs["ar"]


def test_the_same_run_has_the_same_numbers(tmp_path: Path) -> None:
    """Routing, noise and the times at which rings end are all drawn from the seed."""
    assert bandwidths(tmp_path / "a", "ecmp") == bandwidths(tmp_path / "b", "ecmp")


@pytest.mark.parametrize("fault", ["su0-leaf3->spine02:slow=0.25", "su0-leaf3--spine02:broken"])
def test_the_verdict_sums_up_what_no_limit_judges(tmp_path: Path, fault: str) -> None:
    """One line says how many rings there were and how they spread; the exit code is 3."""
    done = run(tmp_path, "ftree", "--fault", fault)
    assert done.returncode == 3
    assert re.search(
        r"rings/concurrent_rings: 32 measured, mean [\d.]+, least [\d.]+, most [\d.]+ Gb/s, CV 0\.\d+", done.stdout
    )
    assert "no baseline for concurrent_rings, ranks 16" in done.stdout
