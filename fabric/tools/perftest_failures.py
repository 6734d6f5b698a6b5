"""Why a perftest program gave up: its own words, sorted into kinds, and whose fault each kind points to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fabric.tools.perftest_log import PerftestFailure

FABRIC, TESTBENCH = "fabric", "testbench"

FAULT: Mapping[str, str] = {
    "port_down": FABRIC,
    "no_device": FABRIC,
    "completion_error": FABRIC,  # with status 12 only, see blames_fabric
    "wrong_result": FABRIC,
    "no_rdma": TESTBENCH,
    "cannot_open": TESTBENCH,
    "cannot_connect": TESTBENCH,
    "port_in_use": TESTBENCH,
    "qp_error": TESTBENCH,
    "cq_error": TESTBENCH,
    "memory_region": TESTBENCH,
    "cuda_error": TESTBENCH,
    "unknown_option": TESTBENCH,
    "peer_died": TESTBENCH,
    "missing_library": TESTBENCH,
    "missing_program": TESTBENCH,
    "segfault": TESTBENCH,
    "complaint": TESTBENCH,
}
"""Whose fault a kind of failure points to."""

# First match of a line wins. Texts: perftest 4.5 and 26.x sources, libibverbs, glibc, shells.
TEXTS: tuple[tuple[str, str], ...] = (
    ("Failed to get IB devices list", "no_rdma"),
    ("Function not implemented", "no_rdma"),
    ("Did not detect devices", "no_device"),
    ("Unable to find the Infiniband/RoCE device", "no_device"),
    ("No IB devices found", "no_device"),
    ("Completion with error", "completion_error"),
    ("Failed status", "completion_error"),
    ("Bad wc status", "completion_error"),
    ("CQ error status", "completion_error"),
    ("VALIDATION: FAILED", "wrong_result"),
    ("Couldn't connect to", "cannot_connect"),
    ("Unable to open file descriptor for socket", "cannot_connect"),
    ("Unable to init the socket", "cannot_connect"),
    ("Unable to connect (retries", "cannot_connect"),
    ("resolve_addr failed", "cannot_connect"),
    ("resolve_route failed", "cannot_connect"),
    ("ADDR_ERROR", "cannot_connect"),
    ("Failed to connect RDMA CM events", "cannot_connect"),
    ("Problem in resolving basic address", "cannot_connect"),
    ("Couldn't listen to port", "port_in_use"),
    ("Address already in use", "port_in_use"),
    ("Couldn't allocate MR", "memory_region"),
    ("ailed to create mr", "memory_region"),
    ("Failed to create MR", "memory_region"),
    ("Failed to modify QP", "qp_error"),
    ("Unable to create QP", "qp_error"),
    ("Failed to create QP", "qp_error"),
    ("QP size might be too big", "qp_error"),
    ("Unable to Connect the HCA", "qp_error"),
    ("poll CQ failed", "cq_error"),
    ("Couldn't create CQ", "cq_error"),
    ("Couldn't read remote address", "peer_died"),
    ("Couldn't read reports", "peer_died"),
    ("Couldn't send local address", "peer_died"),
    ("socket/rdma_cm", "peer_died"),
    ("Failed to exchange data between server", "peer_died"),
    ("Failed to close connection between server", "peer_died"),
    ("unrecognized option", "unknown_option"),
    ("invalid option -- ", "unknown_option"),
    ("Invalid Command or flag", "unknown_option"),
    ("Parser function exited with Error", "unknown_option"),
    ("cuInit(0) returned", "cuda_error"),
    ("cuDeviceGetCount() returned", "cuda_error"),
    ("no available device(s) that support CUDA", "cuda_error"),
    ("No such device ID", "cuda_error"),
    ("cuCtxCreate", "cuda_error"),
    ("cuMemAlloc error", "cuda_error"),
    ("cuMemGetHandleForAddressRange error", "cuda_error"),
    ("Couldn't init GPU context", "cuda_error"),
    ("Failed to load CUDA library", "cuda_error"),
    ("DMA-BUF is not supported", "cuda_error"),
    ("DMA-BUF cannot be used", "cuda_error"),
    ("error while loading shared libraries", "missing_library"),
    ("command not found", "missing_program"),
    ("No such file or directory", "missing_program"),
    ("Segmentation fault", "segfault"),
    ("Couldn't get context for the device", "cannot_open"),
    # Words of any other complaint, of which perftest has a hundred: looked at where there is nothing better.
    ("Couldn't ", "complaint"),
    ("Failed to ", "complaint"),
    ("Unable to ", "complaint"),
)

# Pieces of which every text above, and every pattern below, holds at least one; none is in a good run. A table
# without any of them, which is nearly every one, is not searched further.
GATES = (
    "ailed", "ouldn't", "nable to", "rror", "RROR", "status", "state is", "not ", "available", "No ",
    "lready", "ption", "nvalid", "VALID", "returned", "too big", "ocket", "ault", "cuCtx", "resolving",
)  # fmt: skip

# Texts that other programs print as well: alone they do not show that perftest wrote them.
_ANYBODYS = (
    "Function not implemented", "Address already in use", "ADDR_ERROR", "unrecognized option", "invalid option -- ",
    "Invalid Command or flag", "error while loading shared libraries", "command not found", "No such file or directory",
    "Segmentation fault", "No IB devices found", "resolve_addr failed", "resolve_route failed",
)  # fmt: skip
_PROGRAM = re.compile(r"\b(?:ib_(?:send|write|read|atomic)_(?:bw|lat)|raw_ethernet_(?:bw|lat|burst_lat))\b")
_LOOKED_AT = 1 << 20  # characters in which a failure is looked for to tell the tool; a choice: such logs are a page

# CUresult 214 CUDA_ERROR_ECC_UNCORRECTABLE and 220 CUDA_ERROR_NVLINK_UNCORRECTABLE (cuda.h): broken parts.
_BROKEN_GPU = re.compile(r"\berror[=: ]{1,3}(?:214|220)(?!\d)")
_NO_SUCH_GPU = re.compile(r"No such device ID \((\d{1,5})\)")
_PORT_STATE = re.compile(r"Port number \d{1,5} state is ")
_NOT_FOUND = re.compile(r"IB device \S{1,80} not found")
_STATUS = re.compile(r"status(?:[ =]|-[^()\n]{0,60} \(|[ -]{1,8})(\d{1,3})(?!\d)")
_CUT = 300  # characters kept of one failure's text; a choice, the longest real one is 130


def suspicious(text: str) -> bool:
    """Whether a text may hold a complaint; False is certain."""
    for gate in GATES:  # noqa: SIM110 - any() with a generator takes twice as long
        if gate in text:
            return True
    return False


def failures(lines: Sequence[str]) -> tuple[PerftestFailure, ...]:
    """The first failure of each kind, in the order printed; empty when the tool did not complain."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        kind = _kind(line)
        if kind is not None and kind not in found:
            found[kind] = _with_status(line, lines[number + 1 : number + 2]) if kind == "completion_error" else line
    if len(found) > 1:
        found.pop("complaint", None)
    return tuple(PerftestFailure(kind, line.strip()[:_CUT]) for kind, line in found.items())


