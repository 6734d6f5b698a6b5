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
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import comb
from statistics import median

from fabric.judge.course.gather import CourseFinding
from fabric.judge.course.shapes import LEAST_POINTS, is_low
from fabric.judge.course.tracks import Point, Track, Tracks
from fabric.judge.normal.keys import SAME_LEAF, floor_of, link_class
from fabric.model.part import Part
from fabric.model.probe import Probe
from fabric.model.text import fold
from fabric.model.topology import Topology

CHANCE = 1e-3
"""With which a bad RNIC may look well in all of its probes under its leaf (a choice, as ``over_time.ALPHA``)."""

WELL = 0.25
"""Under its leaf it may be low a quarter as often as beyond: the trouble of a neighbour (a choice)."""

VISIBLE = 2.0
"""So many times its own floor a collective must lose, if the RNIC were bad, to have shown it (a choice)."""


def behind_uplinks(
    findings: Sequence[CourseFinding], found: Tracks, by_id: Mapping[str, Probe], topology: Topology
) -> list[CourseFinding]:
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


def _with_uplinks(findings: Sequence[CourseFinding], crossed: Mapping[str, frozenset[str]]) -> list[CourseFinding]:
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


def _uplinks(leaf: str, alike: Sequence[str], behind: Sequence[CourseFinding]) -> CourseFinding:
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


LEAST_RNICS = 4
"""So many under one leaf must dip (a choice: three that dip by themselves may share a leaf)."""

SICK = 0.25
"""A part that is low more often is left to other rules, with all its probes (a choice)."""

DOUBT = 0.05
"""That what stayed under the leaf is well by chance, if the leaf itself were it, must be no likelier (a choice)."""

_MOST_LEAVES = 64  # that are named; more is no fault of single leaves (a bound on the cost)
_MOST_PROBES = 20  # as ``model.verdict.Suspect``


@dataclass(frozen=True, slots=True)
class _Dip:
    """A pair test that is low: its *ends*, RNICs in the order of its hosts, with the *leaves* they are under."""

    probe: Probe
    share: float
    ends: tuple[str, str]
    leaves: tuple[str, str]

    def under(self, leaf: str) -> str:
        """Its end there."""
        return self.ends[self.leaves.index(leaf)]


@dataclass(frozen=True, slots=True)
class _Paths:
    """By leaf how many pair tests stayed *near*, under it, and how many went *across* its uplinks."""

    near: Mapping[str, int]
    across: Mapping[str, int]


def leaf_dips(
    rnics: Mapping[str, Track], probes: Sequence[Probe], topology: Topology, alpha: float
) -> list[CourseFinding]:
    """
    One finding ``uplinks`` for each leaf beyond which RNICs dip that are well otherwise; it *explains* the low ones.

    *alpha*: the chance that of all leaves any is named.
    """
    low = {name: _low(track) for name, track in rnics.items()}
    sick = {name for name, found in low.items() if len(found) > SICK * len(rnics[name].points)}
    shares = {point: share for name, found in low.items() if name not in sick for point, share in found.items()}
    if len(shares) < LEAST_RNICS:  # nearly always, and quickly seen
        return []
    named = [probe for probe in probes if probe.probe_id in shares]
    dips = [dip for probe in named if (dip := _dip(probe, shares[probe.probe_id], topology)) is not None]
    dips = [dip for dip in dips if sick.isdisjoint(dip.ends)]
    leaves: dict[str, list[int]] = {}
    for name, track in rnics.items():
        for leaf in _leaf(name, topology):
            leaves.setdefault(leaf, []).append(len(track.points))
    found: list[CourseFinding] = []
    passed: set[str] = set()
    paths: _Paths | None = None
    for _ in range(_MOST_LEAVES):
        best = _best(dips, leaves, passed, alpha / max(1, len(leaves)))
        if best is None:
            break
        paths = paths or _paths(probes, topology)
        one = _judged(*best, dips, paths)
        passed.add(best[0])
        if one is not None:
            found.append(one)
            dips = [dip for dip in dips if dip.probe.probe_id not in one.explains]
    return found


def _low(track: Track) -> dict[str, float]:
    return {p.probe_id: p.share for p in track.points if is_low(p.share, floor=track.floor, sigma=track.sigma)}


def _dip(probe: Probe, share: float, topology: Topology) -> _Dip | None:
    """None for a probe that names no two RNICs with their leaves."""
    if len(probe.hosts) < 2 or "rnic" not in probe.params:
        return None
    own = str(probe.params["rnic"])
    ends = f"{probe.hosts[0]}/{own}", f"{probe.hosts[-1]}/{probe.params.get('peer_rnic', own)}"
    leaves = [leaf for end in ends for leaf in _leaf(end, topology)]
    return _Dip(probe, share, ends, (leaves[0], leaves[1])) if len(leaves) == 2 else None


