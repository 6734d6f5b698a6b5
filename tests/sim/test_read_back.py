"""What the simulated rack says is what the project's own parsers read from the real tools."""

from __future__ import annotations

import pytest

from fabric.model.inventory import Fault
from fabric.tools import nccl, perftest
from fabric.tools.perftest.command import write_bw
from fabric.tools.perftest.failures import blames_fabric

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
