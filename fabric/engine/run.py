"""Runs a whole plan, phase by phase, through the gate between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fabric.engine.admission import HostHealth
from fabric.engine.deadlines import LearnedDeadlines, RoundClock
from fabric.engine.follow_up import FollowUp, Remembers
from fabric.engine.held_changes import Changing, HeldChanges
from fabric.engine.interruption import StopFile, listening
from fabric.engine.left_out import JudgeOwn, LeftOut
from fabric.engine.observer import Observer
from fabric.engine.phase import PhasePast, PhaseRun, past_of
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.plan.plan import PhasePlan, Plan
from fabric.ports import Executor
from fabric.store.run_directory import RunDirectory
from fabric.store.so_far import SoFar

Gate = Callable[[PhasePlan, Sequence[ProbeResult]], Mapping[str, str]]
"""Which hosts did not pass a phase, and why; asked after a phase that a later one needs."""


def run_plan(
    plan: Plan,
    *,
    topology: Topology,
    executor: Executor,
    directory: RunDirectory,
    observer: Observer,
    gate: Gate,
    changing: Changing | None = None,
    follow_ups: Sequence[FollowUp] = (),
    so_far: SoFar | None = None,
    judge_own: JudgeOwn | None = None,
) -> list[ProbeResult]:
    """
    Every probe's result, in order of finishing; *so_far* is what was done before the run was interrupted.

    A phase runs only for hosts that passed every phase it needs; the others are SKIPPED and the result says why.
    *changing* is needed where a phase has changes; *follow_ups* may want more measured in a phase. *judge_own* says how
    hosts did by their own probes, where a phase leaves out those that fail. Raises KeyboardInterrupt after SIGINT,
    SIGTERM or SIGHUP, once everything that ran is ended and every change is taken back.
    """
    needed = {name for phase_plan in plan.phases for name in phase_plan.phase.needs}
    failed: dict[str, dict[str, str]] = {}
    so_far = so_far or SoFar()
    health = HostHealth(so_far.out)
    left_out = LeftOut(judge_own, directory=directory, clock=executor.now, observer=observer, so_far=so_far)
    learned = LearnedDeadlines()
    clock = RoundClock(plan, so_far, directory=directory, clock=executor.now)
    results: list[ProbeResult] = []
    told: dict[str, float] = {}
    with listening(executor.wake, StopFile(directory, executor.now)) as interruption:
        for number, phase_plan in enumerate(plan.phases):
            phase = phase_plan.phase
            past = past_of(phase_plan, so_far)
            if clock.is_over(phase):
                continue
            if _is_over(phase_plan, past, so_far):
                results.extend(past.results.values())
                _tell_who_is_back(follow_ups, left_out.readmitted, told, so_far.phases_began.get(phase.name, 0.0))
                _remember(learned, follow_ups, phase_plan, tuple(past.results.values()), past.added)
                if phase.name in needed:
                    done = tuple(past.results.values())
                    failed[phase.name] = left_out.still_failed(gate(phase_plan, done), done)
                continue
            left_out.let_in(health, failed.values())
            _tell_who_is_back(follow_ups, left_out.readmitted, told, executor.now())
            excluded = {
                host: f"did not pass {need}: {why}"
                for need in phase.needs
                for host, why in failed.get(need, {}).items()
            } | left_out.excluded(phase)
            _note_begin(phase_plan, excluded, directory, executor)
            observer.phase_started(phase_plan)
            phase_results = PhaseRun(
                phase_plan,
                topology=topology,
                executor=executor,
                directory=directory,
                observer=observer,
                health=health,
                excluded=excluded,
                interruption=interruption,
                changes=_held(phase_plan, number, changing, executor, directory, observer),
                follow_ups=follow_ups,
                past=past,
                learned=learned,
            ).run()
            if interruption.times:  # it is not over: a run that goes on begins here
                directory.flush()
                raise KeyboardInterrupt
            left_out.judge(phase_plan, phase_results)
            _remember(learned, follow_ups, phase_plan, phase_results, _added_in(directory, phase.name))
            directory.events.append("phase_ended", executor.now(), {"phase": phase.name})
            directory.flush()
            results.extend(phase_results)
            if phase.name in needed:
                failed[phase.name] = dict(gate(phase_plan, phase_results))
        left_out.let_in(health, failed.values(), at_the_end=True)
    return results


def _note_begin(
    phase_plan: PhasePlan, excluded: Mapping[str, str], directory: RunDirectory, executor: Executor
) -> None:
    fields = {"phase": phase_plan.phase.name, "probes": phase_plan.schedule.probes, "excluded": excluded}
    directory.events.append("phase_started", executor.now(), fields)


def _remember(
    learned: LearnedDeadlines,
    follow_ups: Sequence[FollowUp],
    phase_plan: PhasePlan,
    results: Sequence[ProbeResult],
    added: Sequence[Probe],
) -> None:
    """A phase is over: what remembers earlier rounds is told."""
    learned.learn(phase_plan, results)
    for one in follow_ups:
        if isinstance(one, Remembers):
            one.ended(phase_plan, results, added)


def _added_in(directory: RunDirectory, phase: str) -> list[Probe]:
    return [probe for probe in directory.added if probe.phase == phase]


def _tell_who_is_back(
    follow_ups: Sequence[FollowUp], readmitted: Mapping[str, float], told: dict[str, float], now_s: float
) -> None:
    """Each readmission once, before the first phase that began after it; *told*: those that were (by host)."""
    for host, at_s in readmitted.items():
        if at_s <= now_s and told.get(host) != at_s:
            told[host] = at_s
            for one in follow_ups:
                if isinstance(one, Remembers):
                    one.back(host)


def _is_over(phase_plan: PhasePlan, past: PhasePast, so_far: SoFar) -> bool:
    """It ended, or all that is left of it is to take back changes that are back already."""
    return phase_plan.phase.name in so_far.ended or (bool(phase_plan.changes) and past.is_whole(phase_plan))


def _held(
    phase_plan: PhasePlan,
    number: int,
    changing: Changing | None,
    executor: Executor,
    directory: RunDirectory,
    observer: Observer,
) -> HeldChanges | None:
    """The changes of a phase, ready to begin; None when it has none."""
    if not phase_plan.changes:
        return None
    if changing is None:
        raise ValueError(f"phase {phase_plan.phase.name} has changes, and nothing to make them with")
    return HeldChanges(
        phase_plan.changes,
        changing,
        phase_number=number,
        executor=executor,
        directory=directory,
        observer=observer,
        hosts={host for slots in phase_plan.schedule.components for slot in slots for host in slot.probe.hosts},
    )
