"""Uplinks of the inventory that no pair can tell of: those that are not up, and those that no route uses.

Routes go around what is dead, so every pair is as fast as before: only a look at the cables themselves shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from fabric.judge.locate.pairs.findings import NAMES_MOST, some
from fabric.judge.locate.pairs.run_planes import Measured, RunPlane, lids_of, peers_of
from fabric.judge.locate.pairs.samples import OVER
from fabric.judge.locate.search import MOST_NAMED
from fabric.model.outcome import Outcome
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.probes import routes

CONFIDENCE = 0.9
"""The confidence that a listed cable which is not up is broken, and that the inventory is right (a choice)."""

Uplink = tuple[str, str]
"""A leaf, and the switch above it."""


def down(measured: Measured, topology: Topology) -> tuple[list[str], list[Suspect]]:
    """
    Return uplinks with fewer cables up, by iblinkinfo, than the inventory lists: in words, and as suspects.

    Only leaves that iblinkinfo shows by their inventory name are looked at, and only where any cable to a switch
    above them is shown so, too: if switches have other names, nothing can be said. The suspect is the switch above
    if none of its uplinks (two at least) has a cable up, else the cable. It is INCONCLUSIVE, as no byte was lost,
    and the inventory may list what was never there. Where a leaf shows a switch above it that the inventory does
    not know, one may have been renamed, and nobody is suspected.
    """
    planes = dict.fromkeys(str(probe.params["plane"]) for probe, _ in measured if probe.kind == routes.KIND)
    leaves = {name for plane in planes for name in lids_of(measured, plane) if "/" not in name}
    up = Counter((leaf, peer) for plane in planes for (leaf, _), peer in peers_of(measured, plane).items())
    listed = _listed(topology, leaves)
    missing = [uplink for uplink, count in listed.items() if up[uplink] < count]
    if not missing or not any(uplink in up for uplink in listed):
        return [], []
    text = (
        f"{len(missing)} of {len(listed)} uplinks of the inventory are not up, as iblinkinfo shows it: "
        f"{_named(missing, listed)}; routes go around them, so no pair shows it: look at both ports and the switch, "
        "or mend the inventory"
    )
    known = {upper for _, upper in listed} | set(topology.switches)
    if any(peer not in known for _, peer in up):
        return [text], []
    whole = _whole([uplink for uplink in missing if not up[uplink]], listed)
    found = [_suspect(upper, "spine", f"none of its {count} uplinks is up") for upper, count in whole.items()]
    found += [
        _suspect(f"{lower}--{upper}", "link", f"fewer than its {listed[lower, upper]} cables are up")
        for lower, upper in [uplink for uplink in missing if uplink[1] not in whole][:MOST_NAMED]
    ]
    return [text], found


def _suspect(component: str, kind: str, reason: str) -> Suspect:
    return Suspect(
        component=component,
        kind=kind,
        outcome=Outcome.INCONCLUSIVE,
        confidence=CONFIDENCE,
        evidence=(f"{reason}, as iblinkinfo shows it", "routes go around it, so no pair is slower"),
        next_step=f"look at the ports and power at both ends of {component}; was it never there, mend the inventory",
    )


def look_at(planes: Sequence[RunPlane], topology: Topology) -> list[str]:
    """Return in words which ports to read where no tables were: by leaves that have the same switches above them."""
    above: dict[str, list[str]] = {}
    listed = _listed(topology, {leaf for one in planes for leaf in one.plane.leaves})
    for leaf in dict.fromkeys(lower for lower, _ in listed):
        mine = {upper: count for (lower, upper), count in listed.items() if lower == leaf}
        above.setdefault(f"{sum(mine.values())} ports up each, to {fold(mine)}", []).append(leaf)
    expected = [f"{fold(names)} with {ports}" for ports, names in list(above.items())[:NAMES_MOST]]
    if not expected:
        return []
    more = f"; and {len(above) - NAMES_MOST} more groups of leaves" if len(above) > NAMES_MOST else ""
    return [
        "a dead spine or uplink is routed around and no pair shows it: read the ports of the leaves (InfiniBand: "
        f"`iblinkinfo -l`, else the switches' own table of ports); expected are {'; '.join(expected)}{more}"
    ]


def unused(planes: Sequence[RunPlane], topology: Topology) -> list[str]:
    """Return in words the uplinks that no route between these hosts uses; nothing where not every table was read."""
    listed: dict[Uplink, int] = {}
    used: set[Uplink] = set()
    for one in planes:
        known, leaves = one.samples.routes, one.plane.leaves
        if not known or {leaf for leaf, _ in known} < set(leaves):
            continue
        listed |= _listed(topology, leaves)
        leaf_of = {host: leaf for leaf, hosts in leaves.items() for host in hosts}
        for (leaf, host), over in known.items():
            if host in leaf_of and leaf != leaf_of[host]:
                way = over.split(OVER)
                used |= {(leaf, way[0]), (leaf_of[host], way[-1])}
    if not used.intersection(listed):
        return []
    idle = [uplink for uplink in listed if uplink not in used]
    if not idle:
        return []
    return [
        f"{len(idle)} of {len(listed)} uplinks are on no route between these hosts, so nothing is known of them: "
        f"{_named(idle, listed)}"
    ]


def _listed(topology: Topology, leaves: Collection[str]) -> dict[Uplink, int]:
    """Return the number of cables from each of *leaves* to each switch above it, as the inventory has them."""
    return {
        (lower, upper): uplinks.count
        for uplinks in topology.uplinks
        for lower in uplinks.lower
        for upper in uplinks.upper
        if lower in leaves
    }


def _whole(uplinks: Iterable[Uplink], listed: Iterable[Uplink]) -> dict[str, int]:
    """Return the switches above of which all uplinks (two at least) are in *uplinks*, with their number."""
    below, among = Counter(upper for _, upper in listed), Counter(upper for _, upper in uplinks)
    return {upper: count for upper, count in among.items() if count == below[upper] > 1}


def _named(uplinks: Sequence[Uplink], listed: Iterable[Uplink]) -> str:
    """Return uplinks in words: the switch above, if all its uplinks are among them; else one by one."""
    whole = _whole(uplinks, listed)
    return some(
        [
            *(f"{upper} (all {count})" for upper, count in whole.items()),
            *(f"{lower}--{upper}" for lower, upper in uplinks if upper not in whole),
        ]
    )
