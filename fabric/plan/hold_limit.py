"""Phases that take longer than their changes may be held."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.model.change import Lease
from fabric.model.units import duration_text
from fabric.plan.plan import Plan


def hold_problems(plan: Plan, lease: Lease) -> Iterator[str]:
    """One text for each phase that is planned for longer than *max_hold_s* and has a change until its end."""
    for phase_plan in plan.phases:
        takes_s = phase_plan.schedule.makespan_s
        if takes_s > lease.max_hold_s and any(change.when.for_s is None for change in phase_plan.changes):
            yield (
                f"{phase_plan.phase.name} takes about {duration_text(takes_s)}, and a change is held "
                f"{duration_text(lease.max_hold_s)} at most (changes: lease: max_hold of the inventory): "
                "make it shorter, split it, or give the change a 'for'"
            )
