"""The whole pre-flight: asks all hosts, runs every check, and looks at the machine that runs fabric.

The checks run on hosts that answer, and print nothing else. Checks of this file: whether two names are one machine,
and whether clocks agree.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from fabric.checks.account import IN_BAND, LOGIN, MEMLOCK, ROOT
from fabric.checks.kind import (
    Answers,
    Argv,
    HostAnswer,
    HostCheck,
    HostNeeds,
    Looked,
    altering,
    ask_all,
    excuse,
    problem,
    quoted,
    signed,
    unknown,
    warning,
    with_peers,
    with_plugins,
)
from fabric.checks.parts import GPUDIRECT, GPUS, LOOPBACK, RNICS
from fabric.checks.programs import LAUNCHER, LINKS, PROGRAMS, PYTHON, VERSIONS
from fabric.checks.roce import ROCE, ask_switches, roce_check
from fabric.model.finding import Finding
from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario
from fabric.model.text import ADDRESS, without_own
from fabric.model.topology import Host, Topology
from fabric.ports import Executor

REACH = "reach"
TRUE = ("true",)
_BOOT = "/proc/sys/kernel/random/boot_id"
IDS: Argv = ("grep", "-H", ".", _BOOT)
NETWORK: Argv = ("readlink", "/proc/self/ns/net")
DATE: Argv = ("date", "+%s.%N")
OFF_S = 0.1
"""A clock that is surely further off is reported; a choice: NTP keeps hosts within milliseconds."""
_TIME = re.compile(r"([0-9]{1,11}\.[0-9]{9})\n?", re.ASCII)
_SHOWN = 8
"""Digits of a boot id in a message; a choice: enough to tell machines apart, and to find it again on the host."""
_LINE = re.compile(rf"{_BOOT}:([0-9a-f-]{{16,64}})\n", re.ASCII)


def usable(answer: HostAnswer) -> bool:
    """Return whether the host answers, and prints nothing that parsers would take for a tool's output."""
    return answer.exit_status == 0 and not answer.stdout.strip()


def read_reach(answer: HostAnswer) -> Iterator[Finding]:
    """Report what is wrong with the answer to ``true``, the first command on a new connection."""
    if answer.exit_status != 0:
        why = "nothing could be checked here, and nothing will be measured"
        advice = "ssh to it by hand; take it out with --hosts until it answers"
        yield unknown(f"cannot run 'true': {excuse(answer)}", why, advice)
    elif answer.stdout.strip():
        yield problem(
            f"'true' printed {quoted(answer.stdout)!r}",
            "this text would stand before the output of every tool; nothing else was checked here",
            "let the login shell be silent when it is not interactive (~/.bashrc, /etc/profile.d, ForceCommand)",
        )
    elif answer.stderr.strip():
        why = "every command will; it may be taken for a tool's own complaint"
        advice = "mend the login shell or the locale of this account"
        yield warning(f"'true' complained: {quoted(answer.stderr)!r}", why, advice)


def machine(answers: Answers) -> tuple[str, str] | None:
    """Return the boot id and the network namespace of a host (empty if unknown); None without a boot id."""
    boot = _LINE.match(answers[IDS].stdout)
    return None if boot is None else (boot[1], answers[NETWORK].stdout.strip()[:64])


def _compare_machines(hosts: Mapping[str, Looked]) -> Iterator[Finding]:
    """Report names that belong to one machine."""
    known: dict[tuple[str, str], list[str]] = {}
    for host, looked in hosts.items():
        if found := machine(looked.answers):
            known.setdefault(found, []).append(host)
            continue
        what = f"its boot id was not said: {excuse(looked.answers[IDS])}"
        yield unknown(what, "two names of one machine would not be noticed", f"cat {_BOOT} there", host)
    for (boot, _), names in known.items():
        if len(names) > 1:
            yield problem(
                f"these names are one machine (boot id {boot[:_SHOWN]})",
                "it would be measured against itself, and another machine not at all",
                "see which address is wrong: in the inventory, in DNS or /etc/hosts, or given to two machines",
                *names,
            )


MACHINE = HostCheck("machine", lambda _host, _needs: (IDS, NETWORK), compare=_compare_machines)


