"""Real lldpd in network namespaces: RoCE leaves are found as they are cabled, two exchanged cables are named."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import pytest

from benchmarks.lab.namespaces import ip, until
from fabric.checks.found import discover
from fabric.checks.wiring import wiring
from fabric.config.inventory import load_inventory
from fabric.model.found import FoundFabric
from fabric.model.inventory import Inventory
from fabric.report.written import inventory_text
from fabric.tools import interfaces
from fabric.wiring import make_executor
from tests.places import INVENTORY

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

HOSTS = ("h1", "h2", "h3", "h4")
LEAVES = {"h1": "leaf0", "h2": "leaf0", "h3": "leaf1", "h4": "leaf1"}
PORT = {"h1": "swp1", "h2": "swp2", "h3": "swp1", "h4": "swp2"}
SWAPPED = {"h2": ("leaf1", "swp1"), "h3": ("leaf0", "swp2")}
_INVENTORY = """\
name: lldp
backend: process
process: {{prefix: [{stub}, "{{host}}"]}}
platforms:
  small:
    baseline: h100-ndr
    link_layer: ethernet
    numa_nodes: 1
    rnics: [{{device: mlx5_0, rail: 0, numa: 0, line_rate_gbps: 400}}]
hosts:
  - {{names: "h[1-2]", platform: small, leaves: leaf0}}
  - {{names: "h[3-4]", platform: small, leaves: leaf1}}
switches:
  - {{names: "leaf[0-1]", tier: leaf}}
"""
_STUB = """\
#!/bin/sh
# What comes to host $1: its RDMA files are a folder's, its lldpctl asks the lldpd of its namespace.
host=$1; shift
export FABRIC_LLDP_HOST=$host PATH="{folder}/tools:$PATH"
exec ip netns exec "{prefix}$host" "$@"
"""
_LLDPCTL = """\
#!/bin/sh
exec {lldpctl} -u "{folder}/$FABRIC_LLDP_HOST.sock" "$@"
"""
_FILES = """\
#!/bin/sh
# {name}, with the kernel's RDMA devices as this host has them.
n=$#
while [ $n -gt 0 ]; do
    word=$1; shift
    case $word in /sys/class/infiniband*) word="{folder}/$FABRIC_LLDP_HOST$word" ;; esac
    set -- "$@" "$word"; n=$((n - 1))
