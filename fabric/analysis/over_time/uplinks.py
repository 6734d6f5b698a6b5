"""
RNICs that are slow only beyond their leaf: the uplinks of a leaf are bad, and the RNICs behind them are not.

With static routes all that is sent to an RNIC from other leaves crosses one uplink, so that its track is as bad as that
of a bad RNIC. What tells them apart is what it does without that uplink: pairs and collectives under its own leaf. And
all that is sent to it from one other leaf crosses one uplink of that: then it dips with partners there, and well with
all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb

from fabric.analysis.keys import SAME_LEAF, floor_of, link_class
from fabric.analysis.over_time.gather import Finding
from fabric.analysis.over_time.shapes import LEAST_POINTS, is_low
from fabric.analysis.over_time.tracks import Point, Track, Tracks
from fabric.model.probe import Probe
from fabric.model.topology import Topology

CHANCE = 1e-3
"""With which a bad RNIC may look well in all of its probes under its leaf (a choice, as ``over_time.ALPHA``)."""

WELL = 0.25
"""Under its leaf it may be low a quarter as often as beyond: the trouble of a neighbour (a choice)."""

VISIBLE = 2.0
"""So many times its own floor a collective must lose, if the RNIC were bad, to have shown it (a choice)."""


def behind_uplinks(
    findings: Sequence[Finding], found: Tracks, by_id: Mapping[str, Probe], topology: Topology
) -> list[Finding]:
    """
    The findings, with those of RNICs that are well under their leaf replaced by one for the uplinks of a leaf.

    *by_id*: the probes of what is named, and the collectives of its hosts.
    """
    whose: dict[str, set[str]] = {}
    for one in findings:
        for name in one.explains:
            whose.setdefault(name, set()).update(one.hosts)
    crossed: dict[str, frozenset[str]] = {}
    for one in findings:
        if one.component in found.rnics:
            own = {name for name in one.explains if len(whose[name]) == 1}  # no other bad host had a part in them
            track, host = found.rnics[one.component], found.hosts.get(one.hosts[0])
            crossed[one.component] = _leaves_crossed(track, host, {name: by_id[name] for name in own}, topology)
    return _with_uplinks(findings, {name: leaves for name, leaves in crossed.items() if leaves})


def _leaves_crossed(
    track: Track, host: Track | None, probes: Mapping[str, Probe], topology: Topology
) -> frozenset[str]:
    """The leaves that all its bad probes crossed; none where the RNIC itself may be bad."""
    points = [point for point in track.points if point.probe_id in probes]
    bad = [point for point in points if _is_low(point, track)]
    crossed = [_leaves(probes[point.probe_id], topology) for point in bad]
    if not bad or any(len(ends) < 2 for ends in crossed):
        return frozenset()
    suspects = frozenset.intersection(*crossed)
    began_s, ended_s = bad[0].began_s, bad[-1].ended_s
    meanwhile = _between(points, began_s, ended_s)
    lost = sum(1.0 - point.share for point in meanwhile) / len(meanwhile)
    of_host = [] if host is None else [point for point in host.points if point.probe_id in probes]
    telling = [point for point in _between(of_host, began_s, ended_s) if lost >= VISIBLE * floor_of(point.kind)]
    low = [_is_low(point, track) for point in meanwhile if _is_near(probes[point.probe_id], topology)]
    low += [_is_low(point, host) for point in telling if host and _is_near(probes[point.probe_id], topology)]
    if _are_well(low, len(bad) / len(meanwhile)):
        return suspects
    leaves = [_leaves(probes[point.probe_id], topology) for point in points]
    return suspects & _by_more_than_chance(leaves, len(bad))


def _by_more_than_chance(leaves: Sequence[frozenset[str]], bad: int) -> frozenset[str]:
    """
    Those of the *leaves* of an RNIC's probes whose uplinks all *bad* ones would not have crossed by chance.

    Of n probes, m crossed a leaf: that all of k bad ones did has the chance C(m, k) / C(n, k). Any of the leaves may be
    the one, so it counts for each (Bonferroni).
    """
    there = Counter(leaf for ends in leaves for leaf in ends if len(ends) > 1)
    chance = CHANCE / len(there)
    return frozenset(leaf for leaf, m in there.items() if comb(m, bad) / comb(len(leaves), bad) <= chance)


def _are_well(low: Sequence[bool], rate: float) -> bool:
    """Whether so few of these are low that they do not share in a trouble of this rate."""
    from scipy.special import bdtr

    few = len(low) >= LEAST_POINTS and sum(low) <= WELL * rate * len(low)
    return few and float(bdtr(sum(low), len(low), rate)) <= CHANCE


def _between(points: Sequence[Point], began_s: float, ended_s: float) -> list[Point]:
    return [point for point in points if point.began_s >= began_s and point.ended_s <= ended_s]


def _is_low(point: Point, track: Track) -> bool:
    return is_low(point.share, floor=track.floor, sigma=track.sigma)


def _is_near(probe: Probe, topology: Topology) -> bool:
    """Whether its bytes go over the network, and no further than the leaf."""
    return len(probe.hosts) > 1 and link_class(probe, topology) == SAME_LEAF


def _leaves(probe: Probe, topology: Topology) -> frozenset[str]:
    ends = ((probe.hosts[0], "rnic"), (probe.hosts[-1], "peer_rnic"))
    found = []
    for name, end in ends:
        host = topology.hosts[name]
        rnic = host.platform.rnic_by_device.get(str(probe.params.get(end, probe.params["rnic"])))
        if rnic is not None and rnic.rail < len(host.leaves):
            found.append(host.leaves[rnic.rail])
    return frozenset(found)


def _with_uplinks(findings: Sequence[Finding], crossed: Mapping[str, frozenset[str]]) -> list[Finding]:
    """The leaf that most of these RNICs have in common first, then that of those which are left."""
    kept = [one for one in findings if one.component not in crossed]
    left = [one for one in findings if one.component in crossed]
    while left:
        leaves = sorted({leaf for one in left for leaf in crossed[one.component]})
        behind = {leaf: [one for one in left if leaf in crossed[one.component]] for leaf in leaves}
        best = max(leaves, key=lambda leaf: len(behind[leaf]))
        alike = [leaf for leaf in leaves if leaf != best and behind[leaf] == behind[best]]
        kept.append(_uplinks(best, alike, behind[best]))
        left = [one for one in left if one not in behind[best]]
    return kept


def _uplinks(leaf: str, alike: Sequence[str], behind: Sequence[Finding]) -> Finding:
    first = max(behind, key=lambda one: one.weight)
    names = ", ".join(one.component for one in behind)
    text = f"what crosses them is slow for {names}, which are well with all else; {first.component} {first.text}"
    return replace(
        first,
        component=f"{leaf}:uplinks",
        kind="uplinks",
        text=text,
        weight=sum(one.weight for one in behind),
        rivals=tuple(f"{other}:uplinks" for other in alike),
        hosts=(),
        explains={name: hosts for one in behind for name, hosts in one.explains.items()},
    )
