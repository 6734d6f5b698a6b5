"""Whether what changes call as root may be called as root, without a password."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.checks.answer import Answer, Answers, Argv, excuse, quoted
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host

NAME = "root"
STATUS = ("cat", "/proc/self/status")
WHO = ("id", "-un")
# sudo's own search path, as it is compiled in and as distributions set secure_path.
_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_UID = re.compile(r"^Uid:\s*[0-9]+\s+([0-9]+)\s", re.MULTILINE | re.ASCII)
_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", re.ASCII)
_WHY = "changes of the fabric, and looking at it, need root"
_REFUSED = ("password is required", "not allowed", "may not run", "unknown user", "no tty present", "a terminal is")
_TOLD_BY_SUDO = ("command not found", "no such file")


def commands(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """``sudo -l PROGRAM`` runs nothing: it says whether it would."""
    if not _programs(needs):
        return ()
    if not needs.sudo:
        return (STATUS,)
    asked = tuple(_may(host, name) for name in _programs(needs))
    return (WHO, _where(host, needs), *asked)


def read(host: Host, needs: HostNeeds, answers: Answers) -> Iterator[Finding]:
    """What is refused, with the lines for sudoers; what is not there; that we are not root where we must be."""
    if not needs.sudo:
        yield from _as_we_are(host, answers[STATUS])
        return
    refused: list[str] = []
    for name in _programs(needs):
        answer = answers[_may(host, name)]
        text = answer.text.lower()
        if answer.absent:
            yield _finding(host, Severity.PROBLEM, "sudo is not there", "install it, or log in as root")
            return
        if not answer.lost and answer.status == 0:
            continue
        if any(words in text for words in _TOLD_BY_SUDO):
            yield _finding(
                host, Severity.PROBLEM, f"root has no program {name}", f"install it, on {':'.join(_FOLDERS)}"
            )
        elif not answer.lost and (any(words in text for words in _REFUSED) or not text.strip()):
            refused.append(name)  # older versions say nothing at all, and exit 1
        else:
            what = f"whether sudo allows {name} was not said: {excuse(answer)}"
            yield _finding(host, Severity.UNKNOWN, what, f"sudo -n -l {name}")
    if refused:
        yield _refusal(host, needs, refused, answers)


def sudoers_line(account: str, paths: list[str]) -> str:
    """One line for sudoers; a path without arguments allows every argument, and no wildcard is needed."""
    return f"{account} ALL=(root) NOPASSWD: {', '.join(paths)}"


def _programs(needs: HostNeeds) -> tuple[str, ...]:
    """The guard of a change is a text that ``sh`` runs."""
    alters = needs.alters
    return (("sh",) if alters.guarded else ()) + alters.programs


def _may(host: Host, name: str) -> Argv:
    return ("sudo", "-n", "-l", host.platform.program(name))


def _where(host: Host, needs: HostNeeds) -> Argv:
    return ("ls", *(path for name in _programs(needs) for path in _candidates(host, name)))


def _candidates(host: Host, name: str) -> list[str]:
    """Where a program may be, in the order in which sudo looks for it."""
    program = host.platform.program(name)
    return [program] if program.startswith("/") else [f"{folder}/{program}" for folder in _FOLDERS]


def _as_we_are(host: Host, answer: Answer) -> Iterator[Finding]:
    uid = None if answer.lost else _UID.search(answer.stdout)
    if uid is None:
        what = f"as whom commands run was not said: {excuse(answer)}"
        yield _finding(host, Severity.UNKNOWN, what, "id there")
    elif uid[1] != "0":
        advice = "write 'sudo: true' under changes: in the inventory and check again, or log in as root"
        yield _finding(host, Severity.PROBLEM, f"commands run as user {uid[1]}, not as root", advice)


def _refusal(host: Host, needs: HostNeeds, refused: list[str], answers: Answers) -> Finding:
    there = answers[_where(host, needs)].stdout.split()
    paths: list[str] = []
    unplaced: list[str] = []
    for name in refused:
        known = [path for path in _candidates(host, name) if path in there]
        (paths if known else unplaced).append(known[0] if known else name)
    said = answers[WHO].stdout.strip()
    account = said if _ACCOUNT.fullmatch(said) else "ACCOUNT"
    advice = f"visudo -f /etc/sudoers.d/fabric: {sudoers_line(account, paths)}" if paths else "install them"
    if unplaced:
        advice += f" (not found there: {quoted(', '.join(unplaced))})"
    if "sh" in refused:
        advice += " -- sh is the guard that undoes changes; it makes this account as good as root on this host"
    what = f"sudo does not let it run without a password: {', '.join(refused)}"
    return _finding(host, Severity.PROBLEM, what, advice)


def _finding(host: Host, severity: Severity, what: str, advice: str) -> Finding:
    return Finding(NAME, severity, (host.name,), what, _WHY, advice)
