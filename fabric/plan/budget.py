"""
The most telling part of a plan that fits into a given time.

Unit of choice is a *round*: the probes of a phase that are to start together, so that leaving one out saves its time.
Greedy: always the round that covers most new components per second, until none fits. For covering under a budget,
greedy by gain per cost, taken together with the best single choice, reaches (1 - 1/e) / 2 of the optimum at least
(Leskovec et al., KDD 2007, after Khuller, Moss and Naor, 1999); so the best single round is compared as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from fabric.model.probe import Probe
from fabric.plan.plan import PhasePlan, Plan
from fabric.plan.schedule import schedule

Part = tuple[str, str]
"""A component: its kind and its name, ``("rnic", "gpu001/mlx5_0")``."""

Covers = Callable[[Probe], Iterable[Part]]
"""The components whose fault a probe would show."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """
    The part of a plan that fits, and what the whole would cover and it does not; *dropped* counts probes by phase.

    *covered* and *coverable* count components.
    """

    plan: Plan
    covered: int
    coverable: int
    uncovered: tuple[Part, ...]
    dropped: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Round:
    phase: int
    probes: tuple[Probe, ...]
    takes_s: float
    parts: frozenset[Part]


def within(plan: Plan, budget_s: float, covers: Covers) -> Chosen:
    """
    The rounds to run when there are *budget_s* seconds. Of what fits, all is kept, telling or not.

    A phase's order and needs stay as they are; a phase of which nothing fits has no probes.
    """
    rounds = [part for number, phase in enumerate(plan.phases) for part in _rounds(number, phase, covers)]
    every = frozenset[Part]().union(*(part.parts for part in rounds))
    if plan.duration_s <= budget_s:
        return Chosen(plan, len(every), len(every), (), ())
    taken = _greedy(rounds, budget_s)
    kept = _planned(plan, taken)
    while kept.duration_s > budget_s and taken:  # fewer rounds can, rarely, fit together less well
        taken = taken[:-1]
        kept = _planned(plan, taken)
    covered = frozenset[Part]().union(*(part.parts for part in taken))
    dropped = tuple(
        (before.phase.name, before.schedule.probes - after.schedule.probes)
        for before, after in zip(plan.phases, kept.phases, strict=True)
        if before.schedule.probes > after.schedule.probes
    )
    return Chosen(kept, len(covered), len(every), tuple(sorted(every - covered)), dropped)


def _rounds(number: int, phase_plan: PhasePlan, covers: Covers) -> list[_Round]:
    by_start: dict[float, list[Probe]] = {}
    for component in phase_plan.schedule.components:
        for slot in component:
            by_start.setdefault(slot.start_s, []).append(slot.probe)
    return [
        _Round(
            number,
            tuple(probes),
            max(probe.duration_s for probe in probes),
            frozenset(part for probe in probes for part in covers(probe)),
        )
        for _, probes in sorted(by_start.items())
    ]


def _greedy(rounds: list[_Round], budget_s: float) -> list[_Round]:
    """Rounds in the order in which they were chosen."""
    left_s, waiting = budget_s, [part for part in rounds if part.takes_s <= budget_s]
    single = max(waiting, key=lambda part: len(part.parts), default=None)
    taken: list[_Round] = []
    covered: set[Part] = set()
    while waiting:
        best = max(waiting, key=lambda part: len(part.parts - covered) / max(part.takes_s, 1e-9))
        taken.append(best)
        covered |= best.parts
        left_s -= best.takes_s
        waiting = [part for part in waiting if part is not best and part.takes_s <= left_s]
    return [single] if single is not None and len(single.parts) > len(covered) else taken


def _planned(plan: Plan, taken: list[_Round]) -> Plan:
    """The plan with the probes of these rounds alone, in their old order."""
    kept = {probe.probe_id for part in taken for probe in part.probes}
    phases = []
    for phase_plan in plan.phases:
        probes = [
            slot.probe
            for component in phase_plan.schedule.components
            for slot in component
            if slot.probe.probe_id in kept
        ]
        phases.append(replace(phase_plan, schedule=schedule(probes)))
    return Plan(tuple(phases))
