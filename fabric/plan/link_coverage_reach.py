"""Which links any route uses at all: what is on none cannot be burned in by traffic between RNICs."""

from __future__ import annotations

import numpy as np

from fabric.plan.link_coverage_load import Ints, RoutedFabric

_AT_ONCE = 1 << 18  # flows of one look-up: some tens of MiB of arrays


def on_routes(net: RoutedFabric) -> Ints:
    """
    On how many routes each link is: from a leaf to a usable RNIC, as tables have them; 0 means on none.

    A forwarding table knows only the leaf that a packet comes from, so one sender of each leaf stands for the others of
    it.
    """
    rnics = np.flatnonzero(net.usable)
    count = len(net.capacity_gbps) + 1
    seen = np.zeros(count, dtype=np.int64)
    leaves, first = np.unique(net.leaf[rnics], return_index=True)
    senders = rnics[first]
    each = max(1, _AT_ONCE // len(rnics))
    for start in range(0, len(leaves), each):
        some = senders[start : start + each]
        src, dst = np.repeat(some, len(rnics)), np.tile(rnics, len(some))
        way = net.meet(src, dst)
        seen += np.bincount(net.links(src[way], dst[way]).ravel(), minlength=count)
    # The others' own way up, which no sender above has used; a neighbour in the list is on their leaf, or near.
    for there in (np.roll(rnics, 1), np.roll(rnics, -net.rail_step), np.roll(rnics, net.rail_step)):
        way = net.meet(rnics, there)
        seen += np.bincount(net.links(rnics[way], there[way]).ravel(), minlength=count)
    return seen[:-1]
