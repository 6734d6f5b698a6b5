"""Which links any route uses at all: what is on none cannot be burned in by traffic between RNICs."""

from __future__ import annotations

import numpy as np

from fabric.plan.link_coverage_load import Bools, RoutedFabric

_AT_ONCE = 1 << 18  # flows of one look-up: some tens of MiB of arrays


def on_routes(net: RoutedFabric) -> Bools:
    """
    Links on the way from some usable RNIC to another one.

    A forwarding table knows only the leaf that a packet comes from, so one sender of each leaf stands for the others of
    it; its own way to its leaf is then everyone's.
    """
    rnics = np.flatnonzero(net.usable)
    seen = np.zeros(len(net.capacity_gbps) + 1, dtype=np.bool_)
    leaves, first = np.unique(net.leaf[rnics], return_index=True)
    last = len(rnics) - 1 - np.unique(net.leaf[rnics][::-1], return_index=True)[1]
    senders = rnics[first]
    each = max(1, _AT_ONCE // len(rnics))
    for start in range(0, len(leaves), each):
        some = senders[start : start + each]
        src, dst = np.repeat(some, len(rnics)), np.tile(rnics, len(some))
        apart = src != dst
        seen[net.links(src[apart], dst[apart]).ravel()] = True
    # Every other RNIC's own two links: to and from the RNIC at the other end of its leaf, or anyone at all.
    partner = np.where(np.isin(rnics, senders), np.roll(rnics, 1), senders[np.searchsorted(leaves, net.leaf[rnics])])
    alone = partner == rnics
    partner[alone] = rnics[last[0] if len(last) else 0]
    keep = partner != rnics
    seen[net.links(rnics[keep], partner[keep]).ravel()] = True
    return seen[:-1]
