"""Why an nccl-tests run gave up: the words of NCCL, nccl-tests, the launcher and the system, sorted into kinds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric.model.probe import FailureKind

FABRIC = frozenset({"wrong_result", "port_down", "ib_completion_error"})
"""Kinds that point to the fabric and not to us (an ``ib_completion_error`` with status 12 only, see blames_fabric)."""

OF_THE_SHELL = frozenset({"missing_program", "missing_library"})
"""
Kinds that a login shell prints as well, when it reads its start-up files: mpirun reaches other hosts through one.

They say nothing of a job that ended well.
"""

OF_ITS_OWN = frozenset({"port_down", "no_device", "cuda_error"})
"""Kinds, perftest's too, that concern a part of the host that prints them."""

# Every match of a line counts, once a kind. Texts: nccl-tests, NCCL 2.12-2.30, Open MPI 4 and 5, Hydra
# (MPICH, Intel MPI, MVAPICH), Slurm, OpenSSH, glibc.
KINDS: Mapping[str, tuple[str, ...]] = {
    "wrong_result": (),
    "missing_library": ("error while loading shared libraries",),
    "missing_program": ("command not found",),
    "other_mpi": ("[mpiexec@",),
    "too_few_gpus": ("Invalid number of GPUs",),
    "out_of_memory": ("oom-kill", "oom_kill", "Out Of Memory", "Cannot allocate memory"),
    "cuda_error": ("Test CUDA failure", "Cuda failure", "CUDA driver version is insufficient"),
    "port_down": (),
    "killed": ("exited on signal 9 (Killed)",),
    "ib_completion_error": ("Got completion from peer",),
    "ib_verbs_error": ("Call to ibv_",),
    "socket_error": ("socketStartConnect", "socketPollConnect"),
    "segfault": ("Segmentation fault",),
    "test_timeout": ("Test timeout (",),
    "nccl_remote_error": ("remote process exited or there was a network error", "ncclRemoteError"),
    "nccl_failure": ("Test NCCL failure", "NCCL error", "Incompatible NCCL versions"),
    "launcher_error": (
        "There are not enough slots available", "mpirun was unable to", "prterun was unable to", "ORTE was unable to",
        "PRTE has lost communication", "ORTE has lost communication", "ORTE daemon has unexpectedly failed",
        "PRTE daemon has unexpectedly failed", "mpirun noticed that process", "prterun noticed that process",
        "attempt to run as root", "MPI_ABORT was invoked", "srun: error:", "slurmstepd: error:", "ssh: connect to host",
        "Host key verification failed", "Permission denied (publickey", "Could not resolve hostname",
    ),
}  # fmt: skip
"""
Texts that are printed for each kind, causes before consequences.

A process that crashed on its own makes its peers' retries run out, and then every rank reports a network error. Of
processes that ended by a signal Open MPI names the first, and not those that it ends itself because of that.
"""

_RANK = {kind: position for position, kind in enumerate(KINDS)}

# cudaGetErrorString of cudaErrorECCUncorrectable and cudaErrorNvlinkUncorrectable: broken parts, not a broken set-up.
_BROKEN_GPU = ("uncorrectable ECC error", "uncorrectable NVLink error")

_TOO_FEW = re.compile(r"Invalid number of GPUs: (\d{1,5}) requested but only (\d{1,5}) were found")

# ncclUnhandledCudaError of nccl-tests' own check, and CUDA's words for a GPU that fell silent: what they mean depends
# on the other GPUs of the host. Lack of memory, a GPU in use, or a driver that is not ready have words of their own.
_OF_ONE_GPU = ("unhandled cuda error", "unspecified launch failure", "unknown error")

_PORT_EVENT = re.compile(r"NET/IB.{0,80}(?:port error|PORT_ERR)", re.IGNORECASE)
_HOSTS = (
    re.compile(r"([A-Za-z0-9][\w.-]{0,252}): Test "),
    re.compile(r"\s*\.\. ([A-Za-z0-9][\w.-]{0,252}) pid \d{1,10}: Test failure"),
    re.compile(r"\s*([A-Za-z0-9][\w.-]{0,252}):\d{1,10}:\d{1,10} \["),
    re.compile(r"\[([A-Za-z0-9][\w.-]{0,252}):\d{1,10}\]"),
    re.compile(
        r"(?:mpi|prte)run noticed that process rank \d{1,10} with PID \d{1,10} on node ([A-Za-z0-9][\w.-]{0,252}) "
    ),
    re.compile(r"(?:srun|slurmstepd): error: ([A-Za-z0-9][\w.-]{0,252}): task"),
    re.compile(r"ssh: connect to host ([A-Za-z0-9][\w.-]{0,252}) port"),
)
# status=12 (2.12 and later), error 12 (before), status=IBV_WC_RETRY_EXC_ERR(12) (2.29 and later).
_STATUS = re.compile(r"(?:\bstatus[= ]|\berror )(?:[A-Z_]{1,40}\()?(\d{1,3})(?!\d)")
_CUT = 400  # characters kept of one failure's text; a choice, the longest real ones are about 250


