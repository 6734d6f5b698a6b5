"""Real tools, where they are installed, understand the product's own words: they end at the missing device."""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import replace
from shutil import which

import pytest

from benchmarks.lab.lab import SLOWER
from benchmarks.measured_rack import dgx_platform
from fabric.model.scenario import ProbeSpec
from fabric.model.topology import Platform
from fabric.probes.latency import LatencySpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.tools import mlxlink, mlxreg
from fabric.tools.nccl.collective import mpirun
from tests.probes.test_commands import commands, rack

pytestmark = [pytest.mark.lab, pytest.mark.timeout(60 * SLOWER)]

UNKNOWN = ("unrecognized option", "invalid option", "Invalid Command", "Unsupported option")
NO_DEVICE = ("Failed to open device", "Unable to find the Infiniband/RoCE device", "Did not detect devices")
HOST_MEMORY = replace(dgx_platform("site"), use_cuda="no", gid_index=3)


def said(argv: tuple[str, ...]) -> str:
    """What the tool says, both streams; skipped where it is not there."""
    if which(argv[0]) is None:
        pytest.skip(f"there is no {argv[0]}")
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=30 * SLOWER, check=False, stdin=subprocess.DEVNULL
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "argv",
    [
        mlxreg.get("mlx5_0", "PTER", mlxreg.pter_indexes(1, ib_number=False)),
        mlxreg.write("mlx5_0", "PTER", mlxreg.pter_indexes(1, ib_number=True), mlxreg.pter_values(2, 1, 7, 900)),
        mlxlink.show("mlx5_0", counters=True),
        mlxlink.optics("mlx5_0"),
        mlxlink.optics_in_band(5, 17, "mlx5_0", 1),
        mlxlink.port_state("mlx5_0", up=False),
    ],
    ids=lambda argv: " ".join(argv[1:])[:60],
)
def test_mstflint_gets_as_far_as_the_device(argv: tuple[str, ...]) -> None:
    text = said((argv[0].replace("mlx", "mst"), *argv[1:]))
    assert any(words in text for words in NO_DEVICE), text
    assert not any(words in text for words in UNKNOWN), text


def test_it_refuses_an_option_that_it_does_not_have() -> None:
    """So that the test above can fail."""
    argv = ("mstreg", "-d", "mlx5_0", "--get", "--reg_name", "PAOS", "--index", "local_port=1", "--agree")
    assert "unrecognized option" in said(argv)


@pytest.mark.parametrize(
    "platform", [HOST_MEMORY, replace(HOST_MEMORY, traffic_class=106, perftest_options=("-R",))], ids=["plain", "class"]
)
@pytest.mark.parametrize(
    "spec", [LoopbackSpec(), RnicToRnicSpec(), LatencySpec(), PairwiseSpec(queue_pairs=1)], ids=lambda spec: spec.name
)
def test_perftest_gets_as_far_as_the_device(spec: ProbeSpec, platform: Platform) -> None:
    """Both sides of a probe; a distribution's perftest has no CUDA, and knows memory nodes by numactl alone."""
    probed = rack(replace(platform, link_layer="ethernet"), hosts=2)
    for command in commands(spec, probed)[:2]:
        text = said(command.argv[command.argv.index(next(one for one in command.argv if one.startswith("ib_"))) :])
        assert any(words in text for words in NO_DEVICE), text
        assert not any(words in text for words in UNKNOWN), text


def test_open_mpi_starts_every_process_with_its_variables() -> None:
    """A value with commas and an equals sign arrives whole; as root only where the site says so."""
    if which("mpirun") is None:
        pytest.skip("there is no mpirun")
    hosts, env = [socket.gethostname()], {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"}
    platform = dgx_platform("site", parts=2)
    as_root = replace(platform, mpirun_options=("--allow-run-as-root",))
    text = said(mpirun(("env",), hosts=hosts, platform=as_root, env=env))
    assert text.count("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1\n") == 2, text
    if os.geteuid() == 0:
        assert "allow-run-as-root" in said(mpirun(("env",), hosts=hosts, platform=platform, env=env))
