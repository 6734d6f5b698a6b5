"""Collectives between leaves share the network above them; from RNIC to RNIC of one host over a spine."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.config import load_inventory
from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY
from fabric.sim.net.managers import Routing
from fabric.sim.net.network import network_of
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


@pytest.mark.parametrize(("spine", "slow"), [("spine0", [0.25, 1.0]), ("spine1", [1.0, 0.25])])
def test_a_slow_cable_holds_back_the_ring_on_it(kit, spine: str, slow: list[float]) -> None:
    """One of eight rails at a quarter, in one direction: that ring runs at a quarter, the other at full."""
    fault = Fault(f"{spine}->u1-leaf3", "slow", 0.25)
    assert measured(kit, world(two_units(kit), fault), line(*A_TO_B), line(*C_TO_D)) == pytest.approx(
        [kit.rings_gbps * share for share in slow], rel=0.01
    )


@pytest.mark.parametrize("engine", ["ftree", "ar", "ecmp"])
def test_no_way_is_a_network_error(kit, engine: str) -> None:
    """Without the only spine NCCL gives up, as with a port that is down; hosts under one set of leaves do not care."""
    one = world(two_units(kit, spines=1), Fault("spine0", "broken"), engine=engine)
    (ended,) = kit.played(one, [(0.0, "gpu000", line(*A_TO_B))])
    assert (ended.exit_status, "Got completion from peer" in ended.stdout) == (3, True)
    assert measured(kit, one, line("gpu000", "gpu001"), starts_s=(one.rack.timeline.now_s,))[0] > 3000


@pytest.mark.parametrize("engine", ["ftree", "ar"])  # a hash draws, so no two draws are alike
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


def test_an_all_to_all_loads_every_uplink(kit) -> None:
    """One spine for two hosts of a unit: of three others two are beyond it, so each RNIC keeps 3/4 of its line."""
    text = line("gpu000", "gpu001", "gpu002", "gpu003").replace("all_reduce", "alltoall")
    wide, narrow = (measured(kit, world(two_units(kit, spines=spines)), text)[0] for spines in (2, 1))
    assert narrow / wide == pytest.approx(0.75, rel=0.02)


LINE_GBPS = 400.0 * RNIC_EFFICIENCY


def crossing(kit, *faults: Fault, engine: str | None = None, spines: int = 2) -> list[str]:
    """What two hosts print that both send from mlx5_0 to mlx5_1 at once; their leaves have *spines* cables each."""
    bare = kit.topology_of(2, kit.platform_like())
    leaves = tuple(dict.fromkeys(bare.hosts["gpu001"].leaves))
    upper = tuple(f"spine{number}" for number in range(spines))
    switches = {**bare.switches, **{name: bare.switches[leaves[0]].__class__(name, "spine") for name in upper}}
    topology = bare.__class__(bare.hosts, switches, (Uplinks(leaves, upper, 1, 400.0),))
    world = World(topology, MockSettings(faults=faults, noise_cv=0.0, routing=engine), seed=1)
    base = "ib_write_bw --port=18600 --size=65536 --qp=2 --duration=5 --report_gbits --ib-dev="
    servers = [(0.0, host, f"{base}mlx5_1") for host in bare.hosts]
    clients = [(1.0, host, f"{base}mlx5_0 127.0.0.1") for host in bare.hosts]
    return [one.stdout + one.stderr for one in kit.played(world, servers + clients)[2:]]


@pytest.mark.parametrize(("engine", "share"), [(None, 1.0), ("ar", 0.95)])
def test_all_hosts_at_once_fill_the_uplinks(kit, engine: str | None, share: float) -> None:
    """Static routes in order collide nowhere; adaptive ones leave each flow 0.95, as `fabric simulate` says."""
    found = [kit.bandwidth_gbps(text) for text in crossing(kit, engine=engine)]
    assert found == pytest.approx([share * LINE_GBPS] * 2, rel=0.002)


def test_without_the_only_spine_retries_run_out(kit) -> None:
    """Status 12, as of a port that is down."""
    assert all("Failed status 12" in text for text in crossing(kit, Fault("spine0", "broken"), spines=1))
