"""The world as its users see it: small programs, files of hosts, faults and their kinds, settings of real sites."""

import re
from dataclasses import replace
from statistics import mean, pstdev

import pytest

from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Gpu, Host, Platform, Rnic, Switch, Topology
from fabric.probes import sources
from fabric.sim.faults import KINDS, faults_by_host, require_passing
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY
from fabric.sim.tools.nccl_tests.model import RAIL_RATIO
from fabric.sim.world import World
from fabric.tools.sysfs import IDENTITY, OF_PORT
from tests.places import CAPTURES


def repeated(kit, count, **settings):
    """The bandwidths of the same loopback, again and again in one world."""
    world = kit.world(**settings)
    lines = [line for number in range(count) for line in kit.pair(10.0 * number, "gpu001", "mlx5_0", port=9)]
    return [kit.bandwidth_gbps(ended.stdout) for ended in kit.played(world, lines)[1::2]]


def test_noise_has_the_asked_spread_and_repeats_with_the_seed(kit):
    """The same seed gives the same series; its coefficient of variation is the one asked for."""
    first = repeated(kit, 300, noise_cv=0.01, seed=5)
    assert first == repeated(kit, 300, noise_cv=0.01, seed=5)
    assert first != repeated(kit, 300, noise_cv=0.01, seed=6)
    assert pstdev(first) / mean(first) == pytest.approx(0.01, rel=0.15)
    assert mean(first) == pytest.approx(kit.alone_gbps, rel=0.002)
    assert set(repeated(kit, 3)) == {kit.alone_gbps}


@pytest.mark.parametrize(
    ("line", "status", "stdout", "stderr"),
    [
        ("true", 0, "", ""),
        ("false", 1, "", ""),
        ("echo a  b", 0, "a b\n", ""),
        ("hostname", 0, "gpu001\n", ""),
        ("uname -n", 0, "gpu001\n", ""),
        ("uname", 0, "Linux\n", ""),
        ("env X=1 numactl -N 0 -m 0 echo $X", 0, "$X\n", ""),
        ("mpirun -np 2 -H gpu001,gpu003 hostname", 0, "gpu001\ngpu003\n", ""),
        ("srun -N2 -n2 -w gpu[002-003] -l hostname", 0, "0: gpu002\n1: gpu003\n", ""),
        ("srun -w gpu004 hostname", 0, "gpu004\n", ""),
        ("mlxburn -x", 127, "", "bash: line 1: mlxburn: command not found\n"),
        ("ib_write_bw --version", 1, "Version: 6.29\n", ""),
    ],
)
def test_small_programs(kit, line, status, stdout, stderr):
    """What a shell user expects of them."""
    (ended,) = kit.played(kit.world(), [(0.0, "gpu001", line)])
    assert (ended.exit_status, ended.stdout, ended.stderr) == (status, stdout, stderr)


def test_dead_hosts_are_unreachable(kit):
    """Broken: no route; absent or unknown: no such name; a command on them is the caller's mistake."""
    world = kit.world(Fault("gpu001", "broken"), Fault("gpu002", "absent"))
    assert world.unreachable("gpu001") == "No route to host"
    assert world.unreachable("gpu002") == world.unreachable("gpu999") == "Name or service not known"
    assert world.unreachable("gpu003") is None
    with pytest.raises(ValueError, match="No route"):
        world.start("gpu001", ("true",), {}, 0.0)


def test_garbage_and_hanging_hosts(kit):
    """A garbage host says the same nonsense to everything with exit 0; a hanging one says nothing."""
    world = kit.world(Fault("gpu001", "garbage"), Fault("gpu002", "hanging"))
    first, second, third = kit.played(
        world, [(0.0, "gpu001", "true"), (0.0, "gpu001", "hostname"), (0.0, "gpu002", "true")]
    )
    assert first.stdout == second.stdout
    assert "\x00" in first.stdout
    assert first.exit_status == 0
    assert third is None


def recorded(name):
    """A recorded output."""
    path = CAPTURES / name
    return path.read_text()


