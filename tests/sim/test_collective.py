"""The nccl-tests programs of the simulated rack, inside hosts, between leaves, and by NCCL's own numbers."""

import re
from itertools import pairwise

import numpy as np
import pytest

from fabric.config.inventory import load_inventory
from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY
from fabric.sim.net.managers import Forwarding
from fabric.sim.net.network import network_of
from fabric.sim.phy.qos import SHORT_TIMEOUTS
from fabric.sim.tools.nccl_tests.model import LEAST_TIMEOUT, PLATFORMS, AllReduce, all_reduce_us
from fabric.sim.what_if import Question, what_if
from fabric.sim.world import World
from tests.places import CAPTURES, INVENTORY

ALL_TO_ALL = "alltoall_perf -b 1G -e 8G -f 2 -g 8"
RING = (
    "mpirun -np 16 -H gpu001:8,gpu002:8 -x NCCL_ALGO=RING -x NCCL_DEBUG=WARN "
    "--map-by ppr:8:node all_reduce_perf -b 8G -e 8G -g 1"
)
TREE = RING.replace(" -x NCCL_ALGO=RING", "")


def one(kit, line, *faults, env=None, **settings):
    """What became of one command on gpu001."""
    (ended,) = kit.played(kit.world(*faults, **settings), [(0.0, "gpu001", line)], env)
    return ended


@pytest.mark.parametrize(
    ("baseline", "line_rate_gbps", "least", "most"),
    [("h100-ndr", 400.0, 2700, 2750), ("a100-hdr", 200.0, 1830, 1870), ("b200", 800.0, 5400, 5500)],
)
def test_all_to_all_inside_a_host_by_generation(kit, baseline, line_rate_gbps, least, most):
    """At 8 GiB the bus bandwidth is what such hosts were recorded to give; larger sizes are faster."""
    platform = kit.platform_like(baseline=baseline, line_rate_gbps=line_rate_gbps)
    values = kit.busbw_gbps(one(kit, ALL_TO_ALL, platform=platform).stdout)
    assert len(values) == 4
    assert values == sorted(values)
    assert least <= values[-1] <= most


def test_a_slow_rail_shows_over_rings_and_hides_in_a_tree(kit):
    """Over rings one rail at 0.7 is seen at once, in a tree NVLink is the bottleneck anyhow."""
    for fault in (Fault("gpu002/mlx5_4", "slow", 0.7), Fault("leaf4", "slow", 0.7), Fault("gpu002/gpu4", "slow", 0.7)):
        (ring,) = kit.busbw_gbps(one(kit, RING, fault).stdout)
        (tree,) = kit.busbw_gbps(one(kit, TREE, fault).stdout)
        assert ring == pytest.approx(0.7 * kit.rings_gbps, rel=0.01)
        assert tree == pytest.approx(3720, rel=0.01)
    (healthy,) = kit.busbw_gbps(one(kit, RING).stdout)
    assert healthy == pytest.approx(kit.rings_gbps, rel=0.01)


def test_ib_hca_selects_by_prefix_unless_exact(kit):
    """``NCCL_IB_HCA==mlx5_1:1`` is one rail of eight; two hosts then carry an eighth."""
    (value,) = kit.busbw_gbps(one(kit, RING.replace("-x ", "-x NCCL_IB_HCA==mlx5_1:1 -x ")).stdout)
    assert value == pytest.approx(kit.rings_gbps / 8, rel=0.01)


def test_the_printed_average_is_the_mean_of_the_cells(kit):
    """It can serve as the checksum that it is: within 0.004 GB/s, with noise too."""
    stdout = one(kit, RING.replace("-b 8G -e 8G", "-b 1M -e 8G -f 2"), noise_cv=0.01).stdout
    rows = [line.split() for line in stdout.splitlines() if re.match(r" +\d+ +\d+ ", line)]
    assert len(rows) == 14
    cells = [float(row[place]) for row in rows for place in (-6, -2)]
    printed = float(re.search(r"Avg bus bandwidth    : (\S+) \n", stdout)[1])
    assert abs(sum(cells) / len(cells) - printed) <= 0.004


@pytest.mark.parametrize(
    ("fault", "line", "status", "said"),
    [
        (Fault("gpu001/gpu3", "broken"), ALL_TO_ALL, 2, "gpu001: Test CUDA failure common.cu"),
        (Fault("gpu001/gpu3", "absent"), ALL_TO_ALL, 5, "8 requested but only 7 were found"),
        (Fault("gpu001/gpu3:nvlink", "broken"), ALL_TO_ALL, 3, "gpu001: Test NCCL failure common.cu"),
        (Fault("gpu002/mlx5_5", "broken"), RING, 3, "with status=12 opcode"),
        (Fault("gpu002", "broken"), RING, 1, "gpu002 port 22: No route to host"),
        (Fault("gpu002", "absent"), RING, 1, "unable to reliably start"),
    ],
)
def test_failures_name_the_host(kit, fault, line, status, said):
    """The tool's own failure text and exit code; whose fault it is can be read from it."""
    ended = one(kit, line, fault)
    assert ended.exit_status == status
    assert said in ended.stdout + ended.stderr
    if fault.component.startswith("gpu002/"):
        assert "gpu002: Test NCCL failure" in ended.stdout


@pytest.mark.parametrize(
    ("asked", "version", "warned"),
    [("", False, False), ("VERSION", True, False), ("WARN", True, True), ("info", True, True), ("loud", False, False)],
)
def test_nccl_warns_only_where_it_is_told_to(kit, asked: str, version: bool, warned: bool) -> None:
    """As src/debug.cc of NCCL: no level where NCCL_DEBUG is not set, and then a dead rail is just "a network error"."""
    line = RING.replace("-x NCCL_DEBUG=WARN", f"-x NCCL_DEBUG={asked}" if asked else "")
    said = one(kit, line, Fault("gpu002/mlx5_5", "broken")).stdout
    assert ("NCCL version " in said, "status=12" in said) == (version, warned)
    assert "or there was a network error" in said


