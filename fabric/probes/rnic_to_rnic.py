"""RNIC to RNIC inside one host: every ordered pair, out to the ToR and back.

MegaScale (arXiv 2402.15627, 4.3): do the RNICs meet their specification, and is the routing right?

If each rail has a leaf of its own ("rail-optimised"), such a pair leaves its leaf: up to a spine and down to the leaf
of the other rail. It then shares uplinks with the pairs of other hosts, so it claims one cable up from its leaf and one
cable down to the other, and has a limit of its own (``cross_leaf``). If switches draw paths by chance (ECMP), nobody
can say which cable that is, and a leaf sends one such pair at a time: of 32 that began at once 26 collided on three
clean levels, which says nothing of any RNIC. On Ethernet a host sends to its own address on another rail without a
router, straight to that RNIC's MAC, and a leaf that routes drops it: such pairs are left out unless the platform says
``cross_rail``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import ClassVar

from fabric.model.probe import ParamValue, Probe
from fabric.model.scenario import LimitKey
from fabric.model.topology import Host, Platform, Topology
from fabric.probes.perftest_pair import InHostSpec
from fabric.probes.shapes import Inside, Name, QueuePairs, through_switch

CROSS_LEAF = "cross_leaf"
"""The link class of a pair that leaves its leaf, as baselines write it."""


_NOT_ROUTED = (
    "no pair from leaf to leaf: on Ethernet a host reaches its own RNIC on another rail only where that is routed for "
    "(cross_rail: true in the platform)"
)


class RnicToRnicSpec(InHostSpec):
    """Every ordered pair of RNICs of one host that the fabric joins (ib_write_bw)."""

    kind: ClassVar[str] = "rnic_to_rnic"
    needs: ClassVar[str] = "two RNICs that reach each other"

    name: Name = kind
    queue_pairs: QueuePairs = 2

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """Yield one key, if there are two RNICs."""
        return iter([LimitKey(self.kind, size_bytes=self.size_bytes)] if len(platform.rnics) > 1 else ())

    def unjoined(self, hosts: Sequence[str], topology: Topology) -> dict[str, list[str]]:
        """
        Return how many pairs of RNICs the fabric does not join, and hosts that cannot send to their own other rails.
        """
        found: dict[str, list[str]] = {}
        for host in (topology.hosts[name] for name in hosts):
            if lost := len(_apart(host, topology)):
                count = len(host.platform.rnics)
                text = f"{lost} of {count * (count - 1)} pairs are not measured: nothing joins their leaves"
                found.setdefault(text, []).append(host.name)
            elif len(set(host.leaves)) > 1 and not reachable(host.platform):
                found.setdefault(_NOT_ROUTED, []).append(host.name)
        return found

    def layout(self, platform: Platform) -> Iterator[Inside]:
        """Yield every ordered pair of RNICs of every host: 8 x 7 = 56."""
        for source, target in permutations(platform.rnics, 2):
            claims = source.device, target.device, *through_switch(source, "down"), *through_switch(target, "up")
            own = {"rnic": source.device, "peer_rnic": target.device}
            yield f"{source.device}.{target.device}", claims, {**own, **self.load}

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """
        Yield every pair that can reach each other; one that leaves its leaf claims one cable up and one down.

        Where switches draw paths, all such pairs of a leaf claim the same cable, so they run one at a time.
        """
        places = {name: place for group in topology.tor_groups for place, name in enumerate(group)}
        apart: dict[tuple[str, tuple[str, ...]], frozenset[tuple[str, str]]] = {}
        crossing: dict[int, Mapping[str, ParamValue]] = {}  # all hosts of a platform share parameters
        for probe in super().expand(phase=phase, topology=topology, hosts=hosts, ports=ports):
            host = topology.hosts[probe.hosts[0]]
            key = (host.platform.name, host.leaves)
            if key not in apart:
                apart[key] = _apart(host, topology)
            if (probe.params["rnic"], probe.params["peer_rnic"]) in apart[key]:
                continue
            up, down = _leaves(probe, host)
            if up == down or up is None or down is None:
                yield probe
            elif reachable(host.platform):
                above = [topology.above.get(leaf, {}) for leaf in (up, down)]
                if above[0].keys().isdisjoint(above[1]):  # what joins them is not described
                    yield probe
                    continue
                params = crossing.setdefault(id(probe.params), {**probe.params, "link_class": CROSS_LEAF})
                own = [0 if topology.paths_are_random else places[host.name] % sum(cables.values()) for cables in above]
                claims = (*probe.claims, f"{up}:up.{own[0]}", f"{down}:down.{own[1]}")
                yield replace(probe, claims=claims, params=params)


def reachable(platform: Platform) -> bool:
    """Return whether RNICs of one host under different leaves reach each other."""
    return platform.link_layer != "ethernet" or platform.cross_rail


def _leaves(probe: Probe, host: Host) -> tuple[str | None, str | None]:
    rails = (host.platform.rnic_by_device[str(probe.params[end])].rail for end in ("rnic", "peer_rnic"))
    up, down = map(host.leaf, rails)
    return up, down


def _apart(host: Host, topology: Topology) -> frozenset[tuple[str, str]]:
    """Return the pairs of RNICs of a host that the fabric does not join."""
    part = {rnic.device: topology.part_of(host, rnic.rail) for rnic in host.platform.rnics}
    pairs = permutations(part, 2)
    return frozenset((a, b) for a, b in pairs if None not in (part[a], part[b]) and part[a] != part[b])
