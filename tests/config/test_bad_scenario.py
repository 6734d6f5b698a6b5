"""Every mistake in a scenario file is said on its line, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fabric import config
from fabric.errors import ConfigError

Explained = Callable[[Callable[[], object], list[str]], None]

# (what it shows, text in the valid file, what stands there instead, all problems: "line: part of the message")
BAD = [
    ("unknown key", "description: A", "descriptoin: A", ["2: unknown key 'descriptoin'; did you mean 'description'?"]),
    (
        "unknown probe kind",
        "- rnic_to_rnic",
        "- rnic_to_nic",
        ["9: unknown probe kind 'rnic_to_nic'; did you mean 'rnic_to_rnic'?"],
    ),
    (
        "too many rounds of pairs",
        "- rnic_to_rnic",
        "- pairwise: {rounds: 17}",
        ["9: expected a whole number from 1 to 16, got '17'"],
    ),
    (
        "changes of no phase",
        "hosts: all",
        "changes: []",
        ["4: unknown key 'changes'"],
    ),
    (
        "two kinds at once",
        "- rnic_to_rnic",
        "- {loopback: {}, rnic_to_rnic: {}}",
        ["9: expected one probe kind (loopback, rnic_to_rnic, all_to_all, tor_all_reduce, "],
    ),
    (
        "one thing twice",
        "- rnic_to_rnic",
        "- group_all_reduce: {hosts: 4, gpus: 16}",
        ["9: 'hosts', 'gpus' and 'scaling' say the same thing: leave out all but one"],
    ),
    (
        "an order that is lost",
        "- rnic_to_rnic",
        "- group_all_reduce: {order: random, launcher: srun}",
        ["9: order random needs launcher mpirun"],
    ),
    (
        "bare number for a duration",
        "duration: 5s",
        "duration: 5",
        ["8: expected a duration from 1s to 1h such as 5s, 2m or 1h, got '5'"],
    ),
    (
        "size in MB",
        "size: 8M",
        "size: 8MB",
        ["8: expected a size from 1 to 1G such as 8M, 64K, 1G or whole bytes, got '8MB'"],
    ),
    (
        "no series",
        "[1G, 2G, 4G]",
        "[1G, 2G, 8G]",
        ["14: expected sizes that grow by one constant whole factor, such as 1G, 2G, 4G; got 1G, 2G, 8G"],
    ),
    (
        "no probes",
        "      - loopback: {size: 8M, duration: 5s}\n      - rnic_to_rnic\n",
        "      []\n",
        ["7: expected at least 1 entry, got 0"],
    ),
    (
        "probe name twice",
        "- rnic_to_rnic",
        "- loopback: {size: 1M}",
        ["9: two probes named 'loopback' in this phase: give one another 'name'"],
    ),
    (
        "phase name twice",
        "- name: tor",
        "- name: inside",
        ["10: phase 'inside' is there twice", "11: phase 'inside' does not come before this one"],
    ),
    ("unknown need", "needs: [inside]", "needs: [insid]", ["11: no phase 'insid'; did you mean 'inside'?"]),
    (
        "later need",
        "  - name: inside\n",
        "  - name: inside\n    needs: [tor]\n",
        ["7: phase 'tor' does not come before this one"],
    ),
    ("phase name for a path", "- name: tor", "- name: ../tor", ["10: expected a name of 1 to 64 letters"]),
    ("unknown host", "hosts: all", "hosts: gpu[1-5]", ["4: host is not in the inventory: 'gpu5' (/"]),
    ("unknown hosts", "hosts: all", "hosts: [gpu1, 'gpu[8-9]']", ["4: 2 hosts are not in the inventory: 'gpu[8-9]'"]),
    ("unknown rack", "hosts: all", "hosts: {rack: r7}", ["4: no host has rack 'r7'"]),
    ("unknown ToR", "hosts: all", "hosts: {tor: laef1}", ["4: no host has tor 'laef1'; did you mean 'leaf1'?"]),
    ("unknown group", "hosts: all", "hosts: {rak: r1}", ["4: unknown key 'rak'; did you mean 'rack'?"]),
    (
        "no hosts",
        "hosts: all",
        "hosts: []",
        ["4: expected all, gpu[001-016], a list of those, {rack: r1} or {tor: leaf3}, got an empty list"],
    ),
    (
        "launcher of others",
        "          sizes: [1G, 2G, 4G]",
        "          launcher: slurm",
        ["14: expected mpirun or srun, got 'slurm'; 'slurm' is written 'srun' here"],
    ),
    (
        "probe kind of others",
        "      - rnic_to_rnic",
        "      - alltoall",
        ["9: unknown probe kind 'alltoall'; 'alltoall' is written 'all_to_all' here"],
    ),
    ("no inventory key", "inventory: inventory.yaml\n", "", ["1: 'inventory' is required here, or --inventory"]),
    (
        "description of two lines",
        "A look at a small rack",
        '"A look\\nat a rack"',
        ["2: expected a description (printable, 1 to 2000 characters, one line), got 'A look\\nat a rack'"],
    ),
    (
        "wrong algorithm",
        "          sizes: [1G, 2G, 4G]",
        "          algorithm: ring",
        ["14: got 'ring'; did you mean 'RING'?"],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_scenario_is_explained(
    folder: Path, scenario_text: str, explained: Explained, old: str, new: str, expected: list[str]
) -> None:
    """Each mistake gives exactly its problems, on its line."""
    assert scenario_text.count(old) == 1
    path = folder / "scenario.yaml"
    path.write_text(scenario_text.replace(old, new))
    explained(lambda: config.load_scenario(path), expected)


def test_an_unknown_host_is_told_with_the_inventory_and_its_hosts(folder: Path, scenario_text: str) -> None:
    path = folder / "scenario.yaml"
    path.write_text(scenario_text)
    with pytest.raises(ConfigError) as caught:
        config.load_scenario(path, hosts="gpu5")
    text = f"host is not in the inventory: 'gpu5' ({folder}/inventory.yaml has gpu[1-4]); did you mean 'gpu4'?"
    assert [(one.file, one.text) for one in caught.value.problems] == [("--hosts", text)]
