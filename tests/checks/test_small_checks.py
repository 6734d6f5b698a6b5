"""GPUDirect, locked memory, loopback mode, login, root, reach, clock, and two names of one machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.checks.account import IN_BAND, LOGIN, MEMLOCK, ROOT, WHO
from fabric.checks.account import LIMITS as LIMITS_ASKED
from fabric.checks.account import STATUS as STATUS_ASKED
from fabric.checks.kind import Alters, Answers, Argv, HostAnswer, HostNeeds
from fabric.checks.parts import GPUDIRECT, LOOPBACK
from fabric.checks.parts import MODULES as MODULES_ASKED
from fabric.checks.pre_flight import CLOCK, DATE, IDS, MACHINE, NETWORK, TRUE, read_reach, usable
from fabric.model.finding import Finding, Severity
from fabric.model.probe import Command
from tests.checks.asked import EVERYTHING, HOST, answer, compared, found, severities
from tests.cli.command_line import called
from tests.places import CAPTURES, INVENTORY

SAMPLES = CAPTURES / "mlxlink"
MODULES = "nvidia 56692736 2011 nvidia_uvm, Live 0x0\nmlx5_ib 524288 0 - Live 0x0\n"
PEERMEM = "nvidia_peermem 16384 0 - Live 0x0\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07\n"
LIMITS = "Max locked memory         {0}               {0}               bytes     \nCapEff:\t{1:016x}\n"
ONE = replace(HOST, platform=replace(HOST.platform, rnics=HOST.platform.rnics[:1]))


@pytest.mark.parametrize(
    ("text", "cuda", "fine"),
    [
        (MODULES + PEERMEM, True, True),
        (MODULES + OPEN, True, False),
        (MODULES + OPEN, False, True),
        (MODULES, False, False),
        (MODULES + "xnvidia_peermem 1 0 - Live\n", True, False),
    ],
)
def test_the_way_to_gpu_memory(text: str, cuda: bool, fine: bool) -> None:
    """ib_write_bw needs the module; NCCL is content with dma-buf of the open driver."""
    findings = found(GPUDIRECT, answer(MODULES_ASKED, text), replace(EVERYTHING, cuda=cuda))
    assert severities(findings) == ([] if fine else [Severity.PROBLEM])


@pytest.mark.parametrize(("text", "fine"), [(MODULES + OPEN, True), (MODULES + PEERMEM, False)])
def test_dma_buf_needs_the_open_driver(text: str, fine: bool) -> None:
    """Where the platform says so; and where it does not, the advice names the key."""
    host = replace(HOST, platform=replace(HOST.platform, use_cuda="dmabuf"))
    assert severities(found(GPUDIRECT, answer(MODULES_ASKED, text), EVERYTHING, host)) == (
        [] if fine else [Severity.PROBLEM]
    )
    advice = [one.advice for one in found(GPUDIRECT, answer(MODULES_ASKED, text))]
    assert all("write use_cuda: dmabuf" in text for text in advice) is fine or not advice


SMINFO = ("sminfo", "-C", "mlx5_0", "-P", "1")
CURL = ("curl", "-n", "https://ufm/ufmRest/app/unhealthy_ports")


@pytest.mark.parametrize(
    ("argv", "stdout", "status", "advice"),
    [
        (SMINFO, "sminfo: sm lid 1 sm guid 0x1, activity count 3 priority 0 state 3 SMINFO_MASTER\n", 0, ""),
        (SMINFO, "sminfo: iberror: failed: query\n", 255, "m_key"),
        (CURL, "[]\n", 0, ""),
        (CURL, "", 60, "ufm_ca"),
    ],
)
def test_whether_switches_and_ufm_answer(argv: tuple[str, ...], stdout: str, status: int, advice: str) -> None:
    """As changes will ask them; the advice names the key of the inventory."""
    needs = replace(EVERYTHING, in_band=(argv,))
    findings = found(IN_BAND, answer(argv, stdout, "", status), needs)
    assert severities(findings) == ([Severity.PROBLEM] if advice else [])
    assert all(advice in one.advice for one in findings)


@pytest.mark.parametrize("status", [0, 7])
def test_telemetry_that_does_not_answer_is_worth_knowing(status: int) -> None:
    """It listens on UFM's own host alone, as it is shipped; all that it tells is told port by port, too."""
    argv = ("curl", "http://ufm:9002/csv/xcset/low_freq_debug")
    findings = found(IN_BAND, answer(argv, "", "", status), replace(EVERYTHING, in_band=(argv,)))
    assert severities(findings) == ([Severity.WARNING] if status else [])


@pytest.mark.parametrize(
    ("limit", "capabilities", "fine"),
    [("unlimited", 0, True), ("65536", 0, False), ("65536", 1 << 14, True), (str(1 << 27), 0, True)],
)
def test_locked_memory(limit: str, capabilities: int, fine: bool) -> None:
    """Unlimited, enough, or an account that is not held to it."""
    findings = found(MEMLOCK, answer(LIMITS_ASKED, LIMITS.format(limit, capabilities)))
    assert severities(findings) == ([] if fine else [Severity.PROBLEM])