def complains(text: str) -> bool:
    """Whether a text complains in perftest's own words, or of one of its programs by name."""
    text = text[:_LOOKED_AT]
    if not suspicious(text):
        return False
    complaints = (line for line in text.splitlines() if _kind(line) not in (None, "complaint"))
    return any(_PROGRAM.search(line) or not any(words in line for words in _ANYBODYS) for line in complaints)


def blames_fabric(kind: str, text: str) -> bool:
    """
    Whether a failure says that the fabric is bad, rather than that we could not measure.

    Of the completion errors only status 12, transport retries exceeded, does: 4 is local protection, 5 a flush
    after another error, 13 a receiver that was not ready. Of the CUDA errors only those of a GPU that is broken do.
    """
    if kind == "completion_error":
        return status(text) == 12
    if kind == "cuda_error":
        return _BROKEN_GPU.search(text) is not None
    return FAULT.get(kind) == FABRIC


def no_such_gpu(text: str) -> int | None:
    """The CUDA device that a text says is not there, None when it says no such thing."""
    found = _NO_SUCH_GPU.search(text)
    return int(found[1]) if found else None


def status(text: str) -> int | None:
    """The work completion status that a text names, None when it names none."""
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _kind(line: str) -> str | None:
    if "arning" in line or "WARNING" in line:  # libibverbs warns of every driver that is not installed
        return None
    for needle, kind in TEXTS:
        if needle in line:
            return kind
    if "state is" in line and _PORT_STATE.search(line):
        return "port_down"
    if "not found" in line and _NOT_FOUND.search(line):
        return "no_device"
    return None


def _with_status(line: str, following: Sequence[str]) -> str:
    """``Completion with error at client`` has its status on the next line."""
    if status(line) is None and following and status(following[0]) is not None:
        return f"{line.strip()}: {following[0].strip()}"
    return line
