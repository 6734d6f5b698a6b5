"""What a box would be made of, without making it: files that the product reads, faults that are understood."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric import lab as machine
from fabric.cli.main import main
from fabric.config.inventory import load_inventory
from fabric.errors import ConfigError, StoreError
from fabric.lab import layout
from fabric.lab.faults import KINDS, fault
from fabric.lab.layout import Box, baseline_text, inventory_text
from tests.places import SCENARIOS

BOX = Box("box", "/var/lib/fabric-lab/box", hosts=7, leaves=3, spines=2)


@pytest.mark.parametrize("with_mpi", [True, False])
def test_its_inventory_is_what_is_built(tmp_path: Path, with_mpi: bool) -> None:
    """Hosts, leaves and uplinks that the product reads are those of the cables; the limits fit the ports."""
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "box.yaml").write_text(baseline_text(BOX))
    (tmp_path / "box.yaml").write_text(inventory_text(BOX, with_mpi=with_mpi))
    inventory = load_inventory(tmp_path / "box.yaml")
    assert {name: host.leaves for name, host in inventory.topology.hosts.items()} == {
        host: (leaf,) for host, leaf in BOX.leaf_of.items()
    }
    assert set(inventory.topology.switches) == set(BOX.switches)
    assert len(BOX.cables) == 7 + 3 * 2
    planned = CliRunner().invoke(main, ["plan", str(SCENARIOS / "box.yaml"), f"--inventory={tmp_path / 'box.yaml'}"])
    assert planned.exit_code == 0, planned.output
    assert "no limit" not in planned.output


@pytest.mark.parametrize("name", ["../../tmp", "", ".", "a/b", "x" * 13])
@pytest.mark.parametrize("does", [machine.down, machine.status, machine.mend])
def test_a_name_never_leads_out_of_the_folder_of_boxes(does: Callable[[str], object], name: str) -> None:
    """``down`` deletes as root what the file there says."""
    with pytest.raises(ConfigError, match="up to 12 letters and digits"):
        does(name)


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a box is taken away again, and the reason is no defect of ours."""
    monkeypatch.setattr(machine, "STATE", tmp_path)

    def full(_: Path, *, mpi: bool) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(machine, "_programs", full)
    with pytest.raises(StoreError, match=r"could not be made: .*No space left on device"):
        machine.up(Box("full", str(tmp_path / "full")), tmp_path / "full.yaml")
    assert list(tmp_path.iterdir()) == []


def test_every_address_is_one_nodes() -> None:
    """Ports of hosts, gateways, both ends of every uplink and the management network never share an address."""
    lines = [line for node in BOX.nodes for line in layout.addresses(BOX, node).splitlines()]
    addresses = [line.split()[2].partition("/")[0] for line in lines if line.startswith("address add")]
    assert len(set(addresses)) == len(addresses) == 7 * 2 + 1 + 3 + 2 * 3 * 2


def test_no_interface_is_ever_outside_of_the_box() -> None:
    """Both ends of each cable are made inside namespaces."""
    lines = [line for node in BOX.nodes for line in layout.cables(BOX, node).splitlines()]
    made = [line for line in lines if "veth" in line]
    assert all(" netns fabric-box-" in line for line in made)


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("h5/mlx5_0:tx:slow=0.3", {"h5"}),
        ("h5/mlx5_0:rx:slow=0.3", {"l2"}),
        ("h5/mlx5_0:loss=0.02", {"h5", "l2"}),
        ("l1--s2:slow=0.2", {"l1", "s2"}),
        ("l1->s2:slow=0.2", {"l1"}),
        ("s2->l1:loss=0.1", {"s2"}),
        ("s1:slow=0.5", {"l1", "l2", "l3", "s1"}),
        ("h5/mlx5_0:down", {"l2"}),
        ("s1--l1:down", {"s1"}),
        ("h5/mlx5_0:flapping", {"l2"}),
        ("s1:grey", {"s1"}),
        ("s1:dead", {"s1"}),
        ("l1:one_path", {"l1"}),
        ("h3:hung", set()),
    ],
)
def test_a_fault_is_where_its_name_says(text: str, ports: set[str]) -> None:
    """It and its undoing are commands on the same nodes."""
    found = fault(BOX, text, 0)
    assert {act.node for act in found.apply} == {act.node for act in found.undo} == ports
    assert (found.stopped == "h3") == text.endswith("hung")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h5/mlx5_0:tx", "COMPONENT:KIND"),
        ("h9/mlx5_0:slow=0.3", "no such part"),
        ("l1/mlx5_0:slow=0.3", "no such part"),
        ("h5/mlx5_0:slow", "needs =SHARE"),
        ("h5/mlx5_0:slow=3", "from 0.001 to 0.999"),
        ("s1:down", "only a cable"),
        ("h1:grey", "no switch"),
        ("s1:one_path", "no leaf"),
        ("l1--l2:down", "no such part"),
        ("$(reboot):grey", "no switch"),
    ],
)
def test_what_is_no_fault_is_refused_in_words(text: str, said: str) -> None:
    """Nothing of it reaches a command."""
    with pytest.raises(ConfigError, match=said):
        fault(BOX, text, 0)


def test_every_kind_is_known() -> None:
    """Those that the help names are those that there are."""
    said = CliRunner().invoke(main, ["lab", "break", "--help"]).output
    assert all(kind in said for kind in KINDS)


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 2 with what is missing: root, or packages by their names."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match="needs Linux and root"):
        machine.refuse_where_impossible()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(machine, "_PACKAGES", {"no-such-program": "some-package"})
    with pytest.raises(ConfigError, match=r"apt-get install .*some-package"):
        machine.refuse_where_impossible()
