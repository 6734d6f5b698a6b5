"""Why an nccl-tests run gave up: the words of NCCL, nccl-tests, the launcher and the system, sorted into kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fabric.tools.nccl_log import NcclFailure

FABRIC, TESTBENCH = "fabric", "testbench"

# Causes come before consequences: a process that crashed on its own makes its peers' retries run out, and those make
# everybody report a network error.
FAULT: Mapping[str, str] = {
    "wrong_result": FABRIC,
    "missing_library": TESTBENCH,
    "missing_program": TESTBENCH,
    "too_few_gpus": TESTBENCH,
    "out_of_memory": TESTBENCH,
    "cuda_error": TESTBENCH,
    "port_down": FABRIC,
    "ib_completion_error": FABRIC,  # with status 12 only, see blames_fabric
    "ib_verbs_error": TESTBENCH,
    "socket_error": TESTBENCH,
    "segfault": TESTBENCH,
    "test_timeout": TESTBENCH,
    "nccl_remote_error": TESTBENCH,
    "nccl_failure": TESTBENCH,
    "launcher_error": TESTBENCH,
}
"""Whose fault a kind of failure points to, causes first."""

_RANK = {kind: position for position, kind in enumerate(FAULT)}
_REMOTE = "remote process exited or there was a network error"

# Every match of a line counts, once a kind. Texts: nccl-tests, NCCL 2.12-2.30, Open MPI 4 and 5, Slurm, OpenSSH, glibc.
TEXTS: tuple[tuple[str, str], ...] = (
    ("Got completion from peer", "ib_completion_error"),
    (_REMOTE, "nccl_remote_error"),
    ("ncclRemoteError", "nccl_remote_error"),
    ("Test NCCL failure", "nccl_failure"),
    ("NCCL error", "nccl_failure"),
    ("Incompatible NCCL versions", "nccl_failure"),
    ("Test CUDA failure", "cuda_error"),
    ("Cuda failure", "cuda_error"),
    ("CUDA driver version is insufficient", "cuda_error"),
    ("Test timeout (", "test_timeout"),
    ("Call to ibv_", "ib_verbs_error"),
    ("socketStartConnect", "socket_error"),
    ("socketPollConnect", "socket_error"),
    ("Invalid number of GPUs", "too_few_gpus"),
    ("error while loading shared libraries", "missing_library"),
    ("command not found", "missing_program"),
    ("Segmentation fault", "segfault"),
    ("oom-kill", "out_of_memory"),
    ("oom_kill", "out_of_memory"),
    ("Out Of Memory", "out_of_memory"),
    ("Cannot allocate memory", "out_of_memory"),
    ("There are not enough slots available", "launcher_error"),
    ("mpirun was unable to", "launcher_error"),
    ("prterun was unable to", "launcher_error"),
    ("ORTE was unable to", "launcher_error"),
    ("PRTE has lost communication", "launcher_error"),
    ("ORTE has lost communication", "launcher_error"),
    ("ORTE daemon has unexpectedly failed", "launcher_error"),
    ("PRTE daemon has unexpectedly failed", "launcher_error"),
    ("mpirun noticed that process", "launcher_error"),
    ("prterun noticed that process", "launcher_error"),
    ("MPI_ABORT was invoked", "launcher_error"),
    ("srun: error:", "launcher_error"),
    ("slurmstepd: error:", "launcher_error"),
    ("ssh: connect to host", "launcher_error"),
    ("Host key verification failed", "launcher_error"),
    ("Permission denied (publickey", "launcher_error"),
    ("Could not resolve hostname", "launcher_error"),
)

# cudaGetErrorString of cudaErrorECCUncorrectable and cudaErrorNvlinkUncorrectable: broken parts, not a broken set-up.
_BROKEN_GPU = ("uncorrectable ECC error", "uncorrectable NVLink error")

_TOO_FEW = re.compile(r"Invalid number of GPUs: (\d{1,5}) requested but only (\d{1,5}) were found")

# ncclUnhandledCudaError of nccl-tests' own check, and CUDA's words for a GPU that fell silent: what they mean depends
# on what other GPUs of the host do. Memory, a GPU in use, or a driver that is not ready have words of their own.
_OF_ONE_GPU = ("unhandled cuda error", "unspecified launch failure", "unknown error")

_PORT_EVENT = re.compile(r"NET/IB.{0,80}(?:port error|PORT_ERR)", re.IGNORECASE)
_HOSTS = (
    re.compile(r"([A-Za-z0-9][\w.-]{0,252}): Test "),
    re.compile(r"\s*\.\. ([A-Za-z0-9][\w.-]{0,252}) pid \d{1,10}: Test failure"),
    re.compile(r"\s*([A-Za-z0-9][\w.-]{0,252}):\d{1,10}:\d{1,10} \["),
    re.compile(r"\[([A-Za-z0-9][\w.-]{0,252}):\d{1,10}\]"),
    re.compile(r"(?:srun|slurmstepd): error: ([A-Za-z0-9][\w.-]{0,252}): task"),
    re.compile(r"ssh: connect to host ([A-Za-z0-9][\w.-]{0,252}) port"),
)
# status=12 (2.12 and later), error 12 (before), status=IBV_WC_RETRY_EXC_ERR(12) (2.29 and later).
_STATUS = re.compile(r"(?:\bstatus[= ]|\berror )(?:[A-Z_]{1,40}\()?(\d{1,3})(?!\d)")
_CUT = 400  # characters kept of one failure's text; a choice, the longest real ones are about 250


class Failures:
    """Gathers what went wrong: the first text for each host and kind."""

    def __init__(self) -> None:
        self._found: dict[tuple[str | None, str], str] = {}
        self._stacks: dict[str, str] = {}

    def line(self, line: str) -> None:
        """Look at one line that is not nccl-tests' own table or comment."""
        if "NCCL INFO" in line:
            return
        kinds = {kind: line.find(needle) for needle, kind in reversed(TEXTS) if needle in line}
        if "NET/IB" in line and _PORT_EVENT.search(line):
            kinds["port_down"] = line.find("NET/IB")
        # NCCL looks for plugins it can do without, and a shell warns of a locale that the host lacks.
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
        """A table has wrong results."""
        self._found.setdefault((None, "wrong_result"), text)

    def found(self) -> tuple[NcclFailure, ...]:
        """All of them, causes before consequences, else in the order printed."""
        hosts = {host for host, _ in self._found}
        alone = {(host, "nccl_failure"): text for host, text in self._stacks.items() if host not in hosts}
        listed = [NcclFailure(host, kind, text) for (host, kind), text in (self._found | alone).items()]
        return tuple(sorted(listed, key=lambda failure: _RANK[failure.kind]))


