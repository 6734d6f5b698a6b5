"""A good inventory file becomes the model; problems of several parts come together."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric import config
from fabric.errors import ConfigError
from fabric.model.inventory import Fault


def problems(path: Path, *faults: str) -> list[str]:
    """The problems of an inventory file as "line: text"."""
    with pytest.raises(ConfigError) as caught:
        config.load_inventory(path, extra_faults=tuple(faults))
    return [f"{problem.line}: {problem.text}" for problem in caught.value.problems]


def test_a_good_inventory_becomes_the_model(folder: Path) -> None:
    """Hosts, racks, leaves, cables and faults are as written; what is left out is filled in."""
    inventory = config.load_inventory(folder / "inventory.yaml")
    topology = inventory.topology
    assert list(topology.hosts) == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert [host.rack for host in topology.hosts.values()] == ["r0", "r0", "r1", "r1"]
    assert topology.hosts["gpu2"].address == "gpu2.mgmt"
    assert topology.hosts["gpu2"].leaves == ("leaf0", "leaf1")
    assert topology.tor_groups == (("gpu1", "gpu2", "gpu3", "gpu4"),)
    assert sum(1 for _ in topology.links()) == 4 * 2 + 2 * 2 * 2
    platform = topology.hosts["gpu1"].platform
    assert platform is topology.hosts["gpu4"].platform
    assert [(rnic.numa, rnic.nearest_gpus) for rnic in platform.rnics] == [(0, (0,)), (1, (1,))]
    assert [(gpu.numa, gpu.pcie_switch) for gpu in platform.gpus] == [(0, "pcie0"), (1, None)]
    assert inventory.mock.faults == (Fault("gpu3", "hanging"),)
    assert inventory.ssh.connect_timeout_s == 15.0
    assert inventory.ssh.known_hosts == ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
    assert inventory.process.prefix == ("ip", "netns", "exec", "{host}")


def test_all_problems_come_at_once(folder: Path, inventory_text: str) -> None:
    """A mistake in one part hides none in another: types, references and faults are all checked."""
    text = inventory_text.replace("port: 22", "port: 22:22").replace("mlx5_1", "mlx5_0")
    text = text.replace("platform: duo", "platform: dou").replace("tier: spine", "tier: spin")
    (folder / "inventory.yaml").write_text(text)
    found = problems(folder / "inventory.yaml", "gpu1:slow")
    assert [line.split(":")[0] for line in found] == ["0", "16", "19", "26", "29"]


def test_one_leaf_is_that_of_all_rails(folder: Path, inventory_text: str) -> None:
    """Two ToRs with two hosts each, both rails on the host's own ToR, as docs/inventory.md shows."""
    path = folder / "inventory.yaml"
    path.write_text(inventory_text.replace('"leaf{rail}"', '"leaf{unit}"\n    hosts_per_unit: 2'))
    topology = config.load_inventory(path).topology
    assert [host.leaves for host in topology.hosts.values()] == [("leaf0", "leaf0")] * 2 + [("leaf1", "leaf1")] * 2
    assert topology.tor_groups == (("gpu1", "gpu2"), ("gpu3", "gpu4"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu1", "expected COMPONENT:KIND or COMPONENT:slow=FACTOR"),
        ("gpu1:slow", "'factor' is required with kind slow"),
        ("gpu1:slow=2", "expected a number from 0.001 to 0.999, got '2'"),
        ("gpu1:hanging=0.5", "'factor' goes with kind slow"),
        ("gpu1:slwo=0.5", "did you mean 'slow'?"),
        ("gpu7:broken", "no host or switch 'gpu7'; did you mean 'gpu"),
        ("gpu1/nvlink:broken", "'nvlink' is not a part of gpu1"),
        ("\x1b[31m:broken", "got '\\x1b[31m'"),
        ("-rf:broken", "does not start with '-'"),
    ],
)
def test_a_bad_fault_option_is_explained(folder: Path, text: str, said: str) -> None:
    """Problems of ``--fault`` name the option, not the file."""
    with pytest.raises(ConfigError) as caught:
        config.load_inventory(folder / "inventory.yaml", extra_faults=(text,))
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == ("--fault", 0)
    assert said in problem.text
