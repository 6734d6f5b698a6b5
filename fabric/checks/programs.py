"""Whether the programs that a scenario calls are there, are the right ones, and have one version on all hosts."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fabric.checks.kind import (
    GUARD_PROGRAMS,
    Argv,
    HostAnswer,
    HostCheck,
    HostNeeds,
    Looked,
    excuse,
    problem,
    quoted,
    unknown,
    usual,
    warning,
)
from fabric.errors import ToolError
from fabric.model import gathered
from fabric.model.finding import Finding
from fabric.model.topology import Host
from fabric.tools import infiniband

_PERFTEST = re.compile(r"^\s*Version: (\S+)", re.MULTILINE)
_MFT = re.compile(r"\b(?:mft|mstflint) ([\w.-]+)")
_USAGE = (re.compile(r"^USAGE: ", re.MULTILINE), "how nccl-tests is used")
_OPEN_MPI = (re.compile(r"\(Open MPI\)"), "that it is Open MPI")
_NODES = (re.compile(r"^available: [0-9]+ nodes?", re.MULTILINE), "the memory nodes of this host")


@dataclass(frozen=True, slots=True)
class _Program:
    """
    How a program is recognized.

    *package*: what to install for it. *option*: makes it print something and end, without touching a device. *version*
    finds its version; *says* is a pattern, and what it shows, that proves that it is the program we know. If neither is
    set, the program is not checked. *named*: the inventory may say where it is. *measures*: it is a probe's own
    program, which a wrapper may start.
    """

    package: str
    option: str = "--version"
    version: re.Pattern[str] | None = None
    says: tuple[re.Pattern[str], str] | None = None
    named: bool = False
    measures: bool = False


_PROGRAMS = {
    **dict.fromkeys(
        ("ib_write_bw", "ib_write_lat"), _Program("perftest", version=_PERFTEST, named=True, measures=True)
    ),
    "numactl": _Program("numactl", "--hardware", says=_NODES, named=True, measures=True),
    "alltoall_perf": _Program("nccl-tests", "-h", says=_USAGE, named=True, measures=True),
    "all_reduce_perf": _Program("nccl-tests, built with MPI=1", "-h", says=_USAGE, named=True, measures=True),
    "mpirun": _Program("Open MPI", version=re.compile(r"\(Open MPI\) (\S+)"), says=_OPEN_MPI, named=True),
    "srun": _Program("Slurm", version=re.compile(r"^slurm\S* (\S+)", re.MULTILINE), named=True),
    "mlxreg": _Program("NVIDIA MFT (or mstflint's mstreg under this name)", version=_MFT),
    "mlxlink": _Program("NVIDIA MFT (or mstflint's mstlink under this name)", version=_MFT),
    **dict.fromkeys(
        ("ibportstate", "iblinkinfo", "perfquery", "sminfo", "smpquery"), _Program("infiniband-diags", "-V")
    ),
    **dict.fromkeys(("flock", "setsid"), _Program("util-linux")),
    **dict.fromkeys(("timeout", "tee"), _Program("coreutils")),
    **dict.fromkeys(("ip", "dcb"), _Program("iproute2", "-V")),
}
_NOT_FOUND = re.compile(r"^sudo: \S+: command not found", re.MULTILINE)
_LIBRARY = re.compile(r"error while loading shared libraries: ([^\s:]+)")
# perftest 4.5 has no such option without CUDA; since 2023 it has, and refuses it (src/perftest_parameters.c).
_NO_CUDA = re.compile(r"unrecognized option.*use_(?:cuda|rocm)|^ ?Unsupported memory type", re.MULTILINE)


PYTHON_VERSION = ("python3", "--version")
PYTHON_LEAST = (3, 6)
_PYTHON = re.compile(r"^Python ([0-9]{1,3})\.([0-9]{1,3})", re.MULTILINE | re.ASCII)


def _ask_programs(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Ask each program once, in a way that touches no device; ask ib_write_bw also whether it knows GPUs."""
    asked = tuple(_argv(host, name) for name in _wanted(needs))
    return (*asked, _cuda_argv(host)) if needs.cuda else asked


def _read_programs(looked: Looked) -> Iterator[Finding]:
    """Report missing programs, missing libraries, and builds that lack what the scenario asks for."""
    host, missing = looked.host, False
    for name in _wanted(looked.needs):
        if found := _wrong(name, looked.answers[_argv(host, name)]):
            missing = missing or name == "ib_write_bw"
            yield found
    if looked.needs.cuda and not missing:
        yield from _cuda(looked.answers[_cuda_argv(host)])


