"""The nccl-tests programs of the simulated rack, and all-reduces by NCCL's own numbers."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from fabric.model.inventory import Fault
from fabric.sim.tools.nccl_tests.model import PLATFORMS, AllReduce, all_reduce_us
from tests.places import CAPTURES

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
    """On one host NVLS gives an H100 465 GB/s (Azure accepts 460); an A100 has none and gives 230."""
    assert busbw(16 * GIB, job(1)) == pytest.approx(465, rel=0.01)
    assert all_reduce_us(16 * GIB, job(1)) == all_reduce_us(16 * GIB, job(1), ("nvls",))
    assert busbw(16 * GIB, job(1, platform="a100")) == pytest.approx(231, rel=0.01)
    assert busbw(16 * GIB, job(1), algorithms=("ring",)) == pytest.approx(367, rel=0.02)


def test_two_hosts_hide_a_slow_network_from_nvls_trees():
    """On two hosts NVLSTree's bus bandwidth exceeds what the RNICs carry: judge the network with rings."""
    assert busbw(8 * GIB, job(2), algorithms=("nvls_tree",)) == pytest.approx(464, rel=0.01)
    assert busbw(8 * GIB, job(2), algorithms=("ring",)) < 388


@pytest.mark.parametrize("hosts", [1, 2, 3, 64, 512])
def test_the_usual_sweep(hosts):
    """From 8 B to 16 GiB time never falls and bus bandwidth stays below what the wires carry."""
    times = [all_reduce_us(size, job(hosts)) for size in SWEEP_BYTES]
    assert all(one <= other for one, other in pairwise(times))
    assert times[0] > 5.0
    assert all(busbw(size, job(hosts)) <= (470 if hosts == 1 else 388) for size in SWEEP_BYTES)
