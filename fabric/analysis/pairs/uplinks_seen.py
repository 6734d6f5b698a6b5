"""
Uplinks that the inventory lists and that no pair can speak of: those that are not up, and those that no route uses.

Routes go around what is dead, so every pair is as fast as before: only who looks at the cables themselves sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fabric.analysis.pairs.of_run import Measured, RunPlane, lids_of, peers_of
from fabric.model.topology import Topology
from fabric.probes import routes

_NAMES_MOST = 6

Uplink = tuple[str, str]
"""The leaf, and the switch above it."""


def not_up(measured: Measured, topology: Topology) -> list[str]:
    """
    In words, uplinks of which iblinkinfo shows fewer cables that are up than the inventory lists; none: all are up.

    Only leaves that iblinkinfo shows under the name of the inventory are looked at, and only where any cable to a
    switch above them is shown so too: where switches are called otherwise, nothing can be said.
    """
    planes = dict.fromkeys(str(probe.params["plane"]) for probe, _ in measured if probe.kind == routes.KIND)
    leaves = {name for plane in planes for name in lids_of(measured, plane) if "/" not in name}
    up = Counter((leaf, peer) for plane in planes for (leaf, _), peer in peers_of(measured, plane).items())
    listed = {uplink: count for uplink, count in _listed(topology).items() if uplink[0] in leaves}
    if not any(uplink in up for uplink in listed):
        return []
    missing = [uplink for uplink, count in listed.items() if up[uplink] < count]
    if not missing:
        return []
    return [
        f"{len(missing)} of {len(listed)} uplinks of the inventory are not up, as iblinkinfo shows it: "
        f"{_named(missing, listed)}; routes go around them, so no pair shows it: look at both ports and the switch, "
        "or mend the inventory"
    ]


def unused(planes: Sequence[RunPlane], topology: Topology) -> list[str]:
    """In words, uplinks over which no route between these hosts leads; nothing where not every table was read."""
    listed: dict[Uplink, int] = {}
    used: set[Uplink] = set()
    for one in planes:
        known, leaves = one.state.routes, one.plane.leaves
        if not known or {leaf for leaf, _ in known} < set(leaves):
            continue
        listed |= {uplink: count for uplink, count in _listed(topology).items() if uplink[0] in leaves}
        leaf_of = {host: leaf for leaf, hosts in leaves.items() for host in hosts}
        for (leaf, host), spine in known.items():
            if host in leaf_of and leaf != leaf_of[host]:
                used |= {(leaf, spine), (leaf_of[host], spine)}
    if not used.intersection(listed):
        return []
    idle = [uplink for uplink in listed if uplink not in used]
    if not idle:
        return []
    return [
        f"{len(idle)} of {len(listed)} uplinks are on no route between these hosts, so nothing is known of them: "
        f"{_named(idle, listed)}"
    ]


def _listed(topology: Topology) -> dict[Uplink, int]:
    """Cables of each leaf to each switch above it, as the inventory has them."""
    return {
        (lower, upper): uplinks.count
        for uplinks in topology.uplinks
        for lower in uplinks.lower
        for upper in uplinks.upper
    }


def _named(uplinks: Sequence[Uplink], listed: Iterable[Uplink]) -> str:
    """A switch above, where all its uplinks (two at least) are among them; else one by one."""
    below, among = Counter(upper for _, upper in listed), Counter(upper for _, upper in uplinks)
    whole = [upper for upper, count in among.items() if count == below[upper] > 1]
    names = [f"{upper} (all {below[upper]})" for upper in whole]
    names += [f"{lower}--{upper}" for lower, upper in uplinks if upper not in whole]
    more = f" and {len(names) - _NAMES_MOST} more" if len(names) > _NAMES_MOST else ""
    return ", ".join(names[:_NAMES_MOST]) + more
