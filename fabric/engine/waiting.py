"""
The probes of one component that wait for their claims, in planned order.

Probes of the same claims, hosts and kind (repetitions, say) exclude each other and are welcome or refused together. So
of each such group only the first is looked at when a claim falls free: the work grows with the kinds of probes, not
with all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from operator import itemgetter

from fabric.model.probe import Probe

_Group = deque[tuple[int, Probe]]
"""Probes alike, each with its place in the order."""


class Waiting:
    """Probes in an order; iterated in it."""

    def __init__(self, probes: Iterable[Probe]) -> None:
        self._groups: dict[object, _Group] = {}
        self._first = self._next = 0
        self._welcome_at: object = None  # the state in which all that wait were
        for probe in probes:
            self.append(probe)

    def __iter__(self) -> Iterator[Probe]:
        return (probe for _, probe in _in_order(self._groups.values()))

    def append(self, probe: Probe) -> None:
        """After all others."""
        self._groups.setdefault(_alike(probe), deque()).append((self._next, probe))
        self._next += 1
        self._welcome_at = None

    def put_first(self, probe: Probe) -> None:
        """Before all others."""
        self._first -= 1
        self._welcome_at = None
        self._groups.setdefault(_alike(probe), deque()).appendleft((self._first, probe))

    def start(self, held: AbstractSet[str]) -> list[Probe]:
        """Take those that may start beside what is *held*: in order, each whose claims those before it leave free."""
        free = [key for key, group in self._groups.items() if held.isdisjoint(group[0][1].claims)]
        free.sort(key=lambda key: self._groups[key][0][0])
        taken: set[str] = set()
        started = []
        for key in free:
            group = self._groups[key]
            if taken.isdisjoint(group[0][1].claims):
                _, probe = group.popleft()
                taken.update(probe.claims)
                started.append(probe)
                if not group:
                    del self._groups[key]
        return started

    def take_all(self) -> list[Probe]:
        """Take every probe, in order."""
        groups, self._groups = self._groups, {}
        return [probe for _, probe in _in_order(groups.values())]

    def refuse(self, refused: Callable[[Probe], bool], state: object) -> list[Probe]:
        """
        Take those that are refused, in order; *refused* tells by claims, hosts and kind alone.

        Where *state*, which stands for all that *refused* goes by, is as it was and nobody came, nobody is asked again.
        """
        if self._welcome_at == state:
            return []
        self._welcome_at = state
        gone = [key for key, group in self._groups.items() if refused(group[0][1])]
        return [probe for _, probe in _in_order([self._groups.pop(key) for key in gone])]


def _alike(probe: Probe) -> object:
    """Probes without claims do not exclude each other: each is a group of its own."""
    return (probe.claims, probe.hosts, probe.kind) if probe.claims else probe.probe_id


def _in_order(groups: Iterable[_Group]) -> list[tuple[int, Probe]]:
    return sorted(chain.from_iterable(groups), key=itemgetter(0))
