"""
From claims to a schedule: which probe starts when, so that no two probes ever hold one claim.

Probes that share claims, directly or through others, form a component; components are independent. Within one, list
scheduling: whenever a claim falls free, start the waiting probe whose busiest claim has most work left. Hosts of one
make have the same component up to names, so each shape is scheduled once.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from fabric.model.probe import Probe
from fabric.plan.components import components, shape


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
    for members in components(probes):
        form = shape(members)
        if form not in known:
            known[form] = _list_schedule(members)
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


@dataclass(slots=True)
class _Alike:
    """
    Probes of the same claims and duration, by index: repetitions, say. They are as urgent and exclude each other.

    So only the first that waits can be the next of them, and the work grows with the kinds of probes, not with all.
    """

    claims: tuple[str, ...]
    duration_s: float
    waiting: deque[int]


def _list_schedule(probes: Sequence[Probe]) -> list[tuple[int, float]]:
    """Index and start time of each probe, in order of start."""
    left: dict[str, float] = {}
    for probe in probes:
        for claim in probe.claims:
            left[claim] = left.get(claim, 0.0) + probe.duration_s
    held: set[str] = set()
    parked: dict[str, list[_Alike]] = {}  # by a claim that is held
    running: list[tuple[float, int]] = []
    order: list[tuple[int, float]] = []
    now_s, looked_at = 0.0, _alike(probes)
    while len(order) < len(probes):
        for group in _startable(looked_at, held=held, left=left, parked=parked):
            index = group.waiting.popleft()
            held.update(group.claims)
            heapq.heappush(running, (now_s + group.duration_s, index))
            order.append((index, now_s))
            if group.waiting:
                parked.setdefault(group.claims[0], []).append(group)
        now_s = running[0][0]
        looked_at = []
        while running and running[0][0] <= now_s:
            _, index = heapq.heappop(running)
            held.difference_update(probes[index].claims)
            for claim in probes[index].claims:
                left[claim] -= probes[index].duration_s
                looked_at += parked.pop(claim, ())
    return order


def _alike(probes: Sequence[Probe]) -> list[_Alike]:
    groups: dict[object, _Alike] = {}
    for index, probe in enumerate(probes):
        key: object = (
            (probe.claims, probe.duration_s) if probe.claims else index
        )  # without claims none excludes another
        groups.setdefault(key, _Alike(probe.claims, probe.duration_s, deque())).waiting.append(index)
    return list(groups.values())


def _startable(
    groups: Sequence[_Alike], *, held: set[str], left: dict[str, float], parked: dict[str, list[_Alike]]
) -> list[_Alike]:
    """
    A maximal set of waiting probes whose claims are free, most urgent first, of equal ones the first in order.

    Because it is maximal, all others wait for a claim that is held now; they are *parked* under one such, and need not
    be looked at until it falls free.
    """
    free = []
    for group in groups:
        if held.isdisjoint(group.claims):
            free.append(group)
        else:
            _park(group, held, parked)
    free.sort(key=lambda group: (*_urgency(group.claims, left), group.waiting[0]))
    taken: set[str] = set()
    chosen = []
    for group in free:
        if taken.isdisjoint(group.claims):
            taken.update(group.claims)
            chosen.append(group)
        else:
            _park(group, taken, parked)
    return chosen


def _park(group: _Alike, held: set[str], parked: dict[str, list[_Alike]]) -> None:
    parked.setdefault(next(claim for claim in group.claims if claim in held), []).append(group)


def _urgency(claims: tuple[str, ...], left: dict[str, float]) -> tuple[float, float]:
    """Less for more work left on its busiest claim, then on all its claims: the longest queue is served first."""
    loads = [left[claim] for claim in claims]
    return -max(loads, default=0.0), -sum(loads)
