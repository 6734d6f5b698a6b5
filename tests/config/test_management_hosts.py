"""Hosts for management: subnet managers run there, and nothing is measured on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric import config
from fabric.errors import ConfigError
from fabric.model.topology import Login

HERE = "\nswitches:\n"
MANAGING = '  - {names: "sm[1-2]", role: management, address: "{name}.mgmt"}\n'
SETTINGS = "changes: {subnet_managers: [{host: sm1}, {host: sm2}]}\n"


def written(folder: Path, text: str, hosts: str = MANAGING, more: str = SETTINGS) -> Path:
    """The inventory with these further hosts, on its line 24, and settings."""
    path = folder / "inventory.yaml"
    path.write_text(text.replace(HERE, f"\n{hosts}{HERE[1:]}") + more)
    return path


def problem(folder: Path, text: str, hosts: str = MANAGING, more: str = SETTINGS) -> str:
    """What is wrong with it, on which line."""
    with pytest.raises(ConfigError) as caught:
        config.load_inventory(written(folder, text, hosts, more))
    return "; ".join(f"{one.line}: {one.text}" for one in caught.value.problems)


def test_they_are_reached_and_are_no_hosts_under_test(folder: Path, inventory_text: str) -> None:
    inventory = config.load_inventory(written(folder, inventory_text))
    topology = inventory.topology
    assert topology.management == {"sm1": Login("sm1.mgmt"), "sm2": Login("sm2.mgmt")}
    assert topology.logins == topology.management
    assert list(topology.hosts) == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert [manager.host for manager in inventory.changes.subnet_managers] == ["sm1", "sm2"]


def test_nothing_can_be_measured_on_them(folder: Path, inventory_text: str) -> None:
    written(folder, inventory_text)
    with pytest.raises(ConfigError, match=r"'sm1': role management, nothing is measured there$"):
        config.load_scenario(folder / "scenario.yaml", hosts="gpu1,sm1")


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ("  - {names: sm1, role: manager}\n", "24: expected test or management, got 'manager'"),
        ("  - {names: sm1}\n", "24: 'platform' is required here"),
        ("  - {names: sm1, role: management, platform: duo}\n", "24: 'platform' goes with role test"),
        ("  - {names: sm1, role: management, leaves: leaf0}\n", "24: 'leaves' goes with role test"),
        ('  - {names: sm1, role: management, address: "{name}.{unit}"}\n', "24: only {name} is known of hosts for"),
        ('  - {names: sm1, role: management, address: "-{name}"}\n', "24: '-sm1' is not usable as address"),
        ("  - {names: gpu1, role: management}\n", "24: hosts named twice: 'gpu1'"),
    ],
)
def test_a_mistake_is_said_on_its_line(folder: Path, inventory_text: str, hosts: str, said: str) -> None:
    assert said in problem(folder, inventory_text, hosts, "")


def test_a_rack_of_nothing_else_has_nothing_to_measure(folder: Path, inventory_text: str) -> None:
    begin, end = inventory_text.index('  - names: "gpu[1-4]"'), inventory_text.index(HERE)
    said = problem(folder, inventory_text[:begin] + inventory_text[end:], MANAGING, "")
    assert "expected a host with role test: there is nothing to measure" in said


def test_in_band_tools_need_a_host_under_test(folder: Path, inventory_text: str) -> None:
    said = problem(folder, inventory_text, more="changes: {via: sm1}\n")
    assert "39: expected a host under test, whose RNICs lead to the switches, got 'sm1' (role management)" in said
