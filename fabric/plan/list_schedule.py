"""
List scheduling of one component: whenever a claim falls free, the most urgent probes that can start do.

Most urgent is who has most work left on its busiest claim, then on all its claims: the longest queue is served first;
of equal ones the first in order. Whoever may start at one instant is looked at together, as arrays: of the pair tests
of a fleet these are thousands at a time. Who is the most urgent at each of its claims starts whatever the others do, so
all such start at once; then those among the rest who are left without a rival, until nobody is.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from fabric.model.probe import Probe

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
    Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]
    Seconds = np.ndarray[tuple[int], np.dtype[np.float64]]

_FEW = 300
"""So many probes are planned without numpy, which takes longer to load than that (a choice)."""

_FREE = -1.0
"""Until when a claim is held that nobody holds."""

_LEAST_AT_ONCE = 64
"""So many of the most urgent are compared before the rest is looked at again (a choice)."""

_NOBODY = -1
"""The place of who is the most urgent at no claim."""


@dataclass(frozen=True, slots=True)
class _Alike:
    """
    Probes of the same claims and duration, by index: repetitions, say. They are as urgent and exclude each other.

    So only the first that waits can be the next of them, and the work grows with the kinds of probes, not with all.
    """

    claims: list[int]
    duration_s: float
    waiting: deque[int]


@dataclass(frozen=True, slots=True)
class _Board:
    """
    Where all groups stand, by their numbers; claims are numbers too. The claim *nobody* fills up short rows.

    *claims*: a column a group, and *widths*: how many there are in it. *lasts_s*: its duration. *first*: its first
    probe that waits. *parked*: a claim that was held when the group was last looked at, until that falls free it cannot
    start: the one that is held longest, so that who waits for hours is not looked at every time a short test ends;
    ``nobody`` when none of its probes waits any more. *held_until_s* (in the past: it is free) and *left_s* (work) are
    by claim.
    """

    nobody: int
    claims: Table
    widths: Numbers
    lasts_s: Seconds
    first: Numbers
    parked: Numbers
    held_until_s: Seconds
    left_s: Seconds

    def claims_of(self, groups: Numbers) -> Table:
        """A column for each of these, no longer than the longest needs: pair tests claim little, collectives a lot."""
        claims: Table = self.claims[: self.widths[groups].max(initial=0) + 1].take(groups, axis=1)
        return claims


def list_schedule(probes: Sequence[Probe]) -> list[tuple[int, float]]:
    """Index and start time (seconds) of each probe, in order of start."""
    return _one_by_one(probes) if len(probes) <= _FEW else _together(probes)


def _one_by_one(probes: Sequence[Probe]) -> list[tuple[int, float]]:
    """Every probe that waits is looked at every time."""
    left: dict[str, float] = {}
    for probe in probes:
        for claim in probe.claims:
            left[claim] = left.get(claim, 0.0) + probe.duration_s
    waiting, running, order, now_s = list(range(len(probes))), list[tuple[float, int]](), list[tuple[int, float]](), 0.0
    held: set[str] = set()
    while waiting:
        free = [index for index in waiting if held.isdisjoint(probes[index].claims)]
        loads = {index: [left[claim] for claim in probes[index].claims] for index in free}
        for index in sorted(free, key=lambda one: (-max(loads[one], default=0.0), -reduce(add, loads[one], 0.0))):
            if held.isdisjoint(probes[index].claims):
                held.update(probes[index].claims)
                heapq.heappush(running, (now_s + probes[index].duration_s, index))
                order.append((index, now_s))
        started = {index for _, index in running}
        waiting = [index for index in waiting if index not in started]
        now_s = running[0][0]
        while running and running[0][0] <= now_s:
            ended = probes[heapq.heappop(running)[1]]
            held.difference_update(ended.claims)
            for claim in ended.claims:
                left[claim] -= ended.duration_s
    return order


def _together(probes: Sequence[Probe]) -> list[tuple[int, float]]:
    """Those that may start at one instant are looked at together, as arrays."""
    import numpy as np

    groups, left = _grouped(probes)
    board = _board(groups, left)
    running: list[tuple[float, int, int]] = []
    order: list[tuple[int, float]] = []
    now_s, looked_at = 0.0, np.arange(len(groups))
    while len(order) < len(probes):
        for number in _startable(board, looked_at, now_s).tolist():
            group = groups[number]
            index = group.waiting.popleft()
            heapq.heappush(running, (now_s + group.duration_s, index, number))
            order.append((index, now_s))
            if group.waiting:
                board.first[number], board.parked[number] = group.waiting[0], group.claims[0]
            else:
                board.parked[number] = board.nobody
        now_s = running[0][0]
        fallen = np.zeros(board.nobody + 1, dtype=np.bool_)
        while running and running[0][0] <= now_s:
            _, _, number = heapq.heappop(running)
            for claim in groups[number].claims:
                board.held_until_s[claim], fallen[claim] = _FREE, True
                board.left_s[claim] -= groups[number].duration_s
        looked_at = np.flatnonzero(fallen[board.parked])
    return order


def _grouped(probes: Sequence[Probe]) -> tuple[list[_Alike], list[float]]:
    """The probes by what they claim and how long they take, and the work of each claim (seconds)."""
    numbers: dict[str, int] = {}
    left: list[float] = []
    groups: dict[object, _Alike] = {}
    for index, probe in enumerate(probes):
        # Without claims none excludes another.
        key: object = (probe.claims, probe.duration_s) if probe.claims else index
        group = groups.get(key)
        if group is None:
            claims = [numbers.setdefault(claim, len(numbers)) for claim in probe.claims]
            group = groups[key] = _Alike(claims, probe.duration_s, deque())
            left += [0.0] * (len(numbers) - len(left))
        group.waiting.append(index)
        for claim in group.claims:
            left[claim] += probe.duration_s
    return list(groups.values()), left


def _board(groups: Sequence[_Alike], left: Sequence[float]) -> _Board:
    import numpy as np

    nobody = len(left)
    widths = np.array([len(group.claims) for group in groups], dtype=np.int64)
    claims = np.full((widths.max(initial=0) + 1, len(groups)), nobody, dtype=np.int64)
    places = np.arange(widths.sum()) - np.repeat(widths.cumsum() - widths, widths)
    claims[places, np.repeat(np.arange(len(groups)), widths)] = [claim for group in groups for claim in group.claims]
    return _Board(
        nobody=nobody,
        claims=claims,
        widths=widths,
        lasts_s=np.array([group.duration_s for group in groups]),
        first=np.array([group.waiting[0] for group in groups], dtype=np.int64),
        parked=np.full(len(groups), nobody, dtype=np.int64),
        held_until_s=np.full(nobody + 1, _FREE),
        left_s=np.array([*left, 0.0]),
    )


def _startable(board: _Board, looked_at: Numbers, now_s: float) -> Numbers:
    """
    A maximal set of these groups whose claims are free, most urgent first; their claims are *held* from now on.

    It is the set of who would start if each were looked at in turn. Because it is maximal, all others wait for a claim
    that is held now; they are parked under one such.
    """
    import numpy as np

    free = waits = _by_urgency(board, _free(board, looked_at))  # what is taken makes nobody more urgent
    most_urgent = np.empty(board.nobody + 1, dtype=np.int64)
    place = np.empty(len(board.first), dtype=np.int64)
    place[free] = np.arange(len(free))
    starts = np.zeros(len(free), dtype=np.bool_)
    while len(waits):  # the most urgent take most claims: who is behind them is parked without being compared
        urgent, waits = np.split(waits, [max(_LEAST_AT_ONCE, len(waits) // 8)])
        places, claims = place[urgent], board.claims_of(urgent)
        while len(places):
            most_urgent[claims] = len(free)
            np.minimum.at(most_urgent, claims.ravel(), np.tile(places, len(claims)))
            most_urgent[board.nobody] = _NOBODY
            at_most = most_urgent[claims]
            unrivalled = ((at_most == places) | (at_most == _NOBODY)).all(axis=0)
            start = places[unrivalled]
            starts[start] = True
            board.held_until_s[claims[:, unrivalled]] = now_s + board.lasts_s[free[start]]
            board.held_until_s[board.nobody] = _FREE
            left = (board.held_until_s[claims] <= _FREE).all(axis=0) & ~unrivalled
            places, claims = places[left], claims[:, left]
        _free(board, urgent[~starts[place[urgent]]])
        waits = _free(board, waits)
    return free[starts]


def _free(board: _Board, groups: Numbers) -> Numbers:
    """Those of whom no claim is held, in their order; the others are parked."""
    import numpy as np

    claims = board.claims_of(groups)
    held_until_s = board.held_until_s[claims]
    longest, columns = held_until_s.argmax(axis=0), np.arange(len(groups))
    held: np.ndarray[tuple[int], np.dtype[np.bool_]] = held_until_s[longest, columns] > _FREE
    board.parked[groups[held]] = claims[longest[held], columns[held]]
    return groups[~held]


def _by_urgency(board: _Board, groups: Numbers) -> Numbers:
    """In order of urgency. Work is added up claim by claim: equal sums are equal to the last bit only in one order."""
    import numpy as np

    loads = board.left_s[board.claims_of(groups)]
    total = np.zeros(len(groups))
    for row in loads:
        total += row
    return groups[np.lexsort((board.first[groups], -total, -loads.max(axis=0, initial=0.0)))]
