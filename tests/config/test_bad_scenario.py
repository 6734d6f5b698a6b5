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
        "changes of no phase",
        "hosts: all",
        "changes: []",
        ["4: unknown key 'changes'"],
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
    ("unknown host", "hosts: all", "hosts: gpu[1-5]", ["4: host is not in the inventory: 'gpu5' (/"]),
    ("unknown rack", "hosts: all", "hosts: {rack: r7}", ["4: no host has rack 'r7'"]),
    ("unknown group", "hosts: all", "hosts: {rak: r1}", ["4: unknown key 'rak'; did you mean 'rack'?"]),
    ("no inventory key", "inventory: inventory.yaml\n", "", ["1: 'inventory' is required here, or --inventory"]),
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
