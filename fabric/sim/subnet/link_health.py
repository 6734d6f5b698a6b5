"""The links above the leaves at one moment: what they carry, which are down, and which of that the routes know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fabric.model.inventory import Fault
from fabric.sim.link_state import link_state
from fabric.sim.named_clos import NamedClos
from fabric.sim.net.arrays import Floats
from fabric.sim.uplink_faults import link_faults


@dataclass(frozen=True, slots=True)
class PortEffects:
    """What ports between switches do to directed links: some are *down*, others keep a *factor* of their capacity."""

    down: frozenset[int] = frozenset()
    factors: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LinkHealth:
    """Every directed link: *capacity_gbps*, 0 for those that are *down*."""

    capacity_gbps: Floats
    down: frozenset[int]


def link_health(net: NamedClos, faults: Iterable[Fault], ports: PortEffects, *, link_layer: str) -> LinkHealth:
    """The links with the inventory's faults and with what became of their ports since."""
    state = link_state(net, link_faults(net, faults), link_layer=link_layer)
    capacity = state.capacity_gbps
    for link, factor in ports.factors.items():
        capacity[link] *= factor
    down = frozenset(state.down) | ports.down
    capacity[np.fromiter(down, dtype=np.int64, count=len(down))] = 0.0
    return LinkHealth(capacity, down)
