"""
RNIC to RNIC inside one host: every ordered pair, out to the ToR and back.

MegaScale (arXiv 2402.15627, 4.3): do the RNICs meet their specification, and is the routing right.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import ClassVar

from fabric.model.probe import ParamValue
from fabric.model.scenario import LimitKey
from fabric.model.topology import Platform, Rnic
from fabric.probes.keys import Name, QueuePairs
from fabric.probes.perftest_pair import InHostSpec


class RnicToRnicSpec(InHostSpec):
    """Every ordered pair of RNICs of one host (ib_write_bw)."""

    kind: ClassVar[str] = "rnic_to_rnic"
    needs: ClassVar[str] = "two RNICs"

    name: Name = kind
    queue_pairs: QueuePairs = 2

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """One, where there are two RNICs."""
        return iter([LimitKey(self.kind, size_bytes=self.size_bytes)] if len(platform.rnics) > 1 else ())

    def pairs(self, platform: Platform) -> Iterator[tuple[str, tuple[str, ...], dict[str, ParamValue]]]:
        """Every ordered pair of RNICs of every host: 8 x 7 = 56."""
        for source, target in permutations(platform.rnics, 2):
            own: dict[str, ParamValue] = {"rnic": source.device, "peer_rnic": target.device}
            yield f"{source.device}.{target.device}", _claims(source, target), own


def _claims(source: Rnic, target: Rnic) -> tuple[str, ...]:
    # The sender reads memory (its switch's uplink downwards), the receiver writes memory (upwards).
    claims = [source.device, target.device]
    if source.pcie_switch is not None:
        claims.append(f"{source.pcie_switch}:down")
    if target.pcie_switch is not None:
        claims.append(f"{target.pcie_switch}:up")
    return tuple(claims)
