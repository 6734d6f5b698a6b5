"""Why a perftest program gave up: its own words, sorted into kinds, and whose fault each kind points to."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from fabric.model.probe import FailureKind

FABRIC = frozenset({"port_down", "no_device", "completion_error", "wrong_result"})
"""Kinds that point to the fabric and not to us (a ``completion_error`` with status 12 only, see blames_fabric)."""

# First match of a line wins. Texts: perftest 4.5 and 26.x sources, libibverbs, glibc, shells. The last kind has words
# of any other complaint, of which perftest has a hundred: it is used where there is nothing better.
KINDS: Mapping[str, tuple[str, ...]] = {
    "no_rdma": (
        "Failed to get IB devices list", "Function not implemented", "Did not detect devices", "No IB devices found",
    ),
    "no_device": ("Unable to find the Infiniband/RoCE device",),
    "completion_error": ("Completion with error", "Failed status", "Bad wc status", "CQ error status"),
    "wrong_result": ("VALIDATION: FAILED",),
    "cannot_connect": (
        "Couldn't connect to", "Unable to open file descriptor for socket", "Unable to init the socket",
        "Unable to connect (retries", "resolve_addr failed", "resolve_route failed", "ADDR_ERROR",
        "Failed to connect RDMA CM events", "Problem in resolving basic address",
    ),
    "port_in_use": ("Couldn't listen to port", "Address already in use"),
    "memory_region": ("Couldn't allocate MR", "ailed to create mr", "Failed to create MR"),
    "qp_error": (
        "Failed to modify QP", "Unable to create QP", "Failed to create QP", "QP size might be too big",
        "Unable to Connect the HCA",
    ),
    "cq_error": ("poll CQ failed", "Couldn't create CQ"),
    "peer_died": (
        "Couldn't read remote address", "Couldn't read reports", "Couldn't send local address", "socket/rdma_cm",
        "Failed to exchange data between server", "Failed to close connection between server",
    ),
    "no_gpu_memory": (
        "unrecognized option '--use_cuda", "unrecognized option '--use_rocm", "Unsupported memory type",
    ),
    "unknown_option": (
        "unrecognized option", "invalid option -- ", "Invalid Command or flag", "Parser function exited with Error",
    ),
    "cuda_error": (
        "cuInit(0) returned", "cuDeviceGetCount() returned", "no available device(s) that support CUDA",
        "No such device ID", "cuCtxCreate", "cuMemAlloc error", "cuMemGetHandleForAddressRange error",
        "Couldn't init GPU context", "Failed to load CUDA library", "DMA-BUF is not supported",
        "DMA-BUF cannot be used",
    ),
    "missing_library": ("error while loading shared libraries",),
    "missing_program": ("command not found", "No such file or directory"),
    "segfault": ("Segmentation fault",),
    "cannot_open": ("Couldn't get context for the device",),
    "complaint": ("Couldn't ", "Failed to ", "Unable to "),
}  # fmt: skip
"""Texts that are printed for each kind."""

_KIND_OF = {text: kind for kind, texts in KINDS.items() for text in texts}

# Texts that other programs print as well: alone they do not show that perftest wrote them.
_ANYBODYS = (
    "Function not implemented", "Address already in use", "ADDR_ERROR", "unrecognized option", "invalid option -- ",
    "Invalid Command or flag", "error while loading shared libraries", "command not found", "No such file or directory",
    "Segmentation fault", "No IB devices found", "resolve_addr failed", "resolve_route failed",
)  # fmt: skip
_PROGRAM = re.compile(r"\b(?:ib_(?:send|write|read|atomic)_(?:bw|lat)|raw_ethernet_(?:bw|lat|burst_lat))\b")
_LOOKED_AT = 1 << 20  # characters in which a failure is searched to recognize the tool; a choice: such logs are a page

# CUresult 214 CUDA_ERROR_ECC_UNCORRECTABLE and 220 CUDA_ERROR_NVLINK_UNCORRECTABLE (cuda.h): broken parts.
_BROKEN_GPU = re.compile(r"\berror[=: ]{1,3}(?:214|220)(?!\d)")
_NO_SUCH_GPU = re.compile(r"No such device ID \(\d{1,5}\)")
_PORT_STATE = re.compile(r"Port number \d{1,5} state is ")
_NOT_FOUND = re.compile(r"IB device \S{1,80} not found")
_STATUS = re.compile(r"status(?:[ =]|-[^()\n]{0,60} \(|[ -]{1,8})(\d{1,3})(?!\d)")
_CUT = 300  # characters kept of one failure's text; a choice, the longest real one is 130


@dataclass(frozen=True, slots=True)
class PerftestFailure:
    """Why the tool gave up, in its own words; *kind* is a key of ``KINDS``."""

    kind: str
    text: str

    @property
    def blames_fabric(self) -> bool:
        """
        Return whether the failure says that the fabric is bad, rather than that we could not measure.

        Of the completion errors only status 12, transport retries exceeded, does: 4 is local protection, 5 a flush
        after another error, 13 a receiver that was not ready. Of the CUDA errors only those of a GPU that is broken do.
        """
        if self.kind == "completion_error":
            return _status(self.text) == 12
        if self.kind == "cuda_error":
            return _BROKEN_GPU.search(self.text) is not None
        return self.kind in FABRIC

    @property
    def known(self) -> FailureKind | None:
        """Return the kind of failure that decisions use; None where nothing follows from it."""
        if self.kind == "completion_error":
            return FailureKind.RETRIES_EXCEEDED if _status(self.text) == 12 else None
        if self.kind == "cuda_error":
            return FailureKind.NO_SUCH_GPU if _NO_SUCH_GPU.search(self.text) else None
        return FailureKind.PORT_DOWN if self.kind == "port_down" else None


def complaints(lines: Sequence[str]) -> tuple[PerftestFailure, ...]:
    """Return the first failure of each kind, in the order printed; empty when the tool did not complain."""
    found: dict[str, str] = {}
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        kind = _kind(line)
        if kind is not None and kind not in found:
            found[kind] = _with_status(line, following) if kind == "completion_error" else line
    if len(found) > 1:
        found.pop("complaint", None)
    return tuple(PerftestFailure(kind, line.strip()[:_CUT]) for kind, line in found.items())


def complains(text: str) -> bool:
    """Return whether a text complains in perftest's own words, or about one of its programs by name."""
    complaints = (line for line in text[:_LOOKED_AT].splitlines() if _kind(line) not in (None, "complaint"))
    return any(_PROGRAM.search(line) or not any(words in line for words in _ANYBODYS) for line in complaints)


def _status(text: str) -> int | None:
    """Return the work completion status that a text names, None when it names none."""
    found = _STATUS.search(text)
    return int(found[1]) if found else None


@lru_cache(maxsize=4096)  # nearly all lines are the same in every run on every host
def _kind(line: str) -> str | None:
    if "arning" in line or "WARNING" in line:  # libibverbs warns of every driver that is not installed
        return None
    for text, kind in _KIND_OF.items():
        if text in line:
            return kind
    if "state is" in line and _PORT_STATE.search(line):
        return "port_down"
    if "not found" in line and _NOT_FOUND.search(line):
        return "no_device"
    return None


def _with_status(line: str, following: str) -> str:
    """Append the status from the next line, where ``Completion with error at client`` has it."""
    if _status(line) is None and _status(following) is not None:
        return f"{line.strip()}: {following.strip()}"
    return line
