"""Two descriptions of one host: the same parts or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fabric.config import load_inventory
from fabric.judge.repair.identity import Differing, differing
from fabric.model.topology import Host
from tests.places import INVENTORY

HOST = load_inventory(INVENTORY / "demo-rack-healthy.yaml").topology.hosts["gpu003"]


def with_platform(**fields: Any) -> Host:
    """The host with another description of its inside."""
    return replace(HOST, platform=replace(HOST.platform, **fields))


def test_the_same_parts_in_another_place_are_the_same_hardware() -> None:
    elsewhere = replace(HOST, address="10.9.9.9", platform=replace(HOST.platform, baseline="other"))
    assert differing(HOST, elsewhere) == Differing((), ("address", "baseline"))
    assert differing(HOST, HOST) == Differing((), ())


def test_slower_missing_and_other_parts_are_other_hardware() -> None:
    slower = tuple(replace(rnic, line_rate_gbps=100.0) for rnic in HOST.platform.rnics)
    for rnics in (slower, HOST.platform.rnics[1:]):
        assert differing(HOST, with_platform(rnics=rnics)).inside == ("rnics",)
    assert differing(HOST, with_platform(link_layer="other")).inside == ("link_layer",)