def test_sysfs_has_the_recorded_files(kit):
    """Every file that is asked of a device or of its port is there, states and rates in the kernel's words."""
    lines = recorded("sysfs/01-real-h100-mlx5_0-sysfs.txt").splitlines()
    values = dict(line.removeprefix("mlx5_0/").split(": ", 1) for line in lines if line.startswith("mlx5_0/"))
    of_port = (*OF_PORT, "phys_state", *(f"counters/{name}" for name in sources.COUNTERS))
    world = kit.world()
    for at_s, name in enumerate((*IDENTITY, *(f"ports/1/{name}" for name in of_port)), 1):
        said = kit.ask(world, "gpu001", f"cat /sys/class/infiniband/mlx5_0/{name}", float(at_s))
        assert (said.exit_status == 0) is ("ndevs" not in name), name
        if name in values and "counters" not in name:
            assert said.stdout == f"{values[name]}\n"


def test_ip_link_looks_like_the_recorded_one(kit):
    """The two lines of an interface; a cable that is out shows NO-CARRIER."""
    platform = kit.platform_like(link_layer="ethernet")
    world = kit.world(Fault("gpu001/mlx5_1", "broken"), platform=platform)
    first, second = recorded("ethtool/01-ip-s-link-eth2.txt").splitlines()[:2]
    form = re.sub(r"\d+: \w+(@\w+)?|mtu \d+|qdisc \w+", "", first)
    said = kit.ask(world, "gpu001", "ip link show eth1", 1.0).stdout.splitlines()
    assert re.sub(r"\d+: \w+(@\w+)?|mtu \d+|qdisc \w+", "", said[0]) == form
    assert re.fullmatch(r"    link/ether ([0-9a-f]{2}:){5}[0-9a-f]{2} brd (ff:){5}ff", said[1])
    assert second.startswith("    link/ether ")
    lost = kit.ask(world, "gpu001", "ip link show dev eth2", 2.0).stdout
    assert "<NO-CARRIER,BROADCAST,MULTICAST,UP>" in lost
    assert "state DOWN" in lost
    missing = kit.ask(world, "gpu001", "ip link set eth77 down", 3.0)
    assert (missing.stderr, missing.exit_status) == ('Cannot find device "eth77"\n', 1)


def test_ethtool_counts_corrected_bits_by_lane(kit):
    """The sum of the lanes is the whole, and what was received shows."""
    platform = kit.platform_like(link_layer="ethernet")
    world = kit.world(platform=platform)
    server, client = kit.pair(0.0, "gpu001", "mlx5_0", port=18600)
    ended = kit.played(world, [server, (1.0, "gpu002", client[2].replace("localhost", "10.0.0.1"))])
    said = kit.ask(world, "gpu001", "ethtool -S eth1", 60.0).stdout
    found = {name: int(value) for name, value in re.findall(r"^     (\w+): (\d+)$", said, re.MULTILINE)}
    assert found["rx_corrected_bits_phy"] == sum(found[f"rx_err_lane_{lane}_phy"] for lane in range(4)) > 0
    assert found["rx_crc_errors_phy"] == found["rx_symbol_err_phy"] == 0
    assert found["rx_bytes_phy"] == pytest.approx(kit.bandwidth_gbps(ended[1].stdout) * 5e9 / 8, rel=1e-3)


def test_a_gpu_that_fell_off_the_bus_is_not_listed(kit):
    """The others move up, as with the real tool."""
    world = kit.world(Fault("gpu001/gpu2", "absent"))
    assert kit.ask(world, "gpu001", "nvidia-smi --query-gpu=uuid --format=csv,noheader", 1.0).stdout.count("GPU-") == 7


PARTS = {"host": "gpu001", "rnic": "gpu001/mlx5_0", "gpu": "gpu001/gpu0", "part": "gpu001/numa0"}
PARTS |= {"cable": "gpu001/mlx5_0:port", "leaf": "leaf1"}


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_has_the_kinds_that_the_table_gives_it(kit, part):
    """Every other kind is refused, with those that are possible."""
    topology = kit.topology_of(2, kit.platform_like())
    component = PARTS[part] if part != "leaf" else next(iter(topology.switches))
    for kind in KINDS:
        fault = Fault(component, kind, 0.5)
        if part in KINDS[kind].parts.split():
            assert "gpu001" in faults_by_host(topology, (fault,))
        else:
            with pytest.raises(ValueError, match=f"cannot be '{kind}'; it can be "):
                faults_by_host(topology, (fault,))


def test_what_comes_over_a_running_rack_is_checked_too(kit):
    """A lemon is no GPU."""
    topology = kit.topology_of(1, kit.platform_like())
    require_passing(Fault("gpu001", "lemon"), topology)
    with pytest.raises(ValueError, match="can be a lemon"):
        require_passing(Fault("gpu001/gpu0", "lemon"), topology)


