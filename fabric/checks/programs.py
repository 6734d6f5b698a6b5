"""Whether the programs that the scenario calls are there, and are what they must be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fabric.checks.answer import Answer, Answers, Argv, excuse, quoted
from fabric.checks.needs import HostNeeds
from fabric.checks.needs_of_changes import GUARD_PROGRAMS
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host

NAME = "programs"

# An option that makes a program say something and end, without touching a device.
_ASKED_WITH: Mapping[str, str] = {
    "numactl": "--hardware",
    "alltoall_perf": "-h",
    "all_reduce_perf": "-h",
    "ibportstate": "-V",
    "iblinkinfo": "-V",
    "perfquery": "-V",
    "sminfo": "-V",
    "ip": "-V",
}
_VERSION: Mapping[str, re.Pattern[str]] = {
    "ib_write_bw": re.compile(r"^\s*Version: (\S+)", re.MULTILINE),
    "ib_write_lat": re.compile(r"^\s*Version: (\S+)", re.MULTILINE),
    "mpirun": re.compile(r"\(Open MPI\) (\S+)"),
    "srun": re.compile(r"^slurm\S* (\S+)", re.MULTILINE),
    "mlxreg": re.compile(r"\b(?:mft|mstflint) ([\w.-]+)"),
    "mlxlink": re.compile(r"\b(?:mft|mstflint) ([\w.-]+)"),
}
"""Programs whose version is told apart; one that does not say it is not the program we know."""
_IS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "numactl": (re.compile(r"^available: [0-9]+ nodes?", re.MULTILINE), "the memory nodes of this host"),
    "alltoall_perf": (re.compile(r"^USAGE: ", re.MULTILINE), "how nccl-tests is used"),
    "all_reduce_perf": (re.compile(r"^USAGE: ", re.MULTILINE), "how nccl-tests is used"),
    "mpirun": (re.compile(r"\(Open MPI\)"), "that it is Open MPI"),
}
_FROM: Mapping[str, str] = {
    "ib_write_bw": "perftest",
    "ib_write_lat": "perftest",
    "alltoall_perf": "nccl-tests",
    "all_reduce_perf": "nccl-tests, built with MPI=1",
    "mpirun": "Open MPI",
    "srun": "Slurm",
    "mlxreg": "NVIDIA MFT (or mstflint's mstreg under this name)",
    "mlxlink": "NVIDIA MFT (or mstflint's mstlink under this name)",
    "ibportstate": "infiniband-diags",
    "iblinkinfo": "infiniband-diags",
    "perfquery": "infiniband-diags",
    "sminfo": "infiniband-diags",
    "flock": "util-linux",
    "setsid": "util-linux",
    "timeout": "coreutils",
    "ip": "iproute2",
}
_NAMED_IN_INVENTORY = ("ib_write_bw", "numactl", "alltoall_perf", "all_reduce_perf", "mpirun", "srun")
_LIBRARY = re.compile(r"error while loading shared libraries: ([^\s:]+)")
# perftest 4.5 has no such option without CUDA; since 2023 it has, and refuses it (src/perftest_parameters.c).
_NO_CUDA = re.compile(r"unrecognized option.*use_cuda|^ ?Unsupported memory type", re.MULTILINE)


def commands(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Each program once, in a way that touches no device; ib_write_bw also whether it knows GPUs."""
    asked = tuple(_argv(host, name) for name in _wanted(needs))
    return (*asked, _cuda_argv(host)) if needs.cuda else asked


def read(host: Host, needs: HostNeeds, answers: Answers) -> Iterator[Finding]:
    """Missing programs, missing libraries, builds that lack what the scenario asks for."""
    missing = False
    for name in _wanted(needs):
        answer = answers[_argv(host, name)]
        found = _wrong(host, name, answer)
        missing = missing or (name == "ib_write_bw" and found is not None)
        if found is not None:
            yield found
    if needs.cuda and not missing:
        yield from _cuda(host, answers[_cuda_argv(host)])


def versions(host: Host, needs: HostNeeds, answers: Answers) -> dict[str, str]:
    """The version of each program that says one."""
    found = {}
    for name in _wanted(needs):
        pattern, answer = _VERSION.get(name), answers.get(_argv(host, name))
        match = pattern.search(answer.text) if pattern and answer and not answer.lost else None
        if match:
            found[name] = quoted(match[1])
    return found


def _wanted(needs: HostNeeds) -> tuple[str, ...]:
    """Through sudo it is sudo that says whether root's programs are there (check ``root``)."""
    alters = needs.alters
    guard = GUARD_PROGRAMS if alters.guarded else ()
    root = () if needs.sudo else alters.programs
    return tuple(dict.fromkeys(needs.programs + guard + root))


def _argv(host: Host, name: str) -> Argv:
    return (host.platform.program(name), _ASKED_WITH.get(name, "--version"))


def _cuda_argv(host: Host) -> Argv:
    """Options are read in order: a build without CUDA refuses the first, any other ends at the second."""
    return (host.platform.program("ib_write_bw"), "--use_cuda=0", "--version")


def _wrong(host: Host, name: str, answer: Answer) -> Finding | None:
    """What is wrong with one program, None when nothing is."""
    if answer.lost:
        return _unknown(host, f"{name}: {excuse(answer)}")
    library = _LIBRARY.search(answer.text)
    if library:
        return _problem(
            host,
            f"{name} does not start: {quoted(library[1])} is missing",
            "set LD_LIBRARY_PATH for non-interactive shells, or run ldconfig, or name a wrapper under tools:",
        )
    if answer.absent:
        where = f", or say where it is: tools: {{{name}: /path}}" if name in _NAMED_IN_INVENTORY else ""
        return _problem(host, f"{name} is not there", f"install {_FROM.get(name, name)}{where}")
    if answer.status == 126:
        return _problem(host, f"{name} cannot be run: {excuse(answer)}", "let this account execute it")
    pattern, what = _IS.get(name, (_VERSION.get(name), "its version"))
    if pattern is None or pattern.search(answer.text):
        return None
    if name == "mpirun":
        return _problem(host, "mpirun is not Open MPI's", "name Open MPI's: tools: {mpirun: /path}")
    return _unknown(host, f"{name} does not say {what}: {excuse(answer)}")


def _cuda(host: Host, answer: Answer) -> Iterator[Finding]:
    if _NO_CUDA.search(answer.text):
        yield _problem(
            host,
            "ib_write_bw is built without CUDA (--use_cuda is refused)",
            "build perftest with CUDA (./configure CUDA_H_PATH=.../cuda.h) and name it: tools: {ib_write_bw: /path}",
        )
    elif answer.lost or not _VERSION["ib_write_bw"].search(answer.text):
        yield _unknown(host, f"ib_write_bw --use_cuda: {excuse(answer)}")


def _problem(host: Host, what: str, advice: str) -> Finding:
    return Finding(NAME, Severity.PROBLEM, (host.name,), what, "the scenario calls it", advice)


def _unknown(host: Host, what: str) -> Finding:
    advice = "run it by hand on the host"
    return Finding(NAME, Severity.UNKNOWN, (host.name,), what, "the scenario calls this program", advice)
