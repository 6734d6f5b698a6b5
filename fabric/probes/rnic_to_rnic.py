"""
RNIC to RNIC inside one host: every ordered pair, out to the ToR and back.

MegaScale (arXiv 2402.15627, 4.3): do the RNICs meet their specification, and is the routing right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import ClassVar

from fabric.model.probe import ParamValue, Probe
from fabric.model.scenario import LimitKey
from fabric.model.topology import Host, Platform, Rnic, Topology
from fabric.probes.keys import Name, QueuePairs
from fabric.probes.perftest_pair import InHostSpec


class RnicToRnicSpec(InHostSpec):
    """Every ordered pair of RNICs of one host that the fabric joins (ib_write_bw)."""

    kind: ClassVar[str] = "rnic_to_rnic"
    needs: ClassVar[str] = "two RNICs"

    name: Name = kind
    queue_pairs: QueuePairs = 2

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """One, where there are two RNICs."""
        return iter([LimitKey(self.kind, size_bytes=self.size_bytes)] if len(platform.rnics) > 1 else ())

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Without the pairs whose leaves nothing joins: rails by themselves, planes."""
        apart: dict[tuple[str, tuple[str, ...]], frozenset[tuple[str, str]]] = {}
        for probe in super().expand(phase=phase, topology=topology, hosts=hosts, ports=ports):
            host = topology.hosts[probe.hosts[0]]
            key = (host.platform.name, host.leaves)
            if key not in apart:
                apart[key] = _apart(host, topology)
            if (probe.params["rnic"], probe.params["peer_rnic"]) not in apart[key]:
                yield probe

    def unjoined(self, hosts: Sequence[str], topology: Topology) -> dict[str, list[str]]:
        """How many pairs of RNICs have no way to each other."""
        found: dict[str, list[str]] = {}
        for host in (topology.hosts[name] for name in hosts):
            if lost := len(_apart(host, topology)):
                count = len(host.platform.rnics)
                found.setdefault(f"{lost} of {count * (count - 1)} pairs are not measured", []).append(host.name)
        return found

    def pairs(self, platform: Platform) -> Iterator[tuple[str, tuple[str, ...], dict[str, ParamValue]]]:
        """Every ordered pair of RNICs of every host: 8 x 7 = 56."""
        for source, target in permutations(platform.rnics, 2):
            own: dict[str, ParamValue] = {"rnic": source.device, "peer_rnic": target.device}
            yield f"{source.device}.{target.device}", _claims(source, target), own


def _apart(host: Host, topology: Topology) -> frozenset[tuple[str, str]]:
    """The pairs of RNICs of a host that have no way to each other."""
    part = {rnic.device: topology.part_of(host, rnic.rail) for rnic in host.platform.rnics}
    pairs = permutations(part, 2)
    return frozenset((a, b) for a, b in pairs if None not in (part[a], part[b]) and part[a] != part[b])


def _claims(source: Rnic, target: Rnic) -> tuple[str, ...]:
    # The sender reads memory (its switch's uplink downwards), the receiver writes memory (upwards).
    claims = [source.device, target.device]
    if source.pcie_switch is not None:
        claims.append(f"{source.pcie_switch}:down")
    if target.pcie_switch is not None:
        claims.append(f"{target.pcie_switch}:up")
    return tuple(claims)
