"""The follow-up ``dips``: an RNIC that dipped without an explanation is measured again after the round.

A part that dips in one of fifty probes dips once in the rounds of a burn-in, and a single dip may be chance. So the
part gets pair tests of its own, as long as those of the plan (a shorter test may see a dip less often). Their partners
are well: under its leaf, where no other part is between them, or beyond the leaf if too few are there. Tests go on
after later rounds until enough are measured. Bounds limit the time after the rounds, the tests per part, and the number
of parts. Time that earlier rounds did not need is kept, so a part that dips in the last round is settled, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fabric.judge.course.rows import measured_gbps, rows_of
from fabric.judge.normal.interval import tests_that_tell
from fabric.judge.normal.keys import AGAIN_SUFFIX, begun, rnics_of
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
"""The share of the planned time of all rounds so far that tests may take (a choice: minutes of a round of hours)."""

FIRST_TESTS = tests_that_tell(1 / 50)
"""How often a part is measured again for each probe in which it dipped: so many tests find a part that dips in one of
fifty with 95 % (a choice: a burn-in of a day may well miss such a part)."""

MOST_TESTS = 2 * FIRST_TESTS
"""The most tests of a part that dipped again, but not often enough to be sure."""

ENOUGH_DIPS = 4
"""A part that dipped so often again needs no more tests (a choice: for a healthy part that dips in 1 of 1,000 probes
the chance of four dips in 240 is 1 in 8,000)."""

BATCH = 10
"""How many tests of a part are begun together (a choice): the time is checked between batches."""

MOST_DIPS = 16
"""If more probes dip in one round without an explanation, they have a common cause, not single bad parts (a choice: a
part that dips in one of fifty probes is seen once in ten rounds; sixteen such parts at once share something)."""

MOST_PARTS = 4 * MOST_DIPS
"""The most parts measured again after one round: both ends of ``MOST_DIPS`` pairs, and as many of earlier rounds."""

MOST_UNANSWERED = 2
"""A part gets no more tests in a round after so many that measured nothing (a choice)."""


@dataclass(frozen=True, slots=True)
class DipRecord:
    """An RNIC that dipped: *dips* in planned probes, further *tests* since then, and how many dipped *again*."""

    dips: int = 0
    tests: int = 0
    again: int = 0

    @property
    def wanted(self) -> int:
        """Return how many more tests it shall get."""
        if self.again >= ENOUGH_DIPS:
            return 0
        most = MOST_TESTS if self.again else min(MOST_TESTS, FIRST_TESTS * self.dips)
        return max(0, most - self.tests)

    @property
    def urgency(self) -> tuple[int, int, int]:
        """Return a sort key: first parts that dipped again, then those with most dips, then those with most tests."""
        return -self.again, -self.dips, -self.tests

    @property
    def cleared(self) -> bool:
        """Return whether all its tests were good: then it may be a partner of other parts again."""
        return not self.again and not self.wanted


class DippedAgain:
    """The follow-up, for phases that fill a time with rounds of pair tests; it remembers what earlier rounds showed."""

    name = "dips"

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._known: defaultdict[Hashable, dict[str, DipRecord]] = defaultdict(dict)
        self._kept_s: defaultdict[Hashable, float] = defaultdict(float)
        self._seen: tuple[str, int, RoundDips] | None = None

    def limits(self, phase_plan: PhasePlan) -> FollowUpLimits | None:
        """Return limits that fit the share of the time of the rounds so far; None if not even one test fits."""
        count = self._tests(phase_plan)
        return FollowUpLimits(-(-count // BATCH), MOST_PARTS * count, self._share_s(phase_plan)) if count else None

    def ended(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> None:
        """Remember a finished round for the next ones, also one that ran in an earlier session of the run."""
        if _followed(phase_plan) is not None:
            repeated = phase_plan.phase.repeated
            further = {probe.probe_id for probe in added if AGAIN in probe.params}
            own = [result for result in results if result.probe_id in further]
            took_s = max((one.ended_s for one in own), default=0.0) - min((one.started_s for one in own), default=0.0)
            self._known[repeated] = self._now(phase_plan, results, added)[0]
            self._kept_s[repeated] = max(0.0, self._share_s(phase_plan) - took_s)

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """Return the next tests of each part that dipped in this round or an earlier one, and is not settled."""
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
        """Return the time that may be spent after this round: its own share, and what earlier rounds left."""
        return self._kept_s[phase_plan.phase.repeated] + SHARE * phase_plan.schedule.makespan_s

    def _tests(self, phase_plan: PhasePlan) -> int:
        """Return how many tests of one part fit after this round, one by one; 0 if the phase has no such follow-up."""
        spec = _followed(phase_plan)
        return 0 if spec is None else min(MOST_TESTS, int(self._share_s(phase_plan) / (spec.duration_s + SETUP_S)))

    def _now(
        self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]
    ) -> tuple[dict[str, DipRecord], RoundDips]:
        """Return the records including this round, and its dips; planned probes have ended, so they are judged once."""
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
    """Return a line for each phase after whose rounds parts may be measured again: for how long at most."""
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
    Return the pair tests of a phase that are the model for further tests: the first that are not of a few hosts only.

    Return None if the phase has no such follow-up.
    """
    phase = phase_plan.phase
    if phase.fills is None or phase_plan.changes or phase.localise is not None:
        return None
    return next((spec for spec in phase.probes if isinstance(spec, PairwiseSpec) and not spec.only), None)


