"""
Which host fails when: few hosts, in bursts, and on average exactly as often as asked.

Bursts of a host are a Poisson process, each with a geometric number of failures of one part for one reason, spread
evenly over an hour. Both are a choice; what is published is that link faults came from a few nodes in a short period
(arXiv 2410.21680). Everything is a pure function of seed, host and epoch, so a day is the same whoever asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, floor, log, pi, sin

from fabric.model.inventory import Fault, TimedFault
from fabric.model.topology import Host, Platform, Topology
from fabric.sim.faults import PORT
from fabric.sim.hashing import mix64, text_hash, word


def named(seed: int, *names: str | int) -> int:
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

    def weighted(self, weights: Sequence[float]) -> int:
        """The number of one entry, each as likely as its weight."""
        left = self.uniform() * sum(weights)
        for number, weight in enumerate(weights):
            left -= weight
            if left < 0.0:
                return number
        return len(weights) - 1


@dataclass(frozen=True, slots=True)
class Cause:
    """
    One row of a failure report.

    *weight* is relative to the other causes. *part* (``host``, ``gpu``, ``rnic``, ``pcie``) gets a fault of *kind* for
    *mean_s* on average. With probability *with_gpu* a GPU fails at the same time: it falls off the bus (XID 79).
    """

    name: str
    weight: float
    part: str
    kind: str
    mean_s: float
    factor: float = 1.0
    with_gpu: float = 0.0


CAUSES = (
    Cause("IB link down", 20.0, "rnic", "broken", 300.0, with_gpu=0.02),
    Cause("IB link errors", 15.0, "rnic", "bit_errors", 900.0, 1e-6, with_gpu=0.02),
    Cause("filesystem mount", 25.0, "host", "hanging", 600.0),
    Cause("GPU memory", 22.0, "gpu", "broken", 3600.0),
    Cause("PCIe", 18.0, "pcie", "slow", 3600.0, 0.5, with_gpu=0.43),
)
"""
Meta's RSC-1 (arXiv 2410.21680), which names its largest causes in this order and how often GPUs fail with them.

The weights are a choice in that order, for the paper's figure is not in its text; so are all durations. RSC-1 has
6.50e-3 failures a host and day.
"""


LEMON_SHARE = 0.012
"""Of all hosts: 1.2 % of RSC-1's nodes were lemons (arXiv 2410.21680)."""

LEMON_FAILURES = 10.0 / 14.0
"""Their share of failures: without them large-job failures fell from 14 % to 4 %. An estimate from these two."""

BURST_MEAN = 3.0
"""Failures of one burst; choice."""

BURST_S = 3600.0
"""Over how long a burst spreads; choice."""

_EPOCH_S = 86400.0
_LEAST_S = 1.0  # no fault is shorter


def failures(
    topology: Topology,
    seed: int,
    rate_per_host_day: float,
    hours: float,
    *,
    start_h: float = 0.0,
) -> tuple[TimedFault, ...]:
    """
    What fails from *start_h* on for *hours*, in order of time.

    The expected number of failures (companions not counted) is exactly hosts * rate * hours / 24. ValueError for a
    rate or time below 0.
    """
    if not (rate_per_host_day >= 0.0 and hours >= 0.0 and start_h >= 0.0):
        raise ValueError(f"{rate_per_host_day} failures a day, {hours} h from {start_h} h: none may be below 0")
    if rate_per_host_day == 0.0:
        return ()
    found: list[TimedFault] = []
    for host in topology.hosts.values():
        share, failing = LEMON_SHARE, LEMON_FAILURES
        if not is_lemon(host.name, seed):
            share, failing = 1.0 - LEMON_SHARE, 1.0 - LEMON_FAILURES
        bursts_per_s = rate_per_host_day * (failing / share) / BURST_MEAN / 86400.0
        found += _of_host(host, seed, bursts_per_s, (start_h * 3600.0, (start_h + hours) * 3600.0))
    return tuple(sorted(found, key=lambda one: (one.at_s, one.fault.component, one.companion)))


def is_lemon(host: str, seed: int) -> bool:
    """Whether chance made this host one of the few that fail all the time."""
    return Draws(named(seed, "lemon", host)).uniform() < LEMON_SHARE


