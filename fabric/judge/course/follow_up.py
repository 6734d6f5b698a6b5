"""
The follow-up ``dips``: an RNIC that dipped without an explanation is measured again right after the round, many times.

A part that dips in one of fifty probes dips once in the rounds of a burn-in, and once is what chance does, too. So it
gets pair tests of its own, as long as those of the plan (a shorter test may see a dip less often), with partners that
are well: under its leaf, where nothing else is between them, or beyond it where too few are there. It goes on after
later rounds until enough is measured. What is bounded: the time after the rounds, the tests of a part, and the parts.
Time that earlier rounds did not need is kept, so that who dips in the last round is settled, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fabric.judge.course.rows import measured_gbps, rows_of
from fabric.judge.normal.interval import tests_that_tell
from fabric.judge.normal.keys import OF_AGAIN, begun, rnics_of
from fabric.model.diagnosis import PairTest
from fabric.model.part import Part
from fabric.model.probe import AGAIN, FollowUpLimits, Probe, ProbeResult, Results
from fabric.model.text import duration_text
from fabric.model.topology import Topology
from fabric.plan import PhasePlan, Plan
from fabric.probes import pairwise
from fabric.probes.pairwise import PairwiseSpec, Plane, planes_of
from fabric.probes.perftest_pair import SETUP_S

SHARE = 0.03
"""Of the planned time of all rounds so far so much may be spent on it (a choice: a few minutes of a round of hours)."""

FIRST_TESTS = tests_that_tell(1 / 50)
"""So often a part is measured again for each probe in which it dipped: they find one that dips in one of fifty with
95 % (a choice: what a burn-in of a day may well miss)."""

MOST_TESTS = 2 * FIRST_TESTS
"""And so often at most where it dipped again, but not often enough to be sure."""

ENOUGH_DIPS = 4
"""With so many of them nothing more is asked of a part (a choice: among healthy ones that dip in 1 of 1,000 probes the
chance of four in 240 is 1 in 8,000)."""

BATCH = 10
"""Tests of a part that are begun together (a choice): between batches the time is looked at."""

MOST_DIPS = 16
"""More probes that dip in one round, of which nothing is explained, are no single parts (a choice: a part that dips in
one of fifty probes is seen once in ten rounds; sixteen such parts in one fleet at once are something in common)."""

MOST_PARTS = 4 * MOST_DIPS
"""Parts that are measured again after one round: both ends of so many pairs, and as many of earlier rounds."""

MOST_UNANSWERED = 2
"""With so many tests of a part in a round that measured nothing it gets no more there (a choice)."""


@dataclass(frozen=True, slots=True)
class DipRecord:
    """What is known of an RNIC that dipped: in how many planned probes, how often it was tested since, with dips."""

    dips: int = 0
    tests: int = 0
    again: int = 0

    @property
    def wanted(self) -> int:
        """How many tests it is still to get."""
        if self.again >= ENOUGH_DIPS:
            return 0
        most = MOST_TESTS if self.again else min(MOST_TESTS, FIRST_TESTS * self.dips)
        return max(0, most - self.tests)

    @property
    def urgency(self) -> tuple[int, int, int]:
        """Who dipped again comes first, then who dipped most, then who was begun with."""
        return -self.again, -self.dips, -self.tests

    @property
    def cleared(self) -> bool:
        """All its tests were well: it may be a partner of others again."""
        return not self.again and not self.wanted


class DippedAgain:
    """Of phases that fill a time with rounds of pair tests; remembers what earlier rounds showed."""

    name = "dips"

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._known: defaultdict[Hashable, dict[str, DipRecord]] = defaultdict(dict)
        self._kept_s: defaultdict[Hashable, float] = defaultdict(float)
        self._seen: tuple[str, int, RoundDips] | None = None

    def limits(self, phase_plan: PhasePlan) -> FollowUpLimits | None:
        """As many tests of a part as fit into its share of the rounds so far; None where that is none."""
        count = self._tests(phase_plan)
        return FollowUpLimits(-(-count // BATCH), MOST_PARTS * count, self._share_s(phase_plan)) if count else None

    def ended(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> None:
        """A round is over, in this session of the run or in one before it: the next rounds know of it."""
        if _followed(phase_plan) is not None:
            repeated = phase_plan.phase.repeated
            further = {probe.probe_id for probe in added if AGAIN in probe.params}
            own = [result for result in results if result.probe_id in further]
            took_s = max((one.ended_s for one in own), default=0.0) - min((one.started_s for one in own), default=0.0)
            self._known[repeated] = self._now(phase_plan, results, added)[0]
            self._kept_s[repeated] = max(0.0, self._share_s(phase_plan) - took_s)

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """The next tests of each part that dipped in this round or an earlier one, and is not settled."""
        spec, most = _followed(phase_plan), self._tests(phase_plan)
        if spec is None:
            return ()
        records, dips = self._now(phase_plan, results, added)
        done = Counter(str(probe.params[AGAIN]) for probe in added if AGAIN in probe.params)
        silent = unanswered(added, {result.probe_id: result for result in results})
        able = [part for part in dips.able & records.keys() if silent[part] < MOST_UNANSWERED and records[part].wanted]
        able.sort(key=lambda part: (*records[part].urgency, part))
        now = {*done, *[part for part in able if part not in done][: max(0, MOST_PARTS - len(done))]}
        counts = {part: min(BATCH, records[part].wanted, most - done[part]) for part in able if part in now}
        wanted = {part: count for part, count in counts.items() if count > 0}
        well = dips.well - silent.keys() - {part for part, one in records.items() if not one.cleared}
        return further_tests(spec, phase_plan.phase.name, wanted, done=done, well=well, topology=self._topology)

    def _share_s(self, phase_plan: PhasePlan) -> float:
        """What may be spent after this round: its own share, and what earlier ones left."""
        return self._kept_s[phase_plan.phase.repeated] + SHARE * phase_plan.schedule.makespan_s

    def _tests(self, phase_plan: PhasePlan) -> int:
        """How many tests of one part fit after this round, one after the other; 0 where nothing is measured again."""
        spec = _followed(phase_plan)
        return 0 if spec is None else min(MOST_TESTS, int(self._share_s(phase_plan) / (spec.duration_s + SETUP_S)))

    def _now(
        self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]
    ) -> tuple[dict[str, DipRecord], RoundDips]:
        """What is known with this round; its planned probes have ended, and are looked at once."""
        by_id = {result.probe_id: result for result in results}
        records = dict(self._known[phase_plan.phase.repeated])
        planned = [probe for probe in (*phase_plan.planned, *added) if AGAIN not in probe.params]
        seen = phase_plan.phase.name, sum(probe.probe_id in by_id for probe in planned)
        if self._seen is None or self._seen[:2] != seen:
            sure = [part for part, one in records.items() if one.again >= ENOUGH_DIPS]
            self._seen = *seen, dips_in_round(planned, by_id, self._topology, known_bad=sure)
        dips = self._seen[2]
        answers = answers_of(added, by_id, self._topology)
        for part in {**dips.parts, **answers}:
            old, (tests, again) = records.get(part, DipRecord()), answers.get(part, (0, 0))
            records[part] = DipRecord(old.dips + dips.parts.get(part, 0), old.tests + tests, old.again + again)
        return records, dips


def dips_lines(plan: Plan) -> tuple[str, ...]:
    """One line for each phase of a plan after whose rounds parts may be measured again: how long at most."""
    within_s: defaultdict[str, float] = defaultdict(float)
    for one in plan.phases:
        if _followed(one) is not None:
            within_s[one.phase.written] += SHARE * one.schedule.makespan_s
    return tuple(
        f"{name}: a part that dips without another explanation is measured again after the round, for {SHARE:.0%} of "
        f"the time of the rounds so far ({duration_text(seconds)} in all) at most"
        for name, seconds in within_s.items()
    )


def _followed(phase_plan: PhasePlan) -> PairwiseSpec | None:
    """
    The pair tests whose like is measured again, the first of the phase that are not of a few hosts only.

    None where nothing is.
    """
    phase = phase_plan.phase
    if phase.fills is None or phase_plan.changes or phase.localise is not None:
        return None
    return next((spec for spec in phase.probes if isinstance(spec, PairwiseSpec) and not spec.only), None)


MOST_SHARE = 0.1
"""So is a greater share of all, of four probes or more (a choice)."""

LEAST_PARTNERS = 3
"""Fewer good partners under its leaf are not enough: then those beyond it are asked (a choice)."""


@dataclass(frozen=True, slots=True)
class RoundDips:
    """
    *parts*: RNICs and in how many probes of the round they may have dipped. *well*: RNICs of which every probe was
    good. *able*: RNICs with which a further test would measure something: they took part in pair tests of the round,
    nothing of them or of a collective of their host failed, and they are not low most of the time. Where too many
    probes dipped without an explanation, no part is accused.
    """

    parts: Mapping[str, int]
    well: frozenset[str]
    able: frozenset[str]


def dips_in_round(
    probes: Sequence[Probe], results: Results, topology: Topology, *, known_bad: Collection[str]
) -> RoundDips:
    """
    What the planned probes of a round say: pair tests accuse both ends, collectives of two hosts all their RNICs.

    *known_bad* are sure already, and explain others.
    """
    ran = begun((probe for probe in probes if len(probe.hosts) == 2), results)
    measured = [probe for probe, result in ran if measured_gbps(result) is not None]
    rows = rows_of(measured, results, dict.fromkeys({probe.phase for probe in measured}, ""), topology).rows
    seen = Counter(end for probe, _ in ran for end in _ends(probe))
    low = [row.probe for row in rows if row.low]
    bad = Counter(end for probe in low for end in _ends(probe))
    gone = {end for probe, result in ran if measured_gbps(result) is None for end in _ends(probe)}
    gone |= {end for end, count in bad.items() if seen[end] > 1 and 2 * count > seen[end]}
    left = [probe for probe in low if not _is_explained(probe, {*gone, *known_bad})]
    able = frozenset(end for end in seen if "/" in end and gone.isdisjoint((end, Part.of(end).host)))
    well = frozenset(end for end in able if not bad[end] and end not in known_bad)
    accused: Counter[str] = Counter()
    for probe in left:
        of_hosts = (end for end in able if Part.of(end).host in probe.hosts)
        accused.update(able.intersection(_ends(probe)) if probe.kind == pairwise.KIND else of_hosts)
    return RoundDips({} if are_too_many(len(left), len(rows)) else accused, well - accused.keys(), able)


def are_too_many(dips: int, compared: int) -> bool:
    """Whether so many probes that dip, of so many that were *compared*, are no single parts."""
    return dips > MOST_DIPS or (dips >= 4 and dips > MOST_SHARE * compared)


def answers_of(added: Sequence[Probe], by_id: Results, topology: Topology) -> dict[str, tuple[int, int]]:
    """
    Of each part the tests of this round that say something of it, and in how many of them it dipped.

    That a transport gave up tells as much as a dip; an ERROR of ours says nothing.
    """
    own = [probe for probe in added if AGAIN in probe.params]
    rows = rows_of(own, by_id, dict.fromkeys({probe.phase for probe in own}, ""), topology).rows
    tests = Counter(str(row.probe.params[AGAIN]) for row in rows)
    low = Counter(str(row.probe.params[AGAIN]) for row in rows if row.low)
    return {part: (count, low[part]) for part, count in tests.items()}


def unanswered(added: Sequence[Probe], by_id: Results) -> Counter[str]:
    """How many tests of this round measured nothing, by the parts that they were run for and by their partners."""
    own = [probe for probe in added if AGAIN in probe.params and probe.probe_id in by_id]
    return Counter(end for probe in own if measured_gbps(by_id[probe.probe_id]) is None for end in _ends(probe))


def further_tests(
    spec: PairwiseSpec,
    phase: str,
    wanted: Mapping[str, int],
    *,
    done: Mapping[str, int],
    well: Collection[str],
    topology: Topology,
) -> list[Probe]:
    """
    For each part (``gpu001/mlx5_3``) the *wanted* number of tests, after those *done* in this *phase*.

    Partners are RNICs of the same rail and line rate that are *well*. Who sends changes from test to test. What would
    take longer than the tests of one part is left for the next time: a partner has one test at once, so parts of one
    leaf get so many times what one may have as there are partners; beyond a leaf tests wait for each other, so that
    there all parts together get what one may have. None for a part that has no such partner.
    """
    hosts = {Part.of(name).host for name in (*wanted, *well)}
    planes = planes_of((name for name in topology.hosts if name in hosts), topology)
    most = max(wanted.values(), default=0)
    left: dict[object, int] = {}
    made: list[Probe] = []
    for place, (part, count) in enumerate(wanted.items()):
        for plane in planes:
            leaf, partners = _partners(part, plane, well, topology)
            if partners:
                shared = None if leaf is None else (plane.rail, plane.line_rate_gbps, leaf)
                count = min(count, left.setdefault(shared, most * (1 if leaf is None else len(partners))))
                left[shared] -= count
                first = place * max(1, len(partners) // 2) % len(partners)  # parts seldom wait for the same partner
                turned, number = [*partners[first:], *partners[:first]], done.get(part, 0)
                made += _tests(spec, phase, part, plane, turned, range(number, number + count), topology)
    return made


def _tests(
    spec: PairwiseSpec,
    phase: str,
    part: str,
    plane: Plane,
    partners: Sequence[str],
    numbers: range,
    topology: Topology,
) -> Iterator[Probe]:
    host, device = Part.of(part).place
    once = spec.changed(name=f"{spec.name}{OF_AGAIN}", repeat=1)
    for number in numbers:
        test = PairTest(host, partners[number % len(partners)], why=f"{part} dipped")
        reverse = (number + number // len(partners)) % 2 == 1
        for probe in once.probes_of(
            test, plane, phase=phase, topology=topology, number=spec.first + spec.rounds + number, reverse=reverse
        ):
            label, pair = f"{device}.{host}.n{number + 1}", "+".join(probe.hosts)
            params = {**probe.params, AGAIN: part, "series": f"{pair}/{label}"}
            yield replace(probe, probe_id=f"{phase}/{pair}/{once.name}.{label}", params=params)


def _partners(part: str, plane: Plane, well: Collection[str], topology: Topology) -> tuple[str | None, list[str]]:
    """Its own leaf if they are under it, and the hosts; none where it is not of this plane."""
    host, device = Part.of(part).place
    rnic = topology.hosts[host].platform.rnic_by_device[device]
    if (rnic.rail, rnic.line_rate_gbps) != (plane.rail, plane.line_rate_gbps):
        return None, []
    rnics = ((one, topology.hosts[one].rnic(plane.rail).device) for one in plane.hosts if one != host)
    good = [one for one, device in rnics if f"{one}/{device}" in well]
    for leaf, hosts in plane.leaves.items():
        near = [one for one in good if one in hosts] if host in hosts else []
        if len(near) >= LEAST_PARTNERS:
            return leaf, near
    return None, good


def _ends(probe: Probe) -> tuple[str, ...]:
    """The RNICs of a pair test, the hosts of a collective."""
    return rnics_of(probe) or probe.hosts


def _is_explained(probe: Probe, explaining: Collection[str]) -> bool:
    """By one of its ends, by the host of one, or, of a collective, by an RNIC of its hosts."""
    if probe.kind != pairwise.KIND:
        return any(Part.of(name).host in probe.hosts for name in explaining)
    return not {*_ends(probe), *probe.hosts}.isdisjoint(explaining)
