"""
Which RNICs dipped in one round of a phase, and nothing that the round shows explains it.

They are worth measuring again right then. What is slow most of the time, failed, or is behind a leaf that many share is
for other rules, and explains its partners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from fabric.judge.course.rows import level_of, link_kind, measured_gbps, normal_of
from fabric.judge.course.shapes import is_low
from fabric.judge.normal.keys import floor_of
from fabric.judge.normal.samples import name_of
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes import pairwise

MOST_DIPS = 16
"""More probes that dip in one round, of which nothing is explained, are no single parts (a choice: a part that dips in
one of fifty probes is seen once in ten rounds; sixteen such parts in one fleet at once are something in common)."""

MOST_SHARE = 0.1
"""So is a greater share of all (a choice), of four probes or more."""

LEAST_SHARED = 3
"""So many RNICs of one leaf that dip beyond it, with no part in common, are the leaf's trouble (a choice: two alike may
be chance, as in ``over_time.gather.LEAST_PARTS``)."""

LEAST_COMPARED = 3
"""Of fewer alike nobody can say what is normal (a choice: with two either may be the low one)."""

RECURRENT = 3
"""An end that has dipped in so many probes explains a partner that has dipped in fewer (a choice)."""


@dataclass(frozen=True, slots=True)
class RoundDips:
    """
    *parts*: RNICs and in how many probes of the round they may have dipped. *well*: RNICs of which every probe was
    good. *able*: RNICs with which a further test would measure something: they took part in pair tests of the round,
    nothing of them or of a collective of their host failed, and they are not low most of the time. *probes*: how many
    probes dipped without an explanation; where that is *too_many*, no part is accused.
    """

    parts: Mapping[str, int]
    well: frozenset[str]
    able: frozenset[str]
    probes: int
    too_many: bool


def dips_in_round(
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    topology: Topology,
    *,
    before: Mapping[str, int],
    known_bad: Collection[str],
) -> RoundDips:
    """
    What the planned probes of a round say: pair tests accuse both ends, collectives of two hosts all their RNICs.

    *before*: in how many probes of earlier rounds each RNIC dipped. *known_bad* are sure already, and explain others.
    """
    measured = [probe for probe in probes if len(probe.hosts) == 2 and _was_begun(probe, results)]
    unmeasured = [probe for probe in measured if measured_gbps(results[probe.probe_id]) is None]
    low, compared = low_among(measured, results, topology)
    seen = Counter(end for probe in measured for end in _ends(probe))
    dipped = [probe for probe in measured if probe.probe_id in low]
    bad = Counter(end for probe in dipped for end in _ends(probe))
    failed = {end for probe in unmeasured for end in _ends(probe)}
    explaining = (
        failed | set(known_bad) | {end for end, count in bad.items() if seen[end] > 1 and 2 * count > seen[end]}
    )
    left = [probe for probe in dipped if not _is_explained(probe, explaining)]
    left = _without_leaves(left, topology)
    rnics = [end for end in seen if "/" in end]
    gone = explaining - (set(known_bad) - failed)
    able = frozenset(end for end in rnics if end not in gone and Part.of(end).host not in failed)
    well = frozenset(end for end in able if not bad[end] and end not in known_bad)
    if are_too_many(len(left), compared):
        return RoundDips({}, well, able, len(left), too_many=True)
    accused = {part: count for part, count in _accused(left, rnics, before).items() if part in able}
    return RoundDips(accused, well - {end for one in left for end in _ends(one)}, able, len(left), too_many=False)


def are_too_many(dips: int, compared: int) -> bool:
    """Whether so many probes that dip, of so many that were *compared*, are no single parts."""
    return dips > MOST_DIPS or (dips >= 4 and dips > MOST_SHARE * compared)


def _accused(left: Sequence[Probe], rnics: Sequence[str], before: Mapping[str, int]) -> dict[str, int]:
    """RNICs, and how many of these probes each may have made dip."""
    of_host: dict[str, list[str]] = {}
    for end in rnics:
        of_host.setdefault(Part.of(end).host, []).append(end)
    parts: Counter[str] = Counter()
    for probe in left:
        ends = _ends(probe)
        inside = ends if probe.kind == pairwise.KIND else [rnic for end in ends for rnic in of_host.get(end, ())]
        parts.update(_likeliest(inside, before))
    return dict(parts)


def low_among(probes: Sequence[Probe], results: Mapping[str, ProbeResult], topology: Topology) -> tuple[set[str], int]:
    """
    The ids of those that are low among their peers, and how many could be compared at all.

    Peers share name and kind of link; of fewer than eight their median is what is normal.
    """
    groups: dict[Hashable, list[tuple[Probe, ProbeResult, float | None]]] = {}
    for probe in probes:
        result = results[probe.probe_id]
        value = measured_gbps(result)
        if value is not None:
            key = (probe.kind, name_of(probe), link_kind(probe, topology))
            groups.setdefault(key, []).append((probe, result, value))
    low: set[str] = set()
    compared = 0
    for members in groups.values():
        values = [value for *_, value in members if value is not None]
        normal = normal_of(members, level_of(values)) if len(values) >= LEAST_COMPARED else None
        if normal is not None:
            gbps, sigma = normal
            floor = floor_of(members[0][0].kind)
            low |= {
                m[0].probe_id
                for m, v in zip(members, values, strict=True)
                if is_low(v / gbps, floor=floor, sigma=sigma)
            }
            compared += len(members)
    return low, compared


def _was_begun(probe: Probe, results: Mapping[str, ProbeResult]) -> bool:
    return probe.probe_id in results and results[probe.probe_id].attempt > 0


def _ends(probe: Probe) -> tuple[str, str]:
    """The RNICs of a pair test, the hosts of a collective."""
    one, other = probe.hosts
    if probe.kind == pairwise.KIND:
        return f"{one}/{probe.params['rnic']}", f"{other}/{probe.params['peer_rnic']}"
    return one, other


def _is_explained(probe: Probe, explaining: Collection[str]) -> bool:
    """By one of its ends, by the host of one, or, of a collective, by an RNIC of its hosts."""
    ends = {*_ends(probe), *probe.hosts}
    if not ends.isdisjoint(explaining):
        return True
    return probe.kind != pairwise.KIND and any(Part.of(name).host in probe.hosts for name in explaining)


def _without_leaves(left: Sequence[Probe], topology: Topology) -> list[Probe]:
    """Without what crossed the uplinks of a leaf of which several RNICs dipped there, with no end in common."""
    crossing: dict[str, list[Probe]] = {}
    own: dict[str, set[str]] = {}
    for probe in left:
        leaves = _leaves(probe, topology)
        if len(set(leaves)) == 2:
            for leaf, end in zip(leaves, _ends(probe), strict=True):
                crossing.setdefault(leaf, []).append(probe)
                own.setdefault(leaf, set()).add(end)
    shared = {
        probe.probe_id
        for leaf, members in crossing.items()
        if len(own[leaf]) >= LEAST_SHARED and not set.intersection(*(set(_ends(one)) for one in members))
        for probe in members
    }
    return [probe for probe in left if probe.probe_id not in shared]


def _leaves(probe: Probe, topology: Topology) -> tuple[str, ...]:
    if probe.kind != pairwise.KIND:
        return ()
    found = []
    for name, end in zip(probe.hosts, ("rnic", "peer_rnic"), strict=True):
        host = topology.hosts[name]
        rail = host.platform.rnic_by_device[str(probe.params[end])].rail
        found.append(host.leaves[rail] if rail < len(host.leaves) else "")
    return tuple(found) if all(found) else ()


def _likeliest(ends: Sequence[str], before: Mapping[str, int]) -> list[str]:
    """Those of the ends that may have been it: all, unless some have dipped again and again and others have not."""
    most = max((before.get(end, 0) for end in ends), default=0)
    return [end for end in ends if most < RECURRENT or before.get(end, 0) == most]
