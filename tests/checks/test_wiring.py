"""The cables that were found against those of the inventory."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.rack_shapes import SHAPES
from benchmarks.shapes import inventory as drawn_up
from fabric.checks.found import cables_of, discover
from fabric.checks.wiring import wiring
from fabric.config.inventory import load_inventory
from fabric.model.finding import Finding, Severity
from fabric.model.found import FoundCable, FoundFabric
from fabric.model.inventory import Inventory
from fabric.tools.infiniband import ACTIVE, End, PortLine
from fabric.wiring import make_executor
from tests.places import INVENTORY

POD = INVENTORY / "pod-64.yaml"


def looked(path: Path = POD, *faults: str) -> tuple[Inventory, FoundFabric]:
    """What the simulated hosts and switches of an inventory say."""
    inventory = load_inventory(path, extra_faults=faults)
    executor = make_executor("mock", inventory)
    try:
        return inventory, discover(executor, inventory.topology.hosts, inventory.changes)
    finally:
        executor.close()


def findings(inventory: Inventory, found: FoundFabric) -> list[Finding]:
    """Of all hosts."""
    return list(wiring(found, inventory.topology, tuple(inventory.topology.hosts)))


@pytest.fixture(scope="module")
def pod() -> tuple[Inventory, FoundFabric]:
    """64 hosts, 48 switches, 1,024 cables, as the inventory has them."""
    return looked()


@pytest.mark.parametrize("name", ["pod-64.yaml", "demo-rack-healthy.yaml", "mi300x.yaml"])
def test_what_is_as_the_inventory_says_has_no_finding(name: str) -> None:
    """InfiniBand by iblinkinfo, Ethernet by LLDP."""
    inventory, found = looked(INVENTORY / name)
    assert findings(inventory, found) == []
    assert {cable.a.node for cable in found.cables} >= {f"{host}/mlx5_0" for host in inventory.topology.hosts}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_clean_rack_of_any_shape_has_no_finding(shape: str, tmp_path: Path) -> None:
    """Several rails on one leaf, two planes, three levels, leaves that nothing joins, hosts of two kinds."""
    assert findings(*looked(drawn_up(SHAPES[shape], tmp_path, "clean"))) == []


def test_exchanged_cables_are_each_named_with_both_ends(pod: tuple[Inventory, FoundFabric]) -> None:
    """Two cables of RNICs or of switches, drawn at random: one finding, about these two and nothing else."""
    inventory, whole = pod
    draw = random.Random(501)
    cables = list(whole.cables)
    for _ in range(25):
        kind = draw.random() < 0.5
        same = [at for at, cable in enumerate(cables) if ("/" in cable.a.node) == kind]
        one, two = draw.sample(same, 2)
        while cables[one].b.node == cables[two].b.node or (not kind and cables[one].a.node == cables[two].a.node):
            one, two = draw.sample(same, 2)
        swapped = list(cables)
        swapped[one], swapped[two] = (replace(cables[one], b=cables[two].b), replace(cables[two], b=cables[one].b))
        (found,) = findings(inventory, replace(whole, cables=tuple(swapped)))
        assert found.severity is Severity.PROBLEM
        assert "exchanged" in found.what
        for end in (cables[one].a.node, cables[two].a.node, cables[one].b.node, cables[two].b.node):
            assert end in f"{found.what} {found.advice}"


WRONG = {
    "gpu003/mlx5_2:port:swapped": "the cables of gpu003/mlx5_2 (in su0-leaf3 port 3) and gpu003/mlx5_3",
    "su0-leaf3--spine02:swapped": "cables are exchanged: one of su0-leaf3 ports",
    "gpu007/mlx5_1:broken": "gpu007/mlx5_1 has no link: its cable to su0-leaf1 is missing or down",
    "su1-leaf3--spine02:broken": "1 cable between su1-leaf3 and spine02 missing or down",
    "gpu011/mlx5_4:port:half_width": "gpu011/mlx5_4 in su0-leaf4 port 11 runs at 200 Gb/s, not at 400",
    "gpu009/mlx5_4:outdated": "mlx5_4 has firmware 28.39.3560, 63 others have",
    "gpu012/mlx5_5:absent": "no RNIC gpu012/mlx5_5 on the host",
}


def test_each_kind_of_wrong_cable_is_named() -> None:
    """By the tools of the simulated hosts, all at once: one finding each, and nothing else is."""
    found = [one.what for one in findings(*looked(POD, *WRONG))]
    assert len(found) == len(WRONG), found
    assert [words for words in WRONG.values() if not any(words in what for what in found)] == []


def test_two_hosts_in_each_others_rack_are_one_finding(pod: tuple[Inventory, FoundFabric]) -> None:
    """Sixteen cables in wrong leaves are two hosts that changed places."""
    inventory, whole = pod
    at = {cable.a.node: cable.b for cable in whole.cables}

    def moved(cable: FoundCable) -> FoundCable:
        host, _, device = cable.a.node.partition("/")
        other = {"gpu001": "gpu033", "gpu033": "gpu001"}.get(host)
        return replace(cable, b=at[f"{other}/{device}"]) if other else cable

    (found,) = findings(inventory, replace(whole, cables=tuple(map(moved, whole.cables))))
    assert found.what == "gpu001 and gpu033 are in each other's leaves"


def test_a_host_that_tells_nothing_is_unknown_and_never_right() -> None:
    """What the switches call its cables is a hint, no proof."""
    found = findings(*looked(POD, "gpu005:hanging"))
    assert {one.severity for one in found} == {Severity.UNKNOWN}
    assert {host for one in found for host in one.hosts} == {"gpu005"}


def test_a_switch_that_calls_itself_like_a_host_is_named_by_its_guid() -> None:
    """An inventory has each name once, and no cable of a host leads to that host."""
    _, found = looked(INVENTORY / "demo-rack-healthy.yaml")
    leaf, spine = End(1, "gpu001", 1, 1), End(2, "spine0", 2, 1)
    lines = [
        PortLine(replace(end, port=port), "4X 106.25 Gbps", ACTIVE, None) for end in (leaf, spine) for port in (2, 3)
    ]
    lines.append(PortLine(leaf, "4X 106.25 Gbps", ACTIVE, spine))
    cables, switches, _ = cables_of(lines, found.hosts)
    assert switches == {"switch-0000000000000001", "spine0"}
    assert [cable.a.node for cable in cables] == ["switch-0000000000000001"]


def test_two_hosts_with_one_guid_are_named_together(pod: tuple[Inventory, FoundFabric]) -> None:
    """A board whose firmware was copied: its cable is not to be known, and that is why."""
    inventory, whole = pod
    copied = whole.hosts["gpu001"].rnics[0].guid
    host = whole.hosts["gpu002"]
    hosts = {**whole.hosts, "gpu002": replace(host, rnics=(replace(host.rnics[0], guid=copied), *host.rnics[1:]))}
    (found,) = findings(inventory, replace(whole, hosts=hosts))
    assert "gpu001/mlx5_0 and gpu002/mlx5_0 have the same GUID" in found.what
    assert found.hosts == ("gpu001", "gpu002")


def test_an_adapter_of_nobody_is_a_warning(pod: tuple[Inventory, FoundFabric]) -> None:
    """Its host is missing in the inventory."""
    inventory, whole = pod
    (found,) = findings(inventory, replace(whole, unknown_adapters=frozenset({"storage01 HCA-1"})))
    assert (found.severity, "storage01 HCA-1" in found.what) == (Severity.WARNING, True)
