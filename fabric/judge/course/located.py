"""
Who became slower over the hours of a run, dips now and then, cannot bear warmth, or failed and came back.

Every probe of the repeated phases is a row of one matrix, which ``locate.inside`` searches for the few parts that
explain what is low: always, now and then, from some time on, or for a while. Then the rows of a part that nothing else
explains say what its course is (``courses.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf, nan

import numpy as np

from fabric.judge.course.courses import GONE, course_of, worst
from fabric.judge.course.dips import are_too_many
from fabric.judge.course.findings import CourseFinding
from fabric.judge.course.notes import notes
from fabric.judge.course.ports import down_together
from fabric.judge.course.rows import CourseRow, CourseRows, repeated, rows_of
from fabric.judge.locate.candidates import Component, over_rounds
from fabric.judge.locate.cells import NOTHING, SampleMatrix
from fabric.judge.locate.inside import Search
from fabric.judge.locate.matrix import SIGMAS, entries_of
from fabric.judge.locate.search import CERTAIN
from fabric.judge.locate.structure import OFTEN, Bools, FaultyPart, Floats
from fabric.judge.locate.suspects import NamedParts, told_name
from fabric.judge.normal.keys import rnics_of
from fabric.judge.normal.series import DIP_SIGMAS
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import CounterReading, Samples
from fabric.model.scenario import Phase
from fabric.model.topology import Topology

UPLINKS = "uplinks"
"""The kind of the cables above a leaf, and what is behind its name: ``su0-leaf3:uplinks``."""

_EACH = frozenset({"loopback", "rnic_to_rnic", "pairwise", "all_to_all"})  # a slow part of theirs shows in each
_SHARED = ("leaf", "numa", "pcie_switch")
_WIDE = (*_SHARED, "rack", UPLINKS)


def over_time(
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    phases: Sequence[Phase],
    topology: Topology,
    samples: Samples,
) -> list[CourseFinding]:
    """
    Everybody whose course is bad, the surest first; then notes, which accuse nobody.

    Nothing but what ports counted together for a run without a phase of many rounds.
    """
    down = down_together(samples, topology)
    rows = rows_of(probes, results, repeated(probes, phases), topology)
    if not rows.rows:
        return down
    found = _Located(rows, topology, samples)
    return [*down, *found.findings(), *found.notes()]


def _matrix(rows: CourseRows, topology: Topology, samples: Samples) -> tuple[SampleMatrix, list[Component]]:
    """Of the parts alone that slow rows pass through."""
    of_class, noise = np.array([row.of_class for row in rows.rows], dtype=np.int64), np.array(rows.spreads)
    floor = -np.log1p(-np.minimum(0.9, np.maximum(rows.floors, DIP_SIGMAS * noise)))
    least = -np.log1p(-np.array(rows.floors))
    share = np.array([row.share for row in rows.rows])
    y = np.clip(np.log(np.maximum(share, 1e-9)), NOTHING, SIGMAS * noise[of_class])
    passed = over_rounds({host for row in rows.rows for host in row.probe.hosts}, topology)
    columns, entries = entries_of((passed(row.probe) for row in rows.rows), y < -floor[of_class], rounds=True)
    matrix = SampleMatrix(
        entries,
        y=y,
        of_class=of_class,
        at_s=np.array([row.began_s for row in rows.rows]),
        noise=noise,
        floor=floor,
        least=least,
        apart=least,
        level=np.array([float(kind in _EACH) for kind in rows.kinds]),
        timed=True,
        rounds=True,
        warmth=_warmth(columns, samples),
    )
    return matrix, columns


def _warmth(columns: Sequence[Component], samples: Samples) -> dict[int, Callable[[Floats], Floats]]:
    """The temperature of each RNIC's module at some times."""

    def celsius(reading: CounterReading, at_s: Floats) -> Floats:
        found = [samples.courses[reading].value_at(one) for one in at_s.tolist()]
        return np.array([nan if one is None else float(one) for one in found])

    of_rnics = ((number, Part.of(one.name)) for number, one in enumerate(columns) if one.kind in ("rnic", "link"))
    readings = ((number, CounterReading(part.host, part.device, "module_c")) for number, part in of_rnics)
    return {number: partial(celsius, reading) for number, reading in readings if reading in samples.courses}


