"""Ports between switches: what a tool does to one shows in the collectives that cross it."""

from __future__ import annotations

import pytest

from fabric.model.inventory import MockSettings
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.sim.world import World

LINE = "mpirun -np 16 -H gpu000:8,gpu002:8 -x NCCL_ALGO=RING all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n 20"
OTHER = LINE.replace("gpu000", "gpu001").replace("gpu002", "gpu003")


def crossing(kit):
    """gpu000 and gpu001 under eight leaves, gpu002 and gpu003 under eight others, two spines with one cable each."""
    leaves = [tuple(f"u{unit}-leaf{rail}" for rail in range(8)) for unit in range(2)]
    platform = kit.platform_like()
    hosts = {f"gpu{n:03d}": Host(f"gpu{n:03d}", platform, f"10.0.0.{n}", None, leaves[n // 2]) for n in range(4)}
    switches = {name: Switch(name, "leaf") for unit in leaves for name in unit}
    switches |= {name: Switch(name, "spine") for name in ("spine0", "spine1")}
    uplinks = (Uplinks((*leaves[0], *leaves[1]), ("spine0", "spine1"), 1, 400.0),)
    return World(Topology(hosts, switches, uplinks), MockSettings(noise_cv=0.0), seed=1)


def both_gbps(kit, world, at_s):
    """Bus bandwidth of two pairs across the leaves at the same time."""
    ended = kit.played(world, [(at_s, "gpu000", LINE), (at_s, "gpu001", OTHER)])
    return [kit.busbw_gbps(one.stdout)[0] for one in ended]


def test_a_closed_uplink_halves_what_two_jobs_get_until_it_is_open_again(kit):
    """Leaf 1 has ports 1 and 2 to its hosts and 3 and 4 to the spines; rerouted, both jobs share what is left."""
    world = crossing(kit)
    healthy = both_gbps(kit, world, 0.0)
    kit.ask(world, "gpu000", "ibportstate 1 3 disable", 1000.0)
    assert "Disabled" in kit.ask(world, "gpu000", "ibportstate 1 3", 1001.0).stdout
    assert both_gbps(kit, world, 1020.0) == pytest.approx([value / 2 for value in healthy], rel=0.05)
    kit.ask(world, "gpu000", "ibportstate 1 3 enable", 2000.0)
    assert both_gbps(kit, world, 2030.0) == healthy


def test_errors_on_an_uplink_slow_the_job_that_crosses_it(kit):
    """Injected by the leaf's LID, for a while; gone when its time has run out."""
    world = crossing(kit)
    healthy = both_gbps(kit, world, 0.0)
    for port in (3, 4):
        write = f"--indexes local_port={port},error_page=0 --yes --set"
        told = "error_type_admin=2,ber_mantissa=1,ber_exp=4,error_injection_time=60000"
        said = kit.ask(world, "gpu000", f"mlxreg -d lid-1 --reg_name PTER {write} {told}", 1000.0 + port)
        assert said.exit_status == 0
    assert max(both_gbps(kit, world, 1010.0)) < 0.5 * healthy[0]
    assert both_gbps(kit, world, 3000.0) == healthy
