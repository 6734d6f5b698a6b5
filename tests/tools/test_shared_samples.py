"""Outputs of the real tools: the values that their index gives, and no others."""

import pytest

from fabric.tools import nccl, perftest
from tests.places import CAPTURES

MIB = 8 * (1 << 20) / 1e9  # MiB/s in Gb/s

# op, ranks, rows, printed average GB/s
NCCL = {
    "01-superbench-a100x8-allreduce-old-format": [("all_reduce", 8, 34, 68.4048)],
    "03-superbench-a100x8-allgather-old-format": [("all_gather", 8, 34, 58.2651)],
    "04-superbench-a100x8-broadcast-old-format": [("broadcast", 8, 34, 64.8653)],
    "06-superbench-a100x8-reducescatter-old-format": [("reduce_scatter", 8, 34, 60.168)],
    "07-deepops-dgxa100-4node-allreduce-old-error-col": [("all_reduce", 32, 13, 113.289)],
    "09-aws-p4de-2node-srun-l-prefix-no-footer": [("all_reduce", 16, 29, None)],
    "11-aws-eks-mpirun-tag-output-elided": [("all_reduce", 16, 7, 52.9753)],
    # The index says 64 ranks and 1.96875; every row of the file says 1.97915, which is 96 ranks.
    "12-coreweave-h100-64gpu-sharp": [("all_reduce", 96, 5, 373.187)],
    "14-coreweave-gb200-20rack-1440gpu": [("all_reduce", 1440, 6, 297.808)],
    "15-oci-h100-2node-16gpu": [("all_reduce", 16, 5, 464.075)],
    "17-h100-pair-g1-alltoall+sendrecv-2.17.6": [("alltoall", 2, 10, 13.4689), ("sendrecv", 2, 10, 13.5405)],
    "18-h100-pair-g8-FAILED-remote-process-exited": [("alltoall", 16, 0, None), ("sendrecv", 16, 0, None)],
    "19-h100-pair-g4-partial-failure": [("alltoall", 8, 0, None), ("sendrecv", 8, 0, None)],
    "21-h100-10node-80gpu-5ops-2.17.8": [
        ("all_reduce", 80, 10, 265.631),
        ("all_gather", 80, 10, 218.677),
        ("reduce_scatter", 80, 10, 216.683),
        ("alltoall", 80, 10, 47.1472),
        ("sendrecv", 80, 10, 15.1671),
    ],
    "23-h100-single-node-nccl_N1_G4_cnode3-003": [
        ("all_reduce", 4, 10, 343.667),
        ("all_gather", 4, 10, 312.479),
        ("reduce_scatter", 4, 10, 309.211),
        ("alltoall", 4, 10, 315.796),
        ("sendrecv", 4, 10, 294.829),
    ],
    "24-ar-off-2node-16gpu-cx8-2.18.3": [("all_reduce", 16, 24, 19.1617)],
    "26-ar-on-ddp-on-2node-16gpu-cx8-2.18.3": [("all_reduce", 16, 24, 17.8894)],
    # all_gather or alltoall: nothing was checked, so the log does not say.
    "27-gcp-a3high-h100-tcpx-2node-allgather-NAwrong-indented": [(None, 16, 10, 30.9622)],
    "31-oci-ncclscout-pair-sweep-report": [],
    "32-aws-batch-p5-mpirun-tag-output": [("all_reduce", 8, 32, 156.742)],
    "34-gcm-FAIL-mpirun-not-enough-slots": [],
    "35-gcm-a100-pair-150.209": [("all_reduce", 16, 6, 150.209)],
    "36-FAIL-nccl-*-status12-recv-4.12": [],
    "37-FAIL-nccl-*-status12-ib_plugin": [],
    "39-FAIL-ncclRemoteError-exception-text-2.14.3": [],
}

NCCL_PROBLEMS = {
    "11-aws-eks-mpirun-tag-output-elided": "mean of 7 rows is 208.6779, printed average is 52.9753",
    "18-h100-pair-g8-FAILED-remote-process-exited": "no result row",
    "19-h100-pair-g4-partial-failure": "no result row",
}

