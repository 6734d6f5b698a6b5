"""
The most telling part of a plan that fits into a given time.

Unit of choice is a *round*: the probes of a phase that are to start together, so that leaving one out saves its time. A
phase with changes is one round: a part of it would alter the fabric and compare nothing. So is what repeats a phase
(``for: 4h``): it measures the same again, and is taken from the second on, in order, when nothing new fits any more.
Greedy: always the round that covers most new components per second, until none fits. For covering under a budget,
greedy by gain per cost, taken together with the best single choice, reaches (1 - 1/e) / 2 of the optimum at least
(Leskovec et al., KDD 2007, after Khuller, Moss and Naor, 1999); so the best single round is compared as well.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    first = _first_rounds(plan)
    rounds = [part for number, one in enumerate(plan.phases) for part in _rounds(number, one, first, covers)]
    every = _covered(rounds)
    shortest_s = min((part.takes_s for part in rounds if not part.again), default=0.0)
    if plan.duration_s <= budget_s:
        asked = tuple(one.phase for one in plan.phases)
        return Chosen(plan, asked, len(every), len(every), (), (), shortest_s)
    taken = _choice(plan, rounds, budget_s)
    kept = _kept(plan, rounds, taken)
    fits = assembled(kept)
    phases = _clocked([one.phase for one in kept], fits, budget_s)
    fits = Plan(tuple(replace(one, phase=phases[one.phase.name]) for one in fits.phases))
    covered = _covered(taken)
    return Chosen(
        plan=fits,
        phases=tuple(phases.values()),
        covered=len(covered),
        coverable=len(every),
        uncovered=tuple(sorted(every - covered)),
        dropped=tuple((_probes(plan) - _probes(fits)).items()),
        shortest_s=shortest_s,
    )


def _first_rounds(plan: Plan) -> dict[str, int]:
    """With which round each repeated phase begins, by its name."""
    first: dict[str, int] = {}
    for one in plan.phases:
        if one.phase.fills is not None:
            first.setdefault(one.phase.fills.name, one.phase.round)
    return first


def _rounds(number: int, phase_plan: PhasePlan, first: Mapping[str, int], covers: Covers) -> list[_Round]:
    fills = phase_plan.phase.fills
    name = "" if fills is None else fills.name
    again = 0 if fills is None else phase_plan.phase.round - first[name]
    found = [
        _Round(
            number,
            (place,),
            max(probe.duration_s for probe in probes),
            frozenset(part for probe in probes for part in covers(probe)),
            name,
            again,
        )
        for place, probes in enumerate(rounds_of(phase_plan.schedule))
    ]
    if not found or not (again or phase_plan.changes):
        return found
    return [_Round(number, tuple(range(len(found))), phase_plan.schedule.makespan_s, _covered(found), name, again)]


def _choice(plan: Plan, rounds: Sequence[_Round], budget_s: float) -> list[_Round]:
    """Rounds in the order in which they were chosen. They overlap, so that together they leave time for more."""
    taken = _greedy(rounds, budget_s)
    new = [part for part in rounds if not part.again and part.takes_s <= budget_s]
    single = max(new, key=lambda part: len(part.parts), default=None)
    if single is not None and len(single.parts) > len(_covered(taken)):
        taken = [single]
    taken = _trimmed(plan, rounds, taken, budget_s)
    for _ in range(_TIMES):
        spare_s = budget_s - assembled(_kept(plan, rounds, taken)).duration_s
        more = _trimmed(plan, rounds, [*taken, *_greedy(rounds, spare_s, taken)], budget_s)
        if len(more) == len(taken):
            break
        taken = more
    return taken


def _trimmed(plan: Plan, rounds: Sequence[_Round], taken: list[_Round], budget_s: float) -> list[_Round]:
    """Without the last ones that do not fit: fewer rounds can, rarely, fit together less well."""
    while taken and assembled(_kept(plan, rounds, taken)).duration_s > budget_s:
        taken = taken[:-1]
    return taken


def _greedy(rounds: Sequence[_Round], left_s: float, taken: Sequence[_Round] = ()) -> list[_Round]:
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

    have = {(part.phase, part.numbers) for part in taken}
    waiting = [waits(number) for number, part in enumerate(rounds) if (part.phase, part.numbers) not in have]
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
    numbers: dict[int, list[int]] = {}
    for part in taken:
        numbers.setdefault(part.phase, []).extend(part.numbers)
    counts: Counter[int] = Counter()
    for part in rounds:
        counts[part.phase] += len(part.numbers)
    made = []
    for place, whole in enumerate(plan.phases):
        some = tuple(sorted(numbers.get(place, ())))
        made.append(replace(whole, phase=replace(whole.phase, kept=None if len(some) == counts[place] else some)))
    return made


def _clocked(phases: Sequence[Phase], plan: Plan, budget_s: float) -> dict[str, Phase]:
    """
    By name, with less time for phases that fill one and were cut: what is planned of them, and their part of the spare.

    A round of which nothing is kept fills no time: nobody waits for it, and nobody misses it.
    """
    spare = budget_s / plan.duration_s if plan.duration_s > 0.0 else 1.0
    cut = {phase.fills.name for phase in phases if phase.fills is not None and phase.kept is not None}
    planned_s: dict[str, float] = {}
    for one in plan.phases:
        if one.phase.fills is not None:
            name = one.phase.fills.name
            planned_s[name] = planned_s.get(name, 0.0) + one.schedule.makespan_s
    made = {}
    for phase in phases:
        fills = None if phase.kept == () else phase.fills
        if fills is not None and fills.name in cut:
            fills = replace(fills, within_s=min(fills.within_s, spare * planned_s[fills.name]))
        made[phase.name] = replace(phase, fills=fills)
    return made


def _probes(plan: Plan) -> Counter[str]:
    """How many each written phase has."""
    found: Counter[str] = Counter()
    for one in plan.phases:
        found[written(one.phase)] += one.schedule.probes
    return found
