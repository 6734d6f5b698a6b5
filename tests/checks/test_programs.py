"""Programs: there or not, what version, with or without CUDA; RNICs and GPUs against the inventory."""

from dataclasses import replace

import pytest

from fabric.checks.kind import Alters, Argv, HostAnswer, HostNeeds
from fabric.checks.parts import GPU_LIST as LIST_GPUS
from fabric.checks.parts import GPUS, JOBS, RNICS
from fabric.checks.programs import LAUNCHER, LINKS, PROGRAMS, PYTHON, PYTHON_VERSION, VERSIONS
from fabric.model.finding import Finding, Severity
from fabric.tools.sysfs import DEVICES as LIST
from tests.checks.asked import EVERYTHING, HOST, answer, compared, found
from tests.places import CAPTURES

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


SAMPLES = CAPTURES / "sysfs"
DEVICES = [f"mlx5_{number}" for number in range(8)]
FILES = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}


def _rnics(devices: list[str] = DEVICES, **of_mlx5_3: str) -> list[Finding]:
    """A healthy host but for one RNIC; an empty text: the kernel does not say it."""
    argv = RNICS.ask(HOST, EVERYTHING)[1]
    lines = []
    for device in DEVICES:
        files = FILES | (of_mlx5_3 if device == "mlx5_3" else {})
        lines += [f"/sys/class/infiniband/{device}/ports/1/{name}:{text}\n" for name, text in files.items() if text]
    listed = "".join(f"{device}\n" for device in devices)
    return found(RNICS, {LIST: answer(LIST, listed), argv: answer(argv, "".join(lines))})


def test_a_healthy_host_is_fine() -> None:
    """Eight links, all active at line rate."""
    assert _rnics() == []


@pytest.mark.parametrize(
    ("files", "severity", "words"),
    [
        ({"state": "1: DOWN", "phys_state": "2: Polling", "rate": ""}, Severity.PROBLEM, "mlx5_3 is DOWN/Polling"),
        ({"state": "2: INIT"}, Severity.PROBLEM, "mlx5_3 is INIT/LinkUp"),
        ({"rate": "200 Gb/sec (2X NDR)"}, Severity.PROBLEM, "runs at 200 Gb/s (2X), the inventory has 400"),
        ({"rate": "800 Gb/sec (4X XDR)"}, Severity.WARNING, "runs at 800 Gb/s"),
        ({"link_layer": "Ethernet"}, Severity.PROBLEM, "mlx5_3 is Ethernet, the inventory has InfiniBand"),
        ({"rate": "fast"}, Severity.UNKNOWN, "rate is 'fast'"),
        ({"state": ""}, Severity.UNKNOWN, "the state of mlx5_3 port 1 cannot be read"),
        ({"state": "4: DOW"}, Severity.UNKNOWN, "the state of mlx5_3 port 1 cannot be read"),
    ],
)
def test_a_bad_link_is_named(files: dict[str, str], severity: Severity, words: str) -> None:
    """One finding, of the right weight, about that RNIC."""
    (one,) = _rnics(**files)
    assert one.severity is severity
    assert words in one.what


def test_a_missing_rnic_is_told_once() -> None:
    """Not a second time as a link that cannot be read."""
    (one,) = _rnics([device for device in DEVICES if device != "mlx5_3"], state="", phys_state="")
    assert one.what == "no RNIC mlx5_3"


def test_a_host_without_the_driver_has_no_rnic() -> None:
    """No folder at all is an answer, not a lack of one."""
    no_folder = "ls: cannot access '/sys/class/infiniband': No such file or directory\n"
    argv = RNICS.ask(HOST, EVERYTHING)[1]
    said: dict[Argv, HostAnswer] = {
        LIST: answer(LIST, "", no_folder, 2),
        argv: answer(argv, "", "grep: No such file", 2),
    }
    (one,) = found(RNICS, said)
    assert one.severity is Severity.PROBLEM
    assert all(device in one.what for device in DEVICES)


def test_a_recorded_h100_host_is_fine() -> None:
    """The kernel's own words, from a real host."""
    text = (SAMPLES / "01-real-h100-mlx5_0-sysfs.txt").read_text()
    lines = [line.replace(": ", ":", 1) for line in text.splitlines() if "/ports/" in line or "counters" not in line]
    said = "".join(f"/sys/class/infiniband/{line}\n" for line in lines)
    host = replace(HOST, platform=replace(HOST.platform, rnics=HOST.platform.rnics[:1]))
    argv = RNICS.ask(host, EVERYTHING)[1]
    assert found(RNICS, {LIST: answer(LIST, "mlx5_0\n"), argv: answer(argv, said)}, host=host) == []


EIGHT = "".join(f"{number}, NVIDIA H100 80GB HBM3, Disabled, Enabled\n" for number in range(8))