def _compare_versions(hosts: Mapping[str, Looked]) -> Iterator[Finding]:
    """Report hosts that have another version of a program than most."""
    by_host = {name: _versions(looked) for name, looked in hosts.items()}
    for program in dict.fromkeys(name for found in by_host.values() for name in found):
        most = usual(found.get(program) for found in by_host.values())
        refused = ", and mpirun may refuse to start on them" if program == "mpirun" else ""
        for host, found in by_host.items():
            version = found.get(program, most)
            if version != most:
                yield warning(
                    f"{program} is {version}, elsewhere {most}",
                    f"hosts with other versions are not measured alike{refused}",
                    "install the same version on all hosts",
                    host,
                )


def _versions(looked: Looked) -> dict[str, str]:
    """Return the version of each program that prints one."""
    found = {}
    for name in _wanted(looked.needs):
        pattern, answer = _known(name).version, looked.answers.get(_argv(looked.host, name))
        match = pattern.search(answer.text) if pattern and answer else None
        if match:
            found[name] = quoted(match[1])
    return found


def _read_python(looked: Looked) -> Iterator[Finding]:
    """Report a missing or too old python3; every command works without it, in an SSH session of its own."""
    answer = looked.answers[PYTHON_VERSION]
    match = _PYTHON.search(answer.text)
    if match and (int(match[1]), int(match[2])) >= PYTHON_LEAST:
        return
    yield warning(
        f"python3 is {match[1]}.{match[2]}" if match else f"no python3: {excuse(answer)}",
        "one SSH session cannot carry all commands of this host: each takes a session of its own, and is slower",
        f"install python3, {PYTHON_LEAST[0]}.{PYTHON_LEAST[1]} or newer (its standard library is enough)",
    )


def _wanted(needs: HostNeeds) -> tuple[str, ...]:
    """Return the programs to ask; with sudo, root's programs are left to sudo (check ``root``)."""
    alters = needs.alters
    guard = GUARD_PROGRAMS if alters.guarded else ()
    root = () if needs.sudo else alters.programs
    return tuple(dict.fromkeys(needs.programs + guard + root))


def _argv(host: Host, name: str) -> Argv:
    return (*_called(host, name), _known(name).option)


def _called(host: Host, name: str) -> Argv:
    """Return the command as the probes call it: a program that measures runs behind the site's wrapper."""
    wrapper = host.platform.wrapper if _known(name).measures else ()
    return (*wrapper, host.platform.program(name))


def _known(name: str) -> _Program:
    return _PROGRAMS.get(name) or _Program(name)


def _cuda_argv(host: Host) -> Argv:
    """
    Return the command for the GPU options. They are read in order: a build without CUDA refuses the first option, any
    other build ends at the second.
    """
    option = "--use_rocm" if host.platform.amd else "--use_cuda"
    dmabuf = (f"{option}_dmabuf",) if host.platform.use_cuda == "dmabuf" else ()
    return (*_called(host, "ib_write_bw"), f"{option}=0", *dmabuf, "--version")


def _wrong(name: str, answer: HostAnswer) -> Finding | None:
    """Return what is wrong with one program, None when nothing is."""
    known = _known(name)
    if answer.lost:
        return _unknown(f"{name}: {excuse(answer)}")
    library = _LIBRARY.search(answer.text)
    if library:
        return _problem(
            f"{name} does not start: {quoted(library[1])} is missing",
            "set LD_LIBRARY_PATH for non-interactive shells, or run ldconfig, or name a wrapper under tools:",
        )
    if answer.absent:
        where = f", or say where it is: tools: {{{name}: /path}}" if known.named else ""
        return _problem(f"{name} is not there", f"install {known.package}{where}")
    if answer.exit_status == 126:
        return _problem(f"{name} cannot be run: {excuse(answer)}", "let this account execute it")
    pattern, what = known.says or (known.version, "its version")
    if pattern is None or pattern.search(answer.text):
        return None
    if name == "mpirun":
        return _problem("mpirun is not Open MPI's", "name Open MPI's: tools: {mpirun: /path}")
    return _unknown(f"{name} does not say {what}: {excuse(answer)}")