MOST_SHARE = 0.1
"""Four or more probes that dip also have a common cause if they are a greater share of all probes (a choice)."""

LEAST_PARTNERS = 3
"""With fewer good partners under its leaf, a part is tested with partners beyond the leaf (a choice)."""


@dataclass(frozen=True, slots=True)
class RoundDips:
    """
    What a round says of RNICs.

    *parts*: RNICs, and in how many probes of the round they may have dipped; empty if too many probes dipped without an
    explanation. *well*: RNICs of which every probe was good. *able*: RNICs with which a further test would measure
    something: they took part in pair tests of the round, no test of theirs and no collective of their host failed, and
    they are not low most of the time.
    """

    parts: Mapping[str, int]
    well: frozenset[str]
    able: frozenset[str]


def dips_in_round(
    probes: Sequence[Probe], results: Results, topology: Topology, *, known_bad: Collection[str]
) -> RoundDips:
    """
    Judge the planned probes of a round: pair tests accuse both ends, collectives of two hosts all RNICs of both.

    *known_bad* are RNICs that are bad for certain; they explain dips of probes with them.
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
    """Return whether *dips* probes of *compared* are too many to come from single bad parts."""
    return dips > MOST_DIPS or (dips >= 4 and dips > MOST_SHARE * compared)


def answers_of(added: Sequence[Probe], by_id: Results, topology: Topology) -> dict[str, tuple[int, int]]:
    """
    Return for each part how many further tests of this round tell something of it, and in how many it dipped.

    A transport that gave up counts as a dip; an ERROR of ours tells nothing.
    """
    own = [probe for probe in added if AGAIN in probe.params]
    rows = rows_of(own, by_id, dict.fromkeys({probe.phase for probe in own}, ""), topology).rows
    tests = Counter(str(row.probe.params[AGAIN]) for row in rows)
    low = Counter(str(row.probe.params[AGAIN]) for row in rows if row.low)
    return {part: (count, low[part]) for part, count in tests.items()}


def unanswered(added: Sequence[Probe], by_id: Results) -> Counter[str]:
    """Count the further tests of this round that measured nothing, by RNIC: the part tested and its partner."""
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
    Return the *wanted* number of tests for each part (``gpu001/mlx5_3``), after those *done* in this *phase*.

    Partners are RNICs of the same rail and line rate that are *well*; a part without one gets no test. The sender
    changes from test to test. Together the tests take no longer than those of one part; the rest waits for the next
    batch. A partner runs one test at a time, so the parts of one leaf get as many tests as one part times the number
    of partners. Tests beyond a leaf wait for each other, so there all parts together get as many as one part.
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
    once = spec.changed(name=f"{spec.name}{AGAIN_SUFFIX}", repeat=1)
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
    """Return the leaf of *part* if the partners are under it, else None, and the partners' hosts in this plane."""
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
    """Return the RNICs of a pair test, or the hosts of a collective."""
    return rnics_of(probe) or probe.hosts


def _is_explained(probe: Probe, explaining: Collection[str]) -> bool:
    """Return whether *explaining* names one of its ends or hosts, or, for a collective, an RNIC of its hosts."""
    if probe.kind != pairwise.KIND:
        return any(Part.of(name).host in probe.hosts for name in explaining)
    return not {*_ends(probe), *probe.hosts}.isdisjoint(explaining)
