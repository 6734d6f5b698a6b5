"""What does not fit between a baseline and a platform is said before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric import config
from fabric.config.baselines import out_of_reach_line
from fabric.errors import ConfigError
from fabric.model.inventory import Inventory
from fabric.model.scenario import JudgeSettings, Phase, ProbeSpec, Scenario
from fabric.model.verdict import Baseline, Limit
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec

NOTHING = ": it judges nothing there"
"""How a note ends that says that a limit asks for more than the lines carry."""


@pytest.fixture
def inventory(folder: Path) -> Inventory:
    """Two RNICs of 400 Gb/s and two GPUs a host, one pair behind a PCIe switch."""
    return config.load_inventory(folder / "inventory.yaml")


def notes(inventory: Inventory, limits: list[Limit], *specs: ProbeSpec, override: str | None = None) -> list[str]:
    """The notes on these limits, without where they are from."""
    judge = JudgeSettings(override)
    scenario = Scenario("s", "", "s.yaml", "i.yaml", tuple(inventory.topology.hosts), (Phase("p", specs),), judge)
    name = override or "h100-ndr"
    found = config.baseline_notes(scenario if specs else None, inventory, {name: Baseline(name, "b", tuple(limits))})
    prefix = f"platform duo, baseline {name}: "
    assert all(note.startswith(prefix) for note in found)
    assert all(note.endswith(NOTHING) == ("required" in note) for note in found)
    return [note.removeprefix(prefix).removesuffix(NOTHING) for note in found]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (Limit("loopback", 399, "x"), None),
        (
            Limit("loopback", 400, "x"),
            "loopback: at least 400 Gb/s required, all of the line rate of mlx5_[0-1] (400 Gb/s)",
        ),
        (
            Limit("link_burn", 401, "x"),
            "link_burn: at least 401 Gb/s required, above the line rate of mlx5_[0-1] (400 Gb/s)",
        ),
        (Limit("link_burn", 200, "x"), None),
        (
            Limit("loopback", 401, "x", link_class="pix"),
            "loopback pix: at least 401 Gb/s required, above the line rate of mlx5_[0-1] (400 Gb/s)",
        ),
        (Limit("rnic_to_rnic", 384, "x"), None),
        (
            Limit("rnic_to_rnic", 768, "x"),
            "rnic_to_rnic: at least 768 Gb/s required, above the line rate of mlx5_[0-1] (400 Gb/s)",
        ),
        (
            Limit("rnic_to_rnic", 192, "x"),
            "rnic_to_rnic: 192 Gb/s pass, half the line rate of mlx5_[0-1] (400 Gb/s) or less",
        ),
        (Limit("tor_all_reduce", 368, "x", algorithm="RING", per_rnic=True), None),
        (
            Limit("tor_all_reduce", 401, "x", algorithm="RING", per_rnic=True),
            "tor_all_reduce RING: at least 802 Gb/s required, above the line rate of its 2 RNICs together (800 Gb/s)",
        ),
        (
            Limit("tor_all_reduce", 2944, "x"),
            "tor_all_reduce: at least 2944 Gb/s required, above the line rate of its 2 RNICs together (800 Gb/s)",
        ),
        (Limit("tor_all_reduce", 1200, "x", algorithm="TREE"), None),
        (Limit("all_to_all", 9999, "x"), None),
    ],
)
def test_a_limit_out_of_reach_is_said(inventory: Inventory, limit: Limit, expected: str | None) -> None:
    """RNICs carry at most their line rate; trees and NVLink are not bound by it; half the line is too little."""
    assert notes(inventory, [limit]) == ([expected] if expected else [])


def test_a_run_is_told_in_one_line_of_limits_above_the_line(inventory: Inventory) -> None:
    """All limits of a platform that its lines cannot carry, of those that would judge what is asked for."""
    limits = [
        Limit("loopback", 500, "x", link_class="pix", min_size_bytes=1 << 20),
        Limit("loopback", 300, "x"),
        Limit("rnic_to_rnic", 400, "x"),
        Limit("pairwise", 900, "not asked for"),
        Limit("tor_all_reduce", 1200, "a tree's bus bandwidth may be above the lines"),
    ]
    hosts = tuple(inventory.topology.hosts)

    def line(*specs: ProbeSpec) -> str | None:
        scenario = Scenario("s", "", "s.yaml", "i.yaml", hosts, (Phase("p", specs),), JudgeSettings())
        return out_of_reach_line(scenario, inventory, {"h100-ndr": Baseline("h100-ndr", "b", tuple(limits))})

    told = line(LoopbackSpec(), RnicToRnicSpec(), TorAllReduceSpec(algorithm="TREE")) or ""
    assert "loopback pix, rnic_to_rnic of baseline h100-ndr on platform duo (400 Gb/s)" in told
    assert "\n" not in told
    assert "tor_all_reduce of" in (line(TorAllReduceSpec()) or "")
    assert line(LoopbackSpec(size_bytes=1 << 10)) is None
    assert line(AllToAllSpec()) is None


ALL = [
    Limit("loopback", 100, "x"),
    Limit("rnic_to_rnic", 384, "x"),
    Limit("all_to_all", 100, "x"),
    Limit("tor_all_reduce", 100, "x", algorithm="RING"),
]
SPECS = (LoopbackSpec(), RnicToRnicSpec(), AllToAllSpec(), TorAllReduceSpec())


@pytest.mark.parametrize("kind", [limit.kind for limit in ALL])
def test_a_kind_without_limit_is_said(inventory: Inventory, kind: str) -> None:
    """What is asked for and has no limit at all will be INCONCLUSIVE, and that is said once."""
    limits = [limit for limit in ALL if limit.kind != kind]
    assert notes(inventory, limits, *SPECS) == [f"no limit for {kind}: will be INCONCLUSIVE"]
    assert notes(inventory, ALL, *SPECS) == []


def test_a_limit_for_another_key_is_none(inventory: Inventory) -> None:
    """Other algorithm, other link class, other size: the key is named."""
    assert notes(inventory, ALL, TorAllReduceSpec(algorithm="TREE")) == [
        "no limit for tor_all_reduce TREE: will be INCONCLUSIVE"
    ]
    pix = Limit("loopback", 380, "x", link_class="pix")
    assert notes(inventory, [pix], LoopbackSpec()) == [
        f"no limit for loopback {name}: will be INCONCLUSIVE" for name in ("mem_local", "mem_remote", "sys", "node")
    ]
    one = Limit("rnic_to_rnic", 384, "x", size_bytes=1 << 20)
    assert notes(inventory, [one], RnicToRnicSpec()) == ["no limit for rnic_to_rnic: will be INCONCLUSIVE"]


def test_all_broken_baselines_come_at_once(folder: Path) -> None:
    """Problems of several files are reported together."""
    (folder / "baselines" / "h100-ndr.yaml").write_text("name: h100-ndr\nlimits: []\n")
    (folder / "baselines" / "other.yaml").write_text("name: other\n")
    with pytest.raises(ConfigError) as caught:
        config.load_baselines(["other", "h100-ndr"], folder / "inventory.yaml")
    assert [Path(problem.file).stem for problem in caught.value.problems] == ["h100-ndr", "other"]
