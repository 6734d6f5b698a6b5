"""Why a run of nccl-tests or perftest gave up, and whose fault it points to."""

import pytest

from fabric.model.probe import FailureKind
from fabric.tools import nccl, perftest
from fabric.tools.nccl.failures import NcclFailure
from fabric.tools.perftest.failures import PerftestFailure
from tests.places import GOLDEN

NCCL = GOLDEN / "nccl-tests"

REMOTE = "remote process exited or there was a network error"
NCCL_CASES = [
    (f"gpu01: Test NCCL failure common.cu:1279 '{REMOTE} / '", "gpu01", "nccl_remote_error", False),
    ("gpu01: Test NCCL failure common.cu:1036 'unhandled system error / x'", "gpu01", "nccl_failure", False),
    (" .. gpu01 pid 300367: Test failure common.cu:1100", "gpu01", "nccl_failure", False),
    ("gpu01: Test CUDA failure common.cu:400 'out of memory'", "gpu01", "cuda_error", False),
    ("gpu01: Test CUDA failure common.cu:1030 'uncorrectable ECC error encountered'", "gpu01", "cuda_error", True),
    ("gpu01: Test CUDA failure common.cu:1 'uncorrectable NVLink error detected'", "gpu01", "cuda_error", True),
    ("gpu01: Test timeout (60s) common.cu:523", "gpu01", "test_timeout", False),
    (
        "gpu01:1:2 [0] net_ib.cc:9 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=12 opcode=0",
        "gpu01",
        "ib_completion_error",
        True,
    ),
    (
        "gpu01:1:2 [0] net_ib.cc:9 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with error 12, opcode 0",
        "gpu01",
        "ib_completion_error",
        True,
    ),
    (
        "gpu01:1:2 [0] net_ib.cc:9 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=5 opcode=0 len=0",
        "gpu01",
        "ib_completion_error",
        False,
    ),
    ("gpu01:1:2 [0] net_ib.cc:9 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error", "gpu01", "port_down", True),
    ("gpu01:1:2 [0] ibvwrap.cc:3 NCCL WARN Call to ibv_reg_mr failed", "gpu01", "ib_verbs_error", False),
    ("There are not enough slots available in the system", None, "launcher_error", False),
    ("ssh: connect to host gpu07 port 22: No route to host", "gpu07", "launcher_error", False),
    ("srun: error: gpu07: task 3: Exited with exit code 1", "gpu07", "launcher_error", False),
    (
        "all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open",
        None,
        "missing_library",
        False,
    ),
    ("bash: line 1: all_reduce_perf: command not found", None, "missing_program", False),
    ("[gpu01:4711] Signal: Segmentation fault (11)", "gpu01", "segfault", False),
    ("Invalid number of GPUs: 8 requested but only 7 were found.", None, "too_few_gpus", False),
]


@pytest.mark.parametrize(("line", "host", "kind", "fabric"), NCCL_CASES)
def test_each_failure_has_its_kind_and_host(line: str, host: str | None, kind: str, fabric: bool) -> None:
    """With or without the launcher's tag, which is no part of the text."""
    for prefix in ("", "3: ", "[1,3]<stderr>:"):
        (found,) = nccl.parse(prefix + line).failures
        assert found == NcclFailure(host, kind, line.strip())
        assert found.blames_fabric is fabric


def test_a_crash_comes_before_what_its_peers_saw() -> None:
    """A process that crashed makes its peers' retries run out: that is not the fabric's fault."""
    log = nccl.parse((NCCL / "cuda-crash-and-retries.txt").read_text())
    assert [(failure.host, failure.kind) for failure in log.failures] == [
        ("gpu009", "cuda_error"),
        ("gpu008", "ib_completion_error"),
        ("gpu009", "launcher_error"),
    ]
    assert log.failures[1].known is FailureKind.RETRIES_EXCEEDED


