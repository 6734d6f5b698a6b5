"""What faults make of the links of a simulated network: capacity, packet loss, and which are down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fabric.sim.link_fault import LinkFault
from fabric.sim.named_clos import NamedClos
from fabric.sim.net.arrays import Floats
from fabric.sim.phy import LinkQuality, link_quality

FEC = "kp4"
"""The code of 50 and 100 Gb/s lanes: HDR, NDR, XDR and 200 to 800 Gb/s Ethernet."""
WITH_RETRY = {"infiniband": True, "ethernet": False}
"""Whether links resend by themselves (PLR); Ethernet links leave it to the RNICs."""


@dataclass(frozen=True)
class LinkState:
    """
    Every directed link: *capacity_gbps*, *loss* (of its packets), and those that are *down*.

    *quality*: for each fault that is a bit error rate, in the order given, what it makes of its links.
    """

    capacity_gbps: Floats
    loss: Floats
    down: tuple[int, ...]
    quality: tuple[tuple[LinkFault, LinkQuality], ...]


def link_state(net: NamedClos, faults: Sequence[LinkFault], *, link_layer: str) -> LinkState:
    """The links with these faults; several on one link add up."""
    capacity = net.clos.capacity_gbps.copy()
    passed = np.ones(len(capacity))
    down: set[int] = set()
    quality = []
    for fault in faults:
        links = np.array(fault.links, dtype=np.int64)
        if fault.kind == "down":
            down.update(fault.links)
            capacity[links] = 0.0
        elif fault.kind == "slow":
            capacity[links] *= fault.value
        elif fault.kind == "loss":
            passed[links] *= 1.0 - fault.value
        else:
            found = _quality(fault, link_layer, float(net.clos.capacity_gbps[links[0]]))
            quality.append((fault, found))
            capacity[links] *= found.capacity_factor
            passed[links] *= 1.0 - found.loss
    return LinkState(capacity, 1.0 - passed, tuple(sorted(down)), tuple(quality))


def _quality(fault: LinkFault, link_layer: str, line_rate_gbps: float) -> LinkQuality:
    return link_quality(
        raw_ber=fault.value if fault.kind == "ber" else None,
        effective_ber=fault.value if fault.kind == "effective_ber" else None,
        fec=FEC,
        plr=WITH_RETRY[link_layer],
        line_rate_gbps=line_rate_gbps,
    )
