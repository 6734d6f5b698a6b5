"""
Which of many like latencies of one run are worse than the others, and what is normal among repeated measurements.

Robust z (median and MAD) as Iglewicz and Hoaglin (1993), because the slow ones must not set the scale they are measured
by; a floor on the effect, because a loss that nobody would act upon is none; and Holm's step-down (1979) over the whole
family, because of 300,000 healthy numbers a few are always far out. Each of the three must agree.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_high

LEAST_PEERS = 8
"""Fewer measurements of one key say nothing about each other (a choice; with fewer the MAD is worth little)."""

Z_SLOW = -3.5
"""Robust z below which a number is an outlier (Iglewicz and Hoaglin)."""

Z_LOW = -2.0
"""Robust z below which a number is low: no finding by itself, and no proof of health either."""

ALPHA = 0.05
"""Chance that a healthy family of measurements (one phase of a run) has any number called slow (a choice)."""

LEAST_SPREAD = 0.003
"""The spread is taken as at least this share of the median (a choice: the repeatability of perftest on one host;
tools print few digits, and of equal numbers the MAD is 0)."""

SCALE = 1.4826
"""MAD to standard deviation, for normal numbers."""


@dataclass(frozen=True, slots=True)
class Peers:
    """What is normal among measurements of one key in this run; *spread_gbps* is 1.4826 MAD, or its least."""

    median_gbps: float
    spread_gbps: float
    n: int

    def z(self, value_gbps: float) -> float:
        """How many spreads above the median a value is."""
        return (value_gbps - self.median_gbps) / self.spread_gbps


@dataclass(frozen=True, slots=True)
class PeerGroup:
    """The measurements of one key by whose they are, and the smallest loss that matters for them, as a share."""

    values: Mapping[Hashable, float]
    floor: float


@dataclass(frozen=True, slots=True)
class Slow:
    """Whose measurements are below the floor, with their peers: *sure* by all three rules, *low* by their z alone."""

    sure: Mapping[Hashable, Peers]
    low: Mapping[Hashable, Peers]


def peers_of(values: Sequence[float]) -> Peers | None:
    """What is normal among them; None when they are fewer than eight, or nothing was carried."""
    if len(values) < LEAST_PEERS:
        return None
    middle = median(values)
    if middle <= 0.0:
        return None
    mad = median(abs(value - middle) for value in values)
    return Peers(middle, max(SCALE * mad, LEAST_SPREAD * middle), len(values))


def slow_among(groups: Sequence[PeerGroup]) -> Slow:
    """
    Those that are slower than their peers, each with the peers it was compared with.

    *groups* are one family: the chance that any healthy one of all of them is ``sure`` is at most ``ALPHA``, each group
    having an equal part of it, so that many small keys do not drown a few numbers of another. Groups of fewer than
    eight name nobody and have no part.
    """
    groups = [group for group in groups if len(group.values) >= LEAST_PEERS]
    sure: dict[Hashable, Peers] = {}
    low: dict[Hashable, Peers] = {}
    for group in groups:
        _sort_out(group, ALPHA / len(groups), sure, low)
    return Slow(sure, low)


def _sort_out(group: PeerGroup, alpha: float, sure: dict[Hashable, Peers], low: dict[Hashable, Peers]) -> None:
    """By Holm's step-down: the k-th least likely of n must be less likely than alpha / (n - k + 1)."""
    values = list(group.values.values())
    # First what costs little: most groups have nothing below the floor, and their spread need not be known.
    if min(values) >= median(values) * (1 - group.floor):
        return
    peers = peers_of(values)
    if peers is None:
        return
    below = peers.median_gbps * (1 - group.floor)
    found = sorted(
        ((value, name) for name, value in group.values.items() if value < below and peers.z(value) < Z_LOW),
        key=lambda item: item[0],
    )
    into = sure
    for rank, (value, name) in enumerate(found):
        z = peers.z(value)
        if z >= Z_SLOW or _chance(z, peers.n) > alpha / (peers.n - rank):
            into = low
        into[name] = peers


def _chance(z: float, n: int) -> float:
    """
    The chance that a healthy number lies so low or lower: Student's t, because the spread itself is from n numbers.

    The MAD knows the spread only as well as 37 % as many numbers would (its efficiency for normal ones): so many are
    the degrees of freedom.
    """
    from scipy.special import stdtr

    return float(stdtr(max(1.0, 0.37 * (n - 1)), z))


LEAST_NUMBERS = LEAST_PEERS
"""Fewer numbers of one host do not tell its level (a choice, as for peers)."""


def levels(values: Mapping[str, Sequence[float]], peers: Peers, *, excused: float) -> dict[str, float]:
    """
    The share of the peers' median that each host reaches in *values* (Gb/s by host, of one class), if below 1.

    Its higher median: of a host half of whose numbers are slow the other half tells. Left out are hosts of fewer than
    eight numbers, and those that lack more than *excused* (a share).
    """
    found = {}
    for host, numbers in values.items():
        if len(numbers) >= LEAST_NUMBERS:
            level = median_high(numbers) / peers.median_gbps
            if 1 - excused < level < 1:
                found[host] = level
    return found
