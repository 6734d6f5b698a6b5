"""What the simulated rack says is what our parsers read from the real tools; hosts with AMD's GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.checks.parts import AMD_JOBS, AMD_LIST, GPUDIRECT, GPUS
from fabric.config import load_inventory
from fabric.model.finding import Severity
from fabric.model.inventory import Fault, MockSettings
from fabric.model.scenario import Phase
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import KINDS, expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.sim.world import World
from fabric.tools import nccl, perftest
from fabric.tools.perftest.command import write_bw
from fabric.tools.perftest.failures import blames_fabric
from tests.checks.asked import EVERYTHING, answer, found
from tests.places import INVENTORY

RING = "mpirun -np 16 -H gpu001:8,gpu002:8 -x NCCL_ALGO=RING all_reduce_perf -b 1M -e 8G -f 2 -g 1"


def perftest_pair(kit, *faults, gpu=None):
    """Both sides of a loopback, from the argv that the tool driver builds."""
    lines = []
    for at_s, peer in ((0.0, None), (1.0, "127.0.0.1")):
        argv = write_bw(
            device="mlx5_0", port=18600, peer=peer, size_bytes=8 << 20, duration_s=5, queue_pairs=2,
            cuda_gpu=gpu, numa_node=0,
        )  # fmt: skip
        lines.append((at_s, "gpu001", " ".join(argv)))
    return kit.played(kit.world(*faults, noise_cv=0.01), lines)


@pytest.mark.parametrize("gpu", [None, 0, 5])
def test_a_perftest_table_is_read_without_complaint(kit, gpu):
    """One test, one row, the same number on both sides."""
    values = set()
    for ended in perftest_pair(kit, gpu=gpu):
        log = perftest.parse(ended.stdout + ended.stderr)
        (test,) = log.tests
        (row,) = test.rows
        assert not test.problems
        assert not log.failures
        values.add(row.bw_average_gbps)
    assert len(values) == 1


@pytest.mark.parametrize(
    ("fault", "blamed"),
    [
        (Fault("gpu001/mlx5_0", "broken"), True),
        (Fault("gpu001/mlx5_0->gpu7", "broken"), True),
        (Fault("gpu001/mlx5_0", "absent"), None),
        (Fault("gpu001/gpu7", "broken"), None),
        (Fault("gpu001/gpu5", "absent"), None),  # CUDA numbers the others anew: the last number is gone
    ],
)
def test_perftest_failures_are_recognised(kit, fault, blamed):
    """Every failure text is one that the parser knows; the fabric is blamed for ports and retries."""
    exits = perftest_pair(kit, fault, gpu=7)
    failures = [failure for ended in exits for failure in perftest.parse(f"{ended.stdout}\n{ended.stderr}").failures]
    assert failures
    if blamed:
        assert any(blames_fabric(failure.kind, failure.text) for failure in failures)


@pytest.mark.parametrize("line", [RING, RING.replace("-np", "--tag-output -np"), "alltoall_perf -b 1G -e 8G -f 2 -g 8"])
def test_an_nccl_table_is_read_without_complaint(kit, line):
    """Complete, with all ranks, and its checksum holds."""
    (ended,) = kit.played(kit.world(noise_cv=0.01), [(0.0, "gpu001", line)])
    log = nccl.parse(ended.stdout)
    (test,) = log.tests
    assert not test.problems
    assert (log.failures, test.complete) == ((), True)
    assert test.ranks == (16 if "mpirun" in line else 8)


@pytest.mark.parametrize(
    "fault", [Fault("gpu002/mlx5_5", "broken"), Fault("gpu002/gpu5", "broken"), Fault("gpu002/gpu5:nvlink", "broken")]
)
def test_nccl_failures_are_recognised_and_name_the_host(kit, fault):
    """The parser finds a failure, and the host that the fault is in."""
    (ended,) = kit.played(kit.world(fault), [(0.0, "gpu001", RING)])
    failures = nccl.parse(ended.stdout).failures
    assert failures
    assert {failure.host for failure in failures} == {"gpu002"}


RACK = load_inventory(INVENTORY / "mi300x.yaml").topology
HOST = RACK.hosts["amd01"]


def world() -> World:
    """The shipped rack."""
    return World(RACK, MockSettings(noise_cv=0.0), seed=1)


def commands(spec) -> list:
    """Every command of a spec on one host."""
    probes = expand_phase(Phase("p", (spec,)), RACK, ("amd01",))
    made = [KINDS[probe.kind].commands(probe, RACK) for probe in probes]
    return [command for each in made for command in (*each.servers, each.client)]


def test_perftest_uses_rocm_and_collectives_hips_variable() -> None:
    """``--use_rocm``, ``HIP_VISIBLE_DEVICES``; no word of CUDA."""
    words = {word for command in commands(LoopbackSpec()) for word in command.argv}
    assert "--use_rocm=3" in words
    assert not any("cuda" in word for word in words)
    env = dict(commands(AllToAllSpec())[0].env)
    assert (env.get("HIP_VISIBLE_DEVICES"), "CUDA_VISIBLE_DEVICES" in env) == ("0,1,2,3,4,5,6,7", False)


def test_rccl_tests_are_read(kit) -> None:
    """With RCCL's lines and its three columns."""
    (done,) = kit.played(world(), [(0.0, "amd01", "all_reduce_perf -b 8G -e 8G -g 8")])
    (test,) = nccl.parse(done.stdout).tests
    assert "nchannels" in done.stdout
    assert not test.problems
    assert (test.ranks, test.told["version"]) == (8, "2.17.8")


def test_gpus_are_listed_by_rocm_smi(kit) -> None:
    """As many as the inventory has, and nobody on them."""
    said = {argv: kit.ask(world(), "amd01", " ".join(argv), 1.0).stdout for argv in (AMD_LIST, AMD_JOBS)}
    answers = {argv: answer(argv, text) for argv, text in said.items()}
    assert found(GPUS, answers, EVERYTHING, HOST) == []
    assert GPUDIRECT.ask(HOST, EVERYTHING) == ()
    (one,) = found(GPUS, answers | {AMD_LIST: answer(AMD_LIST, said[AMD_LIST].partition("card7")[0])}, EVERYTHING, HOST)
    assert (one.severity, one.what) == (Severity.PROBLEM, "7 GPUs, the inventory has 8")
    busy = answer(AMD_JOBS, f"{said[AMD_JOBS]}PID3625,python3,1,0,0,0\n")
    (one,) = found(GPUS, answers | {AMD_JOBS: busy}, EVERYTHING, HOST)
    assert one.what == "1 GPU process: python3"
    (one,) = found(GPUS, {}, EVERYTHING, replace(HOST))
    assert one.severity is Severity.UNKNOWN
