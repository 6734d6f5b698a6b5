"""
All that was measured in the rounds of repeated phases, as shares of what peers reached in the same round.

What all peers of a round have in common (the hall was warm, a switch was busy) cancels out. Normal is the upper mode of
a round's numbers (``locate.levels``): with three hosts in ten slow half of all pairs are, and their median is the fault
itself. Where a round has few alike, all rounds together say what is normal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from fabric.judge.normal.keys import floor_of, line_rate_gbps, link_class
from fabric.judge.normal.peers import LEAST_PEERS, LEAST_SPREAD
from fabric.judge.normal.samples import gave_up, name_of
from fabric.judge.normal.series import representative
from fabric.model.outcome import Outcome
from fabric.model.probe import AGAIN, SHARE, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Topology

LEAST_ROUNDS = 8
"""A phase that ran less often has no course (a choice)."""

LEAST_ALIKE = 3
"""Of fewer numbers alike nobody can say what is normal: of two either may be the low one."""

DIP_SIGMAS = 5.0
"""A number this many spreads below its peers is no noise (house rule for dips)."""

OF_AGAIN = "-again"
"""Behind the name of what is measured again: it is compared with what was planned."""

_BAD = (Outcome.FAIL, Outcome.ERROR)

_Measured = tuple[Probe, ProbeResult, float | None]  # with its number, Gb/s; None: the transport gave up


@dataclass(frozen=True, slots=True)
class CourseRow:
    """
    One probe: its *share* of what is normal (0: the transport gave up), its class, and when it ran.

    *low*: it is below what is normal by the floor and by five spreads. *only*: not empty, the hosts that are bad by
    themselves then; its failure says nothing of its other end.
    """

    probe: Probe
    of_class: int
    share: float
    low: bool
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


def repeated(probes: Sequence[Probe], phases: Sequence[Phase]) -> dict[str, Hashable]:
    """
    By the name of each phase that has a course what it is a round of.

    Those that ran often enough and altered nothing, and those in which parts were measured again.
    """
    unaltered = {phase.name: (phase.written, phase.where) for phase in phases if not phase.changes}
    rounds = Counter(unaltered.values())
    again = {probe.phase for probe in probes if AGAIN in probe.params}
    followed = {key for name, key in unaltered.items() if name in again}
    return {name: key for name, key in unaltered.items() if rounds[key] >= LEAST_ROUNDS or key in followed}


def rows_of(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], rounds: Mapping[str, Hashable], topology: Topology
) -> CourseRows:
    """From the phases that are *rounds* of something; a class is what every round measures alike."""
    classes: dict[Hashable, dict[str, list[_Measured]]] = {}
    for probe in probes:
        result = results.get(probe.probe_id)
        if probe.phase not in rounds or result is None or result.attempt == 0:
            continue
        if SHARE in probe.params:  # what others leave it is luck
            continue
        measured = measured_gbps(result)
        if measured is not None or gave_up(result):
            alike = probe.kind, name_of(probe).removesuffix(OF_AGAIN), _link_kind(probe, topology)
            of_class = classes.setdefault((rounds[probe.phase], *alike), {})
            of_class.setdefault(probe.phase, []).append((probe, result, measured))
    own = _own_probes(probes, results)
    rows: list[CourseRow] = []
    kinds: list[str] = []
    spreads: list[float] = []
    for of_class in classes.values():
        normal = _normal(of_class)
        if normal:
            kind = next(iter(of_class.values()))[0][0].kind
            spread = median(noise for _, noise in normal.values())
            least = 1.0 - max(floor_of(kind), DIP_SIGMAS * spread)
            for phase, (gbps, _) in normal.items():
                for probe, result, value in of_class[phase]:
                    share = 0.0 if value is None else value / gbps
                    only = {host for host in probe.hosts if value is None and _is_bad_by_itself(own.get(host), result)}
                    times = result.started_s, result.ended_s
                    rows.append(CourseRow(probe, len(kinds), share, share < least, *times, frozenset(only)))
            kinds.append(kind)
            spreads.append(spread)
    rows.sort(key=lambda one: (one.began_s, one.probe.probe_id))
    return CourseRows(rows, kinds, [floor_of(kind) for kind in kinds], spreads)


def measured_gbps(result: ProbeResult) -> float | None:
    """What a probe measured; None where it measured nothing."""
    if result.outcome is not None or not result.measurements:
        return None
    value = representative(result)[0]
    return value if value > 0.0 else None


def _link_kind(probe: Probe, topology: Topology) -> Hashable:
    """What two probes of one name must share besides, to be as fast as each other."""
    platform = topology.hosts[probe.hosts[0]].platform.name
    return platform, link_class(probe, topology), line_rate_gbps(probe, topology), probe.params.get("ranks")


def _normal(of_class: Mapping[str, Sequence[_Measured]]) -> dict[str, tuple[float, float]]:
    """By phase what a good one of a class reaches there, and its spread as a share; none where nothing tells."""
    values = {phase: _planned(members) for phase, members in of_class.items()}
    few = {phase for phase, members in of_class.items() if len(members) < LEAST_PEERS or not values[phase]}
    together = _level([value for phase in few for value in values[phase]])
    found = {phase: together if phase in few else _level(alike) for phase, alike in values.items()}
    return {phase: level for phase, level in found.items() if level is not None}


def _level(values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < LEAST_ALIKE:
        return None
    import numpy as np  # only where something has a course

    from fabric.judge.locate.levels import level_and_noise

    gbps, noise = level_and_noise(np.array(values))
    return gbps, max(LEAST_SPREAD, noise)


def _planned(members: Sequence[_Measured]) -> list[float]:
    """The numbers that say what is normal: what was measured again was chosen."""
    planned = [one for one in members if AGAIN not in one[0].params] or members
    return [value for *_, value in planned if value is not None]


def _own_probes(probes: Sequence[Probe], results: Mapping[str, ProbeResult]) -> dict[str, list[ProbeResult]]:
    """What was run inside each host alone, in order of time; only of hosts that were bad once."""
    own: dict[str, list[ProbeResult]] = {}
    for probe in probes:
        result = results.get(probe.probe_id)
        if len(probe.hosts) == 1 and result is not None and result.attempt > 0:
            own.setdefault(probe.hosts[0], []).append(result)
    bad = {host: of_host for host, of_host in own.items() if any(one.outcome in _BAD for one in of_host)}
    return {host: sorted(of_host, key=lambda one: one.started_s) for host, of_host in bad.items()}


def _is_bad_by_itself(own: Sequence[ProbeResult] | None, then: ProbeResult) -> bool:
    """Whether the last probe inside the host before *then*, or the first after, was called bad or got no answer."""
    place = bisect_left(own or (), then.started_s, key=lambda one: one.started_s)
    return any(one.outcome in _BAD for one in (own or ())[max(0, place - 1) : place + 1])
