"""A transfer between hosts crosses the links that its routes say, and what is wrong with those slows it."""

from __future__ import annotations

import re

import pytest

from fabric.model.inventory import Fault
from tests.sim.net.pod.conftest import Pod


@pytest.fixture
def measured(kit):
    """Gb/s from one host to another on rail 0 (None: it failed), with faults."""

    def measure(*faults: Fault, source: str = "gpu000", target: str = "gpu002", engine: str | None = None):
        one = Pod(kit, engine, faults=faults)
        told = ["--ib-dev=mlx5_0", "--port=18600", "--size=65536", "--duration=3", "--qp=2", "--report_gbits"]
        server = one.world.start(target, ("ib_write_bw", *told), {}, 0.0)
        one.to(1.0)
        client = one.world.start(source, ("ib_write_bw", *told, target), {}, 1.0)
        one.to(30.0)
        assert {server, client} <= set(one.ended)
        found = re.search(r"^ 65536 +\d+ +\S+ +(\S+)", one.ended[client].stdout, re.MULTILINE)
        return float(found[1]) if found else None

    return measure


def slow(component: str, factor: float = 0.5) -> Fault:
    """Half of its bandwidth is left."""
    return Fault(component, "slow", factor)


def test_the_uplink_on_its_way_slows_it_and_the_other_does_not(measured):
    """By destination: gpu002 is reached over spine0."""
    assert measured(slow("u0-leaf0--spine0")) == pytest.approx(200, rel=0.02)
    assert measured(slow("u0-leaf0--spine1")) == pytest.approx(397.6, abs=0.1)


def test_one_direction_of_a_cable_slows_one_direction(measured):
    assert measured(slow("u0-leaf0->spine0")) == pytest.approx(200, rel=0.02)
    back = [measured(slow("u0-leaf0->spine0"), source="gpu002", target=target) for target in ("gpu000", "gpu001")]
    assert back == [pytest.approx(397.6, abs=0.1)] * 2


def test_hosts_on_one_leaf_never_see_an_uplink(measured):
    assert measured(slow("u0-leaf0--spine0"), slow("spine1"), target="gpu001") == pytest.approx(397.6, abs=0.1)


def test_with_adaptive_routing_both_uplinks_carry_it(measured):
    """Half of one of two links is gone: one transfer finds room on the other."""
    assert measured(slow("u0-leaf0--spine0"), engine="ar") > 290
