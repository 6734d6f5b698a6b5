"""Measured probes as series of repetitions, each with what it shares with its peers."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import log, sqrt
from statistics import fmean, median, stdev

from fabric.judge.normal.interval import LEAST_PEERS, LEAST_SAMPLES, LEAST_SPREAD, SCALE
from fabric.judge.normal.keys import ProbeLayout, ProbeLayouts, bandwidths, grouped
from fabric.model.probe import Probe, ProbeResult
from fabric.model.text import counted, gbps_text
from fabric.probes.kinds import PEER_KINDS

UNSTABLE_CV = 0.05
"""A coefficient of variation above this is a fault of its own (healthy links have 0.01 and less; a choice)."""

BY_CHANCE = 1e-4
"""Where the noise of a class is known, a spread is unstable only if so few healthy series have a larger one (a choice:
at a CV of 3 % three samples in sixteen are further apart than 5 %)."""

DIP_SIGMAS = 5.0
"""A sample so many standard deviations below the median is a dip (house rule)."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """
    Of repeated samples: how many, the least (Gb/s), coefficient of variation, and how many were dips.

    *most_cv* is the coefficient of variation up to which they are steady.
    """

    n: int
    least_gbps: float
    cv: float
    dips: int
    most_cv: float = UNSTABLE_CV

    @property
    def unstable(self) -> bool:
        """Too far apart to be one speed, or some far below the others."""
        return self.n >= LEAST_SAMPLES and (self.cv > self.most_cv or self.dips > 0)

    @property
    def torn(self) -> bool:
        """Too few to have a median, and too far apart to be one speed: their middle is nothing that was measured."""
        return self.n < LEAST_SAMPLES and self.cv > self.most_cv

    @property
    def text(self) -> str:
        """``median of 5, least 371.2 Gb/s, CV 0.021``."""
        dips = f", {counted(self.dips, 'dip')}" if self.dips else ""
        return f"median of {self.n}, least {gbps_text(self.least_gbps)} Gb/s, CV {self.cv:.3f}{dips}"


def steadiness(values: Sequence[float], *, floor: float, noise: float) -> Steadiness:
    """
    Of at least two *values* in Gb/s; *noise* is that of one sample of their class, as a share.

    The samples themselves cannot tell what a dip is, for it is one of them. *floor*: a smaller loss is no dip.
    """
    middle, mean = median(values), fmean(values)
    deep, most_cv = max(DIP_SIGMAS * noise, floor), UNSTABLE_CV
    if USUAL_CV < noise < UNSTABLE_CV:
        # What chance leaves to healthy series: (n - 1) CV^2 / noise^2 is chi-squared with n - 1 degrees.
        most_cv = max(most_cv, noise * sqrt(_chi_squared(len(values) - 1) / (len(values) - 1)))
    return Steadiness(
        n=len(values),
        least_gbps=min(values),
        cv=stdev(values) / mean if mean > 0.0 else 0.0,
        dips=sum(value < middle * (1 - deep) for value in values) if len(values) >= LEAST_SAMPLES else 0,
        most_cv=most_cv,
    )


@lru_cache(maxsize=64)
def _chi_squared(degrees: int) -> float:
    """Its upper quantile. Imported here: only where samples are many is it needed."""
    from scipy.special import chdtri

    return float(chdtri(degrees, BY_CHANCE))


USUAL_CV = 0.01
"""The spread of one sample where nothing better is known (healthy links have less; a choice)."""


@dataclass(slots=True, eq=False)
class ProbeSeries:
    """
    The repetitions of one probe that were measured, and what it shares with its like on other hosts.

    *noise*: of one sample of its class, as a share.
    """

    probe: Probe
    layout: ProbeLayout
    values: list[float] = field(default_factory=list)
    noise: float = USUAL_CV

    @property
    def value(self) -> float:
        """The median of its repetitions, Gb/s."""
        return median(self.values) if len(self.values) > 1 else self.values[0]


def series_of(
    listed: Sequence[tuple[Probe, ProbeResult]], layouts: ProbeLayouts
) -> tuple[Collection[ProbeSeries], list[ProbeSeries | None]]:
    """Every series, and for each of *listed* its own, None where it measured nothing."""
    series: dict[Hashable, ProbeSeries] = {}
    belongs: list[ProbeSeries | None] = []
    for probe, result in listed:
        own, number = None, number_of(result)
        if number is not None:
            layout = layouts.of(probe, number[1])
            own = series.setdefault((layout.series, probe.hosts), ProbeSeries(probe, layout))
            own.values.append(number[0])
        belongs.append(own)
    several = (one for one in series.values() if len(one.values) > 1 and min(one.values) > 0.0)
    # Peers share their noise; a series without any has its own.
    classes = grouped(several, lambda one: one.layout.alike if one.probe.kind in PEER_KINDS else id(one))
    for members in classes.values():
        noise = noise_of(one.values for one in members)
        for one in members:
            one.noise = noise
    return series.values(), belongs


def noise_of(series: Iterable[Sequence[float]]) -> float:
    """
    The noise of one sample, pooled over a class: standard deviation of the logarithm, at least 0.003.

    From successive differences (von Neumann 1941) within each of *series* (Gb/s, positive), so that neither how probes
    differ nor slow drift counts as noise; the median of their sizes (a MAD), so that a few dips do not either. What is
    usual when there are too few differences.
    """
    sizes = [abs(log(after / before)) for values in series for before, after in pairwise(values)]
    if len(sizes) < LEAST_PEERS:
        return USUAL_CV
    return max(LEAST_SPREAD, SCALE / sqrt(2.0) * median(sizes))  # two numbers differ by sqrt(2) of what one does


def number_of(result: ProbeResult | None) -> tuple[float, int | None] | None:
    """
    The one number that is compared with a limit, and its message size; None where no bandwidth was measured.

    The largest size, because limits are given for large messages. Never the average over sizes that nccl-tests prints.
    """
    found = bandwidths(result)
    largest = max(found, key=lambda size_bytes: size_bytes or 0, default=None)
    return (found[largest], largest or None) if found else None


NORMAL = "the normal of its class"
