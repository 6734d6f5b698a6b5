"""GPUDirect, locked memory, loopback mode, login, reach, clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.checks.account import LIMITS as LIMITS_ASKED
from fabric.checks.account import LOGIN, MEMLOCK
from fabric.checks.ask import HostAnswer
from fabric.checks.gpus import GPUDIRECT
from fabric.checks.gpus import MODULES as MODULES_ASKED
from fabric.checks.in_band import IN_BAND
from fabric.checks.machines import CLOCK, DATE, TRUE, read_reach, usable
from fabric.checks.needs import HostNeeds
from fabric.checks.rnics import LOOPBACK
from fabric.model.command import Command
from fabric.model.finding import Finding, Severity
from tests.checks.asked import EVERYTHING, HOST, answer, compared, found, severities
from tests.places import CAPTURES

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


def _true(stdout: str = "", stderr: str = "", took_s: float = 0.01) -> HostAnswer:
    return HostAnswer(Command(HOST.name, TRUE, 15.0), 0, stdout, stderr, 1.0, 1.0 + took_s)


def test_a_slow_login_is_a_warning_over_ssh_only() -> None:
    """The quicker of two counts: the first may have waited for the connection."""
    slow = [_true(took_s=2.0), _true(took_s=0.3)]
    (one,) = read_reach(slow, ssh=True)
    assert (one.severity, one.what) == (Severity.WARNING, "'true' takes more than 200 ms")
    assert list(read_reach(slow, ssh=False)) == []
    assert list(read_reach([_true(took_s=2.0), _true()], ssh=True)) == []


def test_a_login_shell_that_talks_is_a_problem() -> None:
    """Its text would be taken for a tool's; on stderr it is a warning."""
    assert severities(list(read_reach([_true("Welcome!\n")], ssh=True))) == [Severity.PROBLEM]
    assert not usable([_true("Welcome!\n")])
    assert severities(list(read_reach([_true("", "bash: warning: setlocale\n")], ssh=True))) == [Severity.WARNING]


def _clock(ahead_s: float, way_s: float = 0.01) -> HostAnswer:
    time = f"{1_700_000_100 + ahead_s:.9f}\n"
    return HostAnswer(Command(HOST.name, DATE, 15.0), 0, time, "", 100.0 - way_s / 2, 100.0 + way_s / 2)


def test_a_clock_that_is_surely_off_is_named() -> None:
    """Beyond what the way there and back leaves open; one that is not said is told."""
    said = {"a": _clock(0), "b": _clock(0.001), "c": _clock(-7.3), "d": _clock(0.5, way_s=1.0)}
    (one,) = compared(CLOCK, {host: {DATE: clock} for host, clock in said.items()})
    assert (one.hosts, one.what) == (("c",), "its clock is 7.3 s behind the others")
    (silent,) = compared(CLOCK, {"a": {DATE: answer(DATE, "1700000000.N\n")}})
    assert silent.what.startswith("its time was not said")
