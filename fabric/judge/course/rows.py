"""
All that was measured in the rounds of repeated phases, as shares of what peers reached in the same round.

What all peers of a round have in common (the hall was warm, a switch was busy) cancels out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from fabric.judge.normal.keys import floor_of, line_rate_gbps, link_class
from fabric.judge.normal.peers import LEAST_PEERS, LEAST_SPREAD, SCALE
from fabric.judge.normal.samples import gave_up, name_of
from fabric.judge.normal.series import representative
from fabric.model.outcome import Outcome
from fabric.model.probe import AGAIN, SHARE, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Topology

LEAST_ROUNDS = 8
"""A phase that ran less often has no course (a choice)."""

OF_AGAIN = "-again"
"""Behind the name of what is measured again: it is compared with what was planned."""

_BAD = (Outcome.FAIL, Outcome.ERROR)

Measured = tuple[Probe, ProbeResult, float | None]
"""A probe with its number, Gb/s; None: the transport gave up."""


@dataclass(frozen=True, slots=True)
class CourseRow:
    """
    One probe: its *share* of what is normal (0: the transport gave up), its class, and when it ran.

    *only*: not empty, the hosts that are bad by themselves then; its failure says nothing of its other end.
    """

    probe: Probe
    of_class: int
    share: float
    began_s: float
    ended_s: float
    only: frozenset[str] = frozenset()

    @property
    def at_s(self) -> float:
        """The middle of it."""
        return (self.began_s + self.ended_s) / 2.0


@dataclass(frozen=True, slots=True)
class CourseRows:
    """Rows in order of time; by class its kind of probe, its floor, and its spread, as shares of the normal."""

    rows: Sequence[CourseRow]
    kinds: Sequence[str]
    floors: Sequence[float]
    spreads: Sequence[float]


def rows_of(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], phases: Sequence[Phase], topology: Topology
) -> CourseRows:
    """
    From the phases that ran often enough and altered nothing, and from those in which parts were measured again.

    A class is what every round measures alike.
    """
    repeated = _repeated(probes, phases)
    groups: dict[Hashable, list[Measured]] = {}
    for probe in probes:
        result = results.get(probe.probe_id)
        if probe.phase not in repeated or result is None or result.attempt == 0:
            continue
        if SHARE in probe.params:  # what others leave it is luck
            continue
        measured = measured_gbps(result)
        if measured is not None or gave_up(result):
            key = (probe.phase, probe.kind, name_of(probe).removesuffix(OF_AGAIN), link_kind(probe, topology))
            groups.setdefault(key, []).append((probe, result, measured))
    levels, own = _own_levels(groups, repeated), _own_probes(probes, results)
    numbers: dict[Hashable, int] = {}
    spreads: dict[int, list[float]] = {}
    rows: list[CourseRow] = []
    for group, members in groups.items():
        across = _across(group, repeated)
        found = normal_of(_planned(members), levels.get(across))
        if found is None:
            continue
        normal, spread = found
        number = numbers.setdefault(across, len(numbers))
        spreads.setdefault(number, []).append(spread)
        for probe, result, value in members:
            share = 0.0 if value is None else value / normal
            only = {host for host in probe.hosts if value is None and _is_bad_by_itself(own.get(host, ()), result)}
            rows.append(CourseRow(probe, number, share, result.started_s, result.ended_s, frozenset(only)))
    rows.sort(key=lambda one: (one.began_s, one.probe.probe_id))
    kinds = [str(key[1]) for key in numbers if isinstance(key, tuple)]
    return CourseRows(
        rows, kinds, [floor_of(kind) for kind in kinds], [median(spreads[place]) for place in range(len(kinds))]
    )


def _repeated(probes: Sequence[Probe], phases: Sequence[Phase]) -> dict[str, Hashable]:
    """By the name of each phase what it is a round of."""
    unaltered = [phase for phase in phases if not phase.changes]
    rounds = Counter((phase.written, phase.where) for phase in unaltered)
    again = {probe.phase for probe in probes if AGAIN in probe.params}
    followed = {(phase.written, phase.where) for phase in unaltered if phase.name in again}
    return {
        phase.name: key
        for phase in unaltered
        if rounds[key := (phase.written, phase.where)] >= LEAST_ROUNDS or key in followed
    }


def _planned(members: Sequence[Measured]) -> Sequence[Measured]:
    """Those that say what is normal: what was measured again was chosen."""
    return [one for one in members if AGAIN not in one[0].params] or members


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
    groups: Mapping[Hashable, Sequence[Measured]], repeated: Mapping[str, Hashable]
) -> dict[Hashable, tuple[float, float]]:
    """For groups of few: median and spread over all rounds stand for what is normal; of one round a dip would be."""
    values: dict[Hashable, list[float]] = {}
    for key, members in groups.items():
        known = [value for *_, value in _planned(members) if value is not None]
        if len(members) < LEAST_PEERS or not known:
            values.setdefault(_across(key, repeated), []).extend(known)
    return {key: level_of(found) for key, found in values.items() if found}


def level_of(values: Sequence[float]) -> tuple[float, float]:
    """Their median, and how far they lie around it, as a share of it."""
    normal = median(values)
    return normal, max(LEAST_SPREAD, SCALE * median(abs(value / normal - 1.0) for value in values))


def normal_of(members: Sequence[Measured], own_level: tuple[float, float] | None = None) -> tuple[float, float] | None:
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

    values = np.array([value for _, value in known])
    gbps, noise = level_and_noise(values)
    return gbps, max(LEAST_SPREAD, noise)
