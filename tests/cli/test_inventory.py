"""``fabric inventory show`` checks a file and its baselines, and says what it describes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric.cli.main import main
from fabric.errors import ConfigError
from tests.places import INVENTORY

DEMO = INVENTORY / "demo-rack.yaml"
ONE = """\
name: one
backend: mock
platforms:
  uno:
    baseline: fast
    link_layer: ethernet
    numa_nodes: 1
    gpus: [{index: 0, numa: 0}]
    rnics: [{device: mlx5_0, rail: 0, numa: 0, line_rate_gbps: 200}]
hosts:
  - {names: gpu1, platform: uno, leaves: tor0}
switches:
  - {names: tor0, tier: leaf}
"""
FAST = 'name: fast\nlimits: [{kind: rnic_to_rnic, at_least_gbps: 384, source: "x"}]\n'


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """One host of everything, and a baseline for RNICs twice as fast."""
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "fast.yaml").write_text(FAST)
    (tmp_path / "one.yaml").write_text(ONE)
    return tmp_path / "one.yaml"


def show(*argv: str | Path) -> str:
    """What the command prints; a ConfigError comes through, as ``fabric`` itself catches it."""
    result = CliRunner().invoke(main, ["inventory", "show", *map(str, argv)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == 0
    return result.output


def test_one_of_everything_is_singular(one: Path) -> None:
    """1 host, 1 GPU, 1 switch, 1 group, 1 link; and what does not fit is a note."""
    assert show(one).splitlines() == [
        "one: 1 host, backend mock",
        "  uno: gpu1; 1 GPU, 1 RNIC, 1 NUMA node, ethernet, baseline fast",
        "  leaf: 1 switch (tor0)",
        "  1 group of hosts under one ToR",
        "    ToR tor0: gpu1",
        "  1 link",
        "note: platform uno, baseline fast: rnic_to_rnic: at least 384 Gb/s required, "
        "above the line rate of mlx5_0 (200 Gb/s): it judges nothing there",
    ]


def test_groups_are_folded() -> None:
    """Rail leaves and hosts of a group are one line."""
    assert "    ToR su0-leaf[0-7]: gpu[001-008]" in show(DEMO).splitlines()


def test_ten_groups_are_enough() -> None:
    """A hall of 64 groups shows ten of them and says how many more there are."""
    lines = show(INVENTORY / "hall-2048.yaml").splitlines()
    assert sum(line.startswith("    ToR ") for line in lines) == 10
    assert "    and 54 more" in lines


def test_json_says_the_same(one: Path) -> None:
    """One document with the platforms, groups and notes."""
    document = json.loads(show(one, "--json"))
    assert (document["name"], document["hosts"], document["links"]) == ("one", 1, 1)
    assert document["tor_groups"] == [{"leaves": "tor0", "count": 1, "hosts": "gpu1"}]
    assert document["platforms"][0]["rnics"] == [{"device": "mlx5_0", "rail": 0, "line_rate_gbps": 200.0}]
    assert len(document["notes"]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FAST.replace("name: fast", "name: slow"), "expected 'fast', as the file is called"),
        (FAST.replace("384", "a lot"), "expected a number"),
        ("", "the file is empty"),
    ],
)
def test_a_broken_baseline_is_a_problem(one: Path, text: str, said: str) -> None:
    """The file that a platform names is read, and what is wrong with it is said with its line."""
    (one.parent / "baselines" / "fast.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        show(one)
    assert {Path(problem.file).name for problem in caught.value.problems} == {"fast.yaml"}
