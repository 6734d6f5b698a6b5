"""The example files decode to what their comments say."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric import config
from fabric.model.inventory import Fault
from fabric.model.scenario import AllToAllSpec, LoopbackSpec, RnicToRnicSpec, TorAllReduceSpec

ROOT = Path(__file__).parents[2]


def test_the_demo_rack_has_two_faults() -> None:
    """Eight hosts of eight rails under one set of leaves, one slow PCIe path, one slow NVLink."""
    inventory = config.load_inventory(ROOT / "inventory" / "demo-rack.yaml")
    topology = inventory.topology
    assert inventory.backend == "mock"
    assert topology.tor_groups == (tuple(f"gpu{number:03}" for number in range(1, 9)),)
    assert topology.hosts["gpu001"].leaves == tuple(f"su0-leaf{rail}" for rail in range(8))
    assert inventory.mock.faults == (
        Fault("gpu003/mlx5_2->numa1-gpus", "slow", 0.5),
        Fault("gpu006/gpu5:nvlink", "slow", 0.6),
    )


def test_the_healthy_rack_is_the_same_without_faults() -> None:
    """Only the faults and the name differ."""
    healthy = config.load_inventory(ROOT / "inventory" / "demo-rack-healthy.yaml")
    demo = config.load_inventory(ROOT / "inventory" / "demo-rack.yaml")
    assert healthy.mock.faults == ()
    assert healthy.topology == demo.topology
    assert (healthy.ssh, healthy.process) == (demo.ssh, demo.process)


def test_the_h100_layout_has_every_link_class() -> None:
    """Two RNICs and two GPUs behind each of four PCIe switches on two sockets."""
    platform = config.load_inventory(ROOT / "inventory" / "demo-rack.yaml").topology.hosts["gpu001"].platform
    rnic = platform.rnic_by_device["mlx5_2"]
    classes = [platform.link_class(rnic, endpoint) for endpoint in platform.endpoints]
    assert classes == ["mem_local", "mem_remote", "node", "node", "pix", "pix", "sys", "sys", "sys", "sys"]


def test_a_hall_fits_in_sixty_lines() -> None:
    """2,048 hosts, 16,384 RNICs, as many cables again; leaves and spines of 64 ports."""
    path = ROOT / "inventory" / "hall-2048.yaml"
    assert len(path.read_text().splitlines()) < 60
    topology = config.load_inventory(path).topology
    assert len(topology.hosts) == 2048
    assert topology.hosts["gpu2048"].leaves[7] == "su63-leaf7"
    assert topology.hosts["gpu2048"].rack == "r511"
    assert len({id(host.platform) for host in topology.hosts.values()}) == 1
    assert [len(group) for group in topology.tor_groups] == [32] * 64
    ports: dict[str, int] = {}
    for link in topology.links():
        for end in (link.a, link.b):
            ports[end] = ports.get(end, 0) + 1
    assert {count for name, count in ports.items() if name in topology.switches} == {64}


def test_the_self_check_is_the_published_one() -> None:
    """Inside the host first; then, for hosts that passed, all-reduce under the ToR (MegaScale 4.3)."""
    scenario, _ = config.load_scenario(ROOT / "scenarios" / "self-check.yaml")
    assert [(phase.name, phase.needs) for phase in scenario.phases] == [("intra-host", ()), ("tor", ("intra-host",))]
    assert scenario.phases[0].probes == (LoopbackSpec(), RnicToRnicSpec(), AllToAllSpec())
    assert scenario.phases[1].probes == (TorAllReduceSpec(),)
    assert len(scenario.hosts) == 8


@pytest.mark.parametrize("name", ["scenario", "inventory"])
def test_every_key_is_documented(name: str) -> None:
    """docs/*.md names each key of the schema."""
    schema = config.scenario_schema() if name == "scenario" else config.inventory_schema()
    text = (ROOT / "docs" / f"{name}.md").read_text()
    parts = [schema, *schema["$defs"].values()]
    keys = {key for part in parts for key in part.get("properties", {})}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []
