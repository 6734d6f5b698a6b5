"""Find parts that became slower over a run, dip now and then, suffer from warmth, or failed and came back.

Every probe of the repeated phases is a row of one matrix, which ``locate.search`` searches for the few parts that
explain low rows: always, now and then, from some time on, or for a while. The rows that only one part explains then
say what its course is. A part that was measured again and is not named gets a note that says whether that cleared it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, nan

import numpy as np

from fabric.judge.course.follow_up import are_too_many
from fabric.judge.course.rows import CourseRow, CourseRows, hours, repeated, rows_of
from fabric.judge.locate.candidates import MOMENT, Component, over_rounds
from fabric.judge.locate.cells import NOTHING, Cells, SampleMatrix
from fabric.judge.locate.concurrency import as_shares, slowest_beside
from fabric.judge.locate.matrix import OF_FLOOR, SIGMAS, entries_of
from fabric.judge.locate.search import CERTAIN, MOST_NAMED, searched
from fabric.judge.locate.steps import next_step
from fabric.judge.locate.structure import OFTEN, Bools, FaultyPart, Floats, Normal
from fabric.judge.locate.suspects import Located, NamedParts, shown_name
from fabric.judge.normal.interval import LEAST_PEERS, tests_that_tell
from fabric.judge.normal.keys import floor_of, grouped, rnics_of
from fabric.judge.normal.series import DIP_SIGMAS
from fabric.model import gathered
from fabric.model.outcome import Outcome, Reason, note
from fabric.model.part import PORT, Part
from fabric.model.probe import AGAIN, Probe, Results
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.scenario import Phase
from fabric.model.text import some
from fabric.model.topology import NVLINK, Topology
from fabric.model.verdict import CAME_BACK, DRIFT, HEAT, Suspect, Verdicts
from fabric.probes import pairwise
from fabric.probes.all_to_all import AllToAllSpec

ALPHA = 1e-3
"""The chance that a healthy part seems to lose bandwidth with time or warmth (a choice)."""

LEAST_WARMING_C = 5.0
"""A temperature that changed by less explains nothing (a choice)."""

_MOST_ROWS = 500  # thin out more rows: the course shows as well, and its cost grows with their square

GONE = "gone"
"""The course of a part that failed and did not come back: it gets no suspect here, its probes' verdicts say it."""

_NEXT = {
    DRIFT: "clean or change the cable and the module: it gets worse by itself",
    "step": "look up what happened there at that time, then reseat the cable and measure again",
    HEAT: "look after its cooling (fan, airflow, heat sink of the module), then measure again under load",
    "low": "clean or change the cable and the module; if that does not help, look at its host",
    "dips": "change the cable and the module, then measure it again as often as here",
    CAME_BACK: "change the cable and the module: what fails and comes back fails again",
}
_AT_CABLES = ("rnic", "link", "host", "path")
_AT_RNIC = (
    "run loopback on {device} now: if it is slow, it is the RNIC or its PCIe link; if it is as fast as others, it is "
    "the port, the cable or the leaf port: then swap the cable first"
)


def course_step(component: str, kind: str, course: str, rivals: Sequence[str]) -> str:
    """Return what an engineer does next about a part of this kind with this course."""
    part = Part.of(component)
    if course in ("low", "dips") and f"{part}:{PORT}" in rivals:
        return _AT_RNIC.format(device=part.item)
    return _NEXT[course] if kind in _AT_CABLES and course in _NEXT else next_step(kind, Outcome.FAIL)