def _of_host(host: Host, seed: int, bursts_per_s: float, window_s: tuple[float, float]) -> Iterator[TimedFault]:
    """The failures of one host in a window; bursts that began before it reach into it."""
    for draws, began_s in bursts(named(seed, "failures", host.name), bursts_per_s, window_s, BURST_S):
        cause = CAUSES[draws.weighted([one.weight for one in CAUSES])]
        component = _component(host, cause.part, draws)
        for _ in range(draws.geometric(BURST_MEAN)):
            at_s = began_s + draws.uniform() * BURST_S
            lasts_s = max(_LEAST_S, draws.exponential(cause.mean_s))
            gpu = _component(host, "gpu", draws) if draws.uniform() < cause.with_gpu else None
            if window_s[0] <= at_s < window_s[1]:
                yield TimedFault(at_s, lasts_s, Fault(component, cause.kind, cause.factor), cause.name)
                if gpu is not None and host.platform.gpus:
                    yield TimedFault(at_s, lasts_s, Fault(gpu, "absent"), cause.name, companion=True)


def bursts(base: int, per_s: float, window_s: tuple[float, float], longest_s: float) -> Iterator[tuple[Draws, float]]:
    """When bursts begin that can reach into a window, each with the draws that decide what it is."""
    if per_s <= 0.0:
        return
    first, last = floor((window_s[0] - longest_s) / _EPOCH_S), floor(window_s[1] / _EPOCH_S)
    for epoch in range(first, last + 1):
        draws = Draws(named(base, epoch))
        at_s = epoch * _EPOCH_S + draws.exponential(1.0 / per_s)
        number = 0
        while at_s < min((epoch + 1) * _EPOCH_S, window_s[1]):
            if at_s >= window_s[0] - longest_s:
                yield Draws(named(base, epoch, number)), at_s
            number += 1
            at_s += draws.exponential(1.0 / per_s)


def _component(host: Host, part: str, draws: Draws) -> str:
    """One part of that kind; the host itself where it has none."""
    parts = _parts(host.platform, part)
    chosen = draws.one_of(max(1, len(parts)))
    return f"{host.name}/{parts[chosen]}" if parts else host.name


def _parts(platform: Platform, part: str) -> tuple[str, ...]:
    if part == "gpu":
        return tuple(gpu.name for gpu in platform.gpus)
    if part == "rnic":
        return tuple(rnic.device for rnic in platform.rnics)
    if part == "pcie":
        return tuple(switch.name for switch in platform.pcie_switches) or _parts(platform, "rnic")
    return ()


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
    base = named(seed, "lemon", lemon.component)
    for draws, began_s in bursts(base, per_hour / 3600.0 / EPISODES_MEAN, window_s, EPISODES_S):
        for _ in range(draws.geometric(EPISODES_MEAN)):
            at_s = began_s + draws.uniform() * EPISODES_S
            flap = draws.uniform() < FLAP_SHARE or lemon.kind == "flapping"
            flap_s = FLAP_S[0] + draws.uniform() * (FLAP_S[1] - FLAP_S[0])
            errors_s = max(1.0, draws.exponential(ERRORS_MEAN_S))
            ber = LEAST_BER * (WORST_BER / LEAST_BER) ** draws.uniform()
            if not window_s[0] <= at_s < window_s[1]:
                continue
            if flap:
                yield TimedFault(at_s, flap_s, Fault(component, "broken"), "flap")
            else:
                yield TimedFault(at_s, errors_s, Fault(component, "bit_errors", ber), "bit errors")


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
        yield TimedFault(at_s, 600.0, Fault(dirty.component.removesuffix(PORT), "symbol_errors", ber), "dirt")
        at_s += 600.0


def _bad_part(topology: Topology, component: str, seed: int) -> str:
    """A host has one bad RNIC, always the same."""
    host = topology.hosts.get(component)
    if host is None or not host.platform.rnics:
        return component
    rnics = host.platform.rnics
    return f"{component}/{rnics[Draws(named(seed, 'bad part', component)).one_of(len(rnics))].device}"