RAIL_GBPS = 200.0 * RNIC_EFFICIENCY * RAIL_RATIO
"""What a ring gets out of one healthy 200 Gb/s rail."""


def roce_platform(**changed: object) -> Platform:
    """Four A100 and four 200 Gb/s RNICs, two of each on a socket, no PCIe switches."""
    platform = Platform(
        name="a100-roce",
        gpus=tuple(Gpu(n, n // 2, None) for n in range(4)),
        rnics=tuple(Rnic(f"mlx5_{n}", 1, n, n // 2, None, 200.0, (n,)) for n in range(4)),
        numa_nodes=2,
        pcie_switches=(),
        link_layer="ethernet",
        baseline="a100-hdr",
    )
    return replace(platform, **changed)  # type: ignore[arg-type]


def roce_world(platform: Platform, *faults: Fault, site: tuple[str, ...] = ()) -> World:
    """Two hosts, all rails on one ToR."""
    names = ("gpu001", "gpu002")
    hosts = {name: Host(name, platform, name, None, ("tor0",) * 4) for name in names}
    return World(
        Topology(hosts, {"tor0": Switch("tor0", "leaf")}), MockSettings(faults=faults, noise_cv=0.0, site=site), seed=1
    )


RING = (
    "/opt/openmpi/bin/mpirun --allow-run-as-root --mca btl_tcp_if_include eth0 -np 8 -H gpu001:4,gpu002:4 "
    "--map-by ppr:4:node --bind-to none -x NCCL_SOCKET_IFNAME=eth0 -x NCCL_IB_GID_INDEX=3 -x NCCL_ALGO=RING "
    "-x NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1 "
    "/opt/nccl-tests/build/all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n 20 -w 5"
)


def ring_gbps(kit, platform: Platform, *faults: Fault) -> float:
    """The bus bandwidth of a ring over both hosts."""
    (done,) = kit.played(roce_world(platform, *faults), [(0.0, "gpu001", RING)])
    assert done is not None
    assert done.exit_status == 0, done.stderr
    return kit.busbw_gbps(done.stdout)[0]


@pytest.mark.parametrize(
    ("component", "slower"),
    [
        ("gpu002/mlx5_1", True),
        ("gpu002/gpu1", True),
        ("gpu002/mlx5_1->numa0", True),
        ("gpu002/mlx5_1->gpu1", False),
    ],
)
def test_collectives_without_pcie_switch_go_through_memory(kit, component: str, slower: bool) -> None:
    """The RNIC, its memory and the GPU's slot count; the direct path from RNIC to GPU is not used."""
    bandwidth_gbps = ring_gbps(kit, roce_platform(), Fault(component, "slow", 0.5))
    assert (bandwidth_gbps < 0.6 * 4 * RAIL_GBPS) is slower


SRUN = (
    "srun --nodes=2 --nodelist=gpu001,gpu002 --ntasks=8 --ntasks-per-node=4 --mpi=pmix --cpu-bind=none {} "
    "env NCCL_ALGO=RING all_reduce_perf -b 8G -e 8G -R 1"
)
BW = "ib_write_bw --ib-dev=mlx5_0 --port=18600 --use_cuda=0 {} --duration=5 --size=8388608"


@pytest.mark.parametrize(
    ("site", "line", "complaint"),
    [
        ("root", RING.replace("--allow-run-as-root ", ""), "attempt to run as root"),
        ("root", RING, None),
        ("root", "mpirun -np 1 true", "attempt to run as root"),
        ("gres", SRUN.format(""), "1 requested but only 0 were found"),
        ("gres", SRUN.format("--gres=gpu:4"), None),
        ("no_cuda", BW.format("--version"), "unrecognized option '--use_cuda'"),
        ("dmabuf", BW.format(""), "Couldn't allocate MR"),
        ("dmabuf", BW.format("--use_cuda_dmabuf") + " 127.0.0.1", "Couldn't connect to 127.0.0.1"),
    ],
)
def test_a_site_is_as_unkind_as_real_ones(kit, site: str, line: str, complaint: str | None) -> None:
    """In the words of the tool; with the site's setting it is as elsewhere."""
    (done,) = kit.played(roce_world(roce_platform(), site=(site,)), [(0.0, "gpu001", line)])
    assert done is not None
    assert (done.exit_status == 0) is (complaint is None)
    assert (complaint or "") in done.stderr