def course_of(
    fault: FaultyPart, own: Sequence[CourseRow], others: float, celsius: Callable[[Floats], Floats] | None = None
) -> tuple[str, str]:
    """
    Return the kind of the course of a bad part, and a text, from the form of the losses that the locator found.

    *own* are its rows in order of time, *others* is the share of healthy rows that dip, *celsius* gives the temperature
    of its module at some times.
    """
    gone = [one for one in own if one.share == 0.0]
    if _came_back(own):
        return CAME_BACK, (
            f"failed in {len(gone)} of {len(own)} probes, first at {hours(gone[0].at_s)}, last at "
            f"{hours(gone[-1].at_s)}, and came back"
        )
    low = [one for one in own if one.low]
    if len(gone) == len(low):
        return GONE, "failed, and did not come back"
    most = max(fault.losses, key=lambda one: (one.rho >= OFTEN, one.loss))
    with_heat = _with_heat(fault, own, celsius)
    if with_heat:
        return HEAT, with_heat
    lost = f"lost {1 - exp(-most.loss):.0%} of its bandwidth"
    if fault.follows is not None:
        return DRIFT, f"{lost} gradually, over {hours(own[-1].at_s - own[0].at_s, digits=0)} ({len(own)} probes)"
    if fault.since_s > -inf and fault.until_s == inf and most.rho >= OFTEN:
        return "step", f"{lost} at once, at about {hours(fault.since_s)}, and kept it lost"
    if fault.until_s < inf and most.rho >= OFTEN:
        return "low", f"{lost} from {hours(fault.since_s)} to {hours(fault.until_s)}, and then it was well again"
    count, n = len(low), len(own)
    depth = float(np.median([one.share for one in low]))
    if count > n / 2:
        return "low", f"slower than its peers in {count} of {n} probes: about {depth:.0%} of what they carry"
    from scipy.special import betaincinv  # the exact interval of a share (Clopper and Pearson 1934)

    least, often = betaincinv(count, n - count + 1, 0.025), betaincinv(count + 1, n - count, 0.975)
    return "dips", (
        f"dips to {depth:.0%} in {count} of {n} probes (1 in {n / count:.0f}; 95 % interval 1 in {1 / often:.0f} to "
        f"1 in {1 / least:.0f}), its peers in {f'1 of {1 / others:,.0f}' if others > 0 else 'none'}"
    )


def lost_along(x: Floats, shares: Floats) -> float:
    """Return the loss from the least *x* to the most, by the median slope; 0 if it may be chance (Kendall's tau)."""
    from scipy.stats import kendalltau, theilslopes

    if kendalltau(x, shares, alternative="less").pvalue >= ALPHA:
        return 0.0
    return float(-theilslopes(shares, x).slope * np.ptp(x))


