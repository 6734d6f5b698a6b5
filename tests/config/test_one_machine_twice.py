"""Two names for one machine are refused: it would be measured against itself, and be its own neighbour."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric import config
from fabric.errors import ConfigError

HOSTS = """\
hosts:
  - {{names: gpu1, platform: duo, leaves: "leaf{{rail}}", address: "{first}"}}
  - {{names: gpu2, platform: duo, leaves: "leaf{{rail}}", address: "{second}"}}
  - {{names: "gpu[3-4]", platform: duo, leaves: "leaf{{rail}}"}}
switches:
"""


def written(folder: Path, text: str, hosts: str) -> Path:
    """The inventory with other hosts, the first of them on line 18."""
    begin, end = text.index("hosts:\n"), text.index("\nswitches:\n") + 1
    path = folder / "inventory.yaml"
    path.write_text(text[:begin] + hosts + text[end + len("switches:\n") :])
    return path


def problems(path: Path) -> list[tuple[int, str]]:
    """What is wrong with it, line by line."""
    try:
        config.load_inventory(path)
    except ConfigError as exc:
        return [(one.line, one.text) for one in exc.problems]
    return []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("GPU.example.net", "gpu.Example.net."),
        ("fd00::1", "FD00:0:0:0::0001"),
    ],
)
def test_one_address_in_two_spellings_is_one_machine(
    folder: Path, inventory_text: str, first: str, second: str
) -> None:
    """Both lines are named, each with the other host."""
    found = problems(written(folder, inventory_text, HOSTS.format(first=first, second=second)))
    assert [line for line, _ in found] == [18, 19]
    assert "('gpu2': line 19): a machine has one name" in found[0][1]
    assert "('gpu1': line 18): a machine has one name" in found[1][1]


@pytest.mark.parametrize(("first", "second"), [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2"), ("a.net", "b.net")])
def test_other_addresses_are_other_machines(folder: Path, inventory_text: str, first: str, second: str) -> None:
    assert not problems(written(folder, inventory_text, HOSTS.format(first=first, second=second)))


def test_many_hosts_of_one_entry_are_one_problem(folder: Path, inventory_text: str) -> None:
    """With what was meant: a template."""
    text = inventory_text.replace('address: "{name}.mgmt"', "address: 10.0.0.1")
    path = folder / "inventory.yaml"
    path.write_text(text)
    (found,) = problems(path)
    assert found[1].startswith("'gpu[1-4]' are reached at one address, '10.0.0.1'; with {name} each has its own")


def test_ports_and_accounts_tell_machines_behind_one_address_apart(folder: Path, inventory_text: str) -> None:
    """A gateway that forwards ports, or sends each account on to another machine."""
    spines = '  - {names: "spine[0-1]", tier: spine}'
    apart = "\n".join(
        f"  - {{names: spine{number}, tier: spine, address: 10.0.0.1, port: 220{number}}}" for number in (0, 1)
    )
    path = folder / "inventory.yaml"
    path.write_text(inventory_text.replace(spines, apart))
    assert not problems(path)
    path.write_text(inventory_text.replace(spines, apart.replace("2201", "2200")))
    assert len(problems(path)) == 2
