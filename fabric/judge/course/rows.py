"""The measurements of repeated phases as rows: each as a share of what peers reached in the same round.

What all peers of a round have in common (the hall was warm, a switch was busy) cancels out. Normal is the upper mode of
a round's numbers (``locate.levels``), not the median: if three hosts in ten are slow, half of all pairs are slow, and
their median is the fault itself. If a round has too few peers, or was much slower than the others as a whole, all
rounds together say what is normal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from statistics import median

from fabric.judge.normal.interval import LEAST_PEERS, LEAST_SAMPLES, LEAST_SPREAD
from fabric.judge.normal.keys import ProbeLayouts, begun, floor_of, gave_up, grouped
from fabric.judge.normal.series import DIP_SIGMAS, number_of
from fabric.model import gathered
from fabric.model.probe import AGAIN, SHARE, Probe, ProbeResult, Results
from fabric.model.scenario import Phase
from fabric.model.text import duration_text
from fabric.model.topology import Topology

LEAST_ROUNDS = LEAST_PEERS
"""A phase needs so many rounds to have a course."""

_Measured = tuple[Probe, ProbeResult, float | None]  # the float is its bandwidth, Gb/s; None: the transport gave up


@dataclass(frozen=True, slots=True)
class CourseRow:
    """
    One probe: its class, its *share* of *normal_gbps* (0: the transport gave up), and when it ran.

    *low*: it is below the normal by more than the floor and by more than five spreads.
    """

    probe: Probe
    of_class: int
    share: float
    normal_gbps: float
    low: bool
    began_s: float
    ended_s: float

    @property
    def at_s(self) -> float:
        """Return the middle of its time."""
        return (self.began_s + self.ended_s) / 2.0


@dataclass(frozen=True, slots=True)
class CourseRows:
    """Rows in order of time; *kinds* and *spreads* give by class the kind of probe and the spread (share of normal)."""

    rows: Sequence[CourseRow]
    kinds: Sequence[str]
    spreads: Sequence[float]


def repeated(probes: Sequence[Probe], phases: Sequence[Phase]) -> dict[str, Hashable]:
    """
    Return, by name of each phase that has a course, what it is a round of.

    These are the phases that ran often enough and altered nothing, and those in which parts were measured again.
    """
    unaltered = {phase.name: phase.repeated for phase in phases if not phase.changes}
    rounds = Counter(unaltered.values())
    again = {probe.phase for probe in probes if AGAIN in probe.params}
    followed = {key for name, key in unaltered.items() if name in again}
    return {name: key for name, key in unaltered.items() if rounds[key] >= LEAST_ROUNDS or key in followed}


def rows_of(
    probes: Sequence[Probe], results: Results, rounds: Mapping[str, Hashable], topology: Topology
) -> CourseRows:
    """Return the rows of the phases in *rounds*; a class holds probes that should reach the same in every round."""
    layouts = ProbeLayouts(topology, rounds)
    # Leave out probes that shared their line by plan: how much others left them is luck.
    own = (probe for probe in probes if probe.phase in rounds and SHARE not in probe.params)
    readings = ((probe, result, measured_gbps(result)) for probe, result in begun(own, results))
    measured = (one for one in readings if one[2] is not None or gave_up(one[1]))
    rows: list[CourseRow] = []
    kinds: list[str] = []
    spreads: list[float] = []
    for members in grouped(measured, lambda one: layouts.of(one[0]).alike).values():
        of_class = grouped(members, lambda one: one[0].phase)
        if normal := _normal(of_class):
            kind = members[0][0].kind
            spread = median(noise for _, noise in normal.values())
            least = 1.0 - max(floor_of(kind), DIP_SIGMAS * spread)
            for phase, (gbps, _) in normal.items():
                for probe, result, value in of_class[phase]:
                    share, times_s = (value or 0.0) / gbps, (result.started_s, result.ended_s)
                    rows.append(CourseRow(probe, len(kinds), share, gbps, share < least, *times_s))
            kinds.append(kind)
            spreads.append(spread)
    rows.sort(key=lambda one: (one.began_s, one.probe.probe_id))
    return CourseRows(rows, kinds, spreads)


def measured_gbps(result: ProbeResult) -> float | None:
    """Return what a probe measured, Gb/s; None if it measured nothing."""
    number = number_of(result)
    return number[0] if number is not None and number[0] > 0.0 else None


def _normal(of_class: Mapping[str, Sequence[_Measured]]) -> dict[str, tuple[float, float]]:
    """Return by phase what a good probe of a class reaches, and the spread as a share; omit phases without a normal."""
    from fabric.judge.locate.structure import NEAR  # loads numpy: only if something has a course

    values = {phase: _planned(members) for phase, members in of_class.items()}
    few = {phase for phase, members in of_class.items() if len(members) < LEAST_PEERS or not values[phase]}
    together = _level([value for alike in values.values() for value in alike])
    if together is None:
        return {}
    own = {phase: together if phase in few else _level(alike) or together for phase, alike in values.items()}
    return {phase: level if level[0] > together[0] * exp(-NEAR) else together for phase, level in own.items()}


def _level(values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < LEAST_SAMPLES:
        return None
    import numpy as np  # only if something has a course

    from fabric.judge.locate.levels import level_and_noise

    gbps, noise = level_and_noise(np.array(values))
    return gbps, max(LEAST_SPREAD, noise)


def _planned(members: Sequence[_Measured]) -> list[float]:
    """Return the numbers that say what is normal: those of planned probes, as probes measured again were selected."""
    planned = [one for one in members if AGAIN not in one[0].params] or members
    return [value for *_, value in planned if value is not None]


def hours(at_s: float, *, digits: int = 1) -> str:
    """Return a time in hours, as text."""
    return f"{at_s / 3600.0:.{digits}f} h"


def too_few_rounds(phases: Sequence[Phase]) -> Iterator[str]:
    """Yield a line for each phase that fills a time with too few rounds to show drift, dips and warmth."""
    for (label, _), members in _filling(phases).items():
        if len(members) < LEAST_ROUNDS:
            too_few = f"{len(members)} of the {LEAST_ROUNDS} rounds"
            yield f"{label}: {too_few} that it takes to see drift, dips and what follows warmth: use a longer --for"


def rounds_not_run(phases: Sequence[Phase], probes: Sequence[Probe], results: Results) -> Iterator[str]:
    """
    Yield a line for each phase that fills a time and ran fewer rounds: "soak: 3 of 8 planned rounds were run, ...".

    *phases* are all that were planned. A round was run if one of its *probes* was begun. The time shown is that from
    the first begin to the last end.
    """
    planned = _filling(phases)
    by_phase = grouped(begun(probes if planned else (), results), lambda one: one[0].phase)
    for (label, within_s), members in planned.items():
        ran = [by_phase[phase.name] for phase in members if phase.name in by_phase]
        if len(ran) == len(members):
            continue
        text, given = f"{label}: {len(ran)} of {len(members)} planned rounds were run", duration_text(within_s)
        if not ran:
            yield f"{text}, of the {given} it was given none was used"
            continue
        done = [result for of_round in ran for _, result in of_round]
        took_s = max(one.ended_s for one in done) - min(one.started_s for one in done)
        why = "rounds took longer than planned" if took_s >= within_s else "the run did not get to the others"
        yield f"{text}, in {duration_text(took_s)} of the {given} it was given: {why}"


def _filling(phases: Sequence[Phase]) -> dict[tuple[str, float], list[Phase]]:
    """Group the rounds of each phase that fills a time by (its name with its matrix values, that time in seconds)."""
    return gathered(
        ((phase.written + "".join(f", {name}={value}" for name, value in phase.where), phase.fills.within_s), phase)
        for phase in phases
        if phase.fills is not None
    )
