"""
All-reduce between neighbours under one ToR (MegaScale 4.3), for hosts whose intra-node phase passed.

Neighbours form a ring: each host is measured with two different partners, so that a bad host fails twice and its good
neighbours once each (two hosts alone cannot be told apart). RING is forced: see TorAllReduceSpec.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.model.probe import Answered, Probe, ProbeCommands, Reading
from fabric.model.scenario import TorAllReduceSpec
from fabric.model.topology import Host, Topology
from fabric.probes import multi_host
from fabric.probes.collective import read_busbw

KIND = "tor_all_reduce"
NEEDS = "GPUs, and a neighbour of its make under its ToR that takes part"
SOME = False


def expand(
    spec: TorAllReduceSpec, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]
) -> Iterator[Probe]:
    """Ring neighbours of every ToR group; a host alone under its ToR has none."""
    del ports
    wanted = set(hosts)
    for group in topology.tor_groups:
        members = [topology.hosts[name] for name in group if name in wanted]
        for a, b in neighbours(members):
            yield from multi_host.probes(spec, (a, b), kind=KIND, phase=phase, label=f"{a.name}+{b.name}")


def neighbours(members: Sequence[Host]) -> Iterator[tuple[Host, Host]]:
    """Ring pairs of hosts that one command line fits: n pairs for n > 2 hosts, one pair for two, none for one."""
    for alike in multi_host.alike(members):
        for position in range(len(alike) if len(alike) > 2 else len(alike) - 1):
            yield alike[position], alike[(position + 1) % len(alike)]


def commands(probe: Probe, topology: Topology) -> ProbeCommands:
    """all_reduce_perf over both hosts."""
    return multi_host.commands(probe, topology)


def read(probe: Probe, topology: Topology, answered: Answered) -> Reading:
    """Bus bandwidth per size, out of place and in place, or why there is none."""
    del topology
    return read_busbw(probe, answered, op="all_reduce")