done
{real} "$@" | sed "s|{folder}/$FABRIC_LLDP_HOST||"
"""


def _did(argv: tuple[str, ...]) -> bool:
    return subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode == 0


class Leaves:
    """Two leaves and four hosts, each in a namespace of its own with a real lldpd; ``close`` leaves nothing behind."""

    def __init__(self, folder: Path, at: dict[str, tuple[str, str]]) -> None:
        self.folder, self.at = folder, at
        self.prefix = f"lldp{os.getpid()}-"
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Leaves:
        with contextlib.ExitStack() as stack:
            self.socks = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self.socks.chmod(0o755)  # lldpd, as a user of its own, comes back to its socket
            for name in (*HOSTS, "leaf0", "leaf1"):
                ip("netns", "add", self.prefix + name)
                stack.callback(ip, "netns", "delete", self.prefix + name)
            for host, (leaf, port) in self.at.items():
                add = ("link", "add", "eth1", "type", "veth", "peer", "name", port)
                ip("-n", self.prefix + host, *add, "netns", self.prefix + leaf)
                ip("-n", self.prefix + host, "link", "set", "eth1", "up")
                ip("-n", self.prefix + leaf, "link", "set", port, "up")
            for name in (*HOSTS, "leaf0", "leaf1"):
                self._lldpd(name, stack)
            self._tools()
            until(lambda: all(self._hears(host) for host in HOSTS), "every host hears its leaf", timeout_s=90)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def _lldpd(self, name: str, stack: contextlib.ExitStack) -> None:
        """In the foreground; lldpcli gives it its name, and tells it to speak each second, once it runs."""
        sock = self.socks / f"{name}.sock"
        argv = ("ip", "netns", "exec", self.prefix + name, "lldpd", "-d", "-u", str(sock), "-I", "eth1,swp*")
        log_file = self.folder / f"{name}.log"
        with log_file.open("wb") as log:
            daemon = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        stack.callback(self._ended, daemon)
        until(lambda: "resume operations" in log_file.read_text(), f"lldpd of {name} runs", timeout_s=30)
        for words in ("system hostname " + name, "lldp portidsubtype ifname", "lldp tx-interval 1"):
            argv = ("lldpcli", "-u", str(sock), "configure", *words.split())
            until(partial(_did, argv), f"lldpd of {name} takes {words}", timeout_s=30)

    def _ended(self, daemon: subprocess.Popen[bytes]) -> None:
        daemon.terminate()
        daemon.wait(20)

    def _hears(self, host: str) -> bool:
        argv = ("lldpctl", "-u", str(self.socks / f"{host}.sock"), "-f", "json")
        said = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
        heard = interfaces.read_neighbours(said.stdout, said.stderr, said.returncode)
        return [one.switch for one in heard] == [self.at[host][0]]

    def _tools(self) -> None:
        """What a RoCE host shows of its adapter is a folder; no RDMA device is in a namespace."""
        tools = self.folder / "tools"
        tools.mkdir()
        for number, host in enumerate(HOSTS, start=1):
            port = self.folder / host / "sys/class/infiniband/mlx5_0/ports/1"
            (port / "gids").mkdir(parents=True)
            (port / "gid_attrs/ndevs").mkdir(parents=True)
            for name, text in {
                "state": "4: ACTIVE",
                "rate": "400 Gb/sec (4X NDR)",
                "link_layer": "Ethernet",
                "gids/0": f"fe80:0000:0000:0000:0200:00ff:fe00:{number:04x}",
                "gid_attrs/ndevs/0": "eth1",
            }.items():
                (port / name).write_text(f"{text}\n")
        stubs = {"lldpctl": _LLDPCTL.format(lldpctl=shutil.which("lldpctl"), folder=self.socks)}
        for name in ("ls", "grep", "cat"):
            stubs[name] = _FILES.format(name=name, real=shutil.which(name), folder=self.folder)
        for name, text in stubs.items():
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        (self.folder / "reach").write_text(_STUB.format(folder=self.folder, prefix=self.prefix))
        (self.folder / "reach").chmod(0o755)
        (self.folder / "baselines").symlink_to(INVENTORY / "baselines")
        (self.folder / "lldp.yaml").write_text(_INVENTORY.format(stub=self.folder / "reach"))

    def found(self) -> tuple[Inventory, FoundFabric]:
        """The inventory, and what the hosts told by the product's own way of asking."""
        inventory = load_inventory(self.folder / "lldp.yaml")
        with contextlib.closing(make_executor("process", inventory)) as executor:
            return inventory, discover(executor, inventory.topology.hosts, inventory.changes)


@pytest.fixture(autouse=True)
def lldpd(root: None) -> None:
    """Without it there is nobody to hear."""
    if shutil.which("lldpd", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("there is no lldpd")


def test_leaves_are_found_as_they_are_cabled(tmp_path: Path) -> None:
    """What discover writes is the inventory: who is in which leaf, and nothing that nobody said."""
    with Leaves(tmp_path, {host: (LEAVES[host], PORT[host]) for host in HOSTS}) as lab:
        inventory, found = lab.found()
    made = tmp_path / "made.yaml"
    made.write_text(inventory_text(found, name="made", backend="process"))
    hosts = load_inventory(made).topology.hosts
    assert {name: host.leaves for name, host in hosts.items()} == {name: (leaf,) for name, leaf in LEAVES.items()}
    assert {str(cable.b) for cable in found.cables} == {f"{LEAVES[host]} port {PORT[host]}" for host in HOSTS}
    assert "uplinks:" not in made.read_text()
    assert [one.what for one in wiring(found, inventory.topology, HOSTS)] == []


def test_two_exchanged_cables_are_named_with_both_ends(tmp_path: Path) -> None:
    """h2 sits where h3 belongs, and h3 where h2 does: one finding, which says what to swap."""
    with Leaves(tmp_path, {host: (LEAVES[host], PORT[host]) for host in HOSTS} | SWAPPED) as lab:
        inventory, found = lab.found()
    (finding,) = wiring(found, inventory.topology, HOSTS)
    said = f"{finding.what} {finding.advice}"
    assert all(end in said for end in ("h2/mlx5_0", "in leaf1 port swp1", "h3/mlx5_0", "in leaf0 port swp2")), said
