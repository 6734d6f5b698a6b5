"""
Who became slower over the hours of a run, dips now and then, cannot bear warmth, or failed and came back.

Every probe of the repeated phases is a row of one matrix (``passed.py``), which ``locate.inside`` searches for the few
parts that explain what is low: always, now and then, from some time on, or for a while. Then the rows of a part that
nothing else explains say what its course is (``courses.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp

import numpy as np

from fabric.judge.course.courses import GONE, course_of, worst
from fabric.judge.course.dips import are_too_many
from fabric.judge.course.findings import CourseFinding
from fabric.judge.course.notes import notes
from fabric.judge.course.passed import DOWN, UP, UPLINKS, Modules, Passed
from fabric.judge.course.ports import down_together
from fabric.judge.course.rows import CourseRow, CourseRows, repeated, rows_of
from fabric.judge.locate.inside import Search
from fabric.judge.locate.search import CERTAIN, SURE
from fabric.judge.locate.structure import OFTEN, Bools, FaultyPart, Floats
from fabric.judge.normal.keys import rnics_of
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import CounterCourse, Samples
from fabric.model.scenario import Phase
from fabric.model.topology import Topology

_CABLES = (UPLINKS, UP, DOWN)
_SHARED = ("leaf", "numa", "pcie_switch")
_WIDE = (*_SHARED, "rack", *_CABLES)


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
    modules: dict[str, dict[str, CounterCourse]] = {}
    for reading, course in samples.courses.items():
        if reading.name == "module_c":
            modules.setdefault(reading.host, {})[reading.part] = course
    found = _Located(rows, topology, modules)
    return [*down, *found.findings(), *found.notes()]


class _Located:
    """The parts that explain what is low, with their courses."""

    def __init__(self, rows: CourseRows, topology: Topology, modules: Modules) -> None:
        self._rows, self._topology = rows, topology
        self._passed = Passed(rows, topology, modules)
        self._search = Search(self._passed.matrix())
        low = self._search.matrix.slow
        sure = [self._with_alike(one) for one in self._search.faults() if one.gain >= CERTAIN]
        self._faults = self._without_crowds(sure)
        self._left: Bools = low & (self._search.explained(self._faults)[1] == 0)
        self._others = (float(self._left.sum()) + 0.5) / (len(low) + 1.0)

    def _without_crowds(self, faults: Sequence[FaultyPart]) -> list[FaultyPart]:
        """Without those that dipped mostly in rounds in which so many did that it is no single part."""
        often = [one for one in faults if max(loss.rho for loss in one.losses) >= OFTEN]
        open_ = self._search.matrix.slow & (self._search.explained(often)[1] == 0)
        phases = [row.probe.phase for row in self._rows.rows]
        low, every = Counter(phases[i] for i in np.flatnonzero(open_).tolist()), Counter(phases)
        crowded = {phase for phase, count in low.items() if are_too_many(count, every[phase])}

        def crowds(fault: FaultyPart) -> bool:
            own = [i for i in self._passed.rows_of(fault.part).tolist() if open_[i]]
            return 2 * sum(phases[i] in crowded for i in own) > len(own)

        return [one for one in faults if one in often or not crowds(one)] if crowded else list(faults)

    def _with_alike(self, fault: FaultyPart) -> FaultyPart:
        """With the rivals that the very same rows pass through, of itself and of its rivals."""
        rivals = [
            (other, gain - rarer)
            for part, gain in ((fault.part, fault.gain), *fault.rivals)
            for other, rarer in self._passed.alike.get(part, ())
            if rarer < Search.rival
        ]
        return replace(fault, rivals=(*fault.rivals, *rivals))

    def findings(self) -> list[CourseFinding]:
        """One for each part; the cables above one leaf are one."""
        cables = [one for one in self._faults if self._kind(one.part) in _CABLES]
        others = [self._finding(one) for one in self._faults if self._kind(one.part) not in _CABLES]
        found = [*self._uplinks(cables), *others]
        racks = {host for one in found if one.part == "rack" for host in one.hosts}
        inside = {part.host for one in found if (part := Part.of(one.component)).item}
        found = [one for one in found if one.kind != "dips" or one.component not in inside]  # which part of a host dips
        return [one for one in found if one.kind != GONE and Part.of(one.component).host not in racks]

    def notes(self) -> list[CourseFinding]:
        """What is told and accuses nobody."""
        named = {self._passed.columns[part].name for one in self._faults for part in (one.part, *dict(one.rivals))}
        return notes(self._rows, self._left, named)

    def _kind(self, part: int) -> str:
        return self._passed.columns[part].kind

    def _name(self, part: int) -> str:
        """As it is said: the way to one RNIC is of the cables above a leaf."""
        column = self._passed.columns[part]
        return _leaf_of(column.name) + f":{UPLINKS}" if column.kind in _CABLES else column.name

    def _own(self, fault: FaultyPart) -> list[CourseRow]:
        """The rows that could show it, and that no other part explains."""
        rest = [one for one in self._faults if one is not fault]
        explained: Floats = self._search.explained(rest)[1]
        own = sorted({i for one in fault.losses for i in self._search.samples_of(one.cell).tolist()})
        alone = [self._rows.rows[i] for i in own if explained[i] == 0]
        return alone if any(one.low for one in alone) else [self._rows.rows[i] for i in own]

    def _finding(self, fault: FaultyPart) -> CourseFinding:
        column, own = self._passed.columns[fault.part], self._own(fault)
        bad = [one for one in own if one.low]
        kind, text = course_of(fault, own, self._others, self._search.matrix.warmth.get(fault.part))
        if column.kind in _SHARED:
            ends = {end for one in bad for end in rnics_of(one.probe)}
            kind, text = "shared", text + (f", on {len(ends)} RNICs" if ends else "")
        rivals = self._rivals(fault)
        through = [self._rows.rows[i] for i in self._passed.rows_of(fault.part).tolist()]
        return CourseFinding(
            component=column.name,
            kind=kind,
            text=text,
            part=column.kind,
            confidence=self._confidence(fault),
            probes=worst(bad),
            rivals=rivals,
            hosts=self._hosts(column.name, column.kind, bad),
            explains={one.probe.probe_id: one.probe.hosts for one in through},
        )

    def _hosts(self, name: str, kind: str, bad: Sequence[CourseRow]) -> tuple[str, ...]:
        if kind == "leaf":
            under = {host.name for host in self._topology.hosts.values() if name in host.leaves}
        elif kind == "rack":
            under = {one.name for one in self._topology.hosts.values() if f"rack {one.rack}" == name}
        else:
            return (Part.of(name).host,)
        return tuple(sorted(under.intersection(host for one in bad for host in one.probe.hosts)))

    def _rivals(self, fault: FaultyPart) -> tuple[str, ...]:
        """Others that explain nearly as much; what a part is in, or has in it, is no other."""
        mine = self._name(fault.part)
        others = dict.fromkeys(self._name(part) for part, _ in fault.rivals)
        wide = {self._name(part) for part, _ in fault.rivals if self._kind(part) in _WIDE}
        if self._kind(fault.part) not in _WIDE:
            others = {name: None for name in others if name not in wide}
        return tuple(other for other in others if other != mine and not _restates(mine, other))

    def _confidence(self, fault: FaultyPart) -> float:
        told = self._rivals(fault)
        others = [max(gain for part, gain in fault.rivals if self._name(part) == name) for name in told]
        return min(SURE, round(1 / (1 + exp(-fault.gain) + sum(exp(gain - fault.gain) for gain in others)), 2))

    def _uplinks(self, faults: Sequence[FaultyPart]) -> list[CourseFinding]:
        """The leaf that most of these ways have in common first, then that of those which are left."""
        found: list[CourseFinding] = []
        left = {one.part: one for one in faults}
        leaves = {
            one.part: {
                _leaf_of(self._name(part)) for part in (one.part, *dict(one.rivals)) if self._kind(part) in _CABLES
            }
            for one in faults
        }
        while left:
            behind = {leaf: [part for part in left if leaf in leaves[part]] for part in left for leaf in leaves[part]}
            best = max(sorted(behind), key=lambda leaf: len(behind[leaf]))
            alike = [leaf for leaf in sorted(behind) if leaf != best and behind[leaf] == behind[best]]
            found.append(self._above(best, alike, [left[part] for part in behind[best]]))
            left = {part: one for part, one in left.items() if part not in behind[best]}
        return found

    def _above(self, leaf: str, alike: Sequence[str], faults: Sequence[FaultyPart]) -> CourseFinding:
        """The cables above one leaf, by all ways over them that are bad."""
        bad = list({row.probe.probe_id: row for one in faults for row in self._own(one) if row.low}.values())
        ways = [self._passed.columns[one.part].text for one in faults if self._kind(one.part) != UPLINKS]
        first = max(faults, key=lambda one: one.gain)
        course = course_of(first, self._own(first), self._others)[1]
        text = f"what crosses them {course}"
        if ways:
            text = f"what crosses them is slow on the way {fold_ways(ways)}, which do well else; the first {course}"
        rivals = [name for one in faults for name in self._rivals(one)]
        rivals = [name for name in dict.fromkeys(rivals) if not name.endswith(f":{UPLINKS}")]
        names = (*(f"{other}:{UPLINKS}" for other in alike), *(rivals if len(faults) == 1 else ()))
        return CourseFinding(
            component=f"{leaf}:{UPLINKS}",
            kind=UPLINKS,
            text=text,
            part=UPLINKS,
            confidence=min(SURE, round(1 / (1 + exp(-first.gain) + len(names)), 2)),
            probes=worst(bad),
            rivals=names,
            explains={one.probe.probe_id: one.probe.hosts for one in bad},
        )


def fold_ways(ways: Sequence[str]) -> str:
    """Some ways over cables, in words."""
    most = 4
    more = f" and {len(ways) - most} more" if len(ways) > most else ""
    return f"{', '.join(sorted(ways)[:most])}{more}"


def _leaf_of(name: str) -> str:
    return name.partition(f":{UPLINKS}")[0]


def _restates(mine: str, other: str) -> bool:
    """The host for one of its parts or the reverse; but an RNIC and its cable are two things to who repairs them."""
    one, two = Part.of(mine), Part.of(other)
    return one.host == two.host and "" in (one.item, two.item) and ":" not in mine + other
