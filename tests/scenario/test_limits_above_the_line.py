"""Hosts of another line rate than their baseline is for: nobody fails, it is said at once, bad parts are found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.places import INVENTORY
from tests.scenario.test_self_check import HEALTHY, SCENARIO, fabric

pytestmark = pytest.mark.slow


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    """The healthy rack with RNICs of 200 Gb/s, and the baseline for 400."""
    shutil.copytree(INVENTORY / "baselines", tmp_path / "inventory" / "baselines")
    path = tmp_path / "inventory" / "slower.yaml"
    path.write_text(HEALTHY.read_text().replace("line_rate_gbps: 400, nearest", "line_rate_gbps: 200, nearest"))
    return path


def test_healthy_hosts_are_not_failed_and_it_is_said_before_the_run(slower: Path, tmp_path: Path) -> None:
    """One line on standard error, before anything is measured; exit code 3 and no suspect."""
    done = fabric("run", SCENARIO, "--inventory", slower, "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (done.returncode, document["outcome"], document["suspects"]) == (3, "inconclusive", [])
    assert "limit 364 Gb/s is above the line rate of 200 Gb/s" in str(document["reasons"])
    first, *others = done.stderr.splitlines()
    assert first.startswith("note: limits that ask for the line rate or more judge nothing: platform ")
    assert not any("judge nothing" in line for line in others)


def test_a_slow_rnic_still_fails_by_its_peers(slower: Path, tmp_path: Path) -> None:
    """What no limit judges, the others do."""
    fault = "--fault=gpu003/mlx5_2:slow=0.7"
    done = fabric("run", SCENARIO, "--inventory", slower, fault, "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert [suspect["component"] for suspect in document["suspects"]] == ["gpu003/mlx5_2"]
