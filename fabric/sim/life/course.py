"""What comes over the hosts of a world as its time passes, worked out a day ahead at most."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf

from fabric.model.inventory import MockSettings, TimedFault
from fabric.sim.faults import happening, require_passing
from fabric.sim.life.failures import episodes, failures
from fabric.sim.life.passing import Passing

_AHEAD_S = 86400.0


class ComingFaults:
    """The passing faults of a rack in order of time; of several on one component the one that came last is felt."""

    def __init__(self, passing: Passing, mock: MockSettings, *, seed: int) -> None:
        self._passing, self._mock, self._seed = passing, mock, seed
        faults = tuple(happening(mock.faults))
        self._lemons = tuple(one for one in faults if one.kind == "lemon")
        for lemon in self._lemons:
            require_passing(lemon, passing.topology)
        self._heap: list[tuple[float, int, TimedFault, bool]] = []  # when, in which order, what, whether it comes
        self._made = 0
        self._here: dict[str, list[TimedFault]] = {}
        self._known_s = 0.0 if self._lemons or mock.failures_per_host_day > 0.0 else inf
        self._add(TimedFault(0.0, inf, one) for one in faults if one.kind != "lemon")
        self._add(mock.timed_faults)

    def next_s(self) -> float:
        """When there is something to do; infinite when never again."""
        return min(self._heap[0][0], self._known_s) if self._heap else self._known_s

    def step(self) -> None:
        """Do what is due next; the rack's time must have come to it."""
        if self._known_s <= self.next_s():
            self._look_ahead()
            return
        at_s, _, one, comes = heappop(self._heap)
        here = self._here.setdefault(one.fault.component, [])
        if comes:
            here.append(one)
            if one.duration_s < inf:
                self._push(at_s + one.duration_s, one, comes=False)
        else:
            here.remove(one)
        self._passing.set(one.fault.component, here[-1].fault if here else None, at_s)
        if not here:
            del self._here[one.fault.component]

    def _look_ahead(self) -> None:
        """Work out the next day."""
        topology, began_s = self._passing.topology, self._known_s
        self._known_s = began_s + _AHEAD_S
        rate, hours = self._mock.failures_per_host_day, _AHEAD_S / 3600.0
        self._add(failures(topology, self._seed, rate, hours, start_h=began_s / 3600.0))
        if self._lemons:
            window_s, per_hour = (began_s, self._known_s), self._mock.lemon_per_hour
            self._add(episodes(topology, self._lemons, seed=self._seed, per_hour=per_hour, window_s=window_s))

    def _add(self, found: Iterable[TimedFault]) -> None:
        for one in found:
            self._push(one.at_s, one, comes=True)

    def _push(self, at_s: float, one: TimedFault, *, comes: bool) -> None:
        self._made += 1
        heappush(self._heap, (at_s, self._made, one, comes))
