"""The whole pre-flight: who answers, then everything else about those; and the machine that runs fabric."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fabric.checks.account import IN_BAND, LOGIN, MEMLOCK, ROOT
from fabric.checks.ask import HostAnswer, ask_all
from fabric.checks.gpus import GPUDIRECT, GPUS
from fabric.checks.kind import HostCheck, Looked, problem, signed, warning, with_plugins
from fabric.checks.machines import CLOCK, MACHINE, REACH, TRUE, read_reach, usable
from fabric.checks.needs import HostNeeds, needs_via, with_peers
from fabric.checks.programs import LAUNCHER, PROGRAMS, PYTHON, VERSIONS
from fabric.checks.rnics import LOOPBACK, RNICS
from fabric.checks.roce import ROCE, ask_switches, roce_check
from fabric.model.finding import Finding
from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario
from fabric.model.text import ADDRESS, without_own
from fabric.model.topology import Host, Topology
from fabric.ports import Executor

_PER_HOST = (RNICS, GPUS, PROGRAMS, LAUNCHER, PYTHON, ROOT, GPUDIRECT, MEMLOCK, LOOPBACK, LOGIN, IN_BAND)
CHECKS: tuple[HostCheck, ...] = (*_PER_HOST, ROCE, VERSIONS, MACHINE, CLOCK)
"""What is looked at, in the order in which equally bad findings are told; those of other packages come after them."""

TIMED_IN_FLIGHT = 32
"""Hosts that are timed at once; a choice: more of them wait for our own processor, not for theirs."""

SWITCH_S, SWITCH_MOST_BYTES = 30.0, 8 << 20
"""Deadline and output of one command on a switch; choices: NVUE takes seconds, and tells a kilobyte or two a port."""


def pre_flight(executor: Executor, topology: Topology, needs: Mapping[str, HostNeeds]) -> Iterator[Finding]:
    """
    Everything that was found on the hosts in *needs*, and on the switches of RoCE; alters nothing anywhere.

    Equal findings are not folded yet; those that differ in a host's own name or address only are made equal.
    """
    return made_equal(_found(executor, topology, needs), topology.hosts)


def _found(executor: Executor, topology: Topology, needs: Mapping[str, HostNeeds]) -> Iterator[Finding]:
    hosts = topology.hosts
    checks, broken = with_plugins(CHECKS)
    yield from broken
    first = _timed(executor, needs)
    again = _timed(executor, [name for name in needs if usable(first[name])], in_flight=TIMED_IN_FLIGHT)
    reached = []
    for name, wanted in needs.items():
        answers = [*first[name], *again.get(name, ())]
        yield from signed(REACH, read_reach(answers, ssh=wanted.ssh), name)
        if usable(answers):
            reached.append(name)
    needs = with_peers(needs, tuple(reached), hosts)
    asked = {
        name: [argv for check in checks for argv in check.ask(hosts[name], wanted)] for name, wanted in needs.items()
    }
    switches = ask_switches(topology, [name for name, wanted in needs.items() if wanted.measured])
    said = ask_all(executor, asked)
    told = ask_all(executor, switches, timeout_s=SWITCH_S, output_most_bytes=SWITCH_MOST_BYTES)
    looked = {name: Looked(hosts[name], wanted, said[name]) for name, wanted in needs.items()}
    for check in checks:
        yield from (roce_check(told) if check is ROCE else check).findings(looked)


def _timed(executor: Executor, names: Iterable[str], **limits: int) -> dict[str, Sequence[HostAnswer]]:
    said = ask_all(executor, {name: (TRUE,) for name in names}, **limits)
    return {name: tuple(answers.values()) for name, answers in said.items()}


def made_equal(findings: Iterable[Finding], hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """
    The findings; where several hosts have the same one but for their own names and addresses, these are replaced.

    The first host's address is told as an example. What only one host has keeps its own words.
    """
    listed = list(findings)
    neutral = [_neutral(one, hosts) for one in listed]
    many = Counter((one.check, one.severity, one.what) for one in neutral)
    example: dict[tuple[object, ...], str] = {}
    for one, other in zip(listed, neutral, strict=True):
        key = (other.check, other.severity, other.what)
        if one.what == other.what or many[key] == 1:
            yield one
            continue
        name = one.hosts[0]
        said = f" ({ADDRESS} of {name}: {hosts[name].address})" if ADDRESS in other.what else ""
        yield replace(other, what=other.what + example.setdefault(key, said))


def _neutral(one: Finding, hosts: Mapping[str, Host]) -> Finding:
    """Without the host's own name and address; what is found on several hosts at once names none."""
    if len(one.hosts) != 1 or one.hosts[0] not in hosts:
        return one
    return replace(one, what=without_own(one.what, one.hosts[0], hosts[one.hosts[0]].address))


ORCHESTRATOR = "orchestrator"
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


def told_by_inventory(scenario: Scenario, inventory: Inventory) -> Iterator[Finding]:
    """What the scenario's changes need to be told by the inventory."""
    if inventory.changes.via is None and needs_via(scenario, inventory):
        yield problem(
            "the inventory names no host from which switches are reached",
            "the scenario's changes close ports of switches, or read their counters",
            "write 'via' under changes: in the inventory",
        )
