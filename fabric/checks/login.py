"""Whether hosts can log in to each other without a password, as mpirun does."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.checks.answer import Answers, Argv, excuse
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host
from fabric.tools.driver import word

NAME = "login"
_TROUBLES = (
    ("Host key verification failed", "this account does not know the host key of its neighbour",
     "fill /etc/ssh/ssh_known_hosts (ssh-keyscan), or use host certificates"),
    ("Permission denied", "its neighbour wants a password", "give this account a key, and put it in authorized_keys"),
    ("Could not resolve hostname", "it does not know its neighbour by the name that the inventory has",
     "make the names of the inventory known to the hosts (DNS or /etc/hosts)"),
)  # fmt: skip


def commands(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Each host logs in to the next, the last to the first: every host is tried from one and to one."""
    del host
    return () if needs.peer is None else (_argv(needs.peer),)


def read(host: Host, needs: HostNeeds, answers: Answers) -> Iterator[Finding]:
    """A login that did not work, and the part of it that did not."""
    if needs.peer is None:
        return
    answer = answers[_argv(needs.peer)]
    why = "mpirun starts its processes over ssh"
    if answer.lost or answer.absent:
        reason = "ssh is not there" if answer.absent else excuse(answer)
        severity = Severity.PROBLEM if answer.absent else Severity.UNKNOWN
        yield Finding(NAME, severity, (host.name,), f"cannot log in to another host: {reason}", why, "try it by hand")
    elif answer.status != 0:
        known = next(((what, advice) for text, what, advice in _TROUBLES if text in answer.text), None)
        what, advice = known or (
            f"it cannot log in to its neighbour: {_nameless(excuse(answer), needs.peer)}",
            "try it by hand; plm_rsh_agent under mpirun_options names another way",
        )
        yield Finding(NAME, Severity.PROBLEM, (host.name,), what, why, advice)


def _argv(peer: str) -> Argv:
    return ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", word(peer, "host"), "true")


def _nameless(text: str, peer: str) -> str:
    """Without the neighbour's name, so that the same trouble is folded."""
    return text.replace(peer, "HOST")
