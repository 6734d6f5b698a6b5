"""Runs a whole plan, phase by phase, through the gate between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fabric.engine.host_health import HostHealth
from fabric.engine.phase import Observer, PhaseRun
from fabric.model.probe import ProbeResult
from fabric.model.topology import Topology
from fabric.plan.plan import PhasePlan, Plan
from fabric.ports import Executor
from fabric.store.run_directory import RunDirectory

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
) -> list[ProbeResult]:
    """
    Every probe's result, in order of finishing.

    A phase runs only for hosts that passed every phase it needs; the others are SKIPPED and the result says why.
    """
    needed = {name for phase_plan in plan.phases for name in phase_plan.phase.needs}
    failed: dict[str, Mapping[str, str]] = {}
    health = HostHealth()
    results: list[ProbeResult] = []
    for phase_plan in plan.phases:
        phase = phase_plan.phase
        excluded = {
            host: f"did not pass {name}: {why}" for name in phase.needs for host, why in failed.get(name, {}).items()
        }
        directory.events.append(
            "phase_started",
            executor.now(),
            {"phase": phase.name, "probes": phase_plan.schedule.probes, "excluded": excluded},
        )
        observer.phase_started(phase_plan)
        phase_results = PhaseRun(
            phase_plan,
            topology=topology,
            executor=executor,
            directory=directory,
            observer=observer,
            health=health,
            excluded=excluded,
        ).run()
        results.extend(phase_results)
        if phase.name in needed:
            failed[phase.name] = gate(phase_plan, phase_results)
        directory.events.append("phase_ended", executor.now(), {"phase": phase.name})
        directory.flush()
    return results
