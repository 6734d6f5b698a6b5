"""
Whether two names of the inventory lead to one machine: it would be measured against itself.

The kernel draws a boot id at each start, so no two machines share one. Containers of one machine do, each with its own
network. /etc/machine-id is copied with a disk image, so it proves nothing by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.checks.answer import Answers, Argv, excuse
from fabric.model.finding import Finding, Severity

NAME = "machine"
_BOOT, _MACHINE = "/proc/sys/kernel/random/boot_id", "/etc/machine-id"
IDS: Argv = ("grep", "-H", ".", _BOOT, _MACHINE)
NETWORK: Argv = ("readlink", "/proc/self/ns/net")
_SHOWN = 8
"""Of an id in a message: enough to tell machines apart, and to find it again on the host (digits; a choice)."""
_LINE = re.compile(rf"({_BOOT}|{_MACHINE}):([0-9a-f-]{{16,64}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Machine:
    """What one host says of itself; *network* and *installed* are empty where it does not say."""

    boot: str
    installed: str
    network: str


def commands() -> tuple[Argv, ...]:
    """What each host is asked."""
    return IDS, NETWORK


def machine(answers: Answers) -> Machine | None:
    """Who it is; None where it does not say its boot id."""
    ids = answers[IDS]
    said = {match[1]: match[2] for match in map(_LINE.fullmatch, ids.stdout.splitlines()) if match}
    if ids.lost or _BOOT not in said:
        return None
    network = answers[NETWORK]
    return Machine(said[_BOOT], said.get(_MACHINE, ""), "" if network.lost else network.stdout.strip()[:64])


def read(answers: Mapping[str, Answers]) -> Iterator[Finding]:
    """Names that are one machine, names that share one kernel, and machines made of one image."""
    known: dict[str, Machine] = {}
    for host, said in answers.items():
        found = machine(said)
        if found is not None:
            known[host] = found
            continue
        what = f"its boot id was not said: {excuse(said[IDS])}"
        why = "two names of one machine would not be noticed"
        yield Finding(NAME, Severity.UNKNOWN, (host,), what, why, f"cat {_BOOT} there")
    kernels = _alike({host: one.boot for host, one in known.items()})
    for boot, hosts in kernels.items():
        networks = _alike({host: known[host].network for host in hosts})
        for same in networks.values():
            yield _one_machine(boot, same)
        if not networks:
            yield _one_kernel(boot, hosts)
    for installed, hosts in _alike({host: one.installed for host, one in known.items() if one.installed}).items():
        if len({known[host].boot for host in hosts}) > 1:
            yield _one_image(installed, hosts)


def _alike(ids: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The hosts of each id that several have."""
    found: dict[str, list[str]] = {}
    for host, each in ids.items():
        found.setdefault(each, []).append(host)
    return {each: tuple(hosts) for each, hosts in found.items() if len(hosts) > 1}


def _one_machine(boot: str, hosts: Sequence[str]) -> Finding:
    return Finding(
        NAME,
        Severity.PROBLEM,
        tuple(hosts),
        f"these names are one machine (boot id {boot[:_SHOWN]})",
        "it would be measured against itself, and another machine not at all",
        "see which address is wrong: in the inventory, in DNS or /etc/hosts, or given to two machines",
    )


def _one_kernel(boot: str, hosts: Sequence[str]) -> Finding:
    return Finding(
        NAME,
        Severity.WARNING,
        tuple(hosts),
        f"these hosts share one kernel (boot id {boot[:_SHOWN]}), each with its own network",
        "containers of one machine share its processors, memory and PCIe, and are judged as if they did not",
        "expected in a lab; else let each host be a machine of its own",
    )


def _one_image(installed: str, hosts: Sequence[str]) -> Finding:
    return Finding(
        NAME,
        Severity.WARNING,
        tuple(hosts),
        f"these machines have one /etc/machine-id ({installed[:_SHOWN]}): made of one image",
        "DHCP and whoever else tells machines by it take them for one, and may give them one address",
        "on each: rm /etc/machine-id; systemd-machine-id-setup",
    )
