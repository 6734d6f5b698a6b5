"""
The most telling part of a plan that fits into a given time.

Unit of choice is a *round*: the probes of a phase that are to start together, so that leaving one out saves its time. A
phase with changes is one round: a part of it would alter the fabric and compare nothing. So is what repeats a phase
(``for: 4h``): it measures the same again, and is taken from the second on, in order, when nothing new fits any more.

The rule: always the round that covers most new components per second of those that still fit, until none does.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.plan.plan import PhasePlan, Plan, assembled, rounds_of, written

Part = tuple[str, str]
"""A component: its kind and its name, ``("rnic", "gpu001/mlx5_0")``."""

Covers = Callable[[Probe], Iterable[Part]]
"""The components whose fault a probe would show."""

_TIMES = 8
"""So often it is looked what fits into the time that is left (a choice: each time less is)."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """
    The part of a plan that fits, and what the whole would cover and it does not; *dropped* counts probes by phase.

    *phases* are those of the scenario with what is ``kept`` of each: planned again, they are *plan*. *covered* and
    *coverable* count components. *shortest_s*: no budget below it (seconds) leaves anything; 0 of an empty plan.
    """

    plan: Plan
    phases: tuple[Phase, ...]
    covered: int
    coverable: int
    uncovered: tuple[Part, ...]
    dropped: tuple[tuple[str, int], ...]
    shortest_s: float


@dataclass(frozen=True, slots=True)
class _Round:
    """
    One choice: its phase by number, and which rounds of that it is.

    *again*: how many rounds of the repeated phase, which is called *fills*, are before it.
    """

    phase: int
    numbers: tuple[int, ...]
    takes_s: float
    parts: frozenset[Part]
    fills: str
    again: int


def within(plan: Plan, budget_s: float, covers: Covers) -> Chosen:
    """
    The rounds to run when there are *budget_s* seconds. Of what fits, all is kept, telling or not.

    A phase's order and needs stay as they are; a phase of which nothing fits has no probes. *plan* is a whole one: of
    its phases none has a ``kept``.
    """
    rounds = _rounds(plan, covers)
    fits, taken, phases = plan, rounds, tuple(one.phase for one in plan.phases)
    if plan.duration_s > budget_s:
        taken = _choice(plan, rounds, budget_s)
        kept = _kept(plan, rounds, taken)
        phases = _clocked(kept)
        fits = assembled([replace(one, phase=phase) for one, phase in zip(kept, phases, strict=True)])
    every, covered = _covered(rounds), _covered(taken)
    return Chosen(
        plan=fits,
        phases=phases,
        covered=len(covered),
        coverable=len(every),
        uncovered=tuple(sorted(every - covered)),
        dropped=tuple((_probes(plan) - _probes(fits)).items()),
        shortest_s=min((part.takes_s for part in rounds if not part.again), default=0.0),
    )


def _rounds(plan: Plan, covers: Covers) -> list[_Round]:
    first: dict[str, int] = {}
    found: list[_Round] = []
    for number, one in enumerate(plan.phases):
        fills = one.phase.fills.name if one.phase.fills is not None else ""
        again = one.phase.round - first.setdefault(fills, one.phase.round) if fills else 0
        made = [
            _Round(
                number,
                (place,),
                max(probe.duration_s for probe in probes),
                frozenset(part for probe in probes for part in covers(probe)),
                fills,
                again,
            )
            for place, probes in enumerate(rounds_of(one.schedule))
        ]
        if made and (again or one.changes):
            takes_s, places = one.schedule.makespan_s, tuple(range(len(made)))
            made = [_Round(number, places, takes_s, _covered(made), fills, again)]
        found += made
    return found


def _choice(plan: Plan, rounds: Sequence[_Round], budget_s: float) -> list[_Round]:
    """Rounds in the order in which they were chosen. They overlap, so that together they leave time for more."""
    taken: list[_Round] = []
    takes_s = 0.0
    for _ in range(_TIMES):
        more = _greedy(rounds, budget_s - takes_s, taken)
        while more and (takes_s := assembled(_kept(plan, rounds, [*taken, *more])).duration_s) > budget_s:
            more.pop()  # fewer rounds can, rarely, fit together less well
        if not more:
            break
        taken += more
    return taken


def _greedy(rounds: Sequence[_Round], left_s: float, taken: Sequence[_Round]) -> list[_Round]:
    """
    What to take besides what is *taken*, in the order in which it was chosen; of equal rounds the first.

    What a round adds only ever shrinks, so it is counted again only where it would be the next.
    """
    chosen: list[_Round] = []
    covered = set(_covered(taken))
    ended: set[str] = set()  # repeated phases of which no more fits

    def waits(number: int) -> tuple[float, int, int]:
        part = rounds[number]
        gain = 0 if part.again else len(part.parts - covered)
        return -gain / max(part.takes_s, 1e-9), part.again, number

    waiting = [waits(number) for number, part in enumerate(rounds) if part not in taken]
    heapq.heapify(waiting)
    while waiting:
        place = heapq.heappop(waiting)
        part = rounds[place[-1]]
        if part.takes_s > left_s or (part.again and part.fills in ended):
            ended.add(part.fills)
        elif waits(place[-1]) != place:
            heapq.heappush(waiting, waits(place[-1]))
        else:
            chosen.append(part)
            covered |= part.parts
            left_s -= part.takes_s
    return chosen


def _covered(rounds: Iterable[_Round]) -> frozenset[Part]:
    return frozenset[Part]().union(*(part.parts for part in rounds))


def _kept(plan: Plan, rounds: Sequence[_Round], taken: Sequence[_Round]) -> list[PhasePlan]:
    """The phases as they are planned as a whole, with the numbers of the rounds that are taken; None for all."""
    numbers: list[list[int]] = [[] for _ in plan.phases]
    counts = [0 for _ in plan.phases]
    for part in taken:
        numbers[part.phase] += part.numbers
    for part in rounds:
        counts[part.phase] += len(part.numbers)
    some = (None if len(one) == count else tuple(sorted(one)) for one, count in zip(numbers, counts, strict=True))
    return [replace(one, phase=replace(one.phase, kept=kept)) for one, kept in zip(plan.phases, some, strict=True)]


def _clocked(kept: Sequence[PhasePlan]) -> tuple[Phase, ...]:
    """
    Their phases, where those that fill a time and were cut have less of it: what is planned of them.

    A round of which nothing is kept fills no time: nobody waits for it, and nobody misses it.
    """
    planned_s: dict[str, float] = {}
    for one in assembled(kept).phases:
        if one.phase.fills is not None:
            name = one.phase.fills.name
            planned_s[name] = planned_s.get(name, 0.0) + one.schedule.makespan_s
    cut = {one.phase.fills.name for one in kept if one.phase.fills is not None and one.phase.kept is not None}
    made = []
    for phase in (one.phase for one in kept):
        fills = None if phase.kept == () else phase.fills
        if fills is not None and fills.name in cut:
            fills = replace(fills, within_s=min(fills.within_s, planned_s[fills.name]))
        made.append(replace(phase, fills=fills))
    return tuple(made)


def _probes(plan: Plan) -> Counter[str]:
    """How many each written phase has."""
    found: Counter[str] = Counter()
    for one in plan.phases:
        found[written(one.phase)] += one.schedule.probes
    return found
