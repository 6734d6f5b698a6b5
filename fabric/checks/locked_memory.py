"""Whether programs may lock as much memory as RDMA needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.checks.answer import Answers, Argv, excuse
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host
from fabric.model.units import size_text

NAME = "memlock"
ARGV = ("cat", "/proc/self/limits", "/proc/self/status")
_LIMIT = re.compile(r"^Max locked memory +(unlimited|[0-9]{1,20}) +(unlimited|[0-9]{1,20}) +bytes", re.M | re.ASCII)
_CAPABILITIES = re.compile(r"^CapEff:\s*([0-9a-f]{16})$", re.MULTILINE | re.ASCII)
_CAP_IPC_LOCK = 1 << 14
"""Whoever has it is not held to the limit (linux/capability.h; ib_umem_get asks for it)."""


def commands(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """The limits and the capabilities of a program that is started like all the others."""
    del host
    return (ARGV,) if needs.pinned_bytes else ()


def read(host: Host, needs: HostNeeds, answers: Answers) -> Iterator[Finding]:
    """A limit below what the largest of the scenario's programs locks."""
    answer = answers[ARGV]
    limit = None if answer.lost else _LIMIT.search(answer.stdout)
    if not limit:
        what = f"the limit of locked memory was not said: {excuse(answer)}"
        yield Finding(NAME, Severity.UNKNOWN, (host.name,), what, "RDMA locks its buffers", "ulimit -l there")
        return
    capabilities = _CAPABILITIES.search(answer.stdout)
    free = capabilities is not None and int(capabilities[1], 16) & _CAP_IPC_LOCK
    if limit[1] == "unlimited" or free or int(limit[1]) >= needs.pinned_bytes:
        return
    yield Finding(
        NAME,
        Severity.PROBLEM,
        (host.name,),
        f"programs may lock {size_text(int(limit[1]))}B of memory, {size_text(needs.pinned_bytes)}B are needed",
        "buffers cannot be registered (Couldn't allocate MR, ibv_reg_mr: Cannot allocate memory)",
        "'* - memlock unlimited' in /etc/security/limits.d, and LimitMEMLOCK=infinity for slurmd and sshd; log in anew",
    )
