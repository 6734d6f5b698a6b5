"""
The probes of a phase that wait for their claims, in planned order.

Probes of the same claims, hosts and kind (repetitions, say) exclude each other and are welcome or refused together. So
of each such group only the first is looked at when a claim falls free. And a group that cannot start is parked under
one claim that it waits for, in a queue that is looked at when that falls free, and only until somebody takes it again:
of the probes of a fleet a hundred thousand wait at each instant, and a few can start. What is looked at grows with what
fell free, and with who went out, whatever waits elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain
from operator import itemgetter

from fabric.model.probe import Probe

_Group = deque[tuple[int, Probe]]
"""Probes alike, each with its place in the order."""

_Queue = list[tuple[int, object]]
"""
A heap of groups, by the place of the first probe and the key. An entry whose group is gone, or begins with another
probe now, is passed over: that group has another entry.
"""

_NO_CLAIM = ""
"""Under this, which nobody holds, are the groups that were not looked at yet."""


class Waiting:
    """Probes in an order; iterated in it."""

    def __init__(self, probes: Iterable[Probe]) -> None:
        self._groups: dict[object, _Group] = {}
        self._parked: dict[str, _Queue] = {}  # by claim
        self._naming: dict[str, list[object]] = {}  # by host and by claim: which groups it is of
        self._first = self._next = 0
        self._asked: int | None = None  # with how many names all that wait were asked; None: somebody came since
        self.extend(probes)

    def __iter__(self) -> Iterator[Probe]:
        return (probe for _, probe in _in_order(self._groups.values()))

    def extend(self, probes: Iterable[Probe]) -> None:
        """After all others."""
        for probe in probes:
            self.append(probe)

    def append(self, probe: Probe) -> None:
        """After all others."""
        key = _alike(probe)
        if key not in self._groups:
            self._begin(key, probe)
            self._park(_NO_CLAIM, self._next, key)
        self._groups[key].append((self._next, probe))
        self._next += 1
        self._asked = None

    def put_first(self, probe: Probe) -> None:
        """Before all others."""
        self._first -= 1
        key = _alike(probe)
        if key not in self._groups:
            self._begin(key, probe)
        self._groups[key].appendleft((self._first, probe))
        self._park(_NO_CLAIM, self._first, key)
        self._asked = None

    def _begin(self, key: object, probe: Probe) -> None:
        self._groups[key] = deque()
        for name in (*probe.hosts, *probe.claims):
            self._naming.setdefault(name, []).append(key)

    def start(self, held: dict[str, float], freed: Iterable[str], now_s: float) -> list[Probe]:
        """
        Take those that may start beside what is *held*: in order, each whose claims those before it leave free.

        *held*: until when each claim that is held probably is, seconds; what is taken is added. *freed*: the claims
        that fell free since the last call.
        """
        started = []
        heads = [(self._parked[claim][0][0], claim) for claim in {_NO_CLAIM, *freed} if claim in self._parked]
        heapify(heads)
        while heads:
            claim = heads[0][1]
            if claim in held:  # again: whoever is left in its queue waits for it as before
                heappop(heads)
                continue
            queue = self._parked[claim]
            place, key = heappop(queue)
            group = self._groups.get(key)
            if group is not None and group[0][0] == place:
                started += self._look(key, group, held, now_s)
            if queue:
                heapreplace(heads, (queue[0][0], claim))
            else:
                heappop(heads)
                del self._parked[claim]
        return started

    def _look(self, key: object, group: _Group, held: dict[str, float], now_s: float) -> list[Probe]:
        """Start the first of a group if its claims are free; who waits then, waits for what is held longest."""
        started = []
        claims = group[0][1].claims
        if held.keys().isdisjoint(claims):
            _, probe = group.popleft()
            held.update(dict.fromkeys(claims, now_s + probe.duration_s))
            started.append(probe)
        if group:
            longest = max((claim for claim in claims if claim in held), key=held.__getitem__)
            self._park(longest, group[0][0], key)
        else:
            del self._groups[key]
        return started

    def _park(self, claim: str, place: int, key: object) -> None:
        heappush(self._parked.setdefault(claim, []), (place, key))

    def take_all(self) -> list[Probe]:
        """Take every probe, in order."""
        groups, self._groups = self._groups, {}
        return [probe for _, probe in _in_order(groups.values())]

    def refuse(self, refused: Callable[[Probe], object], names: Sequence[str]) -> list[Probe]:
        """
        Take those that are refused, in order; *refused* tells by claims, hosts and kind alone.

        None is but for one of these *names* of hosts and claims, which only become more: where no name and nobody came
        since the last call, nobody is asked again.
        """
        if self._asked == len(names):
            return []
        self._asked = len(names)
        keys = {key for name in names for key in self._naming.get(name, ()) if key in self._groups}
        gone = [key for key in keys if refused(self._groups[key][0][1])]
        return [probe for _, probe in _in_order([self._groups.pop(key) for key in gone])]


def _alike(probe: Probe) -> object:
    """Probes without claims do not exclude each other: each is a group of its own."""
    return (probe.claims, probe.hosts, probe.kind) if probe.claims else probe.probe_id


def _in_order(groups: Iterable[_Group]) -> list[tuple[int, Probe]]:
    return sorted(chain.from_iterable(groups), key=itemgetter(0))
