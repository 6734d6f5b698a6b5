"""Phases that take longer than their changes may be held."""

from __future__ import annotations

from fabric.model.change import Lease
from fabric.model.units import duration_text
from fabric.plan.plan import PhasePlan


def hold_problems(plan: PhasePlan, lease: Lease) -> list[str]:
    """One text when a phase is planned for longer than *max_hold_s* and has a change until its end; else none."""
    takes_s = plan.schedule.makespan_s
    if takes_s <= lease.max_hold_s or all(change.when.for_s is not None for change in plan.changes):
        return []
    return [
        f"{plan.phase.name} takes about {duration_text(takes_s)}, and a change is held "
        f"{duration_text(lease.max_hold_s)} at most (changes: lease: max_hold of the inventory): "
        "make it shorter, split it, or give the change a 'for'"
    ]
