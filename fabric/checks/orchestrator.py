"""Whether the machine that runs fabric, and the inventory, are fit for the scenario."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from fabric.checks.kind import problem, warning
from fabric.checks.needs import needs_via
from fabric.model.finding import Finding
from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario

NAME = "orchestrator"
OTHERS = ("fabric", "fabric2", "fabric3")
"""Other projects on PyPI; their import package is ours, or is taken for ours."""
PARAMIKO_LEAST = 5
"""Older releases take SHA-1 signatures (CVE-2026-44405), and were not tested."""

VersionOf = Callable[[str], str | None]
"""The version of an installed distribution, None when it is not installed."""


def installed(version_of: VersionOf, *, backend: str) -> Iterator[Finding]:
    """What is installed beside fabric-testbench, in the same environment."""
    for name in OTHERS:
        version = version_of(name)
        if version is not None:
            tell = problem if name == "fabric" else warning
            yield tell(
                f"the distribution {name} {version} is installed in this environment",
                "it is another project with the same import name: their files are mixed with ours in one folder"
                if name == "fabric"
                else "it is another project of that name, easily taken for this one",
                f"make a fresh environment for fabric-testbench, or pip uninstall {name} and install ours anew",
            )
    if backend == "ssh":
        yield from _paramiko(version_of("paramiko"))


def _paramiko(version: str | None) -> Iterator[Finding]:
    number = re.match(r"[0-9]{1,6}", version or "", re.ASCII)
    if number is not None and int(number[0]) >= PARAMIKO_LEAST:
        return
    yield problem(
        "paramiko is not installed" if version is None else f"paramiko is {version}",
        "hosts are reached with it; before release 5 it takes SHA-1 signatures (CVE-2026-44405)",
        f"pip install 'paramiko>={PARAMIKO_LEAST}'",
    )


def settings(scenario: Scenario, inventory: Inventory) -> Iterator[Finding]:
    """What the scenario's changes need to be told by the inventory."""
    if inventory.changes.via is None and needs_via(scenario, inventory):
        yield problem(
            "the inventory names no host from which switches are reached",
            "the scenario's changes close ports of switches, or read their counters",
            "write 'via' under changes: in the inventory",
        )