def _compare_clocks(hosts: Mapping[str, Looked]) -> Iterator[Finding]:
    """
    Report hosts whose clock surely differs from the median host's, however the round trip splits into there and back.

    Where that is not most hosts' (of two, say), none is right by what others say, and they are reported together.
    """
    why = "what several hosts say is laid side by side by time: their logs, events, link counters"
    read: dict[str, tuple[float, float]] = {}  # seconds ahead of our clock (of arbitrary origin); error
    for host, looked in hosts.items():
        answer = looked.answers[DATE]
        match = _TIME.fullmatch(answer.stdout)
        if match is None:
            yield unknown(f"its time was not said: {excuse(answer)}", why, "date +%s.%N there", host)
        else:
            half_s = (answer.ended_s - answer.started_s) / 2
            read[host] = float(match[1]) - answer.started_s - half_s, half_s
    middle_s, error_s = sorted(read.values())[len(read) // 2] if read else (0.0, 0.0)
    off = {
        host: ahead_s - middle_s
        for host, (ahead_s, half_s) in read.items()
        if abs(ahead_s - middle_s) - half_s - error_s > OFF_S
    }
    if off and 2 * len(off) >= len(read):
        ahead = [ahead_s for ahead_s, _ in read.values()]
        apart_s = float(f"{max(ahead) - min(ahead):.2g}")
        what = f"their clocks are apart by up to {apart_s:g} s; which one is right cannot be told"
        yield warning(what, why, "see which is wrong (date -u), and mend its time synchronisation", *read)
        return
    for host, off_s in off.items():
        rounded = float(f"{abs(off_s):.2g}")  # two digits, so that hosts that are off together are folded
        what = f"its clock is {rounded:g} s {'ahead of' if off_s > 0 else 'behind'} the others"
        yield warning(what, why, "mend its time synchronisation (chronyc tracking, ptp4l)", host)


CLOCK = HostCheck("clock", lambda _host, _needs: (DATE,), compare=_compare_clocks)


_PER_HOST = (RNICS, GPUS, PROGRAMS, LINKS, LAUNCHER, PYTHON, ROOT, GPUDIRECT, MEMLOCK, LOOPBACK, LOGIN, IN_BAND)
CHECKS: tuple[HostCheck, ...] = (*_PER_HOST, ROCE, VERSIONS, MACHINE, CLOCK)
"""All checks, in the order in which equally bad findings are listed; checks of other packages come after them."""

SWITCH_S, SWITCH_MOST_BYTES = 30.0, 8 << 20
"""
Deadline and largest output of one command on a switch; choices: NVUE takes seconds, and prints a kilobyte or two a
port.
"""


def pre_flight(executor: Executor, topology: Topology, needs: Mapping[str, HostNeeds]) -> Iterator[Finding]:
    """
    Yield everything that was found on the hosts in *needs*, and on RoCE switches; alters nothing anywhere.

    Equal findings are not folded yet; findings that differ only in a host's own name or address are made equal.
    """
    return made_equal(_found(executor, topology, needs), topology.hosts)


def _found(executor: Executor, topology: Topology, needs: Mapping[str, HostNeeds]) -> Iterator[Finding]:
    hosts = topology.hosts
    checks, broken = with_plugins(CHECKS)
    yield from broken
    answered = {name: answers[TRUE] for name, answers in ask_all(executor, dict.fromkeys(needs, (TRUE,))).items()}
    for name, answer in answered.items():
        yield from signed(REACH, read_reach(answer), name)
    needs = with_peers(needs, tuple(name for name, answer in answered.items() if usable(answer)), hosts)
    asked = {
        name: [argv for check in checks for argv in check.ask(hosts[name], wanted)] for name, wanted in needs.items()
    }
    switches = ask_switches(topology, [name for name, wanted in needs.items() if wanted.measured])
    host_answers = ask_all(executor, asked)
    switch_answers = ask_all(executor, switches, timeout_s=SWITCH_S, output_most_bytes=SWITCH_MOST_BYTES)
    looked = {name: Looked(hosts[name], wanted, host_answers[name]) for name, wanted in needs.items()}
    for check in checks:
        yield from (roce_check(switch_answers) if check is ROCE else check).findings(looked)


def made_equal(findings: Iterable[Finding], hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """
    Yield the findings; where those of several hosts differ only in their own name and address, replace these.

    The first host's address is shown as an example. A finding of a single host keeps its own words.
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
        suffix = f" ({ADDRESS} of {name}: {hosts[name].address})" if ADDRESS in other.what else ""
        yield replace(other, what=other.what + example.setdefault(key, suffix))


def _neutral(one: Finding, hosts: Mapping[str, Host]) -> Finding:
    """Return the finding without the host's own name and address; one about several hosts is returned as it is."""
    if len(one.hosts) != 1 or one.hosts[0] not in hosts:
        return one
    return replace(one, what=without_own(one.what, one.hosts[0], hosts[one.hosts[0]].address))


ORCHESTRATOR = "orchestrator"


def installed(version_of: Callable[[str], str | None]) -> Iterator[Finding]:
    """
    Report the distribution ``fabric`` in the environment of fabric-testbench: PyPI's fabric is another project.

    *version_of* returns the version of a distribution, None when it is not installed.
    """
    version = version_of("fabric")
    if version is not None:
        yield problem(
            f"the distribution fabric {version} is installed in this environment",
            "it is another project with the same import name: their files are mixed with ours in one folder",
            "make a fresh environment for fabric-testbench, or pip uninstall fabric and install ours anew",
        )


def inventory_findings(scenario: Scenario, inventory: Inventory) -> Iterator[Finding]:
    """Report what the scenario's changes need to know from the inventory and it does not say."""
    if inventory.changes.via is None and None in altering(scenario, inventory):
        yield problem(
            "the inventory names no host from which switches are reached",
            "the scenario's changes close ports of switches, or read their counters",
            "write 'via' under changes: in the inventory",
        )
