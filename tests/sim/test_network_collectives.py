"""Collectives between leaves share the network above them; those under one set of leaves never ask for it."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.config import load_inventory
from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.sim.hosts.site import Flow
from fabric.sim.subnet.managers import Forwarding, Routing
from fabric.sim.subnet.network import Ring, network_of
from fabric.sim.tools.nccl_tests.model import PLATFORMS, AllReduce, all_reduce_us
from fabric.sim.what_if import Question, what_if
from fabric.sim.world import World
from tests.places import INVENTORY

POD = INVENTORY / "pod-64.yaml"
A_TO_B = ("gpu000", "gpu002")
C_TO_D = ("gpu001", "gpu003")


def two_units(kit, *, spines: int = 2, joined: bool = True) -> Topology:
    """gpu000 and gpu001 under eight leaves, gpu002 and gpu003 under eight others; every leaf has one cable a spine."""
    leaves = [tuple(f"u{unit}-leaf{rail}" for rail in range(8)) for unit in range(2)]
    platform = kit.platform_like()
    hosts = {f"gpu{n:03d}": Host(f"gpu{n:03d}", platform, f"10.0.0.{n}", None, leaves[n // 2]) for n in range(4)}
    upper = tuple(f"spine{number}" for number in range(spines))
    switches = {name: Switch(name, "leaf") for unit in leaves for name in unit}
    switches |= {name: Switch(name, "spine") for name in upper}
    return Topology(hosts, switches, (Uplinks((*leaves[0], *leaves[1]), upper, 1, 400.0),) if joined else ())


def line(*hosts: str, size: str = "8G", iterations: int = 20, algorithm: str = "RING") -> str:
    """An all-reduce over all GPUs of these hosts."""
    slots = ",".join(f"{host}:8" for host in hosts)
    program = f"all_reduce_perf -b {size} -e {size} -f 2 -g 1 -n {iterations}"
    return f"mpirun -np {8 * len(hosts)} -H {slots} -x NCCL_ALGO={algorithm} -x NCCL_DEBUG=WARN {program}"


def measured(kit, world: World, *lines: str, starts_s: tuple[float, ...] = ()) -> list[float]:
    """Bus bandwidth of each line, Gb/s; all start at once where nothing else is said, on the hosts they begin with."""
    times = starts_s or (0.0,) * len(lines)
    asked = [(at_s, text.split("-H ")[1].split(":")[0], text) for at_s, text in zip(times, lines, strict=True)]
    ended = kit.played(world, asked)
    assert all(one is not None and one.exit_status == 0 for one in ended)
    return [kit.busbw_gbps(one.stdout)[0] for one in ended]


def world(topology: Topology, *faults: Fault, engine: str | None = None) -> World:
    """A world without noise."""
    return World(topology, MockSettings(faults=faults, noise_cv=0.0, routing=engine), seed=1)


def test_alone_the_network_takes_nothing(kit) -> None:
    """A pair across leaves is as fast as a pair under one set of leaves, about 384 GB/s on eight 400G rails."""
    topology = two_units(kit)
    (across,) = measured(kit, world(topology), line(*A_TO_B))
    (below,) = measured(kit, world(topology), line("gpu000", "gpu001"))
    assert across == below == pytest.approx(8 * 382.0, rel=0.01)


def test_under_one_set_of_leaves_no_network_is_made(kit) -> None:
    """The self-check of a hall pays nothing for it."""
    one = world(two_units(kit))
    measured(kit, one, line("gpu000", "gpu001"))
    assert one.rack.timeline.sharing.network is None
    measured(kit, one, line(*A_TO_B))
    assert one.rack.timeline.sharing.network is not None


def test_two_rings_share_one_spine(kit) -> None:
    """Two pairs over one uplink a leaf get half each, however they are routed."""
    both = measured(kit, world(two_units(kit, spines=1)), line(*A_TO_B), line(*C_TO_D))
    assert both == pytest.approx([kit.rings_gbps / 2] * 2, rel=0.01)


def test_rates_change_when_a_ring_ends(kit) -> None:
    """With three times the iterations a ring runs at half for as long as the other takes, then at full: 3 / (1 + 1)."""
    short, long = measured(
        kit, world(two_units(kit, spines=1)), line(*A_TO_B, iterations=20), line(*C_TO_D, iterations=70)
    )
    assert short == pytest.approx(kit.rings_gbps / 2, rel=0.01)
    # 25 and 75 calls with the warm-up: 25 at half take 50 of full, so do the long one's first 25; 50 follow at full.
    assert long == pytest.approx(kit.rings_gbps * 75 / (50 + 50), rel=0.01)


def test_a_killed_ring_lets_go(kit) -> None:
    """What it had goes to the other at once."""
    one = world(two_units(kit, spines=1))
    pids = [one.start(host, tuple(line(host, peer).split()), {}, 0.0) for host, peer in (A_TO_B, C_TO_D)]
    one.advance(6.0)
    (flow,) = set(one.rack.hosts.site("gpu001").flows)
    assert flow.rate_gbps == pytest.approx(flow.ceiling_gbps / 2)
    one.kill(pids[0], 6.0)
    one.advance(6.001)
    assert flow.rate_gbps == flow.ceiling_gbps


@pytest.mark.parametrize(("spine", "slow"), [("spine0", [0.25, 1.0]), ("spine1", [1.0, 0.25])])
def test_a_slow_cable_holds_back_the_ring_on_it(kit, spine: str, slow: list[float]) -> None:
    """One of eight rails at a quarter, in one direction: that ring runs at a quarter, the other at full."""
    fault = Fault(f"{spine}->u1-leaf3", "slow", 0.25)
    assert measured(kit, world(two_units(kit), fault), line(*A_TO_B), line(*C_TO_D)) == pytest.approx(
        [kit.rings_gbps * share for share in slow], rel=0.01
    )


def test_a_broken_cable_is_routed_around(kit) -> None:
    """Both rings then cross the spine that is left, on one rail; every ring goes as fast as its slowest rail."""
    fault = Fault("u1-leaf3--spine0", "broken")
    both = measured(kit, world(two_units(kit), fault), line(*A_TO_B), line(*C_TO_D))
    assert both == pytest.approx([kit.rings_gbps / 2] * 2, rel=0.01)


def test_adaptive_routing_avoids_a_slow_cable(kit) -> None:
    """The trunk of two cables has 1.25 of 2 left, at 95 %: both rings get the same, more than half."""
    fault = Fault("spine0->u1-leaf3", "slow", 0.25)
    both = measured(kit, world(two_units(kit), fault, engine="ar"), line(*A_TO_B), line(*C_TO_D))
    assert both == pytest.approx([kit.rings_gbps * 0.95 * 1.25 / 2] * 2, rel=0.01)


@pytest.mark.parametrize("engine", ["ftree", "ar", "ecmp"])
def test_no_way_is_a_network_error(kit, engine: str) -> None:
    """Without the only spine NCCL gives up, as with a port that is down; hosts under one set of leaves do not care."""
    one = world(two_units(kit, spines=1), Fault("spine0", "broken"), engine=engine)
    (ended,) = kit.played(one, [(0.0, "gpu000", line(*A_TO_B))])
    assert (ended.exit_status, "Got completion from peer" in ended.stdout) == (3, True)
    assert measured(kit, one, line("gpu000", "gpu001"), starts_s=(one.rack.timeline.now_s,))[0] > 3000


def test_no_regular_network_limits_nothing(kit) -> None:
    """Leaves that nothing joins are as if joined by a network that never blocks."""
    both = measured(kit, world(two_units(kit, joined=False)), line(*A_TO_B), line(*C_TO_D))
    assert both == pytest.approx([kit.rings_gbps] * 2, rel=0.01)


@pytest.mark.parametrize("algorithm", ["RING", "TREE"])
def test_many_hosts_go_by_the_tuner(kit, algorithm: str) -> None:
    """Over four hosts the times are those of NCCL's own model."""
    gib = 1 << 30
    (found,) = measured(kit, world(two_units(kit)), line("gpu000", "gpu001", "gpu002", "gpu003", algorithm=algorithm))
    rate_gbps = kit.rings_gbps / 8
    job = AllReduce(32, 4, 8 * rate_gbps, PLATFORMS["h100"])
    wanted_s = all_reduce_us(8 * gib, job, (algorithm.lower(),)) * 1e-6
    assert found == pytest.approx(8 * gib * 8e-9 / wanted_s * 2 * 31 / 32, rel=0.001)


