"""Flows of others on links between switches: another tenant's hosts, which no inventory names and no probe uses.

The tenant's flows and the links are healthy. The flows always want the same rate, get their fair share where that is
too much, slow down for marks as our RNICs do, and are counted where they pass: a port of a switch cannot tell whose
bytes it sends.
"""

from collections.abc import Iterable
from math import ceil

import numpy as np

from fabric.sim.faults import LinkFault
from fabric.sim.net.clos import Clos, Floats, Ints
from fabric.sim.net.links import TENANT


class Tenants:
    """
    The present tenants, by component; *links* has the directed link of each of their flows, *wants* its Gb/s.

    Where a tenant leaves the fraction f of a link to one flow (queue pair) of ours, it wants the rest, in as many flows
    as that takes: one for a half, two for a third.
    """

    def __init__(self, clos: Clos, faults: Iterable[LinkFault]) -> None:
        self._clos = clos
        self._here = {one.text: one for one in faults if one.kind == TENANT}
        self._carried_gb, self._counted_s = np.zeros(clos.links), 0.0
        self._deal()

    def set(self, component: str, one: LinkFault | None, at_s: float) -> None:
        """
        Set a tenant's fault on a component from now on, or remove it (None).

        Until shares are computed, its flows get all they want.
        """
        self._count(at_s)
        self._here.pop(f"{component}:{TENANT}", None)
        if one is not None:
            self._here[one.text] = one
        self._deal()

    def _deal(self) -> None:
        links, wants = list[int](), list[float]()
        for one in self._here.values():
            flows = max(1, ceil((1 - one.value) / one.value - 1e-9))
            for link in one.links:
                links += [link] * flows
                wants += [(1 - one.value) * float(self._clos.capacity_gbps[link]) / flows] * flows
        self.links: Ints = np.array(links, dtype=np.int64)
        self.wants: Floats = np.array(wants)
        self._gbps = self.wants

    def set_rates(self, gbps: Floats, at_s: float) -> None:
        """Set the rates of the tenants' flows from now on."""
        self._count(at_s)
        self._gbps = gbps

    def carried_gb(self, link: int, at_s: float) -> float:
        """Return what a directed link has carried for tenants."""
        self._count(at_s)
        return float(self._carried_gb[link])

    def _count(self, at_s: float) -> None:
        np.add.at(self._carried_gb, self.links, self._gbps * max(0.0, at_s - self._counted_s))
        self._counted_s = max(at_s, self._counted_s)
