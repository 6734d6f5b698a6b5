"""Whether the programs that a scenario calls are there, are what they must be, and of one version on all hosts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from fabric.checks.ask import Answer, Argv, excuse, quoted
from fabric.checks.kind import Check, Looked, problem, unknown, warning
from fabric.checks.needs import GUARD_PROGRAMS, HostNeeds
from fabric.model.finding import Finding
from fabric.model.topology import Host

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


PYTHON_VERSION = ("python3", "--version")
PYTHON_LEAST = (3, 6)
_PYTHON = re.compile(r"^Python ([0-9]{1,3})\.([0-9]{1,3})", re.MULTILINE | re.ASCII)


def _ask_programs(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Each program once, in a way that touches no device; ib_write_bw also whether it knows GPUs."""
    asked = tuple(_argv(host, name) for name in _wanted(needs))
    return (*asked, _cuda_argv(host)) if needs.cuda else asked


def _read_programs(looked: Looked) -> Iterator[Finding]:
    """Missing programs, missing libraries, builds that lack what the scenario asks for."""
    host, missing = looked.host, False
    for name in _wanted(looked.needs):
        if found := _wrong(name, looked.answers[_argv(host, name)]):
            missing = missing or name == "ib_write_bw"
            yield found
    if looked.needs.cuda and not missing:
        yield from _cuda(looked.answers[_cuda_argv(host)])


def _compare_versions(hosts: Mapping[str, Looked]) -> Iterator[Finding]:
    """Whoever has another version of a program than most."""
    by_host = {name: _versions(looked) for name, looked in hosts.items()}
    for program in dict.fromkeys(name for found in by_host.values() for name in found):
        counts = Counter(found[program] for found in by_host.values() if program in found)
        usual = min(counts, key=lambda version: (-counts[version], version))
        refused = ", and mpirun may refuse to start on them" if program == "mpirun" else ""
        for host, found in by_host.items():
            version = found.get(program, usual)
            if version != usual:
                yield warning(
                    f"{program} is {version}, elsewhere {usual}",
                    f"hosts with other versions are not measured alike{refused}",
                    "install the same version on all hosts",
                    host,
                )


def _versions(looked: Looked) -> dict[str, str]:
    """The version of each program that says one."""
    found = {}
    for name in _wanted(looked.needs):
        pattern, answer = _VERSION.get(name), looked.answers.get(_argv(looked.host, name))
        match = pattern.search(answer.text) if pattern and answer and not answer.lost else None
        if match:
            found[name] = quoted(match[1])
    return found


def _read_python(looked: Looked) -> Iterator[Finding]:
    """None, or one that is too old; every command works without it, in a session of its own."""
    answer = looked.answers[PYTHON_VERSION]
    match = None if answer.lost else _PYTHON.search(answer.text)
    if match and (int(match[1]), int(match[2])) >= PYTHON_LEAST:
        return
    yield warning(
        f"python3 is {match[1]}.{match[2]}" if match else f"no python3: {excuse(answer)}",
        "one SSH session cannot carry all commands of this host: each takes a session of its own, and is slower",
        f"install python3, {PYTHON_LEAST[0]}.{PYTHON_LEAST[1]} or newer (its standard library is enough)",
    )


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


def _wrong(name: str, answer: Answer) -> Finding | None:
    """What is wrong with one program, None when nothing is."""
    if answer.lost:
        return _unknown(f"{name}: {excuse(answer)}")
    library = _LIBRARY.search(answer.text)
    if library:
        return _problem(
            f"{name} does not start: {quoted(library[1])} is missing",
            "set LD_LIBRARY_PATH for non-interactive shells, or run ldconfig, or name a wrapper under tools:",
        )
    if answer.absent:
        where = f", or say where it is: tools: {{{name}: /path}}" if name in _NAMED_IN_INVENTORY else ""
        return _problem(f"{name} is not there", f"install {_FROM.get(name, name)}{where}")
    if answer.status == 126:
        return _problem(f"{name} cannot be run: {excuse(answer)}", "let this account execute it")
    pattern, what = _IS.get(name, (_VERSION.get(name), "its version"))
    if pattern is None or pattern.search(answer.text):
        return None
    if name == "mpirun":
        return _problem("mpirun is not Open MPI's", "name Open MPI's: tools: {mpirun: /path}")
    return _unknown(f"{name} does not say {what}: {excuse(answer)}")


def _cuda(answer: Answer) -> Iterator[Finding]:
    if _NO_CUDA.search(answer.text):
        yield _problem(
            "ib_write_bw is built without CUDA (--use_cuda is refused)",
            "build perftest with CUDA (./configure CUDA_H_PATH=.../cuda.h) and name it: tools: {ib_write_bw: /path}",
        )
    elif answer.lost or not _VERSION["ib_write_bw"].search(answer.text):
        yield _unknown(f"ib_write_bw --use_cuda: {excuse(answer)}")


def _problem(what: str, advice: str) -> Finding:
    return problem(what, "the scenario calls it", advice)


def _unknown(what: str) -> Finding:
    return unknown(what, "the scenario calls this program", "run it by hand on the host")


PROGRAMS = Check("programs", _ask_programs, _read_programs)
VERSIONS = Check("versions", compare=_compare_versions)
PYTHON = Check("python", lambda _host, needs: (PYTHON_VERSION,) if needs.ssh else (), _read_python)
