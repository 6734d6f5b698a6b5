"""Changes that their phase would hold for longer than a lease allows, or that it would be over before."""

from __future__ import annotations

from fabric.changes.concurrency import span_s
from fabric.model.change import Change, Lease
from fabric.model.text import duration_text
from fabric.plan.plan import PhasePlan
from fabric.probes.collective import START_S
from fabric.probes.multi_host import start_s

SURE_START = 1 / 3
"""
As much of the planned start of a collective may be relied on (a choice: the plan's is on the slow side, and launching
that takes 16 s in the plan takes 5 to 10 s where nothing is slow).
"""


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


def may_come_too_late(plan: PhasePlan) -> dict[str, str]:
    """
    A text for each kind of change whose time is within the plan and after the phase may be over, by the kind.

    A plan's time is an upper one: programs may start faster than it allows for, and then the change is never made.
    """
    takes_s = plan.schedule.makespan_s
    if not plan.changes:
        return {}
    over_s = takes_s * (1.0 - (1.0 - SURE_START) * _start_share(plan))
    found = {}
    for change in plan.changes:
        at_s = change.when.at_s or 0.0
        if 0.0 < over_s <= at_s < takes_s:
            found[change.kind] = (
                f"{plan.phase.written} is planned with {duration_text(takes_s)}, and may be over after "
                f"{duration_text(over_s)} where programs start fast: {change.kind} is to begin after "
                f"{duration_text(at_s)} (at) and may never be made: let it begin earlier, or let the probes last longer"
            )
    return found


def _start_share(plan: PhasePlan) -> float:
    """Which share of the planned work is the start of collectives; perftest's own is seconds of traffic."""
    work_s = sum(probe.duration_s for probe in plan.planned)
    starting_s = sum(
        min(probe.duration_s, START_S if len(probe.hosts) == 1 else start_s(len(probe.hosts)))
        for probe in plan.planned
        if "iterations" in probe.params
    )
    return starting_s / work_s if work_s > 0.0 else 0.0


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
