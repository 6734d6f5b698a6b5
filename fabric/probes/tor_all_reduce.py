"""All-reduce between neighbours under one ToR (MegaScale 4.3), for hosts whose intra-node phase passed.

Neighbours form a ring: each host is measured with two different partners, so a bad host fails twice and its good
neighbours once each (two hosts alone cannot be told apart). RING is the default: see AllReduceSpec.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from fabric.model.probe import Probe
from fabric.model.topology import Host, Topology
from fabric.probes.collective import AllReduceSpec, claims, fitting_groups
from fabric.probes.pairwise import with_hosts
from fabric.probes.shapes import Name


class TorAllReduceSpec(AllReduceSpec):
    """All-reduce between neighbours under one ToR (all_reduce_perf)."""

    kind: ClassVar[str] = "tor_all_reduce"
    needs: ClassVar[str] = "GPUs, and a neighbour of its make under its ToR that takes part"
    alone: ClassVar[bool] = True
    peers: ClassVar[bool] = True

    name: Name = kind

    def ranks(self, gpus: int, *, hosts: int) -> int:
        """Return the ranks of two hosts."""
        return 2 * gpus

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Yield ring neighbours of every ToR group; a host alone under its ToR has none."""
        wanted = set(hosts)
        for group in topology.tor_groups:
            members = [topology.hosts[name] for name in group if name in wanted]
            for a, b in neighbours(members):
                yield from self.probes((a, b), phase=phase, label=f"{a.name}+{b.name}")


def neighbours(members: Sequence[Host]) -> Iterator[tuple[Host, Host]]:
    """Yield ring pairs of hosts that one command line fits: n pairs for n > 2 hosts, one pair for two, none for one."""
    for ring in fitting_groups(members):
        for position in range(len(ring) if len(ring) > 2 else len(ring) - 1):
            yield ring[position], ring[(position + 1) % len(ring)]


def other_pairs(probe: Probe, left: str, planned: Iterable[Probe], topology: Topology) -> Iterator[Probe]:
    """
    Yield the same measurement of a host that lost its neighbour (*left*) with each other host of its ring.

    The nearest comes first. The ring is that of the *planned* probes. It is followed in the direction of the lost
    neighbour, so that two hosts that lost the one between them are each the other's next. Pairs that were planned
    anyway are left out.
    """
    pairs = {frozenset(one.hosts) for one in planned}
    first, second = probe.hosts
    forward = left == first
    ring = _ring(left, {host for pair in pairs for host in pair}, topology)[:: 1 if forward else -1]
    at = [host.name for host in ring].index(left)
    for other in (*ring[at + 1 :], *ring[:at]):
        if frozenset((left, other.name)) not in pairs:
            hosts = (topology.hosts[first], other) if forward else (other, topology.hosts[second])
            yield with_hosts(probe, [host.name for host in hosts], claims(hosts))


def _ring(host: str, taking_part: set[str], topology: Topology) -> list[Host]:
    """Return the hosts under the same ToR that take part and that one command line fits, in ring order."""
    group = next(group for group in topology.tor_groups if host in group)
    fitting = fitting_groups(topology.hosts[name] for name in group if name in taking_part)
    return next(hosts for hosts in fitting if any(one.name == host for one in hosts))
