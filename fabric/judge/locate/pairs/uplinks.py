"""
Uplinks that the inventory lists and that no pair can speak of: those that are not up, and those that no route uses.

Routes go around what is dead, so every pair is as fast as before: only who looks at the cables themselves sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fabric.judge.locate.pairs.samples import OVER
from fabric.judge.locate.pairs.schedule import Measured, RunPlane, lids_of, peers_of
from fabric.model.outcome import Outcome
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.probes import routes

_NAMES_MOST, _CABLES_MOST = 6, 20

CONFIDENCE = 0.9
"""That a listed cable which is not up is broken, and the inventory is right (a choice)."""

Uplink = tuple[str, str]
"""The leaf, and the switch above it."""


def not_up(measured: Measured, topology: Topology) -> list[str]:
    """
    In words, uplinks of which iblinkinfo shows fewer cables that are up than the inventory lists; none: all are up.

    Only leaves that iblinkinfo shows under the name of the inventory are looked at, and only where any cable to a
    switch above them is shown so too: where switches are called otherwise, nothing can be said.
    """
    listed, missing, _ = _missing(measured, topology)
    if not missing:
        return []
    return [
        f"{len(missing)} of {len(listed)} uplinks of the inventory are not up, as iblinkinfo shows it: "
        f"{_named(missing, listed)}; routes go around them, so no pair shows it: look at both ports and the switch, "
        "or mend the inventory"
    ]


def dead(measured: Measured, topology: Topology) -> list[Suspect]:
    """
    Suspects behind uplinks that are not up: the switch above where none of its two or more cables is, else the cable.

    INCONCLUSIVE, for no byte was lost: routes go around them, and the inventory may list what was never there. Where
    a leaf shows a switch above it that the inventory does not know, one may have been renamed, and nobody is accused.
    """
    listed, missing, unknown = _missing(measured, topology)
    below, among = Counter(upper for _, upper in listed), Counter(upper for _, upper in missing)
    if unknown:
        return []
    whole = [upper for upper, count in among.items() if count == below[upper] > 1]
    found = [_suspect(upper, "spine", f"none of its {below[upper]} uplinks is up") for upper in whole]
    single = [(lower, upper) for lower, upper in missing if upper not in whole]
    found += [
        _suspect(f"{lower}--{upper}", "link", f"fewer than its {listed[lower, upper]} cables are up")
        for lower, upper in single[:_CABLES_MOST]
    ]
    return found


def _suspect(component: str, kind: str, said: str) -> Suspect:
    return Suspect(
        component=component,
        kind=kind,
        outcome=Outcome.INCONCLUSIVE,
        confidence=CONFIDENCE,
        evidence=(f"{said}, as iblinkinfo shows it", "routes go around it, so no pair is slower"),
        next_step=f"look at the ports and power at both ends of {component}; was it never there, mend the inventory",
    )


def look_at(planes: Sequence[RunPlane], topology: Topology) -> list[str]:
    """In words, which ports to read where no tables were: by leaves that have the same switches above them."""
    leaves = {leaf for one in planes for leaf in one.plane.leaves}
    above: dict[tuple[tuple[str, int], ...], list[str]] = {}
    of_leaf: dict[str, list[tuple[str, int]]] = {}
    for (lower, upper), count in _listed(topology).items():
        if lower in leaves:
            of_leaf.setdefault(lower, []).append((upper, count))
    for leaf, uppers in of_leaf.items():
        above.setdefault(tuple(uppers), []).append(leaf)
    said = [
        f"{fold(names)} with {sum(count for _, count in uppers)} ports up each, to {fold([name for name, _ in uppers])}"
        for uppers, names in list(above.items())[:_NAMES_MOST]
    ]
    if not said:
        return []
    more = f"; and {len(above) - _NAMES_MOST} more groups of leaves" if len(above) > _NAMES_MOST else ""
    return [
        "a dead spine or uplink is routed around and no pair shows it: read the ports of the leaves (InfiniBand: "
        f"`iblinkinfo -l`, else the switches' own table of ports); expected are {'; '.join(said)}{more}"
    ]


def _missing(measured: Measured, topology: Topology) -> tuple[dict[Uplink, int], list[Uplink], set[str]]:
    """What the inventory lists of leaves that were read, what of it is not up, and switches it does not know."""
    planes = dict.fromkeys(str(probe.params["plane"]) for probe, _ in measured if probe.kind == routes.KIND)
    leaves = {name for plane in planes for name in lids_of(measured, plane) if "/" not in name}
    up = Counter((leaf, peer) for plane in planes for (leaf, _), peer in peers_of(measured, plane).items())
    listed = {uplink: count for uplink, count in _listed(topology).items() if uplink[0] in leaves}
    if not any(uplink in up for uplink in listed):
        return listed, [], set()
    known = {upper for _, upper in listed} | set(topology.switches)
    unknown = {peer for _, peer in up if peer not in known}
    return listed, [uplink for uplink, count in listed.items() if up[uplink] < count], unknown


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
