"""A good scenario file becomes the model; the command line overrides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric import config
from fabric.errors import ConfigError
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec

GIB = 1 << 30


def test_a_good_scenario_becomes_the_model(folder: Path) -> None:
    """Phases and probes are as written, a bare word is a probe with its defaults, hosts are resolved."""
    scenario, inventory = config.load_scenario(folder / "scenario.yaml")
    assert scenario.hosts == tuple(inventory.topology.hosts) == ("gpu1", "gpu2", "gpu3", "gpu4")
    assert scenario.inventory == inventory.source == str(folder / "inventory.yaml")
    inside, tor = scenario.phases
    assert inside.probes == (LoopbackSpec(), RnicToRnicSpec())
    assert tor.probes == (TorAllReduceSpec(sizes_bytes=(GIB, 2 * GIB, 4 * GIB)),)
    assert (inside.needs, tor.needs) == ((), ("inside",))
    assert scenario.judge.baseline is None


def test_every_setting_reaches_the_model(folder: Path, scenario_text: str) -> None:
    """No key of a probe is read and dropped."""
    probes = """      - loopback: {name: a, size: 1K, duration: 2m, queue_pairs: 4, repeat: 3}
      - rnic_to_rnic: {name: b, size: 4096, duration: 1h, queue_pairs: 8, repeat: 5}
      - all_to_all: {name: c, sizes: [1M, 4M], halves: false, iterations: 7, repeat: 9}
      - tor_all_reduce: {name: d, sizes: [2G], algorithm: TREE, launcher: srun, iterations: 11, repeat: 13}
"""
    old = "      - loopback: {size: 8M, duration: 5s}\n      - rnic_to_rnic\n"
    (folder / "scenario.yaml").write_text(scenario_text.replace(old, probes))
    scenario, _ = config.load_scenario(folder / "scenario.yaml")
    assert scenario.phases[0].probes == (
        LoopbackSpec(name="a", size_bytes=1024, duration_s=120, queue_pairs=4, repeat=3),
        RnicToRnicSpec(name="b", size_bytes=4096, duration_s=3600, queue_pairs=8, repeat=5),
        AllToAllSpec(name="c", sizes_bytes=(1 << 20, 4 << 20), halves=False, iterations=7, repeat=9),
        TorAllReduceSpec(name="d", sizes_bytes=(2 * GIB,), algorithm="TREE", launcher="srun", iterations=11, repeat=13),
    )


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("all", ["gpu1", "gpu2", "gpu3", "gpu4"]),
        ("gpu[3-4]", ["gpu3", "gpu4"]),
        ("gpu4,gpu1", ["gpu1", "gpu4"]),
        ('["gpu[1-2]", gpu2, gpu4]', ["gpu1", "gpu2", "gpu4"]),
        ("{rack: r1}", ["gpu3", "gpu4"]),
        ("{tor: leaf1}", ["gpu1", "gpu2", "gpu3", "gpu4"]),
    ],
)
def test_hosts_can_be_said_in_five_ways(folder: Path, scenario_text: str, hosts: str, names: list[str]) -> None:
    """However hosts are named, they come once each in inventory order."""
    (folder / "scenario.yaml").write_text(scenario_text.replace("hosts: all", f"hosts: {hosts}"))
    scenario, _ = config.load_scenario(folder / "scenario.yaml")
    assert list(scenario.hosts) == names


def test_the_command_line_overrides_the_file(folder: Path, scenario_text: str, inventory_text: str) -> None:
    """--inventory, --hosts and --fault win over what the file says, even when that is wrong."""
    other = folder / "other.yaml"
    other.write_text(inventory_text.replace("gpu[1-4]", "node[1-4]").replace("gpu3", "node3"))
    text = scenario_text.replace("inventory: inventory.yaml\n", "").replace("hosts: all", "hosts: gpu9")
    (folder / "scenario.yaml").write_text(text)
    scenario, inventory = config.load_scenario(
        folder / "scenario.yaml", inventory_path=other, hosts="node[2-3]", faults=("node1:absent",)
    )
    assert scenario.hosts == ("node2", "node3")
    assert scenario.inventory == str(other)
    assert [fault.component for fault in inventory.mock.faults] == ["node3", "node1"]


def test_both_files_are_checked_at_once(folder: Path, scenario_text: str, inventory_text: str) -> None:
    """A mistake in the inventory does not hide one in the scenario."""
    (folder / "scenario.yaml").write_text(scenario_text.replace("8M", "8Q"))
    (folder / "inventory.yaml").write_text(inventory_text.replace("port: 22", "port: x"))
    with pytest.raises(ConfigError) as caught:
        config.load_scenario(folder / "scenario.yaml", faults=("x:y",))
    files = [problem.file for problem in caught.value.problems]
    assert files == ["--fault", str(folder / "inventory.yaml"), str(folder / "scenario.yaml")]