def _leaf(rnic: str, topology: Topology) -> tuple[str, ...]:
    """The leaf of an RNIC, if it has one."""
    host, device = Part.of(rnic).place
    known = topology.hosts[host]
    rail = known.platform.rnic_by_device[device].rail
    return known.leaves[rail : rail + 1]


def _paths(probes: Sequence[Probe], topology: Topology) -> _Paths:
    near: Counter[str] = Counter()
    across: Counter[str] = Counter()
    for probe in probes:
        pair = _dip(probe, 1.0, topology)
        if pair is not None and pair.leaves[0] == pair.leaves[1]:
            near[pair.leaves[0]] += 1
        elif pair is not None:
            across.update(pair.leaves)
    return _Paths(near, across)


def _best(
    dips: Sequence[_Dip], leaves: Mapping[str, Sequence[int]], passed: AbstractSet[str], alpha: float
) -> tuple[str, list[_Dip], float] | None:
    """
    The leaf that most dips crossed, these, and the chance of so many; of those not *passed* already.

    *leaves*: how often each RNIC under a leaf was measured.
    """
    points = {leaf: sum(counts) for leaf, counts in leaves.items()}
    crossing: dict[str, list[_Dip]] = {}
    for dip in dips:
        for leaf in dip.leaves if dip.leaves[0] != dip.leaves[1] else ():
            crossing.setdefault(leaf, []).append(dip)
    for leaf, own in sorted(crossing.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        if leaf not in passed and _is_of_many(leaf, own, len(leaves[leaf])):
            chance = _chance(leaf, len(own), dips, points)
            if chance < alpha:
                return leaf, own, chance
    return None


def _judged(leaf: str, own: Sequence[_Dip], chance: float, dips: Sequence[_Dip], paths: _Paths) -> CourseFinding | None:
    """
    The uplinks of the leaf; with the leaf itself as a rival where too little stayed under it to tell.

    None where what stays under the leaf dips, too: that is for other rules.
    """
    from scipy.special import bdtr

    under = paths.near[leaf]
    rate = min(1.0, len(own) / max(1, paths.across[leaf]))
    low = sum(dip.leaves == (leaf, leaf) for dip in dips)
    if low > WELL * rate * under:
        return None
    rivals = [] if float(bdtr(low, under, rate)) <= DOUBT else [leaf]
    same = Counter(other for dip in own for other in dip.leaves if other != leaf)
    rivals += [f"{other}:uplinks" for other, count in same.items() if count == len(own)]
    return _finding(leaf, own, rivals, chance)


def _is_of_many(leaf: str, own: Sequence[_Dip], behind: int) -> bool:
    """Whether they are of half the RNICs *behind* it, or nearly each of another one, and no part is in all."""
    under = {dip.under(leaf) for dip in own}
    common = set.intersection(*(set(dip.ends) for dip in own))
    return len(under) >= LEAST_RNICS and not common and 2 * len(under) >= min(len(own), behind)


def _chance(leaf: str, k: int, dips: Sequence[_Dip], points: Mapping[str, int]) -> float:
    """That so many of its probes dip if they dip as often as all others (half a dip more, for what was not seen)."""
    from scipy.special import bdtrc

    others = (len(dips) - k + 0.5) / max(1.0, (sum(points.values()) - points[leaf]) / 2.0)
    return float(bdtrc(k - 1, points[leaf], min(1.0, others)))


def _finding(leaf: str, own: Sequence[_Dip], rivals: Sequence[str], chance: float) -> CourseFinding:
    worst = sorted(own, key=lambda dip: dip.share)
    per = Counter(dip.under(leaf) for dip in own)
    under = sorted(per)
    text = (
        f"{len(own)} pair tests across them dip to {median(dip.share for dip in own):.0%}, of {len(under)} RNICs under "
        f"the leaf, one to {max(per.values())} of each ({fold(under)})"
    )
    return CourseFinding(
        component=f"{leaf}:uplinks",
        kind="uplinks",
        text=text,
        chance=chance,
        weight=sum(1.0 - dip.share for dip in own),
        probes=tuple(dip.probe.probe_id for dip in worst[:_MOST_PROBES]),
        rivals=tuple(rivals),
        explains={dip.probe.probe_id: dip.probe.hosts for dip in own},
    )
