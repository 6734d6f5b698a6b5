"""
What a lemon does when: flaps and bit errors, in bursts, on average exactly as often as asked.

Bursts are a Poisson process, each with a geometric number of episodes, spread evenly over ten minutes. Both are a
choice; what is published is that link faults came from a few nodes in a short period (arXiv 2410.21680). Everything is
a pure function of seed, component and epoch, so a day is the same whoever asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import exp, floor, log, pi, sin

from fabric.model.inventory import Fault, TimedFault
from fabric.model.topology import Topology
from fabric.sim.faults import PORT
from fabric.sim.hashing import mix64, text_hash, word


def _named(seed: int, *names: str | int) -> int:
    """The 64 bits that name a stream: the seed, and what the stream is for."""
    bits = mix64(seed)
    for name in names:
        bits = mix64(bits ^ (text_hash(name) if isinstance(name, str) else mix64(name)))
    return bits


class Draws:
    """One stream; every number is drawn once, in order."""

    __slots__ = ("_base", "_drawn")

    def __init__(self, base: int) -> None:
        self._base = base
        self._drawn = 0

    def uniform(self) -> float:
        """Above 0 and below 1."""
        self._drawn += 1
        return ((word(self._base, self._drawn) >> 11) + 0.5) / 9007199254740992.0  # 2^53

    def exponential(self, mean: float) -> float:
        """Exponentially distributed."""
        return -mean * log(self.uniform())

    def geometric(self, mean: float) -> int:
        """1, 2, ... with this mean, which is at least 1."""
        return 1 if mean <= 1.0 else 1 + floor(log(self.uniform()) / log(1.0 - 1.0 / mean))

    def one_of(self, count: int) -> int:
        """0 up to *count* - 1, all alike."""
        return int(self.uniform() * count)


_EPOCH_S = 86400.0


def _bursts(base: int, per_s: float, window_s: tuple[float, float], longest_s: float) -> Iterator[tuple[Draws, float]]:
    """When bursts begin that can reach into a window, each with the draws that decide what it is."""
    if per_s <= 0.0:
        return
    first, last = floor((window_s[0] - longest_s) / _EPOCH_S), floor(window_s[1] / _EPOCH_S)
    for epoch in range(first, last + 1):
        draws = Draws(_named(base, epoch))
        at_s = epoch * _EPOCH_S + draws.exponential(1.0 / per_s)
        number = 0
        while at_s < min((epoch + 1) * _EPOCH_S, window_s[1]):
            if at_s >= window_s[0] - longest_s:
                yield Draws(_named(base, epoch, number)), at_s
            number += 1
            at_s += draws.exponential(1.0 / per_s)


EPISODES_MEAN = 3.0
"""Episodes of one burst; choice."""

EPISODES_S = 600.0
"""Over how long they spread; choice."""

FLAP_SHARE = 0.5
"""Of episodes are flaps, the others bit errors; choice."""

FLAP_S = (1.0, 10.0)
"""How long a flap lasts: "several seconds" (arXiv 2402.15627, 6.3)."""

ERRORS_MEAN_S = 60.0
"""How long errors last; choice."""

WORST_BER, LEAST_BER = 1e-5, 1e-8
"""Behind the FEC; evenly spread on a log scale between what halves a link and what hardly shows. Choice."""


def episodes(
    topology: Topology, lemons: Iterable[Fault], *, seed: int, per_hour: float, window_s: tuple[float, float]
) -> tuple[TimedFault, ...]:
    """What lemons do in a window, in order of time; each has *per_hour* episodes on average."""
    found = [
        one for lemon in lemons if lemon.kind != "dirty" for one in _of_lemon(topology, lemon, seed, per_hour, window_s)
    ]
    found += [one for lemon in lemons if lemon.kind == "dirty" for one in _of_dirt(lemon, window_s)]
    return tuple(sorted(found, key=lambda one: (one.at_s, one.fault.component)))


def _of_lemon(
    topology: Topology, lemon: Fault, seed: int, per_hour: float, window_s: tuple[float, float]
) -> Iterator[TimedFault]:
    component = _bad_part(topology, lemon.component.removesuffix(PORT), seed)
    base = _named(seed, "lemon", lemon.component)
    for draws, began_s in _bursts(base, per_hour / 3600.0 / EPISODES_MEAN, window_s, EPISODES_S):
        for _ in range(draws.geometric(EPISODES_MEAN)):
            at_s = began_s + draws.uniform() * EPISODES_S
            flap = draws.uniform() < FLAP_SHARE or lemon.kind == "flapping"
            flap_s = FLAP_S[0] + draws.uniform() * (FLAP_S[1] - FLAP_S[0])
            errors_s = max(1.0, draws.exponential(ERRORS_MEAN_S))
            ber = LEAST_BER * (WORST_BER / LEAST_BER) ** draws.uniform()
            if not window_s[0] <= at_s < window_s[1]:
                continue
            if flap:
                yield TimedFault(at_s, flap_s, Fault(component, "broken"))
            else:
                yield TimedFault(at_s, errors_s, Fault(component, "bit_errors", ber))


DIRT_BER, DIRT_DECADES = 2e-15, 1.5
"""What a dirty connector leaves behind all retries when it is cold, and how much worse it is when warm; choice."""

WARMS_S = 5400.0
"""In so long a switch and its modules are warm; then the hall warms and cools once a day. Choice."""


def _of_dirt(dirty: Fault, window_s: tuple[float, float]) -> Iterator[TimedFault]:
    """Bit errors that grow with heat, anew every ten minutes."""
    at_s = window_s[0]
    while at_s < window_s[1]:
        warm = 1.0 - exp(-at_s / WARMS_S) + 0.1 * sin(2.0 * pi * at_s / 86400.0)
        ber = DIRT_BER * 10.0 ** (DIRT_DECADES * warm)
        yield TimedFault(at_s, 600.0, Fault(dirty.component.removesuffix(PORT), "symbol_errors", ber))
        at_s += 600.0


def _bad_part(topology: Topology, component: str, seed: int) -> str:
    """A host has one bad RNIC, always the same."""
    host = topology.hosts.get(component)
    if host is None or not host.platform.rnics:
        return component
    rnics = host.platform.rnics
    return f"{component}/{rnics[Draws(_named(seed, 'bad part', component)).one_of(len(rnics))].device}"