def _with_heat(fault: FaultyPart, own: Sequence[CourseRow], celsius: Callable[[Floats], Floats] | None) -> str:
    """Return what a bad part loses as its module warms, over probes of its commonest class; empty if it does not."""
    if celsius is None:
        return ""
    (of_class, _), *_ = Counter(one.of_class for one in own).most_common()
    alike = [one for one in own if one.of_class == of_class and one.at_s >= fault.since_s]
    alike = alike[:: -(-len(alike) // _MOST_ROWS)]
    warmth, shares = celsius(np.array([one.at_s for one in alike])), np.array([one.share for one in alike])
    known = np.isfinite(warmth)
    if known.sum() < LEAST_PEERS or np.ptp(warmth[known]) < LEAST_WARMING_C:
        return ""
    lost, (cold, warm) = lost_along(warmth[known], shares[known]), np.quantile(warmth[known], (0.0, 1.0))
    if lost < floor_of(alike[0].probe.kind):
        return ""
    return (
        f"loses {lost:.0%} of its bandwidth when its module warms from {cold:.0f} to {warm:.0f} C ({len(alike)} probes)"
    )


def _came_back(own: Sequence[CourseRow]) -> bool:
    """
    Return whether the transport gave up and a later probe of the same kind worked again.

    A probe of another kind says nothing: an all-to-all stays in its host, and works without any cable.
    """
    failed: set[str] = set()
    for one in own:
        if one.share == 0.0:
            failed.add(one.probe.kind)
        elif one.probe.kind in failed:
            return True
    return False


UPLINKS = "uplinks"
"""The kind of the cables above a leaf, and the suffix of their name: ``su0-leaf3:uplinks``."""

_EACH = frozenset({"loopback", "rnic_to_rnic", "pairwise", "all_to_all"})  # kinds whose every probe a slow part slows
OPEN, CLEARED, TOO_MANY = "dips_open", "dips_cleared", "dips_too_many"
"""Kinds of notes on a part or a round, as ``MOMENT`` is; notes accuse nobody, and are listed in this order."""

Note = tuple[str, str, str]
"""A note: its kind, the part or the round, and the text."""

_MOST_NOTES = 3
_SHARED = ("leaf", "numa", "pcie_switch")
_WIDE = (*_SHARED, "rack", UPLINKS)


@dataclass(frozen=True, slots=True)
class CourseSuspect:
    """A suspect with its course in words, and the rows that it explains."""

    suspect: Suspect
    text: str
    explains: Sequence[CourseRow]


@dataclass(frozen=True, slots=True)
class Course:
    """
    What repeated phases show: the parts that explain their low rows (*found*), and *notes*, which accuse nobody.

    *open*: low rows that no part explains, and that nobody else looks at: from when all hosts were slow for a while,
    and of tests that ran again because a part had dipped.
    """

    found: Sequence[CourseSuspect] = ()
    notes: Sequence[Note] = ()
    open: Sequence[CourseRow] = ()

    @property
    def told(self) -> frozenset[str]:
        """Return the ids of the probes of which it is known why they were bad."""
        rows = [row for one in self.found for row in one.explains]
        return frozenset(row.probe.probe_id for row in (*rows, *self.open))

    def located(self, verdicts: Verdicts) -> Located:
        """
        Return the parts found, in the form of the locator's answer.

        Probes that are open are known to be slow, and not explained, unless they did well when they were run again.
        """
        rows = {row.probe.probe_id: row for one in self.found for row in one.explains}
        explained = frozenset(rows)
        for row in self.open:
            gbps = verdicts[row.probe.probe_id].value_gbps
            if gbps is not None and gbps < row.normal_gbps * (1.0 - floor_of(row.probe.kind)):
                rows[row.probe.probe_id] = row
        low = frozenset(name for name, row in rows.items() if row.low and row.share > 0.0)
        return Located(
            suspects=tuple(one.suspect for one in self.found),
            explained=explained,
            normal_gbps={name: rows[name].normal_gbps for name in low},
            low=low,
            far=low,
        )

    def lines(self, accused: AbstractSet[str]) -> list[Reason]:
        """Return a line for each of the first few notes of each kind, without parts whose host is *accused*."""
        shown = [one for one in self.notes if Part.of(one[1]).host not in accused]
        found = []
        for kind, alike in grouped(shown, lambda one: one[0]).items():
            found += [note(f"{name}: {text}") for _, name, text in alike[:_MOST_NOTES]]
            if len(alike) > _MOST_NOTES:
                what = "rounds" if kind == TOO_MANY else "parts"
                found.append(note(f"and {len(alike) - _MOST_NOTES} more such {what}"))
        return found


def over_time(
    probes: Sequence[Probe],
    results: Results,
    phases: Sequence[Phase],
    topology: Topology,
    samples: Samples,
) -> Course:
    """Return all parts with a bad course, the surest first; empty for a run without a phase of many rounds."""
    rows = rows_of(probes, results, repeated(probes, phases), topology)
    return _CourseFinder(rows, results, topology, samples).course() if rows.rows else Course()


def _matrix(
    rows: CourseRows, results: Results, topology: Topology, samples: Samples
) -> tuple[SampleMatrix, list[Component]]:
    """Return the matrix of all rows, and its columns: only the parts that slow rows pass through."""
    of_class, noise = np.array([row.of_class for row in rows.rows], dtype=np.int64), np.array(rows.spreads)
    floors = np.array([floor_of(kind) for kind in rows.kinds])
    floor, least = -np.log1p(-np.minimum(0.9, np.maximum(floors, DIP_SIGMAS * noise))), -np.log1p(-floors)
    share = np.array([row.share for row in rows.rows])
    y = np.clip(np.log(np.maximum(share, 1e-9)), NOTHING, SIGMAS * noise[of_class])
    passed = over_rounds({host for row in rows.rows for host in row.probe.hosts}, topology)
    columns, entries = entries_of((passed(row.probe) for row in rows.rows), y < -floor[of_class], rounds=True)
    matrix = SampleMatrix(
        Cells(entries, of_class),
        y=y,
        of_class=of_class,
        at_s=np.array([row.began_s for row in rows.rows]),
        normal=Normal.of_noise(noise, of_class),
        floor=floor,
        least=least,
        apart=least,
        level=np.array([float(kind in _EACH) for kind in rows.kinds]),
        timed=True,
        rounds=True,
        warmth=_warmth(columns, samples),
        moments=np.array([one.kind == MOMENT for one in columns]),
        of_hosts=np.array([Part.of(one.name).host in topology.hosts for one in columns]),
        beside=as_shares(
            slowest_beside([row.probe for row in rows.rows], results, topology),
            np.array([row.normal_gbps for row in rows.rows]),
        ),
    )
    return matrix, columns


def _warmth(columns: Sequence[Component], samples: Samples) -> dict[int, Callable[[Floats], Floats]]:
    """
    Return, by column of an RNIC, a function from times to the temperature of its module, degrees Celsius.

    It is NaN before the first reading. A reading is recorded only when it has moved by some degrees
    (`fabric.probes.sources.STEPS`), so between two readings the temperature is interpolated.
    """

    def celsius(course: CounterCourse, at_s: Floats) -> Floats:
        known = [pair for pair in zip(course.at_s, course.values, strict=True) if pair[1] is not None]
        times_s, values = np.array(known, dtype=np.float64).reshape(-1, 2).T
        return np.interp(at_s, times_s, values, left=nan) if known else np.full(len(at_s), nan)

    of_rnics = ((number, Part.of(one.name)) for number, one in enumerate(columns) if one.kind in ("rnic", "link"))
    readings = ((number, CounterReading(part.host, part.device, "module_c")) for number, part in of_rnics)
    return {number: partial(celsius, course) for number, one in readings if (course := samples.courses.get(one))}


class _CourseFinder(NamedParts):
    """The parts that explain low rows, with their courses."""

    def __init__(self, rows: CourseRows, results: Results, topology: Topology, samples: Samples) -> None:
        self._rows, self._topology = rows, topology
        matrix, columns = _matrix(rows, results, topology, samples)
        search, found = searched(matrix)
        super().__init__(columns, search)
        self._faults = self._without_crowds([one for one in found if one.gain >= CERTAIN])
        self._left = search.left_over(self._faults)
        self._elsewhere = (float(self._left.sum()) + 0.5) / (len(self._left) + 1.0)

    def _without_crowds(self, faults: Sequence[FaultyPart]) -> list[FaultyPart]:
        """Drop parts that dipped mostly in rounds with so many dips that no single part is the cause."""
        often = [one for one in faults if max(loss.rho for loss in one.losses) >= OFTEN]
        open_ = self._search.left_over(often)
        phases = [row.probe.phase for row in self._rows.rows]
        crowded = _crowded(list(zip(phases, open_.tolist(), strict=True)))

        def crowds(fault: FaultyPart) -> bool:
            own = np.flatnonzero(open_ & self._search.samples_through(fault.part)).tolist()
            return 2 * sum(phases[i] in crowded for i in own) > len(own)

        return [one for one in faults if one in often or not crowds(one)] if crowded else list(faults)

    def course(self) -> Course:
        """Return a suspect for each part, and the notes."""
        moments = [one for one in self._faults if self._columns[one.part].kind == MOMENT]
        parts = [one for one in reversed(self._faults) if one not in moments]
        found = list({one.suspect.component: one for one in map(self._found, parts)}.values())[::-1]
        racks = {host for one in found if one.suspect.kind == "rack" for host in one.suspect.hosts}
        inside = {part.host for one in found if (part := Part.of(one.suspect.component)).item}
        found = [  # drop a host that dips if a part inside it is named
            one
            for one in found
            if one.suspect.course != GONE and Part.of(one.suspect.component).host not in racks
            if one.suspect.course != "dips" or one.suspect.component not in inside
        ]
        named = {self._columns[part].name for one in self._faults for part in (one.part, *dict(one.rivals))}
        slow = {self._columns[one.part].name: [row for row in self._explained(one) if row.low] for one in moments}
        notes = [(MOMENT, name, _of_moment(rows)) for name, rows in slow.items() if rows]
        notes += _notes(self._rows, self._left, named)
        left = [row for row, open_ in zip(self._rows.rows, self._left.tolist(), strict=True) if open_]
        again = [row for row in left if AGAIN in row.probe.params]
        return Course(found, notes, [*again, *(row for rows in slow.values() for row in rows)])

    def _explained(self, fault: FaultyPart) -> list[CourseRow]:
        """
        Return the rows that lost what matters, and that this fault explains.

        It also explains low rows during which it may have begun: they lost no more than those after them, and all good
        rows of the part ended before them.
        """
        matrix, rows = self._search.matrix, self._rows.rows
        lost = matrix.y < -OF_FLOOR * matrix.least[matrix.of_class]
        explained = self._search.explained([fault])[1] > 0
        before = self._search.samples_through(fault.part) & (matrix.at_s < fault.since_s)
        ended_s = np.array([row.ended_s for row in rows])
        last_good_s = ended_s[before & ~lost].max(initial=-inf)
        explained |= before & (ended_s > last_good_s) & (matrix.y > -max(one.loss for one in fault.losses))
        return [rows[i] for i in np.flatnonzero(lost & explained).tolist()]

    def _own(self, fault: FaultyPart) -> list[CourseRow]:
        """Return the rows that could show the fault and that no other part explains; all of them if none is low."""
        rest = [one for one in self._faults if one is not fault]
        explained: Floats = self._search.explained(rest)[1]
        cells = [one.cell for one in fault.losses]
        over = replace(fault, since_s=-inf, until_s=inf, follows=None)
        own = sorted({i for cell in cells for i in self._search.during(over, cell).tolist()})
        alone = [self._rows.rows[i] for i in own if explained[i] == 0]
        return alone if any(one.low for one in alone) else [self._rows.rows[i] for i in own]

    def _found(self, fault: FaultyPart) -> CourseSuspect:
        column, own = self._columns[fault.part], self._own(fault)
        bad = [one for one in own if one.low]
        if column.kind == "host" and {one.probe.kind for one in bad} == {AllToAllSpec.kind}:
            column = next((one for one in self._columns if one.name == f"{column.name}/{NVLINK}"), column)
        kind, text = course_of(fault, own, self._elsewhere, self._search.matrix.warmth.get(fault.part))
        if column.kind in _SHARED:
            ends = {end for one in bad for end in rnics_of(one.probe)}
            text += f", on {len(ends)} RNICs" if ends else ""
        elif column.kind == UPLINKS:
            text = self._above(fault, text)
        rivals = self._rivals(fault)
        found = Suspect(
            component=shown_name(column),
            kind="host" if column.kind == "gpus" else column.kind,
            outcome=Outcome.FAIL,
            confidence=self._confidence(fault),
            evidence=(f"over time: {text}",),
            ambiguous_with=rivals,
            next_step=course_step(column.name, column.kind, kind, rivals),
            hosts=self._hosts(column.name, column.kind, bad),
            probes=tuple(one.probe.probe_id for one in sorted(bad, key=lambda one: one.share)[:MOST_NAMED]),
            course=kind,
        )
        own = [row for row in self._explained(fault) if row.share > 0.0 or kind == CAME_BACK]
        return CourseSuspect(found, text, own)

    def _above(self, fault: FaultyPart, course: str) -> str:
        """Return a text about which ways over the cables above a leaf are slow (the first few), and their course."""
        column = self._columns[fault.part]
        ways = [self._columns[way].text for way in fault.ways or () if way >= 0] or [column.text]
        if fault.ways is None and not column.name.rpartition(f":{UPLINKS}")[2]:
            return f"what crosses them {course}"
        return f"what crosses them is slow on the way {some(sorted(ways))}, which do well else: {course}"

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

    def _rivals(self, fault: FaultyPart) -> tuple[str, ...]:
        moments = {one.name for one in self._columns if one.kind == MOMENT}
        return tuple(name for name in super()._rivals(fault) if name not in moments)

    def _is_same(self, mine: Component, other: Component) -> bool:
        """Return True also if *other* is a wide part, such as a leaf or rack, and *mine* is not."""
        return super()._is_same(mine, other) or (other.kind in _WIDE and mine.kind not in _WIDE)


def _of_moment(low: Sequence[CourseRow]) -> str:
    """Return a text about a while in which all hosts were slow."""
    began, ended = min(row.began_s for row in low), max(row.ended_s for row in low)
    depth = float(np.median([row.share for row in low]))
    return (
        f"{len(low)} tests between hosts, whichever these were, kept about {depth:.0%} from {hours(began, digits=2)} "
        f"to {hours(ended, digits=2)}: no single part; look up what else used the network then"
    )


LEAST_TO_CLEAR = tests_that_tell(1 / 20)
"""So many tests without a dip clear a part: it dips in fewer than 1 of 20."""


_Pair = tuple[CourseRow, bool]  # a pair test, and whether it is low and no named part explains it


def _notes(rows: CourseRows, left: Bools, named: AbstractSet[str]) -> list[Note]:
    """
    Return notes on parts that were measured again, and on rounds in which too many pair tests dipped for single parts.

    *left* marks the low rows that no part explains; *named* are the parts that explain rows, and their rivals.
    """
    both = zip(rows.rows, left.tolist(), strict=True)
    pairs = [(row, open_) for row, open_ in both if row.probe.kind == pairwise.KIND]
    further = [pair for pair in pairs if AGAIN in pair[0].probe.params]
    first_ones = (pair for pair in pairs if AGAIN not in pair[0].probe.params)
    planned = gathered((end, pair) for pair in first_ones for end in rnics_of(pair[0].probe))
    found = []
    for part, tests in grouped(further, lambda pair: str(pair[0].probe.params[AGAIN])).items():
        first = _first(planned.get(part, ()))
        if first and named.isdisjoint((part, Part.of(part).host)):
            found.append(_note_on(part, first, tests))
    crowded = _crowded([(row.probe.phase, open_) for row, open_ in pairs])
    followed = {row.probe.phase for row, _ in further}
    text = "pair tests dipped at once: no single part, so none was measured again"
    found.sort(key=lambda one: (one[0] == CLEARED, one[1]))
    return found + [(TOO_MANY, name, f"{count} {text}") for name, count in crowded.items() if name not in followed]


def _crowded(rows: Sequence[tuple[str, bool]]) -> dict[str, int]:
    """Return the phases with too many unexplained rows for single parts, and how many; *rows*: phase, unexplained."""
    low, every = Counter(phase for phase, open_ in rows if open_), Counter(phase for phase, _ in rows)
    return {phase: count for phase, count in low.items() if are_too_many(count, every[phase])}


def _first(planned: Sequence[_Pair]) -> str:
    """Return why a part was measured again; empty if it dipped only in probes that a named part explains."""
    low = [open_ for row, open_ in planned if row.low]
    if not any(low):
        return "" if low else "may be why a collective of its host, or another part's further tests with it, dipped"
    return f"dipped {'once' if sum(low) == 1 else f'{sum(low)} times'} in {len(planned)} probes"


def _note_on(part: str, first: str, tests: Sequence[_Pair]) -> Note:
    n, low = len(tests), sum(open_ for _, open_ in tests)
    if low:
        text = f"{first}, and in {low} of {n} more: too few to tell from chance; more rounds do"
        return OPEN, part, text
    if n < LEAST_TO_CLEAR:
        return OPEN, part, f"{first}, not again in {n} more: too few to clear it; more rounds do"
    most = 1.0 - 0.05 ** (1.0 / n)  # none in n at this rate has a chance of 5 %
    text = f"{first}, not again in {n} more: no suspect (95 %: it dips in fewer than 1 of {1 / most:.0f})"
    return CLEARED, part, text