def _gpus(listed: str = EIGHT, jobs: str = "", *, status: int = 0, stderr: str = "") -> list[Finding]:
    first = answer(LIST_GPUS, listed, stderr, status)
    return found(GPUS, {LIST_GPUS: first, JOBS: answer(JOBS, jobs)})


def test_a_driver_that_starts_anew_for_every_program_is_a_warning() -> None:
    """A probe over eight GPUs may then run out of time."""
    (one,) = _gpus(EIGHT.replace("Enabled", "Disabled"))
    assert (one.severity, one.what) == (Severity.WARNING, "persistence mode is off")


@pytest.mark.parametrize(
    ("listed", "status", "severity", "words"),
    [
        (EIGHT[: EIGHT.index("7, ")], 0, Severity.PROBLEM, "7 GPUs, the inventory has 8"),
        ("No devices were found\n", 6, Severity.PROBLEM, "0 GPUs, the inventory has 8"),
        (EIGHT + "8, NVIDIA H100 80GB HBM3, Disabled, Enabled\n", 0, Severity.WARNING, "GPU 8 is not measured"),
        (EIGHT.replace("3, NVIDIA H100 80GB HBM3, Disabled", "3, NVIDIA H100 80GB HBM3, Enabled"), 0,
         Severity.PROBLEM, "MIG is on: GPU 3"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9,
         Severity.PROBLEM, "NVIDIA-SMI has failed"),
        ("Unable to determine the device handle for GPU 0000:43:00.0: GPU is lost.\n", 15,
         Severity.PROBLEM, "GPU is lost"),
        ("", 0, Severity.UNKNOWN, "which GPUs there are was not said"),
        ("what?\n", 0, Severity.UNKNOWN, "which GPUs there are was not said"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_gpus(listed: str, status: int, severity: Severity, words: str) -> None:
    """One finding, of the right weight."""
    (one,) = _gpus(listed, status=status)
    assert one.severity is severity
    assert words in one.what


def test_a_missing_tool_is_a_problem() -> None:
    """Without the driver's tools nothing is known, and nothing would run."""
    (one,) = _gpus("", status=127, stderr="env: 'nvidia-smi': No such file or directory\n")
    assert (one.severity, one.what) == (Severity.PROBLEM, "nvidia-smi is not there")


def test_a_running_job_is_a_problem() -> None:
    """Its programs are named, without their folders."""
    jobs = "GPU-5b1f, 4242, /usr/bin/python3\nGPU-77aa, 4243, /usr/bin/python3\n"
    (one,) = _gpus(jobs=jobs)
    assert (one.severity, one.what) == (Severity.PROBLEM, "2 GPU processes: python3")


_PORT = (
    """0x0000000000100001 "gpu001" 3 1[ ] ==( 4X 2.5 Gbps Active/ LinkUp)==> 0x0000000000200000 2 1[ ] "leaf1" ( )\n"""
)
_SUMMARY = "\n## Summary: 1 nodes checked, 0 bad nodes found\n##          1 ports checked, 0 ports have errors\n"
_ABSENT = (127, "ibqueryerrors: No such file or directory"), "ibqueryerrors is not there"
_NOT_IN_SUDO = (1, "sudo: ibqueryerrors: command not found"), "ibqueryerrors is not there"
_CLOSED = (
    (255, "ibwarn: [7] mad_rpc_open_port: can't open UMAD port (m:1)\nibqueryerrors: iberror: failed: no port\n"),
    "ibqueryerrors cannot look at cables: exit 255: ibqueryerrors: iberror: failed: no port",
)
_PASSWORD = (
    (1, "sudo: a password is required"),
    "ibqueryerrors cannot look at cables: exit 1: sudo: a password is required",
)


@pytest.mark.parametrize(
    ("lacks", "severity"), [((), None), (("a",), Severity.WARNING), (("a", "b"), Severity.PROBLEM)]
)
@pytest.mark.parametrize("trouble", [_ABSENT, _NOT_IN_SUDO, _CLOSED, _PASSWORD])
def test_what_looks_at_cables_must_work_on_some_host(
    lacks: tuple[str, ...], severity: Severity | None, trouble: tuple[tuple[int, str], str]
) -> None:
    """Any of them can be asked for all cables of a subnet; where none can, zero growth is not shown in days."""
    (status, text), what = trouble
    said: dict[str, dict[Argv, HostAnswer]] = {"a": {}, "b": {}}
    for host, answers in said.items():
        for argv in LINKS.ask(HOST, EVERYTHING):
            if "iblinkinfo" in argv:
                answers[argv] = answer(argv, _PORT)
            else:
                answers[argv] = answer(argv, "", text, status) if host in lacks else answer(argv, _SUMMARY)
    findings = compared(LINKS, said)
    assert [(one.severity, one.hosts, one.what) for one in findings] == ([(severity, lacks, what)] if severity else [])
