"""The links above the leaves: their capacity after faults and port states, which are down, what they have carried."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fabric.model.inventory import Fault
from fabric.sim.faults import HALF, LinkFault, cable_ends
from fabric.sim.net.clos import Clos, Floats, Ints
from fabric.sim.net.named_clos import NamedClos
from fabric.sim.net.route import Paths, resources, trunk_of
from fabric.sim.phy.cabling import Cabling, End
from fabric.sim.phy.port import Port
from fabric.sim.phy.quality import KP4, LinkQuality, link_quality

TENANT = "tenant"


@dataclass(frozen=True)
class LinkState:
    """
    The state of every directed link: *capacity_gbps*, *loss* (of its packets), links that are *down* and *grey* ones.

    *quality*: for each fault that is a bit error rate, in the order given, the quality it leaves to its links.
    """

    capacity_gbps: Floats
    loss: Floats
    down: frozenset[int]
    quality: tuple[tuple[LinkFault, LinkQuality], ...]
    grey: frozenset[int] = frozenset()


def link_faults(net: NamedClos, faults: Iterable[Fault]) -> Iterator[LinkFault]:
    """
    Yield the *faults* above the leaves as faults of directed links; raises ValueError for a cable that does not exist.
    """
    below = net.host_ids.keys() | set(net.leaves)
    for fault in faults:
        links = None if fault.component in below else _links(net, fault.component)
        if links is not None:
            kind = {"broken": "down", "grey": "grey", TENANT: TENANT}.get(fault.kind, "slow")
            left = HALF if fault.kind == "half_width" else fault.factor
            yield LinkFault(f"{fault.component}:{fault.kind}", kind, left, links)


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


def link_state(net: NamedClos, faults: Sequence[LinkFault], *, link_layer: str) -> LinkState:
    """Return the state of the links with these faults; several faults on one link add up."""
    capacity = net.clos.capacity_gbps.copy()
    passed = np.ones(len(capacity))
    shut: dict[str, set[int]] = {"down": set(), "grey": set()}
    quality = []
    for fault in faults:
        links = np.array(fault.links, dtype=np.int64)
        left, lost = 1.0, 0.0
        if fault.kind in shut:
            shut[fault.kind].update(fault.links)
            left = 0.0
        elif fault.kind == "slow":
            left = fault.value
        elif fault.kind == "loss":
            lost = fault.value
        elif fault.kind != TENANT:  # a tenant's links are healthy
            found = link_quality(
                raw_ber=fault.value if fault.kind == "ber" else 0.0,
                effective_ber=fault.value if fault.kind == "effective_ber" else 0.0,
                fec=KP4,
                plr=link_layer == "infiniband",  # links resend by themselves; Ethernet leaves it to the RNICs
                line_rate_gbps=float(net.clos.capacity_gbps[links[0]]),
            )
            quality.append((fault, found))
            left, lost = found.capacity_factor, found.loss
        capacity[links] *= left
        passed[links] *= 1.0 - lost
    return LinkState(capacity, 1.0 - passed, frozenset(shut["down"]), tuple(quality), frozenset(shut["grey"]))


EPOCH_S = 600.0
"""How long the random state of a link lasts."""

STALLED, STALLED_LINK, STALLED_NOW = 0.03, 0.5, 0.8
"""Credit wait of a healthy link over its sending time: the median, and the spread of its logarithm (link, epoch)."""

CONGESTED = 0.03
"""Fraction of epochs in which a healthy link waits up to as long as it sends: traffic of others further on."""

UNEVEN_LINK, UNEVEN_NOW = 0.03, 0.05
"""How the links of a trunk differ under adaptive routing. All of these are choices: nobody publishes numbers."""


class LinkTraffic:
    """
    Gigabits by directed link: what it has carried, and what it could have carried while it waited to send.

    A link that carries less than its line waits for the rest of the time that each packet takes. Every link waits for
    credits now and then, by its own nature and by chance (*seed*).
    """

    def __init__(self, clos: Clos, *, seed: int) -> None:
        self._clos, self._seed = clos, seed & 0xFFFFFFFFFFFFFFFF
        self._carried, self._waited = np.zeros(clos.links), np.zeros(clos.links)
        self._fresh, self._held = np.zeros(clos.links + 1), np.zeros(clos.links + 1)
        self._trunks = np.zeros(resources(clos) + 1)

    def add(self, paths: Paths, gb: float, *, held_gb: float, adaptive: bool) -> None:
        """Add *gb* to every edge of these paths, which carried *held_gb* less than it wanted."""
        into = self._trunks if adaptive else self._fresh
        np.add.at(into, paths.links, (paths.weight * gb)[:, np.newaxis])
        if held_gb > 0.0 and not adaptive:  # credits run out on the way up to the link that holds it back
            np.add.at(self._held, paths.links[:, 1:3], (paths.weight * held_gb)[:, np.newaxis])

    def deal_out(self, capacity_gbps: Floats, at_s: float) -> None:
        """
        Assign what was carried since the last call to single links; call this before their capacities change.

        Half of a trunk's load is split by capacity, as when it is full, half evenly, as when there is room (a choice).
        """
        if not self._trunks.any() and not self._fresh.any():
            return
        own, now = (np.random.default_rng([self._seed, 1 + epoch]) for epoch in (-1, int(at_s // EPOCH_S)))
        size, alive = self._clos.links, capacity_gbps > 0
        trunk = trunk_of(self._clos)[:-1]
        by_capacity, even = _parts(trunk, capacity_gbps), _parts(trunk, alive.astype(np.float64))
        uneven = np.exp(UNEVEN_LINK * own.normal(size=size) + UNEVEN_NOW * now.normal(size=size))
        fresh = self._fresh[:-1] + self._trunks[trunk] * _parts(trunk, (by_capacity + even) * uneven)
        stalled = STALLED * np.exp(STALLED_LINK * own.normal(size=size) + STALLED_NOW * now.normal(size=size))
        stalled += np.where(now.random(size) < CONGESTED, now.random(size), 0.0)
        line = self._clos.capacity_gbps
        stalled += np.divide(line, capacity_gbps, out=np.ones_like(line), where=alive) - 1.0
        self._carried += fresh
        self._waited += fresh * stalled + self._held[:-1]
        for done in (self._trunks, self._fresh, self._held):
            done[:] = 0.0

    def of(self, link: int) -> tuple[float, float]:
        """
        Return the gigabits that one link has carried, as far as they were dealt out, and for how long (s) it waited.
        """
        return float(self._carried[link]), float(self._waited[link] / self._clos.capacity_gbps[link])


def _parts(trunk: Ints, size: Floats) -> Floats:
    """Return the share of each link in its trunk by its size."""
    total = np.bincount(trunk, size)[trunk]
    return np.divide(size, total, out=np.zeros_like(total), where=total > 0)


def port_faults(cabling: Cabling, net: NamedClos, ports: Iterable[Port]) -> Iterator[LinkFault]:
    """Yield faults for ports between switches: links that are down, and links whose errors leave less of them."""
    for port in ports:
        link = None if port.active and not port.errs else sending_link(cabling, net, port.end)
        if link is not None:
            left = port.quality().goodput_factor if port.active else 0.0
            yield LinkFault(f"{port.end}", "slow" if port.active else "down", left, (link,))


def sending_link(cabling: Cabling, net: NamedClos, end: End) -> int | None:
    """Return the directed link that a port between switches sends on; None for any other port."""
    peer = cabling.peers.get(end)
    cables = () if peer is None else net.cables(end[0], peer[0])
    return cables[nth][0] if cables and (nth := cabling.place_among[end]) < len(cables) else None