# host, kind, blames the fabric
NCCL_FAILURES = {
    "18-h100-pair-g8-FAILED-remote-process-exited": [("cnode2-016", "nccl_remote_error", False)],
    "19-h100-pair-g4-partial-failure": [("cnode2-002", "nccl_remote_error", False)],
    "34-gcm-FAIL-mpirun-not-enough-slots": [(None, "launcher_error", False)],
    "36-FAIL-nccl-*-status12-recv-4.12": [("mycl-g2", "ib_completion_error", True)],
    "37-FAIL-nccl-*-status12-ib_plugin": [("kp-ddp-worker-0", "ib_completion_error", True)],
    "39-FAIL-ncclRemoteError-exception-text-2.14.3": [
        (None, "ib_completion_error", True),
        (None, "nccl_remote_error", False),
    ],
}

ZERO = "65536 bytes: no iteration was completed, so there is no value"

# file: [(test, device, [(size, iterations, peak, average)], problems)], [(kind, blames the fabric)]
PERFTEST = {
    "perftest/01-superbench-loopback-8M": (
        [("RDMA_Write BW", "ib0", [(8388608, 20000, 24056.74 * MIB, 24056.72 * MIB)], ())] * 2,
        [],
    ),
    "perftest/03-deepops-roce-rdmacm-conflicting-cpu-freq": (
        [("RDMA_Write BW", "mlx5_0", [(65536, 5000, 92.42, 92.40)], ())],
        [],
    ),
    "perftest/05-rhaii-gpudirect-loopback-mib-tail": (
        [(None, None, [(1048576, 5000, 15128.13 * MIB, 15121.79 * MIB)], ())],
        [],
    ),
    "perftest/06-local-no-device-errors-4.5": ([], [("no_rdma", False), ("no_device", True)]),
    "perftest/08-gpudirect-a40-dmabuf-rdmacm-16qp-duration-client": (
        [("RDMA_Write BW", "mlx5_1", [(65536, 10384867, None, 181.46)], ())],
        [],
    ),
    "perftest/10-ib_send_bw-fdr-p2p-conflicting-cpu-freq": (
        [("Send BW", "ibp4s0", [(65536, 1000, 52.17, 52.16)], ())],
        [],
    ),
    "perftest/12-error-gpudirect-couldnt-allocate-mr-rdmacm-segfault": (
        [],
        [("memory_region", False), ("cannot_connect", False), ("segfault", False)],
    ),
    "perftest/18-error-port-down": ([], [("port_down", True), ("cannot_open", False)]),
    "perftest/22-local-unknown-option-usage-4.5": ([], [("unknown_option", False)]),
    "perftest/24-*-all-sizes-gbits-small-values-partial": (
        [
            (
                "RDMA_Write BW",
                "mlx5_0",
                [(2, 5000, 0.042350, 0.042185), (4, 5000, 0.084507, 0.084457), (8, 5000, 0.17, 0.17)],
                (),
            )
        ],
        [],
    ),
    "perftest/26-ngc-*-multi-device-driver-log-partial": (
        [("RDMA_Write Bidirectional BW", "mlx5_3", [], ("no result table",))],
        [],
    ),
    "rxe/ib_write_bw_2vm_baseline": ([("RDMA_Write BW", "mlx5_0", [(4096, 1000, 0.082536, 0.008744)], ())], []),
    "rxe/ib_write_bw_2vm_loss_3": ([("RDMA_Write BW", "mlx5_0", [(4096, 1000, 0.023538, 0.004401)], ())], []),
    "rxe/ib_write_bw_D_4k": ([("RDMA_Write BW", "mlx5_0", [(4096, 5072, None, 0.041443)], ())], []),
    "rxe/ib_write_bw_flap15s_client": ([("RDMA_Write BW", "mlx5_0", [(4096, 3000, 0.085074, 0.003879)], ())], []),
    "rxe/ib_write_bw_flap1s_client": ([], [("cannot_connect", False)]),
    "rxe/ib_write_bw_no_device": ([], [("no_device", True)]),
    "rxe/ib_write_bw_no_server": ([], [("cannot_connect", False)]),
    "rxe/ib_write_bw_zero_iterations_rc0": ([("RDMA_Write BW", "mlx5_0", [(65536, 0, None, None)], (ZERO,))] * 2, []),
    "rxe/ib_write_lat": ([("RDMA_Write Latency", "mlx5_0", [], ("a latency table: only bandwidth is read",))], []),
    "rxe/ibv_devinfo_ibstat_rdma": ([], []),
}


