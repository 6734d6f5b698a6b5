"""How long repeated work is waited for: a probe by what earlier rounds took, the rounds of a phase by the clock."""

from collections.abc import Callable, Iterable
from math import inf

from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import FilledTime, Phase
from fabric.plan import PhasePlan, Plan
from fabric.runs.events import Progress
from fabric.runs.run_directory import RunDirectory

TIMES = 3.0
"""So many times the longest good one (a choice: a part at a third of its rate is still measured, and FAILs by that)."""

MARGIN_S = 60.0
"""On top of it, seconds (a choice: a start takes seconds, and varies; of short probes it is most of the time)."""

_Work = tuple[str, str, float, int]


class LearnedDeadlines:
    """
    What was measured in earlier rounds of each repeated phase; of other phases nothing is learned.

    A planned deadline allows for the slowest fabric that may still answer. In hours of soak it is known better: what
    hangs there would hold up a whole round for nothing. Work counts as the same where phase, kind, expected duration
    and number of hosts are; whose it was does not matter, so that a slow host does not make its own deadline.
    """

    def __init__(self) -> None:
        self._longest_s: dict[_Work, float] = {}

    def limit_s(self, plan: PhasePlan, probe: Probe) -> float:
        """The longest that this probe is worth waiting for, seconds; infinite where no earlier round says."""
        return TIMES * self._longest_s.get(_work(plan, probe), inf) + MARGIN_S

    def learn(self, plan: PhasePlan, results: Iterable[ProbeResult]) -> None:
        """After a round: what was measured in it, good or slow; what ended otherwise does not say how long it takes."""
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
    Ends phases that fill a time (``for: 4h``) by the clock: when their time is over, no new round is begun.

    Asked before each phase, in their order. A round that was begun is run to its end, all its stages included, so the
    time is passed by one round at most; the first round is always run. The time between two sessions of a run does not
    count, and a run that goes on has what is left.
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
        """Whether it is not to be begun any more; noted once for all rounds that are left."""
        fills = phase.fills
        if fills is None or phase.name in self._over:
            return phase.name in self._over
        now_s = self._clock()
        began_s = self._began_s.get(fills.name, now_s)
        if (fills.name, phase.round) in self._rounds or now_s - began_s < fills.within_s:
            self._begins(fills, phase.round, now_s)
            return False
        self._end(fills, phase.round, now_s)
        return True

    def _begins(self, fills: FilledTime, number: int, at_s: float) -> None:
        self._began_s.setdefault(fills.name, at_s)
        self._rounds.add((fills.name, number))

    def _end(self, fills: FilledTime, number: int, now_s: float) -> None:
        """What is left of it from this round on is over."""
        left = [one for one in self._plan.phases if one.phase.fills == fills and one.phase.round >= number]
        self._over.update(one.phase.name for one in left)
        fields = {
            "phases": [one.phase.name for one in left],
            "probes": sum(one.schedule.probes for one in left),
            "within_s": fills.within_s,
        }
        self._directory.events.append("rounds_over", now_s, fields)
        self._directory.flush()


def reached(plan: Plan, not_begun: frozenset[str]) -> Plan:
    """The plan without the rounds that the clock left out: nobody asked for them any more."""
    return Plan(tuple(phase_plan for phase_plan in plan.phases if phase_plan.phase.name not in not_begun))
