"""
How much a host as a whole differs from its peers, where that is too little to matter.

Healthy hosts differ by half a percent, and one in thousands by 1.5 %. All of its numbers then lie half way to a loss
that matters, and of a few hundred some pass it by noise: a part of a host would be accused of what all parts share. So
a part is compared with what is usual on its own host. A host that lacks as much as matters is not excused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median_high

from fabric.analysis.peers import LEAST_PEERS, Peers

LEAST_NUMBERS = LEAST_PEERS
"""Fewer numbers of one host do not tell its level (a choice, as for peers)."""


def levels(values: Mapping[str, Sequence[float]], peers: Peers, *, excused: float) -> dict[str, float]:
    """
    The share of the peers' median that each host reaches in *values* (Gb/s by host, of one class), if below 1.

    Its higher median: of a host half of whose numbers are slow the other half tells. Left out are hosts of fewer than
    eight numbers, and those that lack more than *excused* (a share).
    """
    found = {}
    for host, numbers in values.items():
        if len(numbers) >= LEAST_NUMBERS:
            level = median_high(numbers) / peers.median_gbps
            if 1 - excused < level < 1:
                found[host] = level
    return found
