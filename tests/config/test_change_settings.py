"""How changes are made on a fabric: the settings become the model, and every mistake is said on its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fabric import config
from fabric.model.change import BlastRadius, ChangeSettings, Lease, SubnetManager

Explained = Callable[[Callable[[], object], list[str]], None]

ALL = """\
changes:
  via: gpu1
  port_state: mlxlink
  sudo: true
  guard_directory: /var/lib/fabric.guard
  lease: {ttl: 30s, max_hold: 2h}
  management: [eth0, bond0.100, mlx5_bond_0, gpu4, leaf1]
  subnet_managers:
    - {host: gpu2}
    - {host: gpu3, config: /opt/ufm/opensm.conf, reload: [pkill, -HUP, opensm]}
  adaptive_on: {routing_engine: "ar_ftree,updn", ar_sl_mask: 0xFFFF}
  adaptive_off: {routing_engine: ftree, ar_sl_mask: 0}
  shield_on: {shield_mode: 2}
  shield_off: {shield_mode: 0}
  adaptive_sl: 3
  ufm_url: https://ufm.example.net:8443/ufmRest
  blast_radius: {changes: 8, per_switch: 2, per_host: 3, links_fraction: 0.25}
"""


def written(folder: Path, inventory_text: str, settings: str) -> Path:
    """The inventory with these settings from its line 35 on."""
    path = folder / "inventory.yaml"
    path.write_text(inventory_text + settings)
    return path


def test_every_setting_reaches_the_model(folder: Path, inventory_text: str) -> None:
    """No key is read and dropped."""
    assert config.load_inventory(written(folder, inventory_text, ALL)).changes == ChangeSettings(
        via="gpu1",
        port_state="mlxlink",
        sudo=True,
        guard_directory="/var/lib/fabric.guard",
        lease=Lease(30.0, 7200.0),
        management=("eth0", "bond0.100", "mlx5_bond_0", "gpu4", "leaf1"),
        subnet_managers=(
            SubnetManager("gpu2"),
            SubnetManager("gpu3", "/opt/ufm/opensm.conf", ("pkill", "-HUP", "opensm")),
        ),
        adaptive_on={"routing_engine": "ar_ftree,updn", "ar_sl_mask": "0xFFFF"},
        adaptive_off={"routing_engine": "ftree", "ar_sl_mask": "0"},
        shield_on={"shield_mode": "2"},
        shield_off={"shield_mode": "0"},
        adaptive_sl=3,
        ufm_url="https://ufm.example.net:8443/ufmRest",
        blast_radius=BlastRadius(8, 2, 3, 0.25),
    )


BAD = [
    ("via: gpu1", "via: gpu7", ["+1: no host 'gpu7' under hosts:; did you mean 'gpu"]),
    ("via: gpu1", "via: leaf0", ["+1: no host 'leaf0' under hosts:"]),
    ("  via: gpu1\n", "", ["+14: 'ufm_url' needs 'via'"]),
    ("port_state: mlxlink", "port_state: mlxlnk", ["+2: got 'mlxlnk'; did you mean 'mlxlink'?"]),
    ("/var/lib/fabric.guard", "run/guard", ["+4: expected an absolute path"]),
    ("/var/lib/fabric.guard", "/run/../etc", ["+4: expected an absolute path without '.' and '..'"]),
    ("/var/lib/fabric.guard", "/", ["+4: expected an absolute path"]),
    ("/var/lib/fabric.guard", "'/run/a b'", ["+4: expected an absolute path"]),
    ("/var/lib/fabric.guard", "/dev/shm/x", ["+4: not every user may write (what is there is run as root)"]),
    ("ttl: 30s", "ttl: 9s", ["+5: expected a duration from 10s to 10m"]),
    ("max_hold: 2h", "max_hold: 20s", ["+5: expected at least ttl, 30s, got 20s"]),
    ("eth0,", "eth0 x,", ["+6: expected a name of 1 to 64"]),
    ("{host: gpu2}", "{host: gpu22}", ["+8: no host 'gpu22' under hosts:; did you mean 'gpu2'?"]),
    ("{host: gpu2}", "{host: gpu3}", ["+9: the subnet manager on 'gpu3' is there twice"]),
    ("{host: gpu2}", "{config: /a/b}", ["+8: 'host' is required here"]),
    ("[pkill, -HUP, opensm]", "pkill -HUP opensm", ["+9: expected a list, got 'pkill -HUP opensm'"]),
    ("[pkill, -HUP, opensm]", "[-HUP]", ["+9: expected a program first, got '-HUP'"]),
    ("[pkill, -HUP, opensm]", "['A=b', x]", ["+9: expected a program first, got 'A=b'"]),
    ("[pkill, -HUP, opensm]", "['sh -c x']", ["+9: expected one printable word without blanks"]),
    ("routing_engine: ftree", "Routing: ftree", ["+11: expected an option of opensm.conf"]),
    ("routing_engine: ftree", "routing_engine: 'x; id'", ["+11: expected a value of opensm.conf"]),
    (
        "routing_engine: ftree, ar_sl_mask: 0",
        "routing_engine: ftree",
        ["+10: adaptive_on and adaptive_off must say the same options: 'ar_sl_mask' is in one of them only"],
    ),
    ("shield_off: {shield_mode: 0}", "shield_off: {shield_mode: 2}", ["+12: nothing would be switched"]),
    ("shield_off: {shield_mode: 0}", "shield_off: {}", ["+13: expected at least 1 entry, got 0"]),
    ("https://ufm", "ftp://ufm", ["+15: expected an address such as https://ufm.example.net"]),
    ("https://ufm", "https://admin:secret@ufm", ["+15: expected an address without an account"]),
    ("per_host", "per_hots", ["+16: unknown key 'per_hots'; did you mean 'per_host'?"]),
]


@pytest.mark.parametrize(("old", "new", "expected"), BAD, ids=[case[1].strip() or "no via" for case in BAD])
def test_a_bad_setting_is_explained(
    folder: Path, inventory_text: str, explained: Explained, old: str, new: str, expected: list[str]
) -> None:
    """Each mistake gives exactly its problems, on its line."""
    assert ALL.count(old) == 1
    path = written(folder, inventory_text, ALL.replace(old, new))
    first = inventory_text.count("\n") + 1
    numbered = [part.split(": ", 1) for part in expected]
    explained(lambda: config.load_inventory(path), [f"{first + int(line)}: {text}" for line, text in numbered])


def test_an_account_in_an_address_is_not_repeated(folder: Path, inventory_text: str) -> None:
    """Messages end in logs."""
    path = written(folder, inventory_text, "changes: {via: gpu1, ufm_url: 'https://admin:secret@ufm'}\n")
    with pytest.raises(Exception, match="expected an address without an account") as caught:
        config.load_inventory(path)
    assert "secret" not in str(caught.value)


def test_hosts_are_looked_up_only_where_all_are_known(folder: Path, inventory_text: str, explained: Explained) -> None:
    """A bad entry of hosts must not make its hosts unknown."""
    text = inventory_text.replace("hosts_per_rack: 2", "hosts_per_rack: two")
    path = written(folder, text, "changes: {via: gpu1}\n")
    explained(lambda: config.load_inventory(path), ["22: expected a whole number from 1 to 100000, got 'two'"])
