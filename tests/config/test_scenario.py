"""A good scenario file becomes the model; the command line overrides it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fabric import config
from fabric.errors import ConfigError
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec
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


@pytest.mark.parametrize("hosts", ["gpu9", "gpu[1-", "", "{rack: r1}", "gpu[0-999999999]", "--all", "$(reboot)"])
def test_a_bad_hosts_option_names_the_option(folder: Path, hosts: str) -> None:
    """Problems of ``--hosts`` do not point at the file."""
    with pytest.raises(ConfigError) as caught:
        config.load_scenario(folder / "scenario.yaml", hosts=hosts)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == ("--hosts", 0)


def test_both_files_are_checked_at_once(folder: Path, scenario_text: str, inventory_text: str) -> None:
    """A mistake in the inventory does not hide one in the scenario."""
    (folder / "scenario.yaml").write_text(scenario_text.replace("8M", "8Q"))
    (folder / "inventory.yaml").write_text(inventory_text.replace("port: 22", "port: x"))
    with pytest.raises(ConfigError) as caught:
        config.load_scenario(folder / "scenario.yaml", faults=("x:y",))
    files = [problem.file for problem in caught.value.problems]
    assert files == ["--fault", str(folder / "inventory.yaml"), str(folder / "scenario.yaml")]


def test_the_inventory_lies_relative_to_the_scenario(folder: Path, scenario_text: str) -> None:
    """A scenario in its own folder finds its inventory wherever the command is run."""
    (folder / "scenarios").mkdir()
    path = folder / "scenarios" / "deep.yaml"
    path.write_text(scenario_text.replace("inventory: inventory.yaml", "inventory: ../inventory.yaml"))
    scenario, _ = config.load_scenario(path)
    assert scenario.inventory == str(folder / "inventory.yaml")


def test_an_absent_inventory_is_one_problem(folder: Path, scenario_text: str) -> None:
    """The path that was tried is named."""
    (folder / "scenario.yaml").write_text(scenario_text.replace("inventory: inventory.yaml", "inventory: gone.yaml"))
    with pytest.raises(ConfigError, match=r"gone\.yaml: no such file"):
        config.load_scenario(folder / "scenario.yaml")


def test_groups_of_hosts(folder: Path, scenario_text: str) -> None:
    """Every setting of the kinds that take groups of hosts reaches the model, and comes back from run.json."""
    probes = """      - group_all_reduce: {name: a, hosts: 3, sizes: [1M], algorithm: TREE, order: random, seed: 5}
      - group_all_reduce: {name: b, gpus: 16, launcher: srun, iterations: 7, repeat: 2}
      - concurrent_rings: {name: c, groups_of: 4, pairing: random, seed: 9, sizes: [4K], iterations: 3, repeat: 8}
      - group_all_reduce
      - concurrent_rings
"""
    old = "      - loopback: {size: 8M, duration: 5s}\n      - rnic_to_rnic\n"
    (folder / "scenario.yaml").write_text(scenario_text.replace(old, probes))
    resolved = config.load_scenario(folder / "scenario.yaml")
    assert resolved[0].phases[0].probes == (
        GroupAllReduceSpec(name="a", hosts=3, sizes_bytes=(1 << 20,), algorithm="TREE", order="random", seed=5),
        GroupAllReduceSpec(name="b", gpus=16, launcher="srun", iterations=7, repeat=2),
        ConcurrentRingsSpec(
            name="c", groups_of=4, pairing="random", seed=9, sizes_bytes=(4096,), iterations=3, repeat=8
        ),
        GroupAllReduceSpec(),
        ConcurrentRingsSpec(),
    )
    assert config.from_resolved(json.loads(json.dumps(config.resolved_document(*resolved)))) == resolved


def test_the_mock_network_is_read(folder: Path, inventory_text: str) -> None:
    """How paths are chosen is the inventory's to say; without a word it is left open."""
    path = folder / "inventory.yaml"
    assert (config.load_inventory(path).mock.routing, config.load_inventory(path).mock.qps) == (None, 1)
    path.write_text(inventory_text.replace("noise_cv: 0.003", "routing: ecmp\n  qps: 16\n  salt: 7"))
    mock = config.load_inventory(path).mock
    assert (mock.routing, mock.qps, mock.salt) == ("ecmp", 16, 7)
    path.write_text(inventory_text.replace("noise_cv: 0.003", "routing: fat-tree"))
    with pytest.raises(ConfigError, match="expected ftree, updn, minhop, lft_random, ecmp or ar, got 'fat-tree'"):
        config.load_inventory(path)
