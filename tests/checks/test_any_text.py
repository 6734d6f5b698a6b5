"""Whatever a host says, a check finds something or nothing, and never breaks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.checks.kind import Argv, HostCheck, Looked
from fabric.checks.pre_flight import CHECKS, TRUE, read_reach
from fabric.checks.programs import PROGRAMS, PYTHON, VERSIONS
from fabric.checks.roce import ROCE
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host
from fabric.report.output import visible
from tests.checks.asked import EVERYTHING, HOST, answer

FRAGMENTS = (
    "4: ACTIVE\n", "5: LinkUp\n", "400 Gb/sec (4X NDR)\n", "/sys/class/infiniband/mlx5_0/ports/1/state:4: ACTIVE\n",
    "0, NVIDIA H100, Disabled\n", "GPU-1, 1, x\n", "Loopback Mode : ", "Version: ", "Max locked memory   ",
    "Uid:\t0\t0\t", "CapEff:\t", "KEEP_IB_LINK_UP_P1  True(1)\n", "\x1b[31m", "\u202e", "\ud800",
    "1700000000.000000000\n",
    "(Open MPI) ", "available: 2 nodes", "USAGE: ", "nvidia_peermem 1 0 ", "Python 3.", "sudo: a password is\n",
)  # fmt: skip
TEXT = st.one_of(st.text(st.characters(codec=None), max_size=80), st.sampled_from(FRAGMENTS))
TEXTS = st.lists(TEXT, max_size=6).map("".join)
SAID = st.tuples(TEXTS, TEXTS, st.sampled_from([0, 1, 2, 15, 126, 127, 255, -1]), st.sampled_from(["", "gone"]))


def host_of(check: HostCheck) -> Host:
    """One that this check looks at."""
    return replace(HOST, platform=replace(HOST.platform, link_layer="ethernet")) if check is ROCE else HOST


def sound(findings: list[Finding]) -> None:
    """Every one can be printed."""
    for one in findings:
        for text in (one.what, one.why, one.advice):
            assert text
            visible(text).encode()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.name))
@given(said=st.lists(SAID, min_size=1, max_size=4))
def test_a_check_takes_any_text(check: HostCheck, said: list[tuple[str, str, int, str]]) -> None:
    """No text raises, of one host or of two; every finding can be printed."""
    answers = {}
    for number, argv in enumerate(asked(check)):
        stdout, stderr, status, lost = said[number % len(said)]
        answers[argv] = answer(argv, stdout, stderr, status, lost=lost)
    one = Looked(host_of(check), EVERYTHING, answers)
    sound(list(check.findings({"gpu001": one, "gpu002": one})))


@pytest.mark.parametrize("check", [one for one in CHECKS if one is not VERSIONS], ids=lambda check: str(check.name))
def test_a_host_that_says_nothing_is_not_fine(check: HostCheck) -> None:
    """Lost answers are never silence; what is optional is a warning, all else unknown."""
    answers = {argv: answer(argv, status=-1, lost="gone") for argv in asked(check)}
    findings = list(check.findings({"gpu001": Looked(host_of(check), EVERYTHING, answers)}))
    assert findings
    allowed = {Severity.WARNING} if check is PYTHON else {Severity.UNKNOWN}
    assert {one.severity for one in findings} == allowed
    assert {(one.check, one.hosts) for one in findings} == {(check.name, ("gpu001",))}


def asked(check: HostCheck) -> list[Argv]:
    """The commands of a check; versions are those that another check asks for."""
    return list((PROGRAMS if check is VERSIONS else check).ask(host_of(check), EVERYTHING))


@given(said=st.lists(SAID, min_size=1, max_size=2))
def test_reach_takes_any_text(said: list[tuple[str, str, int, str]]) -> None:
    """The same holds for what is asked of every host."""
    answers = [answer(TRUE, out, err, status, lost=lost) for out, err, status, lost in said]
    sound(list(read_reach(answers, ssh=True)))
