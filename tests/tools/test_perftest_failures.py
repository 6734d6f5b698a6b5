"""perftest's complaints, sorted into kinds."""

from __future__ import annotations

import pytest

from fabric.model.probe import FailureKind
from fabric.tools import perftest
from fabric.tools.perftest.failures import blames_fabric, failure_kind
from tests.places import GOLDEN

FOLDER = GOLDEN / "perftest"

CASES = [
    ("IB device mlx5_7 not found\n Unable to find the Infiniband/RoCE device\n", "no_device", True),
    (" Did not detect devices \n If device exists, check if driver is up\n", "no_device", True),
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
    ("ib_write_bw: unrecognized option '--use_cuda=0'\n", "unknown_option", False),
    ("Failed to get IB devices list: Function not implemented\n", "no_rdma", False),
    ("cuInit(0) returned 100\n", "cuda_error", False),
    ("VALIDATION: FAILED - 12 error(s), first at 0\n", "wrong_result", True),
    ("ib_write_bw: error while loading shared libraries: libibverbs.so.1: cannot open\n", "missing_library", False),
    ("bash: line 1: ib_write_bw: command not found\n", "missing_program", False),
    ("Segmentation fault (core dumped)\n", "segfault", False),
]


@pytest.mark.parametrize(("text", "kind", "fabric"), CASES)
def test_each_complaint_has_its_kind(text: str, kind: str, fabric: bool) -> None:
    """And says whether the fabric or the testbench is at fault."""
    first = perftest.parse(text).failures[0]
    assert first.kind == kind
    assert blames_fabric(first.kind, first.text) is fabric


def test_warnings_are_no_failures() -> None:
    """libibverbs warns of every driver that is not installed; perftest of a peak that it will not measure."""
    text = (
        "libibverbs: Warning: couldn't load driver 'libefa-rdmav34.so': No such file or directory\n"
        " WARNING: BW peak won't be measured in this run.\n"
    )
    assert perftest.parse(text).failures == ()


def test_decisions_know_a_failure_by_its_kind() -> None:
    """A GPU that is not there, packets that vanished, a port that is down; nothing follows from the rest."""
    assert failure_kind("cuda_error", "No such device ID (7) exists in system") is FailureKind.NO_SUCH_GPU
    assert failure_kind("cuda_error", "No such device") is None
    assert failure_kind("completion_error", "Failed status 12: wr_id 0") is FailureKind.RETRIES_EXCEEDED
    assert failure_kind("completion_error", "Failed status 4: wr_id 0") is None
    assert failure_kind("port_down", "Port number 1 state is Down") is FailureKind.PORT_DOWN
    assert failure_kind("cannot_connect", "Couldn't connect to a:1") is None


def test_a_complaint_of_no_known_kind_is_one_all_the_same() -> None:
    """Beside others it says nothing more; nobody takes it for the fabric's fault."""
    (failure,) = perftest.parse(" Couldn't post send: qp 0 scnt=12\n").failures
    assert (failure.kind, blames_fabric(failure.kind, failure.text)) == ("complaint", False)
    both = perftest.parse(" Port number 1 state is Down\n Couldn't set the link layer\n").failures
    assert [failure.kind for failure in both] == ["port_down"]


def test_a_complaint_that_is_glued_to_a_row_is_seen() -> None:
    """Two streams may end up in one line."""
    text = (FOLDER / "duration-client.txt").read_text()
    row = next(line for line in text.splitlines() if line.strip().startswith("8388608"))
    (failure,) = perftest.parse(text.replace(row, f"{row}Completion with error at client")).failures
    assert failure.kind == "completion_error"
