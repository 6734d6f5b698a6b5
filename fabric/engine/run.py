"""Runs a whole plan, phase by phase, through the gate between them."""

from collections.abc import Callable, Mapping, Sequence

from fabric.engine.admission import HostHealth, JudgeOwn, LeftOut
from fabric.engine.deadlines import LearnedDeadlines, RoundClock
from fabric.engine.held_changes import Changing, HeldChanges
from fabric.engine.interruption import Interruption, StopFile, listening
from fabric.engine.observer import FollowUp, Means, Observer, RemembersPhases
from fabric.engine.phase import PhaseRun, past_of, waiting
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.plan import PhasePlan, Plan
from fabric.ports import Executor
from fabric.runs.events import Progress
from fabric.runs.run_directory import RunDirectory

Gate = Callable[[PhasePlan, Sequence[ProbeResult]], Mapping[str, str]]
"""Returns which hosts did not pass a phase, and why; asked after a phase that a later one needs."""


def run_plan(
    plan: Plan,
    *,
    topology: Topology,
    executor: Executor,
    directory: RunDirectory,
    observer: Observer,
    gate: Gate,
    changing: Changing,
    follow_ups: Sequence[FollowUp],
    progress: Progress,
    judge_own: JudgeOwn,
) -> None:
    """
    Run every probe; *progress* is what was done before the run was interrupted.

    A phase runs only for hosts that passed every phase it needs; probes of other hosts are SKIPPED with the reason.
    *follow_ups* may ask for more probes in a phase. *judge_own* says how hosts did by their own probes, for phases that
    leave out failing hosts. Raises KeyboardInterrupt after SIGINT, SIGTERM or SIGHUP, once everything has ended and
    every change is taken back.
    """
    means = Means(topology, executor, directory, observer)
    run = _Run(plan, means, gate, LeftOut(judge_own, means, progress), changing, follow_ups, progress)
    with listening(executor.wake, StopFile(directory, executor.now)) as interruption:
        run.measure(interruption)


class _Run:
    """A plan being carried out, and the hosts that did not pass the phases that others need."""

    def __init__(
        self,
        plan: Plan,
        means: Means,
        gate: Gate,
        left_out: LeftOut,
        changing: Changing,
        follow_ups: Sequence[FollowUp],
        progress: Progress,
    ) -> None:
        self._plan, self._means, self._gate, self._left_out = plan, means, gate, left_out
        self._changing, self._follow_ups, self._progress = changing, follow_ups, progress
        self._health, self._learned = HostHealth(progress.out), LearnedDeadlines()
        self._failed: dict[str, Mapping[str, str]] = {}

    def measure(self, interruption: Interruption) -> None:
        """Run every phase in order, until somebody interrupts."""
        directory, executor = self._means.directory, self._means.executor
        clock = RoundClock(self._plan, self._progress, directory=directory, clock=executor.now)
        for number, phase_plan in enumerate(self._plan.phases):
            past = past_of(phase_plan, self._progress)
            if clock.is_over(phase_plan.phase):
                continue
            if self._is_over(phase_plan, past):
                self._over(phase_plan, tuple(past.results.values()), past.added)
                continue
            results = PhaseRun(
                phase_plan,
                self._means,
                follow_ups=self._follow_ups,
                health=self._health,
                learned=self._learned,
                excluded=self._begin(phase_plan),
                interruption=interruption,
                changes=HeldChanges(phase_plan, self._changing, self._means, phase_number=number),
                past=past,
            ).run()
            if interruption.times:  # the phase is not over: a resumed run begins here
                directory.flush()
                raise KeyboardInterrupt
            self._ended(phase_plan, results)

    def _begin(self, phase_plan: PhasePlan) -> dict[str, str]:
        """Record that a phase begins; return the hosts that take no part in it, and why."""
        phase = phase_plan.phase
        excluded = {
            host: f"did not pass {need}: {why}"
            for need in phase.needs
            for host, why in self._failed.get(need, {}).items()
        } | self._left_out.excluded(phase)
        fields = {"phase": phase.name, "probes": phase_plan.schedule.probes, "excluded": excluded}
        self._means.directory.events.append("phase_started", self._means.executor.now(), fields)
        self._means.observer.phase_started(phase_plan)
        return excluded

    def _ended(self, phase_plan: PhasePlan, results: list[ProbeResult]) -> None:
        directory, name = self._means.directory, phase_plan.phase.name
        self._left_out.judge(phase_plan, results)
        directory.events.append("phase_ended", self._means.executor.now(), {"phase": name})
        directory.flush()
        self._over(phase_plan, results, [probe for probe in directory.added if probe.phase == name])
        self._means.observer.phase_ended(phase_plan, results)

    def _over(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> None:
        """
        Tell the learned deadlines, the follow-ups and the gate that a phase is over, now or before an interruption.
        """
        self._learned.learn(phase_plan, results)
        for one in self._follow_ups:
            if isinstance(one, RemembersPhases):
                one.ended(phase_plan, results, added)
        name = phase_plan.phase.name
        if any(name in one.phase.needs for one in self._plan.phases):
            self._failed[name] = self._gate(phase_plan, results)

    def _is_over(self, phase_plan: PhasePlan, past: Progress) -> bool:
        """Return whether a phase ended, or has no probe left and its changes are already taken back."""
        ended = phase_plan.phase.name in self._progress.ended
        return ended or (bool(phase_plan.changes) and not waiting(phase_plan, past))
