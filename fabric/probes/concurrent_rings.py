"""
All-reduce in disjoint groups of hosts, all at once: what rings of several jobs leave to each other.

Groups claim nothing in common, so their first measurements start together; repetitions follow one another within each
group, so that a fast group is through before a slow one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.model.probe import Answered, Probe, ProbeCommands, Reading
from fabric.model.scenario import ConcurrentRingsSpec
from fabric.model.topology import Host, Topology
from fabric.probes import multi_host
from fabric.probes.collective import read_busbw

KIND = "concurrent_rings"
NEEDS = "GPUs, and enough other hosts of its make to fill its group"
SOME = False

_NAMED = 4  # more hosts than this are not all said in an id


def expand(
    spec: ConcurrentRingsSpec, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]
) -> Iterator[Probe]:
    """One probe a group and repetition; hosts that fill no group are left out."""
    del ports
    number = 0
    for alike in multi_host.alike(topology.hosts[name] for name in hosts):
        for group in groups(alike, spec):
            label = _label(group)
            yield from multi_host.probes(spec, group, kind=KIND, phase=phase, label=label, group=number)
            number += 1


def groups(hosts: Sequence[Host], spec: ConcurrentRingsSpec) -> list[list[Host]]:
    """
    Disjoint groups of ``groups_of`` hosts.

    ``across``: with g groups, host i together with hosts i + g, i + 2g and so on.
    """
    count = len(hosts) // spec.groups_of
    if spec.pairing == "across":
        return [list(hosts[first : count * spec.groups_of : count]) for first in range(count)]
    listed = multi_host.shuffled(hosts, seed=spec.seed) if spec.pairing == "random" else list(hosts)
    return [listed[at * spec.groups_of : (at + 1) * spec.groups_of] for at in range(count)]


def _label(group: Sequence[Host]) -> str:
    if len(group) <= _NAMED:
        return "+".join(host.name for host in group)
    return f"{group[0].name}+{len(group) - 1}-more"


def commands(probe: Probe, topology: Topology) -> ProbeCommands:
    """all_reduce_perf over the hosts of the group."""
    return multi_host.commands(probe, topology)


def read(probe: Probe, topology: Topology, answered: Answered) -> Reading:
    """Bus bandwidth per size, out of place and in place, or why there is none."""
    del topology
    return read_busbw(probe, answered, op="all_reduce")
