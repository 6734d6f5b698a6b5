"""A routed fabric as arrays: which links flows cross, and the load that they put on these at least."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fabric.sim.net.clos import Bools, Clos, Floats, Ints
from fabric.sim.net.route import routes

KNOWN = ("ftree", "updn", "minhop", "ar")
"""Routings with paths that can be known before: OpenSM's tables, and trunks that are loaded evenly."""

LEAST_LOAD = 0.5
"""Of a link's rate: less is not said to have burned it in (Imbue's ib_burn.py: 0.50)."""

TIERS = ("host to leaf", "leaf to host", "leaf to spine", "spine to leaf", "spine to core", "core to spine")
"""Names of the tiers of directed links, by number; even ones go up and belong to the senders below them."""

_ROUNDING = 1e-9  # of sums of shares
_AT_ONCE = 1 << 18  # flows of one look-up: some tens of MiB of arrays


@dataclass(frozen=True, eq=False)
class RoutedFabric:
    """
    Directed links by number, and which of them a flow between two RNICs (by number) crosses.

    With adaptive routing a "link" is a trunk: the parallel cables of a leaf or pod, which the switch is taken to load
    evenly; *cables* says how many directed links it stands for (1 for a plain link), *capacity_gbps* is of all of them
    together. *owner* is the RNIC, the leaf or the pod below a link, by its *tier*. Only *usable* RNICs take part, and
    where rails have spines of their own, only those under leaves of the same *part* meet.
    """

    clos: Clos
    routing: str
    salt: int
    usable: Bools  # of each RNIC
    part: Ints  # of each leaf
    tier: Ints
    owner: Ints
    cables: Ints
    capacity_gbps: Floats

    @property
    def rail_step(self) -> int:
        """Leaves until the next one of the same rail."""
        return self.clos.spec.rails if self.clos.spec.rail_optimised else 1

    @property
    def rnics(self) -> Ints:
        """Those that take part."""
        return np.flatnonzero(self.usable)

    @cached_property
    def needs(self) -> Ints:
        """How many flows at line rate it takes to load each link to half its rate."""
        return np.ceil(LEAST_LOAD * self.capacity_gbps / self.clos.spec.line_rate_gbps - 1e-9).astype(np.int64)

    @cached_property
    def below(self) -> Ints:
        """How many RNICs that take part are below each link: what could cross it at once at most."""
        found = np.zeros(len(self.tier), dtype=np.int64)
        for tier in range(len(TIERS)):
            rows = self.tier == tier
            place = self.place(self.rnics, tier)
            found[rows] = np.bincount(place, minlength=self.owner[rows].max(initial=0) + 1)[self.owner[rows]]
        return found

    def place(self, rnics: Ints, tier: int) -> Ints:
        """The owner of the links of a tier that are above these RNICs."""
        if tier < 2:
            return rnics
        leaf = self.clos.leaf_of(rnics)
        return leaf if tier < 4 else self.clos.pod_of(leaf)

    def meet(self, src: Ints, dst: Ints) -> Bools:
        """Which of these pairs are two RNICs with a way between them."""
        apart: Bools = (src != dst) & (self.part[self.clos.leaf_of(src)] == self.part[self.clos.leaf_of(dst)])
        return apart

    def crossed(self, src: Ints, dst: Ints) -> NDArray[np.integer]:
        """The links of each flow in a row, padded with the number of links."""
        return routes(self.clos, src, dst, engine=self.routing, salt=self.salt).links

    def flows(self, src: Ints, dst: Ints) -> Ints:
        """How many of these flows cross each link."""
        return np.bincount(self.crossed(src, dst).ravel(), minlength=len(self.tier) + 1)[:-1]

    def covered(self, src: Ints, dst: Ints) -> Bools:
        """
        Which links carry LEAST_LOAD of their capacity or more while these flows run.

        Each flow gets the least equal share on its way at least: with n flows on a link of capacity c, max-min fairness
        gives each of them c / n or more unless it is held down elsewhere, and then the same is true there.
        """
        crossed, size = self.crossed(src, dst), len(self.tier) + 1
        share = np.append(self.capacity_gbps, np.inf) / np.maximum(np.bincount(crossed.ravel(), minlength=size), 1)
        rates = np.repeat(share[crossed].min(axis=1), crossed.shape[1])
        load = np.bincount(crossed.ravel(), weights=rates, minlength=size)[:-1]
        enough: Bools = load >= LEAST_LOAD * self.capacity_gbps * (1 - _ROUNDING)
        return enough

    def on_routes(self) -> Ints:
        """
        On how many routes each link is: from a leaf to a usable RNIC, as tables have them; 0 means on none.

        A forwarding table knows only the leaf that a packet comes from, so one sender of each leaf stands for the
        others of it. Their own way up, which no such sender has used, is that to a neighbour in the list.
        """
        rnics = self.rnics
        senders = rnics[np.unique(self.clos.leaf_of(rnics), return_index=True)[1]]
        pairs = [(rnics, np.roll(rnics, by)) for by in (1, -self.rail_step, self.rail_step)]
        for some in np.array_split(senders, -(-len(senders) * len(rnics) // _AT_ONCE)):
            pairs.append((np.repeat(some, len(rnics)), np.tile(rnics, len(some))))
        seen = np.zeros(len(self.tier), dtype=np.int64)
        for src, dst in pairs:
            way = self.meet(src, dst)
            seen += self.flows(src[way], dst[way])
        return seen


def routed_fabric(
    clos: Clos, *, routing: str, usable: Bools | None = None, part: Ints | None = None, salt: int = 0
) -> RoutedFabric:
    """
    A Clos with its routes; without *usable* every RNIC takes part, without *part* all leaves are joined.

    ``ecmp`` gives the routes of the hash *salt*: to judge a plan that does not know it.
    """
    width, cores = clos.spec.up, clos.spec.up * clos.cores_up
    counts = np.repeat([clos.nics, clos.leaves, clos.pods if cores else 0], 2)
    tier = np.repeat(np.arange(len(TIERS)), counts)
    owner = np.concatenate([np.arange(count) for count in counts])
    cables = np.repeat([1, 1, width, width, cores, cores], counts)
    rates = np.where(tier < 2, clos.spec.line_rate_gbps, clos.spec.uplink_gbps)
    if routing != "ar":
        tier, owner, rates = (np.repeat(each, cables) for each in (tier, owner, rates))
        cables = np.ones(len(tier), dtype=np.int64)
    return RoutedFabric(
        clos=clos,
        routing=routing,
        salt=salt,
        usable=np.ones(clos.nics, dtype=np.bool_) if usable is None else usable,
        part=np.zeros(clos.leaves, dtype=np.int64) if part is None else part,
        tier=tier,
        owner=owner,
        cables=cables,
        capacity_gbps=rates * cables,
    )
