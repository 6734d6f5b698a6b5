"""
List scheduling of one component: whenever a claim falls free, the most urgent probes that can start do.

Most urgent is who has most work left on its busiest claim, then on all its claims: the longest queue is served first;
of equal ones the first in order. Of the pair tests of a fleet thousands may start at one instant: those are sorted as
arrays, and who has to wait is looked at again only when a claim falls free that it waits for.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from fabric.model.probe import Probe

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
    Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]

_FEW = 300
"""So many probes are planned without numpy, which takes longer to load than that (a choice)."""

_FREE = -1.0
"""Until when a claim is held that nobody holds."""

_LEAST_AT_ONCE = 64
"""So many of the most urgent are compared before the rest is looked at again (a choice)."""

_NOBODY = -1
"""The first that waits of a group of which none waits any more."""


@dataclass(frozen=True, slots=True)
class Alike:
    """
    Probes of the same claims and duration, by index: repetitions, say. They are as urgent and exclude each other.

    So only the first that waits can be the next of them, and the work grows with the kinds of probes, not with all.
    Claims are numbers.
    """

    claims: list[int]
    duration_s: float
    waiting: deque[int]


def list_schedule(probes: Sequence[Probe]) -> list[tuple[int, float]]:
    """Index and start time (seconds) of each probe, in order of start."""
    groups, left_s = grouped(probes)
    return started(groups, Few(groups, left_s) if len(probes) <= _FEW else Many(groups, left_s))


def started(groups: Sequence[Alike], waiting: Few | Many) -> list[tuple[int, float]]:
    """The same of these groups; *waiting* tells which of them may start."""
    running: list[tuple[float, int, Alike]] = []
    order: list[tuple[int, float]] = []
    held: set[int] = set()
    now_s, probes = 0.0, sum(len(group.waiting) for group in groups)
    while len(order) < probes:
        for number in waiting.candidates():
            group = groups[number]
            if held.isdisjoint(group.claims):
                index = group.waiting.popleft()
                held.update(group.claims)
                waiting.hold(group.claims, now_s + group.duration_s)
                heapq.heappush(running, (now_s + group.duration_s, index, group))
                order.append((index, now_s))
        now_s = running[0][0]
        while running and running[0][0] <= now_s:
            _, _, ended = heapq.heappop(running)
            held.difference_update(ended.claims)
            waiting.release(ended.claims, ended.duration_s)
    return order


def grouped(probes: Sequence[Probe]) -> tuple[list[Alike], list[float]]:
    """The probes by what they claim and how long they take, and the work of each claim (seconds)."""
    numbers: dict[str, int] = {}
    left_s: list[float] = []
    groups: dict[object, Alike] = {}
    for index, probe in enumerate(probes):
        # Without claims none excludes another.
        key: object = (probe.claims, probe.duration_s) if probe.claims else index
        group = groups.get(key)
        if group is None:
            claims = [numbers.setdefault(claim, len(numbers)) for claim in probe.claims]
            group = groups[key] = Alike(claims, probe.duration_s, deque())
            left_s += [0.0] * (len(numbers) - len(left_s))
        group.waiting.append(index)
        for claim in group.claims:
            left_s[claim] += probe.duration_s
    return list(groups.values()), left_s


class Few:
    """Groups that wait, all of them looked at every time."""

    def __init__(self, groups: Sequence[Alike], left_s: list[float]) -> None:
        self._groups, self._left_s = groups, left_s

    def candidates(self) -> Iterator[int]:
        """The numbers of all that wait, the most urgent first."""
        found = []
        for number, group in enumerate(self._groups):
            if group.waiting:
                loads = [self._left_s[claim] for claim in group.claims]
                found.append((-max(loads, default=0.0), -reduce(add, loads, 0.0), group.waiting[0], number))
        return (number for *_, number in sorted(found))

    def hold(self, claims: Sequence[int], until_s: float) -> None:
        """They are held from now on; here nobody has to know."""

    def release(self, claims: Sequence[int], work_s: float) -> None:
        """They are free again, and so much of their work is done."""
        for claim in claims:
            self._left_s[claim] -= work_s


class Many:
    """
    The same as arrays. Who has to wait is parked under a claim that is held, and looked at when that falls free.

    That is the one that is held longest, so that who waits for hours is not looked at every time a short test ends. The
    claim *nobody* fills up short columns, and is where those are parked of whom none waits any more. *looked_at* counts
    how often a group was looked at.
    """

    def __init__(self, groups: Sequence[Alike], left_s: Sequence[float]) -> None:
        import numpy as np

        self.looked_at = 0
        self._np, self._groups, self._nobody = np, groups, len(left_s)
        widths = np.array([len(group.claims) for group in groups], dtype=np.int64)
        self._claims = np.full((widths.max(initial=0) + 1, len(groups)), self._nobody, dtype=np.int64)
        for number, group in enumerate(groups):
            self._claims[: len(group.claims), number] = group.claims
        self._widths = widths
        self._first = np.array([group.waiting[0] for group in groups], dtype=np.int64)
        self._parked = np.full(len(groups), self._nobody, dtype=np.int64)
        self._until_s = np.full(self._nobody + 1, _FREE)
        self._left_s = np.array([*left_s, 0.0])
        self._best = np.empty(self._nobody + 1, dtype=np.int64)  # the place of the most urgent at each claim
        self._freed = np.ones(self._nobody + 1, dtype=np.bool_)

    def candidates(self) -> Iterator[int]:
        """
        The numbers of those who start, the most urgent first.

        These take most claims: who is behind them is parked without being compared.
        """
        waits = self._by_urgency(self._free(self._np.flatnonzero(self._freed[self._parked])))
        self._freed[:] = False
        while len(waits):
            urgent, waits = self._np.split(waits, [max(_LEAST_AT_ONCE, len(waits) // 8)])
            for number in urgent[self._starting(urgent)].tolist():
                yield number
                self._first[number], *_ = self._groups[number].waiting or (_NOBODY,)
            self._free(urgent)
            self._parked[urgent[self._first[urgent] == _NOBODY]] = self._nobody
            waits = self._free(waits)

    def _starting(self, urgent: Numbers) -> Bools:
        """
        Which of these start if each is looked at in turn; their claims are held.

        Who is the most urgent at each of its claims starts whatever the others do, so all such start at once; then
        those among the rest who are left without a rival, until nobody is.
        """
        np = self._np
        places, claims = np.arange(len(urgent)), self._claims_of(urgent)
        starts: Bools = np.zeros(len(urgent), dtype=np.bool_)
        while len(places):
            self._best[claims] = len(urgent)
            np.minimum.at(self._best, claims.ravel(), np.tile(places, len(claims)))
            alone = ((self._best[claims] == places) | (claims == self._nobody)).all(axis=0)
            starts[places[alone]] = True
            self._until_s[claims[:, alone]] = np.inf
            self._until_s[self._nobody] = _FREE
            left = (self._until_s[claims] <= _FREE).all(axis=0) & ~alone
            places, claims = places[left], claims[:, left]
        return starts

    def hold(self, claims: Sequence[int], until_s: float) -> None:
        """They are held from now on; until when decides where others are parked."""
        for claim in claims:  # one by one: of few numbers arrays are slower
            self._until_s[claim] = until_s

    def release(self, claims: Sequence[int], work_s: float) -> None:
        """They are free again, so much of their work is done, and who is parked under them is looked at next time."""
        for claim in claims:
            self._until_s[claim], self._freed[claim] = _FREE, True
            self._left_s[claim] -= work_s

    def _free(self, groups: Numbers) -> Numbers:
        """Those of whom no claim is held, in their order; the others are parked."""
        self.looked_at += len(groups)
        claims = self._claims_of(groups)
        until_s = self._until_s[claims]
        held: Bools = until_s.max(axis=0, initial=_FREE) > _FREE
        longest = until_s[:, held].argmax(axis=0)
        self._parked[groups[held]] = claims[:, held][longest, self._np.arange(len(longest))]
        free: Numbers = groups[~held]
        return free

    def _by_urgency(self, groups: Numbers) -> Numbers:
        """Sorted. Work is added up claim by claim: equal sums are equal to the last bit only in one order."""
        loads = self._left_s[self._claims_of(groups)]
        total = reduce(add, loads, self._np.zeros(len(groups)))
        return groups[self._np.lexsort((self._first[groups], -total, -loads.max(axis=0, initial=0.0)))]

    def _claims_of(self, groups: Numbers) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """A column for each of these, no longer than the longest needs: pair tests claim little, collectives a lot."""
        return self._claims[: self._widths[groups].max(initial=0) + 1].take(groups, axis=1)