@pytest.mark.parametrize("component", ["gpu001/gpu3", "gpu002/mlx5_0", "gpu002"])
def test_hanging_parts_hang_the_collective(kit, component):
    """It never ends; a kill ends it."""
    world = kit.world(Fault(component, "hanging"))
    assert kit.played(world, [(0.0, "gpu001", RING)]) == [None]
    world.kill(1, 99.0)
    assert [event.exit_status for event in world.advance(100.0)] == [137]


def test_tags_mark_every_line(kit):
    """``mpirun --tag-output`` writes rank and stream before each line."""
    stdout = one(kit, RING.replace("-np", "--tag-output -np")).stdout
    assert all(line.startswith("[1,0]<stdout>:") for line in stdout.splitlines())


def test_the_frame_is_that_of_the_real_tool(kit):
    """Version, column header and closing lines are those of a recorded 2.17.8 run, to the blank."""
    recorded = (CAPTURES / "nccl-tests" / "23-h100-single-node-nccl_N1_G4_cnode3-003.txt").read_text()
    start = recorded.index("# Collective test starting: alltoall_perf")
    theirs = recorded[start : recorded.index("# Collective test concluded: alltoall_perf") + 45].splitlines()
    ours = one(kit, "alltoall_perf -b 32M -e 16G -f 2 -g 4").stdout.splitlines()
    assert ours[0] == recorded.splitlines()[0]
    header = [line for line in theirs if line.startswith("#  ")][4:]
    assert [line for line in ours if line.startswith("#  ")][4:] == header
    assert [line.split("Pid")[0] for line in ours if "Rank" in line] == [
        line.split("Pid")[0] for line in theirs if "Rank" in line
    ]
    theirs_rows = [line for line in theirs if re.match(r" +\d", line)]
    ours_rows = [line for line in ours if re.match(r" +\d", line)]
    assert [line[:14] for line in ours_rows] == [line[:14] for line in theirs_rows]  # theirs are doubles
    assert [len(line) for line in ours_rows] == [len(line) for line in theirs_rows]


NIC_GBPS = 48.5 * 8
GIB = 1 << 30
SWEEP_BYTES = tuple(8 << step for step in range(32))


def job(hosts, *, platform="h100", rate_gbps=NIC_GBPS):
    """Eight GPUs and RNICs a host."""
    return AllReduce(8 * hosts, hosts, 8 * rate_gbps, PLATFORMS[platform])


def busbw(size_bytes, one, **more):
    """Bus bandwidth in GB/s, as nccl-tests prints it."""
    return size_bytes * 1e-3 / all_reduce_us(size_bytes, one, **more) * 2 * (one.ranks - 1) / one.ranks


@pytest.mark.parametrize(("hosts", "expected"), [(2, 386), (8, 381), (64, 337), (512, 175), (2048, 66)])
def test_rings_collapse_with_scale(hosts, expected):
    """H100, 8x400G: all-reduce over rings at 8 GiB, from 386 GB/s on 2 hosts to 66 on 2,048."""
    found = busbw(8 * GIB, job(hosts), algorithms=("ring",), protocols=("simple",))
    assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("hosts", "expected"), [(512, 302), (2048, 301)])
def test_trees_do_not(hosts, expected):
    """Trees keep 302 and 301 GB/s on 512 and 2,048 hosts, and are what is chosen there."""
    assert all_reduce_us(8 * GIB, job(hosts)) == all_reduce_us(8 * GIB, job(hosts), ("tree",))
    assert busbw(8 * GIB, job(hosts)) == pytest.approx(expected, rel=0.01)


def test_one_host():
    """Over rings on one host an H100 gives 367 GB/s, an A100 230."""
    assert busbw(16 * GIB, job(1, platform="a100")) == pytest.approx(231, rel=0.01)
    assert busbw(16 * GIB, job(1), algorithms=("ring",)) == pytest.approx(367, rel=0.02)


@pytest.mark.parametrize("hosts", [1, 2, 3, 64, 512])
def test_the_usual_sweep(hosts):
    """From 8 B to 16 GiB time never falls and bus bandwidth stays below what the wires carry."""
    times = [all_reduce_us(size, job(hosts)) for size in SWEEP_BYTES]
    assert all(one <= other for one, other in pairwise(times))
    assert times[0] > 5.0
    assert all(busbw(size, job(hosts)) <= (470 if hosts == 1 else 388) for size in SWEEP_BYTES)


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
    network = network_of(topology, MockSettings(), Forwarding(engine), seed=0)
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


@pytest.mark.parametrize(("short", "timeout"), [(("gpu001", "gpu002"), 10), (("gpu001",), LEAST_TIMEOUT)])
def test_a_job_has_the_least_timeout_of_all_its_hosts(kit, short: tuple[str, ...], timeout: int) -> None:
    """RoCE RNICs have one unless it was lifted, on every host."""
    platform = kit.platform_like(link_layer="ethernet")
    world = kit.world(platform=platform)
    for host in short:
        for rnic in platform.rnics:
            world.rack.ports.of_adapter(host, rnic.device).registers[SHORT_TIMEOUTS] = 1
    line = RING.replace("-x NCCL_ALGO=RING", "-x NCCL_ALGO=RING -x NCCL_IB_TIMEOUT=10")
    world.start("gpu001", tuple(line.split()), {}, 0.0)
    site = world.rack.hosts.site("gpu001")
    while not site.flows:
        world.advance(world.next_s())
    assert next(iter(site.flows)).timeout == timeout