def test_a_process_that_was_killed_comes_before_what_its_peers_saw() -> None:
    """The kernel does so for want of memory, and nobody else says why; a port that went down is told all the same."""
    retries = (
        "gpu008:1:2 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB: Got completion from peer 10.0.0.9 with status=12\n"
    )
    killed = "mpirun noticed that process rank 9 with PID 6604 on node gpu009 exited on signal 9 (Killed).\n"
    first, second, *_ = nccl.parse(retries + killed).failures
    assert (first.host, first.kind, first.blames_fabric) == ("gpu009", "killed", False)
    assert (second.host, second.kind) == ("gpu008", "ib_completion_error")
    port = "gpu008:1:2 [2] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n"
    assert nccl.parse(port + retries + killed).failures[0].kind == "port_down"


def test_information_and_warnings_of_the_launcher_are_no_failures() -> None:
    """NCCL looks for plugins it can do without; Open MPI warns of settings."""
    text = (
        "gpu01:1:2 [0] NCCL INFO NET/Plugin: Could not find libnccl-net.so: No such file or directory\n"
        "gpu01:1:2 [0] misc/shm.cc:9 NCCL WARN Call to open failed: No such file or directory\n"
        "Two mutually-exclusive MCA variables were specified.  This can result\n"
        '[gpu01:11560] Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / error messages\n'
    )
    assert nccl.parse(text).failures == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NET/IB : Got completion from peer 10.0.0.2<53908> with status=12 opcode=129", FailureKind.RETRIES_EXCEEDED),
        ("NET/IB : Got completion from peer with status=IBV_WC_RETRY_EXC_ERR(12)", FailureKind.RETRIES_EXCEEDED),
        ("NET/IB : Got completion from peer with error 12, opcode 1", FailureKind.RETRIES_EXCEEDED),
        ("NET/IB : Got completion from peer 10.0.0.2<53908> with status=5 opcode=129", None),
        ("NET/IB : mlx5_0:1 Got async event : port error", FailureKind.PORT_DOWN),
        ("a: Test NCCL failure 'remote process exited or there was a network error / '", FailureKind.REMOTE_ERROR),
        ("a: Invalid number of GPUs: 8 requested but only 7 were found.", FailureKind.TOO_FEW_GPUS),
        ("a: Invalid number of GPUs: 8 requested but only 0 were found.", None),
        ("a: Test CUDA failure common.cu:1 'uncorrectable ECC error encountered'", None),
    ],
)
def test_decisions_know_a_failure_by_its_kind(text: str, kind: FailureKind | None) -> None:
    assert {one.known for one in nccl.parse(text).failures} == {kind}


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("a: Test NCCL failure common.cu:1279 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '", True),
        ("a: Test CUDA failure common.cu:1030 'unspecified launch failure'", True),
        ("a: Test CUDA failure common.cu:1030 'out of memory'", False),
        ("a: Test CUDA failure common.cu:1030 'all CUDA-capable devices are busy or unavailable'", False),
        ("a: Test CUDA failure common.cu:1030 'system not yet initialized'", False),
    ],
)
def test_memory_a_gpu_in_use_and_a_driver_that_is_not_ready_are_not_taken_for_a_gpu(text: str, *, one: bool) -> None:
    assert {failure.known for failure in nccl.parse(text).failures} == {FailureKind.GPU_FAILED if one else None}


PERFTEST = GOLDEN / "perftest"