class _Located(NamedParts):
    """The parts that explain what is low, with their courses."""

    def __init__(self, rows: CourseRows, topology: Topology, samples: Samples) -> None:
        self._rows, self._topology = rows, topology
        matrix, columns = _matrix(rows, topology, samples)
        super().__init__(columns, Search(matrix))
        self._faults = self._without_crowds([one for one in self._search.faults() if one.gain >= CERTAIN])
        self._left: Bools = matrix.slow & (self._search.explained(self._faults)[1] == 0)
        self._elsewhere = (float(self._left.sum()) + 0.5) / (len(self._left) + 1.0)

    def _without_crowds(self, faults: Sequence[FaultyPart]) -> list[FaultyPart]:
        """Without those that dipped mostly in rounds in which so many did that it is no single part."""
        often = [one for one in faults if max(loss.rho for loss in one.losses) >= OFTEN]
        open_ = self._search.matrix.slow & (self._search.explained(often)[1] == 0)
        phases = [row.probe.phase for row in self._rows.rows]
        low, every = Counter(phases[i] for i in np.flatnonzero(open_).tolist()), Counter(phases)
        crowded = {phase for phase, count in low.items() if are_too_many(count, every[phase])}

        def crowds(fault: FaultyPart) -> bool:
            own = np.flatnonzero(open_ & self._search.passed(fault.part)).tolist()
            return 2 * sum(phases[i] in crowded for i in own) > len(own)

        return [one for one in faults if one in often or not crowds(one)] if crowded else list(faults)

    def findings(self) -> list[CourseFinding]:
        """One for each part."""
        found = list({one.component: one for one in map(self._finding, reversed(self._faults))}.values())[::-1]
        racks = {host for one in found if one.part == "rack" for host in one.hosts}
        inside = {part.host for one in found if (part := Part.of(one.component)).item}
        found = [one for one in found if one.kind != "dips" or one.component not in inside]  # which part of a host dips
        return [one for one in found if one.kind != GONE and Part.of(one.component).host not in racks]

    def notes(self) -> list[CourseFinding]:
        """What is told and accuses nobody."""
        named = {self._columns[part].name for one in self._faults for part in (one.part, *dict(one.rivals))}
        return notes(self._rows, self._left, named)

    def _own(self, fault: FaultyPart) -> list[CourseRow]:
        """The rows that could show it, and that no other part explains."""
        rest = [one for one in self._faults if one is not fault]
        explained: Floats = self._search.explained(rest)[1]
        cells = [one.cell for one in fault.losses]
        over = replace(fault, since_s=-inf, until_s=inf, follows=None)
        own = sorted({i for cell in cells for i in self._search.during(over, cell).tolist()})
        alone = [self._rows.rows[i] for i in own if explained[i] == 0]
        return alone if any(one.low for one in alone) else [self._rows.rows[i] for i in own]

    def _finding(self, fault: FaultyPart) -> CourseFinding:
        column, own = self._columns[fault.part], self._own(fault)
        bad = [one for one in own if one.low]
        kind, text = course_of(fault, own, self._elsewhere, self._search.matrix.warmth.get(fault.part))
        through = [self._rows.rows[i] for i in np.flatnonzero(self._search.passed(fault.part)).tolist()]
        if column.kind in _SHARED:
            ends = {end for one in bad for end in rnics_of(one.probe)}
            kind, text = "shared", text + (f", on {len(ends)} RNICs" if ends else "")
        elif column.kind == UPLINKS:
            kind, text, through = UPLINKS, self._above(fault, text), bad
        return CourseFinding(
            component=told_name(column),
            kind=kind,
            text=text,
            part=column.kind,
            confidence=self._confidence(fault),
            probes=worst(bad),
            rivals=self._rivals(fault),
            hosts=self._hosts(column.name, column.kind, bad),
            explains={one.probe.probe_id: one.probe.hosts for one in through},
        )

    def _above(self, fault: FaultyPart, course: str) -> str:
        """What is slow on which of the ways over the cables above a leaf."""
        column = self._columns[fault.part]
        ways = [self._columns[way].text for way in fault.ways or () if way >= 0] or [column.text]
        if fault.ways is None and not column.name.rpartition(f":{UPLINKS}")[2]:
            return f"what crosses them {course}"
        return f"what crosses them is slow on the way {fold_ways(ways)}, which do well else: {course}"

    def _hosts(self, name: str, kind: str, bad: Sequence[CourseRow]) -> tuple[str, ...]:
        if kind == "leaf":
            under = {host.name for host in self._topology.hosts.values() if name in host.leaves}
        elif kind == "rack":
            under = {one.name for one in self._topology.hosts.values() if f"rack {one.rack}" == name}
        elif kind == UPLINKS:
            return ()
        else:
            return (Part.of(name).host,)
        return tuple(sorted(under.intersection(host for one in bad for host in one.probe.hosts)))

    def _is_same(self, mine: Component, other: Component) -> bool:
        """Also what a part is in, or has in it."""
        return super()._is_same(mine, other) or (other.kind in _WIDE and mine.kind not in _WIDE)


def fold_ways(ways: Sequence[str]) -> str:
    """Some ways over cables, in words."""
    most = 4
    more = f" and {len(ways) - most} more" if len(ways) > most else ""
    return f"{', '.join(sorted(ways)[:most])}{more}"