@dataclass(frozen=True, slots=True)
class NcclFailure:
    """
    Why the run gave up, in the words printed; *kind* is a key of ``KINDS``.

    *host* printed it, or is where mpirun saw a process end: it noticed the failure, which does not make it the culprit.
    """

    host: str | None
    kind: str
    text: str

    @property
    def blames_fabric(self) -> bool:
        """
        Return whether the failure says that the fabric is bad, rather than that we could not measure.

        Of the completion errors only status 12, retries exceeded, does; "a network error" alone never does, since NCCL
        says the same when a peer process ended. Of the CUDA errors only those of a GPU that is itself broken do.
        """
        if self.kind == "ib_completion_error":
            return self._retries_exceeded
        if self.kind == "cuda_error":
            return any(words in self.text for words in _BROKEN_GPU)
        return self.kind in FABRIC

    @property
    def known(self) -> FailureKind | None:
        """Return the kind of failure that decisions use; None where nothing follows from it."""
        if self.kind == "ib_completion_error":
            return FailureKind.RETRIES_EXCEEDED if self._retries_exceeded else None
        if self.kind == "too_few_gpus":
            found = _TOO_FEW.search(self.text)
            return FailureKind.TOO_FEW_GPUS if found and 0 < int(found[2]) < int(found[1]) else None
        if self.kind == "port_down":
            return FailureKind.PORT_DOWN
        if self.kind == "nccl_remote_error":
            return FailureKind.REMOTE_ERROR
        return FailureKind.GPU_FAILED if any(words in self.text for words in _OF_ONE_GPU) else None

    @property
    def _retries_exceeded(self) -> bool:
        """Return whether the work completion status in a "Got completion" text is 12."""
        found = _STATUS.search(self.text)
        return found is not None and int(found[1]) == 12


class Failures:
    """Gathers failures: the first text for each host and kind."""

    def __init__(self) -> None:
        self._found: dict[tuple[str | None, str], str] = {}
        self._stacks: dict[str, str] = {}

    def line(self, line: str) -> None:
        """Look at one line that is not nccl-tests' own table or comment."""
        if "NCCL INFO" in line:
            return
        kinds = {kind: line.find(text) for kind, texts in KINDS.items() for text in reversed(texts) if text in line}
        if "NET/IB" in line and _PORT_EVENT.search(line):
            kinds["port_down"] = line.find("NET/IB")
        # NCCL looks for optional plugins, and a shell warns of a locale that the host lacks.
        if "No such file or directory" in line and "NCCL" not in line and "arning" not in line:
            kinds["missing_program"] = line.find("No such file")
        if "missing_library" in kinds:
            kinds.pop("missing_program", None)
        if "nccl_remote_error" in kinds:
            kinds.pop("nccl_failure", None)
        if kinds:
            host = _host(line)
            for kind, start in kinds.items():
                self._found.setdefault((host, kind), _excerpt(line, start))
        elif ": Test failure " in line:
            host = _host(line)
            if host is not None:
                self._stacks.setdefault(host, _excerpt(line, 0))

    def wrong_result(self, text: str) -> None:
        """Note that a table has wrong results."""
        self._found.setdefault((None, "wrong_result"), text)

    def found(self) -> tuple[NcclFailure, ...]:
        """Return all failures, causes before consequences, else in the order printed."""
        hosts = {host for host, _ in self._found}
        alone = {(host, "nccl_failure"): text for host, text in self._stacks.items() if host not in hosts}
        listed = [NcclFailure(host, kind, text) for (host, kind), text in (self._found | alone).items()]
        return tuple(sorted(listed, key=lambda failure: _RANK[failure.kind]))


def _host(line: str) -> str | None:
    matches: Sequence[re.Match[str] | None] = [pattern.match(line) for pattern in _HOSTS]
    return next((match[1] for match in matches if match), None)


def _excerpt(line: str, start: int) -> str:
    """Return the line, or of a very long line the part that says what happened."""
    text = line.strip()
    return text if len(text) <= _CUT else line[start : start + _CUT].strip()