def _mode(stdout: str, stderr: str = "", status: int = 0, needs: HostNeeds = EVERYTHING) -> list[Finding]:
    listed, argv = LOOPBACK.ask(ONE, needs)
    said = {listed: answer(listed, "mlx5_0\n"), argv: answer(argv, stdout, stderr, status)}
    return found(LOOPBACK, said, needs, ONE)


def test_an_rnic_left_in_loopback_is_a_problem() -> None:
    """As text and as JSON."""
    assert _mode("Loopback Mode                      : No Loopback \n") == []
    assert _mode('\t\t\t"Loopback Mode" : "No Loopback",\n') == []
    for text in ("Loopback Mode : PHY Remote Loopback \n", '"Loopback Mode" : "PHY Remote Loopback",\n'):
        (one,) = _mode(text)
        assert (one.severity, one.what) == (Severity.PROBLEM, "mlx5_0 is in loopback mode: PHY Remote Loopback")


def test_what_was_not_looked_at_is_said() -> None:
    """A warning: where changes need mlxlink, check "programs" says that it is missing."""
    (one,) = _mode("", "env: 'mlxlink': No such file or directory\n", 127)
    assert (one.severity, one.what) == (Severity.WARNING, "loopback mode was not looked at: mlxlink is not there")


@pytest.mark.parametrize("name", ["01-cx7-ndr-show-module-4.35.txt", "02-cx4-fdr-basic-4.35.txt"])
def test_recorded_rnics_are_in_no_loopback(name: str) -> None:
    """Outputs of real adapters."""
    assert _mode((SAMPLES / name).read_text()) == []


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("Host key verification failed.\n", "does not know the host key"),
        ("ops@gpu002: Permission denied (publickey).\n", "wants a password"),
        ("ssh: Could not resolve hostname gpu002: Name or service not known\n", "does not know its neighbour"),
        ("ssh: connect to host gpu002 port 22: Connection refused\n", "connect to host HOST port 22"),
    ],
)
def test_a_login_that_fails_says_why(stderr: str, words: str) -> None:
    """The neighbour's name is left out, so that hosts with the same trouble are folded."""
    (argv,) = LOGIN.ask(HOST, EVERYTHING)
    (one,) = found(LOGIN, answer(argv, "", stderr, 255))
    assert one.severity is Severity.PROBLEM
    assert words in one.what
    assert found(LOGIN, answer(argv)) == []


def _true(stdout: str = "", stderr: str = "") -> HostAnswer:
    return HostAnswer(Command(HOST.name, TRUE, 15.0), 0, stdout, stderr, 1.0, 1.01)


def test_a_login_shell_that_talks_is_a_problem() -> None:
    """Its text would be taken for a tool's; on stderr it is a warning."""
    assert severities(list(read_reach(_true("Welcome!\n")))) == [Severity.PROBLEM]
    assert not usable(_true("Welcome!\n"))
    assert severities(list(read_reach(_true("", "bash: warning: setlocale\n")))) == [Severity.WARNING]


def _clock(ahead_s: float, way_s: float = 0.01) -> HostAnswer:
    time = f"{1_700_000_100 + ahead_s:.9f}\n"
    return HostAnswer(Command(HOST.name, DATE, 15.0), 0, time, "", 100.0 - way_s / 2, 100.0 + way_s / 2)


def test_a_clock_that_is_surely_off_is_named() -> None:
    """Beyond what the way there and back leaves open; one that is not said is told."""
    said = {"a": _clock(0), "b": _clock(0.001), "c": _clock(-7.3), "d": _clock(0.5, way_s=1.0)}
    (one,) = compared(CLOCK, {host: {DATE: clock} for host, clock in said.items()})
    assert (one.hosts, one.what) == (("c",), "its clock is 7.3 s behind the others")
    (both,) = compared(CLOCK, {"a": {DATE: _clock(0)}, "b": {DATE: _clock(3600)}})
    assert both.hosts == ("a", "b"), "of two nobody knows which is wrong"
    assert both.what == "their clocks are apart by up to 3600 s; which one is right cannot be told"
    (silent,) = compared(CLOCK, {"a": {DATE: answer(DATE, "1700000000.N\n")}})
    assert silent.what.startswith("its time was not said")


NEEDS = HostNeeds(alters=Alters(("mlxreg", "ibportstate"), guarded=True), sudo=True)
STATUS = "Name:\tcat\nUid:\t{0}\t{0}\t{0}\t{0}\n"


def _read(refuse: dict[str, str], there: str = "/usr/bin/sh\n/bin/sh\n/usr/bin/mlxreg\n") -> list[Finding]:
    """*refuse*: what sudo complains of a program; every other is allowed."""
    said: dict[Argv, HostAnswer] = {}
    for argv in ROOT.ask(HOST, NEEDS):
        if argv[0] == "sudo":
            complaint = refuse.get(argv[-1])
            said[argv] = answer(argv, "", complaint, 1) if complaint else answer(argv, f"/usr/bin/{argv[-1]}\n")
        else:
            said[argv] = answer(argv, "ops\n" if argv[0] == "id" else there)
    return found(ROOT, said, NEEDS)


