"""GPUDirect, locked memory, loopback mode, KEEP_LINK_UP, login, reach, clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.checks import clock, gpudirect, keep_link_up, locked_memory, login, loopback_mode, reach, rnics
from fabric.checks.answer import Answer
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding, Severity
from tests.checks.asked import EVERYTHING, HOST, answer, found, severities
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
    findings = found(gpudirect, answer(gpudirect.ARGV, text), replace(EVERYTHING, cuda=cuda))
    assert severities(findings) == ([] if fine else [Severity.PROBLEM])


@pytest.mark.parametrize(
    ("limit", "capabilities", "fine"),
    [("unlimited", 0, True), ("65536", 0, False), ("65536", 1 << 14, True), (str(1 << 27), 0, True)],
)
def test_locked_memory(limit: str, capabilities: int, fine: bool) -> None:
    """Unlimited, enough, or an account that is not held to it."""
    findings = found(locked_memory, answer(locked_memory.ARGV, LIMITS.format(limit, capabilities)))
    assert severities(findings) == ([] if fine else [Severity.PROBLEM])


def _mode(stdout: str, stderr: str = "", status: int = 0, needs: HostNeeds = EVERYTHING) -> list[Finding]:
    listed, argv = loopback_mode.commands(ONE, needs)
    said = {listed: answer(listed, "mlx5_0\n"), argv: answer(argv, stdout, stderr, status)}
    return found(loopback_mode, said, needs, ONE)


def test_an_rnic_left_in_loopback_is_a_problem() -> None:
    """As text and as JSON."""
    assert _mode("Loopback Mode                      : No Loopback \n") == []
    assert _mode('\t\t\t"Loopback Mode" : "No Loopback",\n') == []
    for text in ("Loopback Mode : PHY Remote Loopback \n", '"Loopback Mode" : "PHY Remote Loopback",\n'):
        (one,) = _mode(text)
        assert (one.severity, one.what) == (Severity.PROBLEM, "mlx5_0 is in loopback mode: PHY Remote Loopback")


def test_what_was_not_looked_at_is_said() -> None:
    """A warning where nothing depends on mlxlink, unknown where changes do."""
    for needs, severity in ((HostNeeds(), Severity.WARNING), (EVERYTHING, Severity.UNKNOWN)):
        (one,) = _mode("", "env: 'mlxlink': No such file or directory\n", 127, needs)
        assert one.severity is severity
        assert "not looked at: mlxlink is not there" in one.what


def test_a_missing_rnic_is_not_asked_about_its_mode() -> None:
    """Check "rnics" says that it is missing."""
    listed, argv = loopback_mode.commands(ONE, EVERYTHING)
    assert listed == rnics.LIST
    said = {listed: answer(listed, "mlx5_1\n"), argv: answer(argv, "", "-E- Failed to open device", 1)}
    assert found(loopback_mode, said, host=ONE) == []


@pytest.mark.parametrize("name", ["01-cx7-ndr-show-module-4.35.txt", "02-cx4-fdr-basic-4.35.txt"])
def test_recorded_rnics_are_in_no_loopback(name: str) -> None:
    """Outputs of real adapters."""
    assert _mode((SAMPLES / name).read_text()) == []


def _kept(text: str, status: int = 0) -> list[Finding]:
    (argv,) = keep_link_up.commands(HOST, EVERYTHING)
    assert argv == ("mlxconfig", "-d", "mlx5_0", "query", "KEEP_IB_LINK_UP_P1")
    return found(keep_link_up, answer(argv, text, status=status))


def test_firmware_that_keeps_the_link_up_is_a_problem() -> None:
    """Only where the scenario closes that port, and only the setting of its link layer."""
    assert _kept("        KEEP_IB_LINK_UP_P1                          False(0)\n") == []
    assert severities(_kept("        KEEP_IB_LINK_UP_P1                          True(1)\n")) == [Severity.PROBLEM]
    assert severities(_kept("-E- Failed to open device\n", 3)) == [Severity.UNKNOWN]
    assert keep_link_up.commands(HOST, HostNeeds()) == ()


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
    (argv,) = login.commands(HOST, EVERYTHING)
    (one,) = found(login, answer(argv, "", stderr, 255))
    assert one.severity is Severity.PROBLEM
    assert words in one.what
    assert found(login, answer(argv)) == []


def _true(stdout: str = "", stderr: str = "", took_s: float = 0.01) -> Answer:
    return Answer(reach.ARGV, 0, stdout, stderr, 1.0, 1.0 + took_s)


def test_a_slow_login_is_a_warning_over_ssh_only() -> None:
    """The quicker of two counts: the first may have waited for the connection."""
    slow = [_true(took_s=2.0), _true(took_s=0.3)]
    (one,) = reach.read("a", slow, ssh=True)
    assert (one.severity, one.what) == (Severity.WARNING, "'true' takes more than 200 ms")
    assert list(reach.read("a", slow, ssh=False)) == []
    assert list(reach.read("a", [_true(took_s=2.0), _true()], ssh=True)) == []


def test_a_login_shell_that_talks_is_a_problem() -> None:
    """Its text would be taken for a tool's; on stderr it is a warning."""
    assert severities(list(reach.read("a", [_true("Welcome!\n")], ssh=True))) == [Severity.PROBLEM]
    assert not reach.usable([_true("Welcome!\n")])
    assert severities(list(reach.read("a", [_true("", "bash: warning: setlocale\n")], ssh=True))) == [Severity.WARNING]


def _clock(ahead_s: float, rtt_s: float = 0.01) -> Answer:
    return Answer(clock.ARGV, 0, f"{1_700_000_100 + ahead_s:.9f}\n", "", 100.0 - rtt_s / 2, 100.0 + rtt_s / 2)


def test_a_clock_that_is_surely_off_is_named() -> None:
    """Beyond what the way there and back leaves open."""
    (one,) = clock.read({"a": _clock(0), "b": _clock(0.001), "c": _clock(-7.3)})
    assert (one.hosts, one.what) == (("c",), "its clock is 7.3 s behind the others")


def test_a_slow_answer_proves_nothing_about_a_clock() -> None:
    """Half a second off with a second of way is not surely off."""
    assert list(clock.read({"a": _clock(0), "b": _clock(0), "c": _clock(0.5, rtt_s=1.0)})) == []
    assert list(clock.read({"a": _clock(0.5)})) == []
