"""Links between switches under transfers and collectives: which are crossed, which go down, who reroutes and when."""

import re

import numpy as np
import pytest

from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.sim.hosts.site import Flow
from fabric.sim.net.managers import Forwarding
from fabric.sim.net.network import Ring, network_of
from fabric.sim.tools.nccl_tests.model import rc_timeout_s
from tests.sim.net.pod.conftest import Pod

A = ("gpu000", "gpu002")  # over spine0 by D-mod-K
B = ("gpu001", "gpu003")  # over spine1
T_S = rc_timeout_s(20)
UPLINK = "ibportstate 1 3"  # of the first leaf, to spine0
FAULT_S = 20.05  # asked at 20, done a moment later


def test_who_reroutes_decides_what_is_left_for_whom(pod):
    """After the manager both rings share spine1 on one rail; before, only the one on the dead link stands still."""
    one = pod()
    a, b = one.run(*A), one.run(*B)
    one.ask("gpu001", f"{UPLINK} disable", 20.0)
    assert one.shares(a, 20.1, 34.0) == [0.0, 0.0]
    assert one.share(b) == pytest.approx(1.0)
    # 15 s are four retries: the manager is done at 35.05, the ring goes on at 37.2.
    assert one.shares(b, 37.0, 37.3) == [pytest.approx(1.0), pytest.approx(0.5, rel=0.01)]
    assert one.share(a) == pytest.approx(0.5, rel=0.01)


def test_a_link_that_is_back_is_used_again_after_the_manager_knows(pod):
    """Static routes come back after 15 s more; adaptive ones at once."""
    for engine, shares in ((None, [0.5, 0.5, 1.0]), ("ar", [0.478, 0.956, 0.956])):
        one = pod(engine)
        a, b = one.run(*A), one.run(*B)
        one.ask("gpu001", f"{UPLINK} disable", 20.0)
        one.ask("gpu001", f"{UPLINK} on", 60.0)
        assert one.shares(b, 59.0, 65.0, 80.0) == pytest.approx(shares, rel=0.01)
        assert one.share(a) == one.share(b)


def test_the_manager_takes_as_long_as_the_inventory_says(pod):
    """Half a second is one retry; for ever is an abort after NCCL's window."""
    quick, never = pod(sm_reroute_s=0.5), pod(sm_reroute_s=1e6)
    for one, exit_status, end_s in ((quick, None, FAULT_S + T_S), (never, 3, FAULT_S + 8 * T_S)):
        pid = one.run(*A)
        one.ask("gpu001", f"{UPLINK} disable", 20.0)
        assert [until_s for _, until_s in one.silences(pid, 58.0)] == [pytest.approx(end_s)]
        ended = one.ended.get(pid)
        assert (ended.exit_status if ended else None) == exit_status
    assert "gpu000: Test NCCL failure" in ended.stdout
    assert "status=12" in ended.stdout
    assert "hca mlx5_0" in ended.stdout


def test_a_group_that_has_no_way_at_all_fails(pod):
    """All uplinks of a leaf are closed: who starts then is told at once, who runs after NCCL's patience."""
    one = pod("ar", shield=True)
    pid = one.run("gpu000", "gpu001", "gpu002", "gpu003")
    for port in (3, 4):
        one.ask("gpu001", f"ibportstate 1 {port} disable", 20.0 + port)
    late = one.run(*A, at_s=25.0)
    ended = one.result(pid)
    assert (ended.exit_status, ended.at_s) == (3, pytest.approx(24.05 + 8 * T_S))
    assert one.ended[late].exit_status == 3


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


def hosts_under(kit, units, count=2):
    """*count* hosts in each unit, gpu000 on, each rail on a leaf of its own."""
    platform = kit.platform_like()
    leaves = [tuple(f"u{unit}-leaf{rail}" for rail in range(8)) for unit in range(units)]
    names = [f"gpu{number:03d}" for number in range(units * count)]
    hosts = {
        name: Host(name, platform, f"10.0.0.{number}", None, leaves[number // count])
        for number, name in enumerate(names)
    }
    return leaves, hosts


def test_static_and_adaptive_rings_share_what_there_is(kit):
    """No link carries more than it can, no trunk either; nobody gets nothing."""
    leaves, hosts = hosts_under(kit, 2)
    switches = {name: Switch(name, "leaf") for unit in leaves for name in unit}
    switches |= {name: Switch(name, "spine") for name in ("spine0", "spine1")}
    topology = Topology(hosts, switches, (Uplinks((*leaves[0], *leaves[1]), ("spine0", "spine1"), 1, 400.0),))
    network = network_of(topology, MockSettings(), Forwarding("ftree", adaptive=True), seed=0)
    assert network is not None
    rails = tuple(range(8))
    rings = [
        Ring(("gpu000", "gpu002"), rails, 8.0, adaptive=False),
        Ring(("gpu000", "gpu002"), rails, 8.0, adaptive=False),
        Ring(("gpu001", "gpu003"), rails, 8.0),
    ]
    flows = [Flow((), 3200.0) for _ in rings]
    for flow, ring in zip(flows, rings, strict=True):
        network.begin(flow, ring)
    limits = dict(network.limits_gbps(0.0))
    rates = np.array([min(limits[flow], 3200.0) / 8 for flow in flows])
    assert rates[:2] == pytest.approx([200.0, 200.0])  # one link and one RNIC for both
    assert rates[2] == pytest.approx(0.95 * 800 - 400)
