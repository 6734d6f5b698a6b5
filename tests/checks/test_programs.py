"""Programs: there or not, what version, with or without CUDA."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.checks.kind import Alters, HostNeeds
from fabric.checks.programs import LAUNCHER, PROGRAMS, PYTHON, PYTHON_VERSION, VERSIONS
from fabric.model.finding import Finding, Severity
from tests.checks.asked import EVERYTHING, HOST, answer, compared, found

NO_CUDA = "ib_write_bw: unrecognized option '--use_cuda=0'\n Invalid Command or flag.\n"
MPIRUNS = {"a": "4.1.7", "b": "4.1.7", "c": "5.0.3"}
GOOD = {
    "ib_write_bw": ("Version: 6.06\n", 1),
    "numactl": ("available: 2 nodes (0-1)\nnode 0 cpus: 0 1\n", 0),
    "alltoall_perf": ("USAGE: alltoall_perf \n\t[-t,--nthreads <num threads>] \n", 0),
    "mpirun": ("mpirun (Open MPI) 4.1.7\n", 0),
    "srun": ("slurm 22.05.8\n", 0),
    "mlxreg": ("mlxreg, mft 4.35.0-159, Git SHA Hash: N/A\n", 0),
}


def _read(name: str, stdout: str, stderr: str = "", status: int = 0) -> list[Finding]:
    needs = HostNeeds(programs=(name,))
    (argv,) = PROGRAMS.ask(HOST, needs)
    return found(PROGRAMS, answer(argv, stdout, stderr, status), needs)


@pytest.mark.parametrize("name", list(GOOD))
def test_the_programs_we_know_are_fine(name: str) -> None:
    """Each says what only it says; ib_write_bw ends with 1 even then."""
    stdout, status = GOOD[name]
    assert _read(name, stdout, status=status) == []


@pytest.mark.parametrize("name", list(GOOD))
def test_a_program_that_is_missing_is_a_problem(name: str) -> None:
    """127 is the shell's word for it; the advice names the package."""
    (one,) = _read(name, "", f"env: '{name}': No such file or directory\n", 127)
    assert (one.severity, one.what) == (Severity.PROBLEM, f"{name} is not there")


def test_a_missing_library_is_told_apart() -> None:
    """The same exit status, but the program is there."""
    stderr = "alltoall_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file\n"
    (one,) = _read("alltoall_perf", "", stderr, 127)
    assert one.what == "alltoall_perf does not start: libnccl.so.2 is missing"


@pytest.mark.parametrize("name", list(GOOD))
def test_another_program_of_that_name_is_not_fine(name: str) -> None:
    """What it says is not what the program we know says."""
    (one,) = _read(name, "hello\n")
    assert one.severity is (Severity.PROBLEM if name == "mpirun" else Severity.UNKNOWN)


def _cuda(stdout: str, stderr: str, status: int) -> list[Finding]:
    needs = HostNeeds(programs=("ib_write_bw",), cuda=True)
    plain, cuda = PROGRAMS.ask(HOST, needs)
    return found(
        PROGRAMS, {plain: answer(plain, "Version: 6.06\n", "", 1), cuda: answer(cuda, stdout, stderr, status)}, needs
    )


@pytest.mark.parametrize(("stdout", "stderr"), [("", NO_CUDA), (" Unsupported memory type\n", "")])
def test_a_build_without_cuda_is_a_problem(stdout: str, stderr: str) -> None:
    """It refuses the option before it comes to --version: old releases do not know it, new ones say more."""
    (one,) = _cuda(stdout, stderr, 1)
    assert "built without CUDA" in one.what
    assert _cuda("Version: 6.29\n", "", 1) == []


def test_a_launcher_that_does_not_start_as_root_is_a_problem() -> None:
    """Seen by starting one process with the site's own options, as the probes will."""
    host = replace(HOST, platform=replace(HOST.platform, mpirun_options=("--mca", "btl", "self")))
    needs = HostNeeds(programs=("mpirun",))
    (argv,) = LAUNCHER.ask(host, needs)
    assert argv == ("mpirun", "--mca", "btl", "self", "-np", "1", "true")
    refusal = "mpirun has detected an attempt to run as root.\n"
    (one,) = found(LAUNCHER, answer(argv, "", refusal, 1), needs, host)
    assert (one.severity, "--allow-run-as-root" in one.advice) == (Severity.PROBLEM, True)
    (one,) = found(LAUNCHER, answer(argv, "", "mpirun: Error: unknown option '--mcb'\n", 1), needs, host)
    assert "mpirun starts nothing: " in one.what
    assert found(LAUNCHER, answer(argv), needs, host) == []
    assert LAUNCHER.ask(host, HostNeeds(programs=("srun",))) == ()


def test_through_sudo_roots_programs_are_not_asked_for() -> None:
    """They may be where only root looks: sudo itself is asked."""
    needs = replace(EVERYTHING, alters=Alters(("ibportstate",), guarded=True), sudo=True)
    asked = {argv[0] for argv in PROGRAMS.ask(HOST, needs)}
    assert "ibportstate" not in asked
    assert "flock" in asked
    assert "ibportstate" in {argv[0] for argv in PROGRAMS.ask(HOST, replace(needs, sudo=False))}


def test_who_differs_from_most_is_named() -> None:
    """The usual version is that of most hosts."""
    argv = ("mpirun", "--version")
    said = {host: {argv: answer(argv, f"mpirun (Open MPI) {version}\n")} for host, version in MPIRUNS.items()}
    (one,) = compared(VERSIONS, {**said, "d": {}}, HostNeeds(programs=("mpirun",)))
    assert (one.hosts, one.severity) == (("c",), Severity.WARNING)
    assert one.what == "mpirun is 5.0.3, elsewhere 4.1.7"


@pytest.mark.parametrize(("said", "fine"), [("Python 3.6.8\n", True), ("Python 3.5.2\n", False), ("", False)])
def test_python_must_be_3_6(said: str, fine: bool) -> None:
    """An old one is a warning: everything works without."""
    findings = found(PYTHON, answer(PYTHON_VERSION, said))
    assert [one.severity for one in findings] == ([] if fine else [Severity.WARNING])