PERFTEST_CASES = [
    ("IB device mlx5_7 not found\n Unable to find the Infiniband/RoCE device\n", "no_device", True),
    (" Did not detect devices \n If device exists, check if driver is up\n", "no_rdma", False),
    (" Port number 1 state is Down\n Couldn't set the link layer\n", "port_down", True),
    (" Port number 2 state is Init\n", "port_down", True),
    ("Couldn't connect to 10.0.0.9:18600\n", "cannot_connect", False),
    ("Couldn't listen to port 18600\n", "port_in_use", False),
    (" Failed to modify QP 145 to RTR\n", "qp_error", False),
    ("Completion with error at client\n  Failed status 12: wr_id 0 syndrom 0x81\n", "completion_error", True),
    ("Completion with error at client\n  Failed status 4: wr_id 0 syndrom 0x51\n", "completion_error", False),
    ("  Failed status 5: wr_id 0 syndrom 0xf9\n", "completion_error", False),
    ("Bad wc status -- 12 -- 129\n", "completion_error", True),
    ("ethernet_read_keys: Couldn't read remote address\n", "peer_died", False),
    ("Couldn't allocate MR with error=14\nfailed to create mr\n", "memory_region", False),
    ("ib_write_bw: unrecognized option '--use_cuda=0'\n", "no_gpu_memory", False),
    ("Failed to get IB devices list: Function not implemented\n", "no_rdma", False),
    ("cuInit(0) returned 100\n", "cuda_error", False),
    ("cuCtxCreate() error=214\n", "cuda_error", True),
    ("cuCtxCreate() error=2\n", "cuda_error", False),
    ("VALIDATION: FAILED - 12 error(s), first at 0\n", "wrong_result", True),
    ("ib_write_bw: error while loading shared libraries: libibverbs.so.1: cannot open\n", "missing_library", False),
    ("bash: line 1: ib_write_bw: command not found\n", "missing_program", False),
    ("Segmentation fault (core dumped)\n", "segfault", False),
]


@pytest.mark.parametrize(("text", "kind", "fabric"), PERFTEST_CASES)
def test_each_complaint_has_its_kind(text: str, kind: str, fabric: bool) -> None:
    """And says whether the fabric or the testbench is at fault."""
    first = perftest.parse(text).failures[0]
    assert first.kind == kind
    assert first.blames_fabric is fabric


def test_warnings_are_no_failures() -> None:
    """libibverbs warns of every driver that is not installed; perftest of a peak that it will not measure."""
    text = (
        "libibverbs: Warning: couldn't load driver 'libefa-rdmav34.so': No such file or directory\n"
        " WARNING: BW peak won't be measured in this run.\n"
    )
    assert perftest.parse(text).failures == ()


def test_decisions_know_a_perftest_failure_by_its_kind() -> None:
    """A GPU that is not there, packets that vanished, a port that is down; nothing follows from the rest."""
    assert PerftestFailure("cuda_error", "No such device ID (7) exists in system").known is FailureKind.NO_SUCH_GPU
    assert PerftestFailure("cuda_error", "No such device").known is None
    assert PerftestFailure("completion_error", "Failed status 12: wr_id 0").known is FailureKind.RETRIES_EXCEEDED
    assert PerftestFailure("completion_error", "Failed status 4: wr_id 0").known is None
    assert PerftestFailure("port_down", "Port number 1 state is Down").known is FailureKind.PORT_DOWN
    assert PerftestFailure("cannot_connect", "Couldn't connect to a:1").known is None


def test_a_complaint_of_no_known_kind_is_one_all_the_same() -> None:
    """Beside others it says nothing more; nobody takes it for the fabric's fault."""
    (failure,) = perftest.parse(" Couldn't post send: qp 0 scnt=12\n").failures
    assert (failure.kind, failure.blames_fabric) == ("complaint", False)
    both = perftest.parse(" Port number 1 state is Down\n Couldn't set the link layer\n").failures
    assert [failure.kind for failure in both] == ["port_down"]


def test_a_complaint_that_is_glued_to_a_row_is_seen() -> None:
    """Two streams may end up in one line."""
    text = (PERFTEST / "duration-client.txt").read_text()
    row = next(line for line in text.splitlines() if line.strip().startswith("8388608"))
    (failure,) = perftest.parse(text.replace(row, f"{row}Completion with error at client")).failures
    assert failure.kind == "completion_error"