def blames_fabric(kind: str, text: str) -> bool:
    """
    Whether a failure says that the fabric is bad, rather than that we could not measure.

    Of the completion errors only status 12, retries exceeded, does; and "a network error" alone never does, since
    NCCL says the same when a peer process ended. Of the CUDA errors only those of a GPU that is itself broken do.
    """
    if kind == "ib_completion_error":
        return status(text) == 12
    if kind == "cuda_error":
        return any(words in text for words in _BROKEN_GPU)
    return FAULT.get(kind) == FABRIC


def too_few_gpus(text: str) -> tuple[int, int] | None:
    """How many GPUs were asked for and how many there are, in the words of nccl-tests; None where it says no such."""
    found = _TOO_FEW.search(text)
    return (int(found[1]), int(found[2])) if found else None


def of_one_gpu(text: str) -> bool:
    """Whether these words mean a bad GPU where every other GPU of the host works; alone they may mean anything."""
    return any(words in text for words in _OF_ONE_GPU)


def status(text: str) -> int | None:
    """The work completion status in a "Got completion" text, None when it names none."""
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _host(line: str) -> str | None:
    matches: Sequence[re.Match[str] | None] = [pattern.match(line) for pattern in _HOSTS]
    return next((match[1] for match in matches if match), None)


def _excerpt(line: str, start: int) -> str:
    """The line, or of a very long one the part that says what happened."""
    text = line.strip()
    return text if len(text) <= _CUT else line[start : start + _CUT].strip()