def _cuda(answer: HostAnswer) -> Iterator[Finding]:
    if _NO_CUDA.search(answer.text):
        lacks = "ROCm (--use_rocm" if "use_rocm" in answer.text else "CUDA (--use_cuda"
        lacks = "DMA-BUF (--use_cuda_dmabuf" if "use_cuda_dmabuf" in answer.text else lacks
        yield _problem(
            f"ib_write_bw is built without {lacks} is refused)",
            "build perftest with it (./configure CUDA_H_PATH=.../cuda.h, or --enable-rocm) and name it:"
            " tools: {ib_write_bw: /path};"
            " or measure host memory only: use_cuda: no",
        )
    elif not _PERFTEST.search(answer.text):
        yield _unknown(f"ib_write_bw --use_cuda: {excuse(answer)}")


def _problem(what: str, advice: str) -> Finding:
    return problem(what, "the scenario calls it", advice)


def _unknown(what: str) -> Finding:
    return unknown(what, "the scenario calls this program", "run it by hand on the host")


def _ask_launcher(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Ask mpirun to start one process on the host itself, with the site's options: it touches no GPU and no network."""
    if "mpirun" not in needs.programs:
        return ()
    return ((host.platform.program("mpirun"), *host.platform.mpirun_options, "-np", "1", "true"),)


def _read_launcher(looked: Looked) -> Iterator[Finding]:
    """Report that mpirun starts nothing, and why; a missing mpirun is reported by ``programs``."""
    (argv,) = _ask_launcher(looked.host, looked.needs)
    answer = looked.answers[argv]
    if answer.lost:
        yield _unknown(f"mpirun: {excuse(answer)}")
    elif "attempt to run as root" in answer.text:
        advice = "write mpirun_options: [--allow-run-as-root] in the platform, or log in as another account"
        yield _problem("mpirun does not start as root", advice)
    elif answer.exit_status != 0 and not answer.absent:
        yield _problem(f"mpirun starts nothing: {excuse(answer)}", "run it by hand; mpirun_options are right behind it")


_LOOKS: Mapping[str, Callable[[str, str, int], object]] = {
    "iblinkinfo": infiniband.read_ports,
    "ibqueryerrors": infiniband.read_errors,
}
"""What says which ends are joined and what each has counted, and how its answer is read."""


def _read_links(looked: Looked) -> Iterator[Finding]:
    """Report questions that were not answered in time; what cannot look is compared."""
    for program in _LOOKS:
        lost = [one for argv in looked.needs.links if program in argv and (one := looked.answers[argv]).lost]
        if lost:
            yield _unknown(f"{program}: {excuse(lost[0])}")


def _compare_links(hosts: Mapping[str, Looked]) -> Iterator[Finding]:
    """Report programs that cannot look at cables on any of the hosts that may be asked, or on some of them."""
    looking = {name: looked for name, looked in hosts.items() if looked.needs.links}
    for program in _LOOKS:
        troubles = [(name, found) for name, looked in looking.items() if (found := _cannot_look(program, looked))]
        report, why = warning, "others are asked for both ends of every cable in its place"
        if len(troubles) == len(looking):
            report, why = problem, "no cable would be looked at from both ends, and zero growth there is not shown"
        for (what, advice), names in gathered((found, name) for name, found in troubles).items():
            yield report(what, why, advice, *names)


def _cannot_look(program: str, looked: Looked) -> tuple[str, str] | None:
    """Return why a program cannot look at cables from a host, and what to do about it; None where it can."""
    for answer in (looked.answers[argv] for argv in looked.needs.links if program in argv):
        if answer.absent or _NOT_FOUND.search(answer.text):
            return f"{program} is not there", "install infiniband-diags"
        try:
            if not answer.lost:
                _LOOKS[program](answer.stdout, answer.stderr, answer.exit_status)
        except ToolError:
            advice = "load ib_umad; log in as root, or sudo: true under changes: and the program in sudoers"
            return f"{program} cannot look at cables: {excuse(answer)}", advice
    return None


LINKS = HostCheck("links", lambda _host, needs: needs.links, _read_links, _compare_links)
LAUNCHER = HostCheck("launcher", _ask_launcher, _read_launcher)
PROGRAMS = HostCheck("programs", _ask_programs, _read_programs)
VERSIONS = HostCheck("versions", compare=_compare_versions)
PYTHON = HostCheck("python", lambda _host, needs: (PYTHON_VERSION,) if needs.ssh else (), _read_python)
