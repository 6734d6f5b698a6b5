"""What ports between switches leave of their cables, in the words that the network above the leaves knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fabric.model.inventory import Fault
from fabric.sim.cabling import Cabling

if TYPE_CHECKING:
    from fabric.sim.ports import Port


def uplink_faults(cabling: Cabling, ports: Iterable[Port]) -> tuple[Fault, ...]:
    """One fault a direction between two switches; of parallel cables the network knows only all together."""
    lost: dict[tuple[str, str], float] = {}
    for port in ports:
        peer = cabling.peers.get(port.end)
        if peer is None or port.node.host is not None or cabling.nodes[peer[0]].host is not None:
            continue
        errors = port.quality().goodput_factor if port.injection is not None else 1.0
        left = errors if port.active else 0.0
        way = (port.node.name, peer[0])
        lost[way] = lost.get(way, 0.0) + 1.0 - left
    found = []
    for (one, other), gone in lost.items():
        count = sum(cabling.peers[end][0] == other for end in cabling.ends(cabling.nodes[one]))
        if gone >= count:
            found.append(Fault(f"{one}->{other}", "broken"))
        elif gone > 0.0:
            found.append(Fault(f"{one}->{other}", "slow", 1.0 - gone / count))
    return tuple(found)
