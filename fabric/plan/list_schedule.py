"""
List scheduling of one component: whenever a claim falls free, the most urgent probes that can start do.

Most urgent is who has most work left on its busiest claim, then on all its claims: the longest queue is served first;
of equal ones the first in order. Whoever may start at one instant is looked at together, as arrays: of the pair tests
of a fleet these are thousands at a time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric.model.probe import Probe

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

_LEAST_AT_ONCE = 64
"""So many are looked at one by one before the rest is looked at again together (a choice)."""


_FREE = -1.0
"""Until when a claim is held that nobody holds."""


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

    *claims*: a row a group, and *widths*: how many there are in it. *first*: its first probe that waits. *parked*: a
    claim that was held when the group was last looked at, until that falls free it cannot start: the one that is held
    longest, so that who waits for hours is not looked at every time a short test ends; ``nobody`` when none of its
    probes waits any more. *held_until_s* (in the past: it is free) and *left_s* (work) are by claim.
    """

    nobody: int
    claims: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    widths: Numbers
    first: Numbers
    parked: Numbers
    held_until_s: np.ndarray[tuple[int], np.dtype[np.float64]]
    left_s: np.ndarray[tuple[int], np.dtype[np.float64]]

    def claims_of(self, groups: Numbers) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """A row for each of these, no longer than the longest needs: pair tests claim little, collectives a lot."""
        return self.claims[groups, : self.widths[groups].max(initial=0) + 1]


def list_schedule(probes: Sequence[Probe]) -> list[tuple[int, float]]:
    """Index and start time (seconds) of each probe, in order of start."""
    import numpy as np

    groups, left = _grouped(probes)
    board = _board(groups, left)
    running: list[tuple[float, int, int]] = []
    order: list[tuple[int, float]] = []
    now_s, looked_at = 0.0, np.arange(len(groups))
    while len(order) < len(probes):
        for number in _startable(board, groups, looked_at, now_s):
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
    most = max((len(group.claims) for group in groups), default=0)
    return _Board(
        nobody=nobody,
        claims=np.array([group.claims + [nobody] * (most + 1 - len(group.claims)) for group in groups], dtype=np.int64),
        widths=np.array([len(group.claims) for group in groups], dtype=np.int64),
        first=np.array([group.waiting[0] for group in groups], dtype=np.int64),
        parked=np.full(len(groups), nobody, dtype=np.int64),
        held_until_s=np.full(nobody + 1, _FREE),
        left_s=np.array([*left, 0.0]),
    )


def _startable(board: _Board, groups: Sequence[_Alike], looked_at: Numbers, now_s: float) -> list[int]:
    """
    A maximal set of these groups whose claims are free, most urgent first; their claims are *held* from now on.

    Because it is maximal, all others wait for a claim that is held now; they are parked under one such.
    """
    import numpy as np

    free = _by_urgency(board, _free(board, looked_at))  # all in that order: what is taken makes nobody more urgent
    chosen: list[int] = []
    while len(free):  # the most urgent take most claims: who is behind them is parked without being looked at singly
        taken: dict[int, float] = {}
        waits = np.ones(len(free), dtype=np.bool_)
        for place, number in enumerate(free[: max(_LEAST_AT_ONCE, len(free) // 8)].tolist()):
            if taken.keys().isdisjoint(groups[number].claims):
                taken.update(dict.fromkeys(groups[number].claims, now_s + groups[number].duration_s))
                waits[place] = False
                chosen.append(number)
        board.held_until_s[list(taken)] = list(taken.values())
        free = _free(board, free[waits])
    return chosen


def _free(board: _Board, groups: Numbers) -> Numbers:
    """Those of whom no claim is held, in their order; the others are parked."""
    import numpy as np

    claims = board.claims_of(groups)
    held_until_s = board.held_until_s[claims]
    rows, longest = np.arange(len(groups)), held_until_s.argmax(axis=1)
    free: np.ndarray[tuple[int], np.dtype[np.bool_]] = held_until_s[rows, longest] <= _FREE
    board.parked[groups[~free]] = claims[rows, longest][~free]
    return groups[free]


def _by_urgency(board: _Board, groups: Numbers) -> Numbers:
    """In order of urgency. Work is added up claim by claim: equal sums are equal to the last bit only in one order."""
    import numpy as np

    loads = board.left_s[board.claims_of(groups)]
    total = np.zeros(len(groups))
    for column in loads.T:
        total += column
    return groups[np.lexsort((board.first[groups], -total, -loads.max(axis=1, initial=0.0)))]
