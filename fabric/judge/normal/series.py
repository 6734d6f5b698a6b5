"""Series of repetitions of measured probes, and how far their samples lie apart."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import inf, log, sqrt
from statistics import fmean, median, stdev

from fabric.judge.normal.interval import LEAST_PEERS, LEAST_SAMPLES, LEAST_SPREAD, SCALE
from fabric.judge.normal.keys import BANDWIDTH_UNIT, ProbeLayout, ProbeLayouts, grouped
from fabric.model.probe import Probe, ProbeResult
from fabric.model.text import counted, gbps_text
from fabric.probes.kinds import PEER_KINDS

UNSTABLE_CV = 0.05
"""A coefficient of variation above this is a fault in itself (healthy links have 0.01 and less; a choice)."""

BY_CHANCE = 1e-4
"""If the noise of a class is known, a series is unstable only if this share of healthy ones has a larger spread (a
choice: at a CV of 3 % three samples in sixteen are further apart than 5 %)."""

DIP_SIGMAS = 5.0
"""A sample so many standard deviations below the median is a dip (house rule)."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """
    How steady repeated samples are: their number, the least (Gb/s), coefficient of variation, and number of dips.

    *most_cv* is the coefficient of variation up to which they are steady.
    """

    n: int
    least_gbps: float
    cv: float
    dips: int
    most_cv: float = UNSTABLE_CV

    @property
    def unstable(self) -> bool:
        """Return whether the samples are too far apart to be one speed, or some lie far below the others."""
        return self.n >= LEAST_SAMPLES and (self.cv > self.most_cv or self.dips > 0)

    @property
    def two_far_apart(self) -> bool:
        """Return whether two samples are too far apart to be one speed: their median is no number that was measured."""
        return self.n < LEAST_SAMPLES and self.cv > self.most_cv

    @property
    def text(self) -> str:
        """Return a text such as ``median of 5, least 371.2 Gb/s, CV 0.021``."""
        dips = f", {counted(self.dips, 'dip')}" if self.dips else ""
        return f"median of {self.n}, least {gbps_text(self.least_gbps)} Gb/s, CV {self.cv:.3f}{dips}"


def steadiness(values: Sequence[float], *, floor: float, noise: float) -> Steadiness:
    """
    Return the steadiness of two or more *values* in Gb/s; *noise* is that of one sample of their class, as a share.

    *noise* must come from the class: the dips are among the values themselves. *floor*: a smaller loss is no dip.
    """
    middle, mean = median(values), fmean(values)
    deep, most_cv = max(DIP_SIGMAS * noise, floor), UNSTABLE_CV
    if USUAL_CV < noise < UNSTABLE_CV:
        # In healthy series (n - 1) CV^2 / noise^2 is chi-squared with n - 1 degrees of freedom.
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
    """Return the upper quantile of chi-squared at ``BY_CHANCE``. scipy is imported here because few runs need it."""
    from scipy.special import chdtri

    return float(chdtri(degrees, BY_CHANCE))


USUAL_CV = 0.01
"""The spread of one sample if nothing better is known (healthy links have less; a choice)."""


@dataclass(slots=True, eq=False)
class ProbeSeries:
    """
    The measured repetitions of one probe, and its *layout*, which says what it shares with its like on other hosts.

    *noise* is that of one sample of its class, as a share.
    """

    probe: Probe
    layout: ProbeLayout
    values: list[float] = field(default_factory=list)
    noise: float = USUAL_CV

    @property
    def value(self) -> float:
        """Return the median of its repetitions, Gb/s."""
        return median(self.values) if len(self.values) > 1 else self.values[0]


def series_of(
    listed: Sequence[tuple[Probe, ProbeResult]], layouts: ProbeLayouts
) -> tuple[Collection[ProbeSeries], list[ProbeSeries | None]]:
    """Return all series, and for each of *listed* its own series, None if it measured nothing."""
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
    # Peers share one noise; a series of a kind without peers has its own.
    classes = grouped(several, lambda one: one.layout.alike if one.probe.kind in PEER_KINDS else id(one))
    for members in classes.values():
        noise = noise_of(one.values for one in members)
        for one in members:
            one.noise = noise
    return series.values(), belongs


def noise_of(series: Iterable[Sequence[float]]) -> float:
    """
    Return the noise of one sample, pooled over a class: standard deviation of the logarithm, at least 0.003.

    It comes from successive differences (von Neumann 1941) within each of *series* (Gb/s, positive): so neither
    differences between probes nor slow drift count as noise. It is their median size (a MAD): so a few dips do not
    count either. With too few differences return ``USUAL_CV``.
    """
    sizes = [abs(log(after / before)) for values in series for before, after in pairwise(values)]
    if len(sizes) < LEAST_PEERS:
        return USUAL_CV
    return max(LEAST_SPREAD, SCALE / sqrt(2.0) * median(sizes))  # a difference has sqrt(2) times the spread of a number


def number_of(result: ProbeResult | None) -> tuple[float, int | None] | None:
    """
    Return the one number that is compared with a limit, and its message size; None if no bandwidth was measured.

    It is that of the largest size, because limits are given for large messages, and never the average over sizes that
    nccl-tests prints.
    """
    largest, gbps = -1, inf
    for one in result.measurements if result is not None and result.outcome is None else ():
        if one.unit == BANDWIDTH_UNIT and (size_bytes := one.size_bytes or 0) >= largest:
            gbps = min(one.value, gbps) if size_bytes == largest else one.value
            largest = size_bytes
    return (gbps, largest or None) if largest >= 0 else None


NORMAL = "the normal of its class"
