"""The plan for pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric.model.change import ChangeSettings
from fabric.model.scenario import Scenario
from fabric.plan.plan import Plan
from fabric.report.plan_changes import change_document, settings_document


def plan_document(
    plan: Plan, scenario: Scenario, *, notes: Sequence[str] = (), settings: ChangeSettings | None = None
) -> dict[str, Any]:
    """JSON-able: phases with counts, rounds, expected and least possible duration, changes; seconds."""
    return {
        "scenario": scenario.name,
        "hosts": list(scenario.hosts),
        "notes": list(notes),
        "probes": plan.probes,
        "duration_s": plan.duration_s,
        "lower_bound_s": plan.lower_bound_s,
        "change_limits": None if settings is None else settings_document(settings),
        "phases": [
            {
                "phase": phase.phase.name,
                "needs": list(phase.phase.needs),
                "probes": phase.probes_by_kind,
                "rounds": phase.schedule.rounds,
                "duration_s": phase.schedule.makespan_s,
                "lower_bound_s": phase.schedule.lower_bound_s,
                "busiest_claim": phase.schedule.busiest_claim,
                "notes": list(phase.notes),
                "changes": [change_document(change) for change in phase.changes],
            }
            for phase in plan.phases
        ],
    }
