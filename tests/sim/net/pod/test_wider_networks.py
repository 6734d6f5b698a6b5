"""Parallel cables, three levels, and rings of both kinds at once: what small pods do not show."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.sim.hosts.site import Flow
from fabric.sim.net.managers import Forwarding, Routing
from fabric.sim.net.network import Ring, network_of


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
    limits = dict(network.limits_gbps(0.0))
    rates = np.array([min(limits[flow], 3200.0) / 8 for flow in flows])
    assert rates[:2] == pytest.approx([200.0, 200.0])  # one link and one RNIC for both
    assert rates[2] == pytest.approx(0.95 * 800 - 400)
