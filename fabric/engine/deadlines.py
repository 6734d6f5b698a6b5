"""Deadlines for repeated work: per probe from what earlier rounds took, per phase from the clock."""

from collections.abc import Callable, Iterable
from math import inf

from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import FilledTime, Phase
from fabric.plan import PhasePlan, Plan
from fabric.runs.events import Progress
from fabric.runs.run_directory import RunDirectory

LONGEST_FACTOR = 3.0
"""
Multiple of the longest good duration (a choice: a part at a third of its rate is still measured, and FAILs by that).
"""

MARGIN_S = 60.0
"""Seconds added on top (a choice: a start takes seconds and varies; for short probes it is most of the time)."""

_Work = tuple[str, str, float, int]


class LearnedDeadlines:
    """
    The durations that probes took in earlier rounds of each repeated phase. Phases without rounds teach nothing.

    A planned deadline allows for the slowest fabric that may still answer. After hours of soak the usual duration is
    known better, and a hanging probe should not hold up a whole round. Two probes count as the same work when phase,
    kind, expected duration and number of hosts are equal. The host is not part of it, so a slow host does not set its
    own deadline.
    """

    def __init__(self) -> None:
        self._longest_s: dict[_Work, float] = {}

    def limit_s(self, plan: PhasePlan, probe: Probe) -> float:
        """
        Return the longest time (seconds) to wait for this probe; infinite when no earlier round measured such work.
        """
        return LONGEST_FACTOR * self._longest_s.get(_work(plan, probe), inf) + MARGIN_S

    def learn(self, plan: PhasePlan, results: Iterable[ProbeResult]) -> None:
        """Learn from a finished round: keep the longest duration of probes that measured something, good or slow."""
        if plan.phase.fills is None:
            return
        probes = {probe.probe_id: probe for probe in plan.planned}
        for result in results:
            probe = probes.get(result.probe_id)
            if probe is not None and result.outcome is None and result.measurements:
                work = _work(plan, probe)
                self._longest_s[work] = max(self._longest_s.get(work, 0.0), result.ended_s - result.started_s)


def _work(plan: PhasePlan, probe: Probe) -> _Work:
    return plan.phase.written, probe.kind, probe.duration_s, len(probe.hosts)


class RoundClock:
    """
    Ends phases that fill a time (``for: 4h``) by the clock: once their time is over, no new round begins.

    ``is_over`` is called before each phase, in plan order. A round that has begun runs to its end with all its stages,
    so the time is exceeded by one round at most. The first round always runs. The time between two sessions of a run
    does not count: a resumed run has what was left.
    """

    def __init__(self, plan: Plan, progress: Progress, *, directory: RunDirectory, clock: Callable[[], float]) -> None:
        self._plan, self._directory, self._clock = plan, directory, clock
        self._over = set(progress.not_begun)
        self._began_s: dict[str, float] = {}
        self._rounds: set[tuple[str, int]] = set()
        for phase_plan in plan.phases:
            at_s = progress.phases_began.get(phase_plan.phase.name)
            if at_s is not None and phase_plan.phase.fills is not None:
                self._begins(phase_plan.phase.fills, phase_plan.phase.round, at_s)

    def is_over(self, phase: Phase) -> bool:
        """Return whether this phase must not begin any more. Records the event once for all remaining rounds."""
        fills = phase.fills
        if fills is None or phase.name in self._over:
            return phase.name in self._over
        now_s = self._clock()
        began_s = self._began_s.get(fills.name, now_s)
        if (fills.name, phase.round) in self._rounds or now_s - began_s < fills.within_s:
            self._begins(fills, phase.round, now_s)
            return False
        left = [one for one in self._plan.phases if one.phase.fills == fills and one.phase.round >= phase.round]
        self._over.update(one.phase.name for one in left)
        fields = {
            "phases": [one.phase.name for one in left],
            "probes": sum(one.schedule.probes for one in left),
            "within_s": fills.within_s,
        }
        self._directory.events.append("rounds_over", now_s, fields)
        self._directory.flush()
        return True

    def _begins(self, fills: FilledTime, number: int, at_s: float) -> None:
        self._began_s.setdefault(fills.name, at_s)
        self._rounds.add((fills.name, number))


def reached(plan: Plan, not_begun: frozenset[str]) -> Plan:
    """Return the plan without the rounds that the clock left out, which are not expected any more."""
    return Plan(tuple(phase_plan for phase_plan in plan.phases if phase_plan.phase.name not in not_begun))
