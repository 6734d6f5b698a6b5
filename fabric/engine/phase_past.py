"""What a phase had done before its run was interrupted: from this it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabric.model.probe import Probe, ProbeResult
from fabric.plan.plan import PhasePlan
from fabric.store.so_far import Round, SoFar


@dataclass(frozen=True, slots=True)
class PhasePast:
    """
    Results that stand, and how often each probe was begun, by id.

    *added* are probes that the plan does not have, *instead* those of them that were planned for one that lost a host
    (which comes first), *rounds* what each follow-up was given.
    """

    results: Mapping[str, ProbeResult] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    added: tuple[Probe, ...] = ()
    instead: tuple[tuple[Probe, Probe], ...] = ()
    rounds: Mapping[str, Round] = field(default_factory=dict)

    def waiting(self, plan: PhasePlan) -> list[Probe]:
        """What is still to be run, in planned order; then what was added."""
        return [probe for probe in (*planned(plan), *self.added) if probe.probe_id not in self.results]

    def is_whole(self, plan: PhasePlan) -> bool:
        """Nothing is left to be run."""
        return not self.waiting(plan)


NEW = PhasePast()
"""Of a phase that was not begun."""


def planned(plan: PhasePlan) -> tuple[Probe, ...]:
    """The probes of a phase's plan."""
    return tuple(slot.probe for slots in plan.schedule.components for slot in slots)


def past_of(plan: PhasePlan, so_far: SoFar) -> PhasePast:
    """
    What this phase had done.

    A phase with a time line (a change that begins or ends on its own time) is one experiment: nothing of it stands
    unless it ended, because what is measured beside another course of changes is another measurement.
    """
    name = plan.phase.name
    own = {probe.probe_id: probe for probe in planned(plan)}
    added = tuple(probe for probe in so_far.added if probe.phase == name)
    known = own | {probe.probe_id: probe for probe in added}
    stands = name in so_far.ended or not has_time_line(plan)
    return PhasePast(
        results={key: result for key, result in so_far.results.items() if key in known} if stands else {},
        attempts={key: count for key, count in so_far.attempts.items() if key in known},
        added=added,
        instead=tuple((known[lost], probe) for lost, probe in so_far.instead if probe.phase == name and lost in known),
        rounds=so_far.rounds.get(name, {}),
    )


def has_time_line(plan: PhasePlan) -> bool:
    """Some change is not simply in force from before the first probe to after the last."""
    return any(change.when.at_s is not None or change.when.for_s is not None for change in plan.changes)