def text(name: str) -> str:
    """A capture's text."""
    return next(CAPTURES.glob(f"{name}.txt")).read_text()


@pytest.mark.parametrize("name", sorted(NCCL))
def test_nccl_tests(name: str) -> None:
    """Collective, ranks, rows, average; sound tables have no problem, the others exactly the known one."""
    log = nccl.parse(text(f"nccl-tests/{name}"))
    assert [
        (test.op, test.ranks, len(test.rows), test.avg_busbw_gbps and pytest.approx(test.avg_busbw_gbps / 8))
        for test in log.tests
    ] == NCCL[name]
    expected = NCCL_PROBLEMS.get(name)
    for test in log.tests:
        assert test.complete is (test.avg_busbw_gbps is not None)
        assert len(test.problems) == (0 if expected is None else 1), test.problems
        assert expected is None or expected in test.problems[0]


@pytest.mark.parametrize("name", sorted(NCCL))
def test_nccl_tests_failures(name: str) -> None:
    """Host, kind and fault; none where the run ended well."""
    log = nccl.parse(text(f"nccl-tests/{name}"))
    assert [(seen.host, seen.kind, seen.blames_fabric) for seen in log.failures] == NCCL_FAILURES.get(name, [])


@pytest.mark.parametrize("name", sorted(PERFTEST))
def test_perftest(name: str) -> None:
    """Every table and every failure, with all their values."""
    tests, failures = PERFTEST[name]
    log = perftest.parse(text(name))
    assert [(test.test, test.device, len(test.rows), tuple(test.problems)) for test in log.tests] == [
        (title, device, len(rows), problems) for title, device, rows, problems in tests
    ]
    for test, (_, _, rows, _) in zip(log.tests, tests, strict=True):
        seen = [(row.size_bytes, row.iterations, row.bw_peak_gbps, row.bw_average_gbps) for row in test.rows]
        assert seen == [pytest.approx(row) for row in rows]
    assert [(seen.kind, seen.blames_fabric) for seen in log.failures] == failures


def test_perftest_of_all_sizes() -> None:
    """23 sizes, of which one was not measured, with noise glued to it."""
    (test,) = perftest.parse(text("rxe/ib_write_bw_all_json")).tests
    assert [row.size_bytes for row in test.rows] == [1 << power for power in range(1, 24)]
    assert [row.size_bytes for row in test.rows if row.bw_average_gbps is None] == [1024]
    assert test.problems == ["1024 bytes: average printed as 0.000000 after 20 iterations: not measured"]
    assert test.rows[-1].bw_average_gbps == pytest.approx(0.13)


@pytest.mark.parametrize(("tool", "parse"), [("nccl-tests", nccl.parse), ("perftest", perftest.parse)])
def test_no_sample_of_another_tool_is_taken_for_one(tool: str, parse) -> None:
    """Neither tables nor failures are found where there are none."""
    own = {"nccl-tests": {"nccl-tests"}, "perftest": {"perftest", "rxe"}}[tool]
    named = {"nccl-tests": ("nccl", "rccl"), "perftest": ("perftest",)}[
        tool
    ]  # where a folder holds captures of many tools
    folders = [folder for folder in CAPTURES.iterdir() if folder.is_dir() and folder.name not in own]
    assert [
        str(path)
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(named) and parse(path.read_text("utf-8", "replace")).tests
    ] == []
