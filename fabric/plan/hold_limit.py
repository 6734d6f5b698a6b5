"""Changes that their phase would hold for longer than a lease allows, or that it would be over before."""

from __future__ import annotations

from fabric.changes.concurrency import span_s
from fabric.model.change import Change, Lease
from fabric.model.text import duration_text
from fabric.plan.plan import PhasePlan


def hold_problems(plan: PhasePlan, lease: Lease) -> list[str]:
    """A text for each kind of change that would be held longer than *max_hold_s* or would begin after its phase."""
    takes_s, phase = plan.schedule.makespan_s, plan.phase.name
    found = []
    for change in plan.changes:
        at_s = change.when.at_s or 0.0
        if at_s > 0.0 and at_s >= takes_s:
            found.append(
                f"{phase} takes about {duration_text(takes_s)}, and {change.kind} is to begin after "
                f"{duration_text(at_s)} (at): it would never be made"
            )
        elif _held_s(change, takes_s) > lease.max_hold_s:
            found.append(_too_long(change, phase, takes_s, lease))
    return list(dict.fromkeys(found))


def _held_s(change: Change, takes_s: float) -> float:
    """How long it is held, all down times of a flap together with those between them; the end of the phase ends it."""
    _, until_s = span_s(change)
    return min(until_s, takes_s) - (change.when.at_s or 0.0)


def _too_long(change: Change, phase: str, takes_s: float, lease: Lease) -> str:
    most = f"{duration_text(lease.max_hold_s)} at most (changes: lease: max_hold of the inventory)"
    if change.lasts_s is not None and change.when.for_s is None:
        from_s, until_s = change.when.at_s or 0.0, span_s(change)[1]
        takes = f"{change.kind} of {phase} takes {duration_text(until_s - from_s)}"
        return (
            f"{takes} from its first closing to its last opening, and a change is held {most}: "
            "make its 'count' or 'period' smaller"
        )
    return (
        f"{phase} takes about {duration_text(takes_s)}, and a change is held {most}: "
        "make it shorter, split it, or give the change a 'for'"
    )