@pytest.mark.parametrize("engine", ["ecmp", "ftree", "ar"])
def test_the_first_moment_is_that_of_simulate(kit, engine: str) -> None:
    """While all 32 pairs of the pod run, each has the share of its rate that ``fabric simulate pairs`` gives it."""
    topology = load_inventory(POD).topology
    one = world(topology, engine=engine)
    names = list(topology.hosts)
    for a, b in zip(names[:32], names[32:], strict=True):
        one.start(a, tuple(line(a, b).split()), {}, 0.0)
    one.advance(5.1)  # launched after 1 s, set up after 4 more
    flows = {flow for name in names[:32] for flow in one.rack.hosts.site(name).flows}
    found = sorted(flow.rate_gbps / flow.ceiling_gbps for flow in flows)
    assert len(found) == 32
    network = network_of(topology, (), Routing(engine))
    assert network is not None
    question = Question("pod", network.net, "infiniband", "pairs", "sorted", tuple(range(64)), (engine,), seeds=1)
    shares = what_if(question).engines[0].shares
    assert [min(found), np.mean(found), np.median(found)] == pytest.approx([shares.least, shares.mean, shares.median])


def test_forwarding_can_change_while_rings_run(kit) -> None:
    """After a change the limits are those of the new state, for the rings that run already too."""
    slow = Fault("spine0->u1-leaf3", "slow", 0.25)
    network = network_of(two_units(kit), (slow,), Routing("ftree"))
    assert network is not None
    flows = [Flow((), 3000.0), Flow((), 3000.0)]
    for flow, hosts in zip(flows, (A_TO_B, C_TO_D), strict=True):
        network.begin(flow, Ring(hosts, tuple(range(8)), 7.5))
    assert [limit for _, limit in network.limits_gbps()] == [750.0, float("inf")]
    network.program(Forwarding("updn", adaptive=True), network.down, 0.0)
    # Half of a trunk of 400 and 100 Gb/s at 95 %, times the ring's ratio.
    assert [limit for _, limit in network.limits_gbps()] == pytest.approx([0.95 * 500 / 2 * 7.5] * 2)


