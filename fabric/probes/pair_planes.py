"""Which hosts can be measured with each other: one plane a rail, and one a line rate where hosts differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fabric.model.topology import Topology

NO_LEAF = ""
"""The leaf of hosts of which the inventory says none: they are one group."""


@dataclass(frozen=True, slots=True)
class Plane:
    """
    RNICs of one rail and one line rate, by the leaf that they plug into; *leaves* holds hosts in inventory order.

    Hosts of different line rates never meet: the slower would hold the faster down, and look like its fault.
    """

    rail: int
    line_rate_gbps: float
    leaves: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        """``rail3 400G``."""
        return f"rail{self.rail} {self.line_rate_gbps:g}G"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host of the plane, leaf by leaf."""
        return tuple(host for hosts in self.leaves.values() for host in hosts)

    def only(self, hosts: Iterable[str]) -> Plane:
        """The same plane of these hosts alone."""
        kept = frozenset(hosts)
        leaves = {leaf: tuple(host for host in group if host in kept) for leaf, group in self.leaves.items()}
        return Plane(self.rail, self.line_rate_gbps, {leaf: group for leaf, group in leaves.items() if group})


def planes_of(hosts: Iterable[str], topology: Topology) -> list[Plane]:
    """Every plane of two hosts or more, by rail, then by line rate, fastest first."""
    found: dict[tuple[int, float], dict[str, list[str]]] = {}
    for name in hosts:
        host = topology.hosts[name]
        for rnic in host.platform.rnics:
            leaf = host.leaves[rnic.rail] if rnic.rail < len(host.leaves) else NO_LEAF
            found.setdefault((rnic.rail, -rnic.line_rate_gbps), {}).setdefault(leaf, []).append(name)
    planes = [
        Plane(rail, -rate, {leaf: tuple(group) for leaf, group in leaves.items()})
        for (rail, rate), leaves in sorted(found.items(), key=lambda item: item[0])
    ]
    return [plane for plane in planes if len(plane.hosts) > 1]
