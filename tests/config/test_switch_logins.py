"""Switches that are reached themselves: written once for many, and every mistake on its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric import config
from fabric.errors import ConfigError
from fabric.model.topology import Login

SPINES = '  - {names: "spine[0-1]", tier: spine}'


def loaded(folder: Path, text: str, spines: str):
    """The inventory with another line for its spines."""
    path = folder / "inventory.yaml"
    path.write_text(text.replace(SPINES, spines))
    return config.load_inventory(path)


def problem(folder: Path, text: str, spines: str) -> str:
    """What is wrong with it, on which line."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text, spines)
    return "; ".join(f"{one.line}: {one.text}" for one in caught.value.problems)


def test_each_switch_gets_its_address_and_none_is_a_host(folder: Path, inventory_text: str) -> None:
    line = '  - {names: "spine[0-1]", tier: spine, address: "{name}.mgmt", management: nvue, user: cumulus, port: 2222}'
    topology = loaded(folder, inventory_text, line).topology
    assert topology.logins == {
        "spine0": Login("spine0.mgmt", "nvue", "cumulus", 2222),
        "spine1": Login("spine1.mgmt", "nvue", "cumulus", 2222),
    }
    assert topology.switches["leaf0"].login is None
    assert "spine0" not in topology.hosts


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("management: nvue", "26: 'management' needs 'address'"),
        ("port: 22", "26: 'port' needs 'address'"),
        ('address: "{name}", management: sonic', "26: expected nvue, got 'sonic'"),
        ('address: "{nam}"', "26: field '{nam}' is not known here; known are {name}; did you mean 'name'?"),
        (
            "address: 10.0.0.1",
            "26: 'spine[0-1]' are reached at one address, '10.0.0.1'; with {name} each has its own: "
            "a machine has one name",
        ),
        ('address: "-{name}"', "26: '-spine0' is not usable as address"),
    ],
)
def test_a_mistake_is_said_on_its_line(folder: Path, inventory_text: str, more: str, said: str) -> None:
    assert said in problem(folder, inventory_text, f'  - {{names: "spine[0-1]", tier: spine, {more}}}')
