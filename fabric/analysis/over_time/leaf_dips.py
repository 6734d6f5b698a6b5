"""
Uplinks of a leaf as they show in large fleets: many RNICs under it dip, each once or twice, with partners beyond it.

Of all that such an RNIC sends, one pair in some dozens crosses the bad cable, so by itself each looks like a part that
dips now and then. What they have in common is the leaf: so many under one of hundreds are no chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import median

from fabric.analysis.over_time.gather import Finding
from fabric.analysis.over_time.shapes import is_low
from fabric.analysis.over_time.tracks import Track
from fabric.analysis.over_time.uplinks import WELL
from fabric.model.names import fold
from fabric.model.probe import Probe
from fabric.model.topology import Topology

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


def leaf_dips(rnics: Mapping[str, Track], probes: Sequence[Probe], topology: Topology, alpha: float) -> list[Finding]:
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
    found: list[Finding] = []
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
    host, _, device = rnic.partition("/")
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


def _judged(leaf: str, own: Sequence[_Dip], chance: float, dips: Sequence[_Dip], paths: _Paths) -> Finding | None:
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


def _finding(leaf: str, own: Sequence[_Dip], rivals: Sequence[str], chance: float) -> Finding:
    worst = sorted(own, key=lambda dip: dip.share)
    per = Counter(dip.under(leaf) for dip in own)
    under = sorted(per)
    text = (
        f"{len(own)} pair tests across them dip to {median(dip.share for dip in own):.0%}, of {len(under)} RNICs under "
        f"the leaf, one to {max(per.values())} of each ({fold(under)})"
    )
    return Finding(
        component=f"{leaf}:uplinks",
        kind="uplinks",
        text=text,
        chance=chance,
        weight=sum(1.0 - dip.share for dip in own),
        probes=tuple(dip.probe.probe_id for dip in worst[:_MOST_PROBES]),
        rivals=tuple(rivals),
        explains={dip.probe.probe_id: dip.probe.hosts for dip in own},
    )