def test_what_is_refused_comes_with_the_line_to_add() -> None:
    """Exact paths, in the order in which sudo looks, and no wildcard."""
    password = "sudo: a password is required\n"
    (one,) = _read({"sh": password, "mlxreg": password})
    assert one.severity is Severity.PROBLEM
    assert "ops ALL=(root) NOPASSWD: /usr/bin/sh, /usr/bin/mlxreg" in one.advice
    assert "*" not in one.advice
    assert "as good as root" in one.advice


def test_a_refused_program_that_is_nowhere_is_said_to_be() -> None:
    """No path is made up."""
    (one,) = _read({"ibportstate": "Sorry, user ops is not allowed to execute 'ibportstate' as root on gpu001.\n"})
    assert "not found there: ibportstate" in one.advice
    assert "NOPASSWD" not in one.advice


def test_a_program_that_root_does_not_have() -> None:
    """sudo finds it nowhere on its own path."""
    (one,) = _read({"ibportstate": "sudo: ibportstate: command not found\n"})
    assert one.what == "root has no program ibportstate"


def test_an_account_that_could_inject_is_not_printed() -> None:
    """What a host calls the account goes into sudoers: only a plain name does."""
    said = {argv: answer(argv, "", "sudo: a password is required\n", 1) for argv in ROOT.ask(HOST, NEEDS)}
    said[WHO] = answer(WHO, "ops ALL=(ALL) NOPASSWD: ALL\nx\n")
    where = next(argv for argv in said if argv[0] == "ls")
    said[where] = answer(where, "/bin/sh\n")
    (one,) = found(ROOT, said, NEEDS)
    assert "ACCOUNT ALL=(root) NOPASSWD: /bin/sh" in one.advice


def test_without_sudo_the_account_must_be_root() -> None:
    """Effective user 0, or a problem that names the setting."""
    needs = replace(NEEDS, sudo=False)
    assert found(ROOT, answer(STATUS_ASKED, STATUS.format(0)), needs) == []
    (one,) = found(ROOT, answer(STATUS_ASKED, STATUS.format(1000)), needs)
    assert "commands run as user 1000" in one.what
    assert "sudo: true" in one.advice


BOOT, OTHER = "3c1f8e2a-9a55-4a43-8f6e-2b1d0c9e7f11", "7d2e9f3b-0b66-4b54-9a7f-3c2e1d0f8a22"


def says(boot: str, network: str = "net:[4026531840]") -> Answers:
    """What a host answers."""
    ids = f"/proc/sys/kernel/random/boot_id:{boot}\n"
    return {IDS: answer(IDS, ids), NETWORK: answer(NETWORK, f"{network}\n")}


def of_machines(*hosts: Answers) -> list[Finding]:
    """What is told of gpu1, gpu2 and so on."""
    return compared(MACHINE, {f"gpu{number}": said for number, said in enumerate(hosts, 1)})


def test_one_boot_id_is_one_machine() -> None:
    (one,) = of_machines(says(BOOT), says(OTHER), says(BOOT))
    assert (one.severity, one.hosts) == (Severity.PROBLEM, ("gpu1", "gpu3"))
    assert one.what == "these names are one machine (boot id 3c1f8e2a)"


def test_containers_of_one_machine_are_not_one() -> None:
    assert of_machines(says(BOOT, network="net:[1]"), says(BOOT, network="net:[2]")) == []


def test_a_host_that_does_not_say_it_is_unknown() -> None:
    silent = {**says(BOOT), IDS: answer(IDS, lost="no answer within 15 s")}
    (one,) = of_machines(silent, says(OTHER))
    assert (one.severity, one.hosts) == (Severity.UNKNOWN, ("gpu1",))


def test_check_names_both_names_of_a_simulated_machine(tmp_path: Path) -> None:
    """gpu002's address leads to gpu001, as a wrong line in DNS would; a healthy rack is told nothing."""
    healthy = INVENTORY / "demo-rack-healthy.yaml"
    assert called(["check", "--inventory", str(healthy)]).returncode == 0
    text = healthy.read_text()
    (tmp_path / "baselines").symlink_to(INVENTORY / "baselines")
    begin, end = text.index('  - names: "gpu'), text.index("\nswitches:") + 1
    entry = text[begin:end].rstrip()
    names = 'names: "gpu[001-008]"'
    assert names in entry
    assert 'address: "{name}' in entry
    first = entry.replace(names, 'names: "gpu[001,003-008]"')
    second = entry.replace(names, "names: gpu002").replace('address: "{name}', 'address: "gpu001.ib')
    (tmp_path / "twice.yaml").write_text(f"{text[:begin]}{first}\n{second}\n\n{text[end:]}")
    said = called(["check", "--inventory", str(tmp_path / "twice.yaml")])
    assert said.returncode == 1
    assert "gpu[001-002]" in said.stdout
    assert "these names are one machine" in said.stdout
