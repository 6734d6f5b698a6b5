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
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log

from fabric.judge.course.dips import RoundDips, answers_of, dips_in_round, further_tests, unanswered
from fabric.model.probe import AGAIN, FollowUpLimits, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.text import duration_text
from fabric.model.topology import Topology
from fabric.plan.plan import PhasePlan, Plan
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.perftest_pair import SETUP_S

SHARE = 0.03
"""Of the planned time of all rounds so far so much may be spent on it (a choice: a few minutes of a round of hours)."""

MISSED = 1 / 50
"""The rate of dips that further tests find with 95 % (a choice: what a burn-in of a day may well miss)."""

FIRST_TESTS = ceil(log(0.05) / log(1 - MISSED))
"""So often a part is measured again for each probe in which it dipped: none of these dips with 5 % where it is bad."""

MOST_TESTS = 2 * FIRST_TESTS
"""And so often at most where it dipped again, but not often enough to be sure."""

ENOUGH_DIPS = 4
"""With so many of them nothing more is asked of a part (a choice: among healthy ones that dip in 1 of 1,000 probes the
chance of four in 240 is 1 in 8,000)."""

BATCH = 10
"""Tests of a part that are begun together (a choice): between batches the time is looked at."""

MOST_PARTS = 64
"""Parts that are measured again after one round (a choice: both ends of sixteen pairs, or two hosts four times)."""

MOST_UNANSWERED = 2
"""With so many tests of a part in a round that measured nothing it gets no more there (a choice)."""

_Repeated = tuple[str, object]
"""A phase as it is written, and its combination of a matrix: what all its rounds have in common."""


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
    def cleared(self) -> bool:
        """All its tests were well: it may be a partner of others again."""
        return not self.again and not self.wanted


class DippedAgain:
    """Of phases that fill a time with rounds of pair tests; remembers what earlier rounds said."""

    name = "dips"

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._known: defaultdict[_Repeated, dict[str, DipRecord]] = defaultdict(dict)
        self._kept_s: defaultdict[_Repeated, float] = defaultdict(float)
        self._seen: tuple[str, int, RoundDips] | None = None

    def limits(self, phase_plan: PhasePlan) -> FollowUpLimits | None:
        """As many tests of a part as fit into its share of the rounds so far; None where that is none."""
        count = self._tests(phase_plan)
        return FollowUpLimits(-(-count // BATCH), MOST_PARTS * count, self._share_s(phase_plan)) if count else None

    def ended(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> None:
        """A round is over, in this session of the run or in one before it: the next rounds know of it."""
        if _followed(phase_plan) is not None:
            repeated = _repeated(phase_plan.phase)
            self._known[repeated] = self._now(phase_plan, results, added)[0]
            self._kept_s[repeated] = max(0.0, self._share_s(phase_plan) - _took_s(results, added))

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """The next tests of each part that dipped in this round or an earlier one, and is not settled."""
        records, dips = self._now(phase_plan, results, added)
        done, most, spec = _counted(added), self._tests(phase_plan), _spec(phase_plan.phase)
        silent = unanswered(added, {result.probe_id: result for result in results})
        able = (part for part in dips.able if part in records and silent[part] < MOST_UNANSWERED)
        urgent = sorted((part for part in able if records[part].wanted), key=lambda part: _urgency(part, records[part]))
        now = {*done, *[part for part in urgent if part not in done][: max(0, MOST_PARTS - len(done))]}
        counts = {part: min(BATCH, records[part].wanted, most - done[part]) for part in urgent if part in now}
        wanted = {part: count for part, count in counts.items() if count > 0}
        if not wanted or spec is None:
            return ()
        well = dips.well - silent.keys() - {part for part, one in records.items() if not one.cleared}
        return further_tests(spec, phase_plan.phase.name, wanted, done=done, well=well, topology=self._topology)

    def _share_s(self, phase_plan: PhasePlan) -> float:
        """What may be spent after this round: its own share, and what earlier ones left."""
        return self._kept_s[_repeated(phase_plan.phase)] + SHARE * phase_plan.schedule.makespan_s

    def _tests(self, phase_plan: PhasePlan) -> int:
        """How many tests of one part fit after this round, one after the other; 0 where nothing is measured again."""
        spec = _followed(phase_plan)
        return 0 if spec is None else min(MOST_TESTS, int(self._share_s(phase_plan) / (spec.duration_s + SETUP_S)))

    def _now(
        self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]
    ) -> tuple[dict[str, DipRecord], RoundDips]:
        """What is known with this round; its planned probes have ended, and are looked at once."""
        by_id = {result.probe_id: result for result in results}
        records = dict(self._known[_repeated(phase_plan.phase)])
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
    """One line for each repeated phase of a plan after whose rounds parts may be measured again."""
    written: dict[_Repeated, str] = {}
    whole_s: defaultdict[_Repeated, float] = defaultdict(float)
    once_s: dict[_Repeated, float] = {}
    for one in plan.phases:
        spec = _followed(one)
        if spec is not None:
            repeated = _repeated(one.phase)
            written[repeated], once_s[repeated] = one.phase.written, spec.duration_s + SETUP_S
            whole_s[repeated] += SHARE * one.schedule.makespan_s
    return tuple(
        f"{name}: a part that dips without another explanation is measured again after the round: up to "
        f"{min(MOST_TESTS, int(whole_s[repeated] / once_s[repeated]))} pair tests each, {SHARE:.0%} of the time of the "
        f"rounds so far ({duration_text(whole_s[repeated])} in all) at most"
        for repeated, name in written.items()
        if whole_s[repeated] >= once_s[repeated]
    )


def _followed(phase_plan: PhasePlan) -> PairwiseSpec | None:
    """The pair tests whose like is measured again; None where nothing is."""
    phase = phase_plan.phase
    return None if phase.fills is None or phase_plan.changes or phase.localise is not None else _spec(phase)


def _took_s(results: Sequence[ProbeResult], added: Sequence[Probe]) -> float:
    """From the beginning of the first further test of a round to the end of the last."""
    further = {probe.probe_id for probe in added if AGAIN in probe.params}
    own = [result for result in results if result.probe_id in further]
    return max((one.ended_s for one in own), default=0.0) - min((one.started_s for one in own), default=0.0)


def _spec(phase: Phase) -> PairwiseSpec | None:
    """The pair tests whose like is measured again: the first of the phase that are not of a few hosts only."""
    return next((spec for spec in phase.probes if isinstance(spec, PairwiseSpec) and not spec.only), None)


def _repeated(phase: Phase) -> _Repeated:
    return phase.written, phase.where


def _counted(added: Sequence[Probe]) -> Counter[str]:
    """How many tests each part was given in this round."""
    return Counter(str(probe.params[AGAIN]) for probe in added if AGAIN in probe.params)


def _urgency(part: str, one: DipRecord) -> tuple[int, int, int, str]:
    """Who dipped again comes first, then who dipped most, then who was begun with."""
    return -one.again, -one.dips, -one.tests, part
