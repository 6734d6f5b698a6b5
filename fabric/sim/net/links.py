"""The links above the leaves: what faults and ports leave of them, which are down, and what they have carried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fabric.model.inventory import Fault
from fabric.sim.faults import HALF, LinkFault, cable_ends
from fabric.sim.net.clos import Clos, Floats
from fabric.sim.net.named_clos import NamedClos
from fabric.sim.net.route import Paths, resources, trunk_of
from fabric.sim.phy.cabling import Cabling, End
from fabric.sim.phy.port import Port
from fabric.sim.phy.quality import LinkQuality, link_quality

FEC = "kp4"
"""The code of 50 and 100 Gb/s lanes: HDR, NDR, XDR and 200 to 800 Gb/s Ethernet."""
WITH_RETRY = {"infiniband": True, "ethernet": False}
"""Whether links resend by themselves (PLR); Ethernet links leave it to the RNICs."""


@dataclass(frozen=True)
class LinkState:
    """
    Every directed link: *capacity_gbps*, *loss* (of its packets), those that are *down*, and those that are *grey*.

    *quality*: for each fault that is a bit error rate, in the order given, what it makes of its links.
    """

    capacity_gbps: Floats
    loss: Floats
    down: frozenset[int]
    quality: tuple[tuple[LinkFault, LinkQuality], ...]
    grey: frozenset[int] = frozenset()


def link_faults(net: NamedClos, faults: Iterable[Fault]) -> Iterator[LinkFault]:
    """Those of *faults* that are above the leaves, as faults of directed links. ValueError for a cable not there."""
    below = net.host_ids.keys() | set(net.leaves)
    for fault in faults:
        links = None if fault.component in below else _links(net, fault.component)
        if links is not None:
            kind = {"broken": "down", "grey": "grey"}.get(fault.kind, "slow")
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
    """The links with these faults; several on one link add up."""
    capacity = net.clos.capacity_gbps.copy()
    passed = np.ones(len(capacity))
    down: set[int] = set()
    grey = frozenset[int]()
    quality = []
    for fault in faults:
        links = np.array(fault.links, dtype=np.int64)
        if fault.kind == "down":
            down.update(fault.links)
            capacity[links] = 0.0
        elif fault.kind == "grey":
            capacity[links], grey = 0.0, grey.union(fault.links)
        elif fault.kind == "slow":
            capacity[links] *= fault.value
        elif fault.kind == "loss":
            passed[links] *= 1.0 - fault.value
        else:
            found = _quality(fault, link_layer, float(net.clos.capacity_gbps[links[0]]))
            quality.append((fault, found))
            capacity[links] *= found.capacity_factor
            passed[links] *= 1.0 - found.loss
    return LinkState(capacity, 1.0 - passed, frozenset(down), tuple(quality), grey)


def _quality(fault: LinkFault, link_layer: str, line_rate_gbps: float) -> LinkQuality:
    return link_quality(
        raw_ber=fault.value if fault.kind == "ber" else 0.0,
        effective_ber=fault.value if fault.kind == "effective_ber" else 0.0,
        fec=FEC,
        plr=WITH_RETRY[link_layer],
        line_rate_gbps=line_rate_gbps,
    )


class LinkTraffic:
    """Gigabits by directed link."""

    def __init__(self, clos: Clos) -> None:
        self._clos = clos
        self._links = np.zeros(clos.links + 1)
        self._trunks = np.zeros(resources(clos) + 1)

    def add(self, paths: Paths, gb: float, *, adaptive: bool) -> None:
        """Every edge of these paths carried so much."""
        into = self._trunks if adaptive else self._links
        np.add.at(into, paths.links, (paths.weight * gb)[:, np.newaxis])

    def deal_out(self, capacity_gbps: Floats) -> None:
        """What trunks carried since this was last done was on their links by capacity: call before that changes."""
        if not self._trunks.any():
            return
        trunk = trunk_of(self._clos)[:-1]
        total = np.bincount(trunk, capacity_gbps)[trunk]
        part = np.divide(capacity_gbps, total, out=np.zeros_like(total), where=total > 0)
        self._links[:-1] += self._trunks[trunk] * part
        self._trunks[:] = 0.0

    def of(self, link: int) -> float:
        """What one link has carried, as far as it was added and dealt out."""
        return float(self._links[link])


def port_faults(cabling: Cabling, net: NamedClos, ports: Iterable[Port]) -> Iterator[LinkFault]:
    """What became of ports between switches: links that are down, and those whose errors leave less of them."""
    for port in ports:
        link = None if port.active and not port.errs else sending_link(cabling, net, port.end)
        if link is not None:
            left = port.quality().goodput_factor if port.active else 0.0
            yield LinkFault(f"{port.end}", "slow" if port.active else "down", left, (link,))


def sending_link(cabling: Cabling, net: NamedClos, end: End) -> int | None:
    """The directed link that a port between switches sends on; None for any other port."""
    peer = cabling.peers.get(end)
    if peer is None or cabling.nodes[end[0]].host is not None or cabling.nodes[peer[0]].host is not None:
        return None
    # Parallel cables are numbered alike at both ends: plugged in one after the other.
    nth = sum(cabling.peers.get((end[0], number), ("", 0))[0] == peer[0] for number in range(1, end[1]))
    cables = net.cables(end[0], peer[0])
    return cables[nth][0] if nth < len(cables) else None
