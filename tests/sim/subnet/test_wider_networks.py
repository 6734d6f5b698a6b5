"""Parallel cables, three levels, and rings of both kinds at once: what small pods do not show."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.model.inventory import MockSettings
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.sim.hosts.site import Flow
from fabric.sim.subnet.managers import Forwarding, Routing
from fabric.sim.subnet.network import Ring, network_of
from fabric.sim.world import World

LINE = "mpirun -np 16 -H {0}:8,{1}:8 -x NCCL_ALGO=RING all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n 4000"


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


def parallel(kit):
    """One spine, two cables from each leaf to it: ports 3 and 4."""
    leaves, hosts = hosts_under(kit, 2)
    switches = {name: Switch(name, "leaf") for unit in leaves for name in unit} | {"spine0": Switch("spine0", "spine")}
    return Topology(hosts, switches, (Uplinks((*leaves[0], *leaves[1]), ("spine0",), 2, 400.0),))


def three_levels(kit):
    """Two pods of one unit each: 8 leaves, 2 spines; each spine joins two cores of its own position."""
    leaves, hosts = hosts_under(kit, 2)
    spines = [tuple(f"p{pod}-spine{number}" for number in range(2)) for pod in range(2)]
    cores = [tuple(f"core{number}{letter}" for letter in "ab") for number in range(2)]
    switches = {name: Switch(name, "leaf") for unit in leaves for name in unit}
    switches |= {name: Switch(name, "spine") for pod in spines for name in pod}
    switches |= {name: Switch(name, "core") for pair in cores for name in pair}
    uplinks = tuple(Uplinks(leaves[pod], spines[pod], 1, 400.0) for pod in range(2))
    uplinks += tuple(Uplinks((spines[0][n], spines[1][n]), cores[n], 1, 400.0) for n in range(2))
    return Topology(hosts, switches, uplinks)


def running(world, pid):
    """Its share of what it has alone."""
    world.next_s()
    work = world.rack.timeline.alive[pid].work
    return work.rate_gbps / work.ceiling_gbps


def test_of_parallel_cables_only_the_one_that_is_closed_is_down(kit):
    """Two rings on two cables of one trunk: closing the second cable hits the second ring alone."""
    world = World(parallel(kit), MockSettings(noise_cv=0.0), seed=1)
    pairs = (("gpu000", "gpu002"), ("gpu001", "gpu003"))
    pids = [world.start(one, tuple(LINE.format(one, two).split()), {}, 0.0) for one, two in pairs]
    world.advance(19.0)
    assert [running(world, pid) for pid in pids] == pytest.approx([1.0, 1.0])
    kit.ask(world, "gpu001", "ibportstate 1 4 disable", 20.0)
    assert [running(world, pid) for pid in pids] == pytest.approx([1.0, 0.0])
    world.advance(40.0)
    assert [running(world, pid) for pid in pids] == pytest.approx([0.5, 0.5], rel=0.01)


@pytest.mark.parametrize("shield", [False, True])
def test_a_cable_between_spine_and_core_is_rerouted_like_any_other(kit, shield):
    """Found by the spine's table: the port of its cores that packets to the other pod leave by changes."""
    world = World(three_levels(kit), MockSettings(noise_cv=0.0, shield=shield), seed=1)
    lid, there = (world.rack.ports.cabling.nodes[name].lid for name in ("p0-spine0", "gpu002/mlx5_0"))

    def port(at_s):
        said = kit.ask(world, "gpu000", f"ibroute -n {lid}", at_s).stdout
        return next(line.split()[1] for line in said.splitlines() if line.startswith(f"0x{there:04x}"))

    pid = world.start("gpu000", tuple(LINE.format("gpu000", "gpu002").split()), {}, 5.0)
    world.advance(19.0)
    before = port(19.5)
    assert before in ("009", "010")  # eight leaves below, two cores above
    kit.ask(world, "gpu001", f"ibportstate {lid} {int(before)} disable", 20.0)
    assert running(world, pid) == 0.0
    world.advance(26.0)
    assert (running(world, pid) > 0.0) is shield
    world.advance(38.0)
    assert running(world, pid) > 0.0
    assert {before, port(38.5)} == {"009", "010"}


def test_static_and_adaptive_rings_share_what_there_is(kit):
    """No link carries more than it can, no trunk either; nobody gets nothing."""
    leaves, hosts = hosts_under(kit, 2)
    switches = {name: Switch(name, "leaf") for unit in leaves for name in unit}
    switches |= {name: Switch(name, "spine") for name in ("spine0", "spine1")}
    topology = Topology(hosts, switches, (Uplinks((*leaves[0], *leaves[1]), ("spine0", "spine1"), 1, 400.0),))
    network = network_of(topology, (), Routing(), Forwarding("ftree", adaptive=True))
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
    limits = dict(network.limits_gbps())
    rates = np.array([min(limits[flow], 3200.0) / 8 for flow in flows])
    assert rates[:2] == pytest.approx([200.0, 200.0])  # one link and one RNIC for both
    assert rates[2] == pytest.approx(0.95 * 800 - 400)
