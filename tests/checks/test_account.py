"""Root's rights for changes: what sudo says, and the lines to add."""

from __future__ import annotations

from dataclasses import replace

from fabric.checks.account import ROOT, WHO
from fabric.checks.account import STATUS as STATUS_ASKED
from fabric.checks.ask import Argv, HostAnswer
from fabric.checks.needs import Alters, HostNeeds
from fabric.model.finding import Finding, Severity
from tests.checks.asked import HOST, answer, found

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
