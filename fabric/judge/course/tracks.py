"""
All that was measured of each RNIC and each host in the rounds of a repeated phase, as shares of its peers' then.

What all peers of a round have in common (the hall was warm, a switch was busy) cancels out. A part's partners may
change from round to round: a track is of the part, not of the pair.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from fabric.judge.normal.keys import floor_of, line_rate_gbps, link_class
from fabric.judge.normal.peers import LEAST_PEERS, LEAST_SPREAD, SCALE
from fabric.judge.normal.samples import gave_up, name_of
from fabric.judge.normal.series import representative
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import AGAIN, SHARE, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Topology

LEAST_ROUNDS = 8
"""A phase that ran less often has no course (a choice)."""

_BAD = (Outcome.FAIL, Outcome.ERROR)


@dataclass(frozen=True, slots=True)
class Point:
    """One probe of a track: when it ran, its share of the normal (0: the transport gave up), and of which kind."""

    probe_id: str
    began_s: float
    ended_s: float
    share: float
    kind: str

    @property
    def at_s(self) -> float:
        """The middle of it."""
        return (self.began_s + self.ended_s) / 2.0


@dataclass(slots=True)
class Track:
    """A part (``gpu001/mlx5_2`` or ``gpu001``) with its points in order of time, and what is normal around it."""

    component: str
    points: list[Point] = field(default_factory=list)
    floor: float = 0.0
    sigma: float = LEAST_SPREAD


@dataclass(frozen=True, slots=True)
class Tracks:
    """Those of RNICs, from probes that name them, and those of hosts, from all others."""

    rnics: Mapping[str, Track]
    hosts: Mapping[str, Track]


def tracks(
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    phases: Sequence[Phase],
    topology: Topology,
    *,
    again: bool = False,
    least_rounds: int = LEAST_ROUNDS,
) -> Tracks:
    """
    From the phases that ran often enough and altered nothing.

    Of what was planned; with *again* of what was measured once more because a part had dipped, and of nothing else.
    *least_rounds*: so often a phase must have run.
    """
    rounds = Counter((phase.written, phase.where) for phase in phases if not phase.changes)
    repeated = {
        phase.name: (phase.written, phase.where)
        for phase in phases
        if rounds[phase.written, phase.where] >= least_rounds and not phase.changes
    }
    if not repeated:
        return Tracks({}, {})
    groups: dict[Hashable, list[tuple[Probe, ProbeResult, float | None]]] = {}
    for probe in probes:
        result = results.get(probe.probe_id)
        if probe.phase not in repeated or result is None or result.attempt == 0 or (AGAIN in probe.params) is not again:
            continue
        if SHARE in probe.params:  # what others leave it is luck
            continue
        measured = measured_gbps(result)
        if measured is None and not gave_up(result):
            continue
        key = (probe.phase, probe.kind, name_of(probe), link_kind(probe, topology))
        groups.setdefault(key, []).append((probe, result, measured))
    rnics: dict[str, Track] = {}
    hosts: dict[str, Track] = {}
    own = _own_probes(probes, results)
    levels = _own_levels(groups, repeated)
    for group, members in groups.items():
        _add(members, levels.get(_across(group, repeated)), rnics, hosts, own)
    for track in (*rnics.values(), *hosts.values()):
        track.points.sort(key=lambda point: point.began_s)
    return Tracks(rnics, hosts)


def _own_probes(probes: Sequence[Probe], results: Mapping[str, ProbeResult]) -> dict[str, list[ProbeResult]]:
    """What was run inside each host alone, in order of time; only of hosts that were bad once."""
    own: dict[str, list[ProbeResult]] = {}
    for probe in probes:
        result = results.get(probe.probe_id)
        if len(probe.hosts) == 1 and result is not None and result.attempt > 0:
            own.setdefault(probe.hosts[0], []).append(result)
    bad = {host: of_host for host, of_host in own.items() if any(one.outcome in _BAD for one in of_host)}
    return {host: sorted(of_host, key=lambda one: one.started_s) for host, of_host in bad.items()}


def _is_bad_by_itself(own: Sequence[ProbeResult], then: ProbeResult) -> bool:
    """Whether the last probe inside the host before *then*, or the first after, was called bad or got no answer."""
    place = bisect_left(own, then.started_s, key=lambda one: one.started_s)
    return any(one.outcome in _BAD for one in own[max(0, place - 1) : place + 1])


def measured_gbps(result: ProbeResult) -> float | None:
    """What a probe measured; None where it measured nothing."""
    if result.outcome is not None or not result.measurements:
        return None
    value = representative(result)[0]
    return value if value > 0.0 else None


def link_kind(probe: Probe, topology: Topology) -> Hashable:
    """What two probes of one name must share besides, to be as fast as each other."""
    platform = topology.hosts[probe.hosts[0]].platform.name
    return platform, link_class(probe, topology), line_rate_gbps(probe, topology), probe.params.get("ranks")


def _across(key: Hashable, repeated: Mapping[str, Hashable]) -> Hashable:
    """The same group in every round."""
    assert isinstance(key, tuple)
    return (repeated[key[0]], *key[1:])


def _own_levels(
    groups: Mapping[Hashable, Sequence[tuple[Probe, ProbeResult, float | None]]], repeated: Mapping[str, Hashable]
) -> dict[Hashable, tuple[float, float]]:
    """For groups of few: median and spread over all rounds stand for what is normal; of one round a dip would be."""
    values: dict[Hashable, list[float]] = {}
    for key, members in groups.items():
        if len(members) < LEAST_PEERS:
            values.setdefault(_across(key, repeated), []).extend(value for *_, value in members if value is not None)
    return {key: level_of(found) for key, found in values.items() if found}


def level_of(values: Sequence[float]) -> tuple[float, float]:
    """Their median, and how far they lie around it, as a share of it."""
    normal = median(values)
    return normal, max(LEAST_SPREAD, SCALE * median(abs(value / normal - 1.0) for value in values))


def _add(
    members: Sequence[tuple[Probe, ProbeResult, float | None]],
    own_level: tuple[float, float] | None,
    rnics: dict[str, Track],
    hosts: dict[str, Track],
    own: Mapping[str, Sequence[ProbeResult]],
) -> None:
    found = normal_of(members, own_level)
    if found is None:
        return
    normal, sigma = found
    for probe, result, value in members:
        share = 0.0 if value is None else value / normal
        point = Point(probe.probe_id, result.started_s, result.ended_s, share, probe.kind)
        guilty = {host for host in probe.hosts if value is None and _is_bad_by_itself(own.get(host, ()), result)}
        for component, into in _parts(probe, rnics, hosts):
            if guilty and Part.of(component).host not in guilty:
                continue  # its partner fails by itself: that the transport gave up says nothing of this end
            track = into.setdefault(component, Track(component))
            track.points.append(point)
            track.floor = max(track.floor, floor_of(probe.kind))
            track.sigma = max(track.sigma, sigma)


def normal_of(
    members: Sequence[tuple[Probe, ProbeResult, float | None]], own_level: tuple[float, float] | None = None
) -> tuple[float, float] | None:
    """
    What a good one of them reaches, and its spread as a share; None where nothing tells.

    *own_level*: the same of all rounds together, for groups of few.

    Between two hosts one bad end is enough: with three hosts in ten slow half of all pairs are, and their median is the
    fault itself. So pairs are measured by what hosts reach at their best.
    """
    known = [(probe, value) for probe, _, value in members if value is not None]
    if known and len(members) >= LEAST_PEERS and all(len(probe.hosts) == 2 for probe, _ in known):
        return _of_pairs(known)
    values = [value for _, value in known]
    return own_level if len(members) < LEAST_PEERS or not values else level_of(values)


def _of_pairs(known: Sequence[tuple[Probe, float]]) -> tuple[float, float]:
    import numpy as np

    from fabric.judge.locate.levels import level_and_noise

    values = np.array([value for _, value in known if value > 0])
    if not len(values):
        return 0.0, LEAST_SPREAD
    gbps, noise = level_and_noise(values)
    return gbps, max(LEAST_SPREAD, noise)


def _parts(probe: Probe, rnics: dict[str, Track], hosts: dict[str, Track]) -> Iterator[tuple[str, dict[str, Track]]]:
    if "rnic" not in probe.params:
        for host in probe.hosts:
            yield host, hosts
        return
    own = str(probe.params["rnic"])
    ends = {f"{probe.hosts[0]}/{own}", f"{probe.hosts[-1]}/{probe.params.get('peer_rnic', own)}"}
    for end in sorted(ends):
        yield end, rnics


def failed_midway(points: Sequence[Point]) -> bool:
    """
    Whether the transport gave up and a later probe of that kind went well again: failed, and came back.

    One of another kind says nothing: an all-to-all stays in its host, and is well where no cable is.
    """
    failed: set[str] = set()
    for point in points:
        if point.share == 0.0:
            failed.add(point.kind)
        elif point.kind in failed:
            return True
    return False
