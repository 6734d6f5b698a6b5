"""
All-reduce between neighbours under one ToR (MegaScale 4.3), for hosts whose intra-node phase passed.

Neighbours form a ring: each host is measured with two different partners, so that a bad host fails twice and its good
neighbours once each (two hosts alone cannot be told apart). RING is forced: see TorAllReduceSpec.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from fabric.model.probe import Probe
from fabric.model.topology import Host, Topology
from fabric.probes import multi_host
from fabric.probes.keys import Name
from fabric.probes.multi_host import AllReduceSpec


class TorAllReduceSpec(AllReduceSpec):
    """All-reduce between neighbours under one ToR (all_reduce_perf)."""

    kind: ClassVar[str] = "tor_all_reduce"
    needs: ClassVar[str] = "GPUs, and a neighbour of its make under its ToR that takes part"
    alone: ClassVar[bool] = True
    peers: ClassVar[bool] = True

    name: Name = kind

    def ranks(self, gpus: int, *, hosts: int) -> int:
        """Those of two hosts."""
        return 2 * gpus

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Ring neighbours of every ToR group; a host alone under its ToR has none."""
        wanted = set(hosts)
        for group in topology.tor_groups:
            members = [topology.hosts[name] for name in group if name in wanted]
            for a, b in neighbours(members):
                yield from self.probes((a, b), phase=phase, label=f"{a.name}+{b.name}")


def neighbours(members: Sequence[Host]) -> Iterator[tuple[Host, Host]]:
    """Ring pairs of hosts that one command line fits: n pairs for n > 2 hosts, one pair for two, none for one."""
    for alike in multi_host.alike(members):
        for position in range(len(alike) if len(alike) > 2 else len(alike) - 1):
            yield alike[position], alike[(position + 1) % len(alike)]
