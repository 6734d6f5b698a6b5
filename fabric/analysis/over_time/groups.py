"""The parts that several RNICs share, with the RNICs behind each: leaves, memory nodes and PCIe switches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fabric.model.topology import Topology

LEAST_HOSTS = 3
"""Two hosts under a leaf that are bad together may be chance (a choice)."""

LEAST_RNICS = 2
"""What one RNIC alone is behind cannot be told from that RNIC."""


@dataclass(frozen=True, slots=True)
class Group:
    """A *component*, its *kind* as in ``model.verdict.Suspect``, the RNICs behind it, and who has the same ones."""

    component: str
    kind: str
    rnics: frozenset[str]
    rivals: tuple[str, ...] = ()


def groups_of(rnics: Iterable[str], topology: Topology) -> tuple[list[Group], list[Group]]:
    """Of these RNICs (``gpu001/mlx5_0``): the leaves above them, and the parts of their hosts."""
    leaves: dict[str, set[str]] = {}
    inside: dict[tuple[str, str], set[str]] = {}
    for name in rnics:
        host, _, device = name.partition("/")
        found = topology.hosts[host]
        rnic = found.platform.rnic_by_device[device]
        if rnic.rail < len(found.leaves):
            leaves.setdefault(found.leaves[rnic.rail], set()).add(name)
        inside.setdefault((f"{host}/numa{rnic.numa}", "numa"), set()).add(name)
        if rnic.pcie_switch is not None:
            inside.setdefault((f"{host}/{rnic.pcie_switch}", "pcie_switch"), set()).add(name)
    above = [
        Group(leaf, "leaf", frozenset(names))
        for leaf, names in sorted(leaves.items())
        if len({name.partition("/")[0] for name in names}) >= LEAST_HOSTS
    ]
    alike: dict[frozenset[str], list[tuple[str, str]]] = {}
    for part, names in sorted(inside.items(), key=lambda item: (item[0][1] != "pcie_switch", item[0])):
        if len(names) >= LEAST_RNICS:
            alike.setdefault(frozenset(names), []).append(part)
    return above, [
        Group(component, kind, names, tuple(other for other, _ in others))
        for names, ((component, kind), *others) in alike.items()
    ]
