"""Two descriptions of one host: the same parts or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fabric.config import load_inventory
from fabric.judge.compare.identity import other_hardware, otherwise_described
from fabric.model.topology import Host
from tests.places import INVENTORY

HOST = load_inventory(INVENTORY / "demo-rack-healthy.yaml").topology.hosts["gpu003"]


def with_platform(**fields: Any) -> Host:
    """The host with another description of its inside."""
    return replace(HOST, platform=replace(HOST.platform, **fields))


def test_the_same_parts_in_another_place_are_the_same_hardware() -> None:
    elsewhere = replace(HOST, address="10.9.9.9", platform=replace(HOST.platform, baseline="other"))
    assert other_hardware(HOST, elsewhere) == ()
    assert otherwise_described(HOST, elsewhere) == (
        f"{HOST.name}: address was {HOST.address}, is 10.9.9.9",
        f"{HOST.name}: baseline was {HOST.platform.baseline}, is other",
    )
    assert otherwise_described(HOST, HOST) == ()


def test_a_slower_rnic_is_other_hardware() -> None:
    slower = tuple(replace(rnic, line_rate_gbps=100.0) for rnic in HOST.platform.rnics)
    (said,) = other_hardware(HOST, with_platform(rnics=slower))
    first = HOST.platform.rnics[0]
    assert f"{first.device}: line_rate_gbps was {first.line_rate_gbps}, is 100.0" in said


def test_parts_that_are_gone_or_new_are_named() -> None:
    less = with_platform(rnics=HOST.platform.rnics[1:])
    assert f"{HOST.platform.rnics[0].device} is not described any more" in other_hardware(HOST, less)[0]
    assert f"{HOST.platform.rnics[0].device} was not described then" in other_hardware(less, HOST)[0]


def test_another_link_layer_is_other_hardware() -> None:
    (said,) = other_hardware(HOST, with_platform(link_layer="other"))
    assert said.endswith(f"link_layer was {HOST.platform.link_layer}, is other")
