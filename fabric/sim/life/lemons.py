"""Parts that fail now and then: bursts of bit errors and short flaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fabric.model.inventory import Fault, TimedFault
from fabric.model.topology import Topology
from fabric.sim.life.failures import Draws, bursts, named

BURST_MEAN = 3.0
"""Episodes of one burst; choice."""

BURST_S = 600.0
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
    found = [one for lemon in lemons for one in _of_lemon(topology, lemon, seed, per_hour, window_s)]
    return tuple(sorted(found, key=lambda one: (one.at_s, one.fault.component)))


def _of_lemon(
    topology: Topology, lemon: Fault, seed: int, per_hour: float, window_s: tuple[float, float]
) -> Iterator[TimedFault]:
    component = _bad_part(topology, lemon.component, seed)
    base = named(seed, "lemon", lemon.component)
    for draws, began_s in bursts(base, per_hour / 3600.0 / BURST_MEAN, window_s, BURST_S):
        for _ in range(draws.geometric(BURST_MEAN)):
            at_s = began_s + draws.uniform() * BURST_S
            flap = draws.uniform() < FLAP_SHARE
            flap_s = FLAP_S[0] + draws.uniform() * (FLAP_S[1] - FLAP_S[0])
            errors_s = max(1.0, draws.exponential(ERRORS_MEAN_S))
            ber = LEAST_BER * (WORST_BER / LEAST_BER) ** draws.uniform()
            if not window_s[0] <= at_s < window_s[1]:
                continue
            if flap:
                yield TimedFault(at_s, flap_s, Fault(component, "broken"), "flap")
            else:
                yield TimedFault(at_s, errors_s, Fault(component, "bit_errors", ber), "bit errors")


def _bad_part(topology: Topology, component: str, seed: int) -> str:
    """A host has one bad RNIC, always the same."""
    host = topology.hosts.get(component)
    if host is None or not host.platform.rnics:
        return component
    rnics = host.platform.rnics
    return f"{component}/{rnics[Draws(named(seed, 'bad part', component)).one_of(len(rnics))].device}"