def test_a_ring_waits_while_it_is_cut_off(kit) -> None:
    """Cut for a while it stands still and then goes on: its average says so, and the world comes to rest."""
    one = world(two_units(kit, spines=1))
    pid = one.start("gpu000", tuple(line(*A_TO_B).split()), {}, 0.0)
    one.advance(6.0)
    one.rack.passing.set("spine0", Fault("spine0", "broken"), 6.0)
    one.advance(7.0)
    (flow,) = set(one.rack.hosts.site("gpu000").flows)
    assert (flow.rate_gbps, flow.end_s) == (0.0, None)
    one.rack.passing.set("spine0", None, 7.0)
    (ended,) = one.advance(100.0)
    assert (ended.pid, ended.exit_status) == (pid, 0)
    (found,) = kit.busbw_gbps(ended.stdout)
    assert found < 0.99 * kit.rings_gbps


def test_an_all_to_all_loads_every_uplink(kit) -> None:
    """One spine for two hosts of a unit: of three others two are beyond it, so each RNIC keeps 3/4 of its line."""
    text = line("gpu000", "gpu001", "gpu002", "gpu003").replace("all_reduce", "alltoall")
    wide, narrow = (measured(kit, world(two_units(kit, spines=spines)), text)[0] for spines in (2, 1))
    assert narrow / wide == pytest.approx(0.75, rel=0.02)
