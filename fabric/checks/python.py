"""Whether a host has the python3 that lets one session carry all its commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.checks.answer import Answers, Argv, excuse
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host

NAME = "python"
ARGV = ("python3", "--version")
LEAST = (3, 6)
_VERSION = re.compile(r"^Python ([0-9]{1,3})\.([0-9]{1,3})", re.MULTILINE | re.ASCII)


def commands(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Over SSH only: everywhere else a command costs no session."""
    del host
    return (ARGV,) if needs.ssh else ()


def read(host: Host, needs: HostNeeds, answers: Answers) -> Iterator[Finding]:
    """None, or one that is too old; every command works without it, in a session of its own."""
    del needs
    answer = answers[ARGV]
    match = None if answer.lost else _VERSION.search(answer.text)
    if match and (int(match[1]), int(match[2])) >= LEAST:
        return
    seen = f"python3 is {match[1]}.{match[2]}" if match else f"no python3: {excuse(answer)}"
    yield Finding(
        NAME,
        Severity.WARNING,
        (host.name,),
        seen,
        "one SSH session cannot carry all commands of this host: each takes a session of its own, and is slower",
        f"install python3, {LEAST[0]}.{LEAST[1]} or newer (its standard library is enough)",
    )
