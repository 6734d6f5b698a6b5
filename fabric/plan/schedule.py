"""
From claims to a schedule: which probe starts when, so that no two probes ever hold one claim.

Probes that share claims, directly or through others, form a component; components are independent, and each is
scheduled by itself (``list_schedule.py``). Hosts of one make have the same component up to names, so each shape is
scheduled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabric.model.probe import Probe
from fabric.plan.list_schedule import list_schedule


@dataclass(frozen=True, slots=True)
class Slot:
    """One probe in the schedule and when it is expected to start, seconds from the start of its phase."""

    probe: Probe
    start_s: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """
    A phase's probes in order of start, grouped by component.

    *lower_bound_s* is the busiest claim's own work: no schedule can be shorter. *rounds* is the largest number of
    different start times in one component.
    """

    components: tuple[tuple[Slot, ...], ...]
    makespan_s: float
    lower_bound_s: float
    busiest_claim: str
    rounds: int

    @property
    def probes(self) -> int:
        """How many probes are planned."""
        return sum(len(component) for component in self.components)


def schedule(probes: Sequence[Probe]) -> Schedule:
    """Plan one phase. The result depends on the probes' order, claims and durations only."""
    known: dict[object, list[tuple[int, float]]] = {}
    planned: list[tuple[Slot, ...]] = []
    makespan_s, rounds = 0.0, 0
    parts = components(probes)
    for members in parts:
        form = shape(members) if len(parts) > 1 else None
        if form not in known:
            known[form] = list_schedule(members)
        slots = tuple(Slot(members[index], start_s) for index, start_s in known[form])
        makespan_s = max(makespan_s, max(slot.start_s + slot.probe.duration_s for slot in slots))
        rounds = max(rounds, len({slot.start_s for slot in slots}))
        planned.append(slots)
    bound_s, claim = busiest_claim(probes)
    return Schedule(tuple(planned), makespan_s, bound_s, claim, rounds)


def busiest_claim(probes: Sequence[Probe]) -> tuple[float, str]:
    """The most work that one claim has to carry (seconds), and which claim that is; (0, "") without claims."""
    work: dict[str, float] = {}
    for probe in probes:
        for claim in probe.claims:
            work[claim] = work.get(claim, 0.0) + probe.duration_s
    if not work:
        return max((probe.duration_s for probe in probes), default=0.0), ""
    claim = max(work, key=lambda name: work[name])
    return work[claim], claim


def components(probes: Sequence[Probe]) -> list[list[Probe]]:
    """Groups of probes connected by shared claims, in order of their first probe; the order within is kept."""
    parent: dict[str, str] = {}

    def root(claim: str) -> str:
        while parent[claim] != claim:
            parent[claim] = parent[parent[claim]]
            claim = parent[claim]
        return claim

    for probe in probes:
        first: str | None = None
        for claim in probe.claims:
            if claim not in parent:
                parent[claim] = claim
            if first is None:
                first = root(claim)
            else:
                parent[root(claim)] = first
    groups: dict[str, list[Probe]] = {}
    for probe in probes:
        # A probe without claims disturbs nobody: it is a component of its own.
        key = root(probe.claims[0]) if probe.claims else f"\0{probe.probe_id}"
        groups.setdefault(key, []).append(probe)
    return list(groups.values())


def shape(probes: Sequence[Probe]) -> object:
    """What a component's schedule depends on: durations, and claims by order of first appearance; not their names."""
    numbers: dict[str, int] = {}
    form = []
    for probe in probes:
        form.append(probe.duration_s)
        form.extend([numbers.setdefault(claim, len(numbers)) for claim in probe.claims])
        form.append(-1)
    return tuple(form)
