"""The simulated rack takes the command lines of real RoCE racks, and carries their collectives as such racks do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Gpu, Host, Platform, Rnic, Switch, Topology
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY
from fabric.sim.tools.nccl_tests.model import RAIL_RATIO
from fabric.sim.world import World

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
