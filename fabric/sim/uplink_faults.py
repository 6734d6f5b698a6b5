"""Faults of switches above the leaves, and of cables between switches, by the names of an inventory."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric.model.inventory import Fault
from fabric.model.topology import Topology
from fabric.sim.link_fault import LinkFault

if TYPE_CHECKING:
    from fabric.sim.named_clos import NamedClos

KINDS = ("slow", "broken")
"""What such a part can be."""

_BOTH, _ONE = "--", "->"


@dataclass(frozen=True, slots=True)
class CableEnds:
    """``su0-leaf3--spine2``, or one direction of it, ``su0-leaf3->spine2``; all parallel cables of the two."""

    one: str
    other: str
    both: bool


def cable_ends(component: str, names: Container[str]) -> CableEnds | None:
    """The ends that a component names; None when it names no cable. Names may hold the mark: *names* decides."""
    mark = _ONE if _ONE in component else _BOTH
    if "/" in component or mark not in component:
        return None
    parts = component.split(mark)
    splits = [(mark.join(parts[:cut]), mark.join(parts[cut:])) for cut in range(1, len(parts))]
    one, other = next((pair for pair in splits if pair[0] in names and pair[1] in names), splits[0])
    return CableEnds(one, other, mark == _BOTH)


def is_above_leaves(fault: Fault, topology: Topology) -> bool:
    """Whether the fault is of a switch above the leaves or of a cable between switches."""
    if fault.component in topology.hosts:
        return False
    switch = topology.switches.get(fault.component)
    if switch is not None:
        return switch.tier != "leaf"
    return cable_ends(fault.component, topology.switches) is not None


def link_faults(net: NamedClos, faults: Iterable[Fault]) -> tuple[LinkFault, ...]:
    """Those of *faults* that are above the leaves, as faults of directed links. ValueError for a cable not there."""
    leaves = set(net.leaves)
    found = []
    for fault in faults:
        if fault.component in net.host_ids or fault.component in leaves:
            continue
        links = _links(net, fault.component)
        if links is not None:
            kind = "down" if fault.kind == "broken" else "slow"
            found.append(LinkFault(f"{fault.component}:{fault.kind}", kind, fault.factor, links))
    return tuple(found)


def _links(net: NamedClos, component: str) -> tuple[int, ...] | None:
    if component in net.switches:
        cables = [cable for other in net.switches for cable in net.cables(component, other)]
        return tuple(link for cable in cables for link in cable)
    ends = cable_ends(component, net.switches)
    if ends is None:
        return None
    found = net.cables(ends.one, ends.other)
    if not found:
        raise ValueError(f"no cable between {ends.one} and {ends.other}")
    return tuple(link for cable in found for link in (cable if ends.both else cable[:1]))
