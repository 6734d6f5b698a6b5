"""How steady repeated measurements of one thing are: a link that gives half once in ten is bad, though its median is
fine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from statistics import fmean, median, stdev

UNSTABLE_CV = 0.05
"""A coefficient of variation above this is a fault of its own (healthy links have 0.01 and less; a choice)."""

LEAST_FOR_CV = 3
"""Two numbers that differ tell little of a spread; three are the fewest that a scenario repeats for its sake."""

BY_CHANCE = 1e-4
"""Where the noise of a class is known, a spread is unstable only if so few healthy series have a larger one (a choice:
at a CV of 3 % three samples in sixteen are further apart than 5 %)."""

DIP_SIGMAS = 5.0
"""A sample so many standard deviations below the median is a dip (house rule)."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """
    Of repeated samples: how many, least, median (Gb/s), coefficient of variation, and how many were dips.

    *most_cv* is the coefficient of variation up to which they are steady.
    """

    n: int
    least_gbps: float
    median_gbps: float
    cv: float
    dips: int
    most_cv: float = UNSTABLE_CV

    @property
    def unstable(self) -> bool:
        """Too far apart to be one speed, or some far below the others."""
        return self.n >= LEAST_FOR_CV and (self.cv > self.most_cv or self.dips > 0)

    @property
    def torn(self) -> bool:
        """Too few to have a median, and too far apart to be one speed: their middle is nothing that was measured."""
        return self.n < LEAST_FOR_CV and self.cv > self.most_cv

    @property
    def text(self) -> str:
        """``median of 5, least 371.2 Gb/s, CV 0.021``."""
        dips = f", {self.dips} dip{'s' if self.dips > 1 else ''}" if self.dips else ""
        return f"median of {self.n}, least {self.least_gbps:.1f} Gb/s, CV {self.cv:.3f}{dips}"


def steadiness(
    values: Sequence[float], *, normal_spread: float, floor: float, noise: float | None = None
) -> Steadiness:
    """
    Of at least two *values* in Gb/s; *noise* is that of one sample of their class, as a share, where it is known.

    *normal_spread* is the coefficient of variation that is normal for the key, from peers or records: the samples
    themselves cannot tell what a dip is, for it is one of them. *floor*: a smaller loss is no dip.
    """
    middle, mean = median(values), fmean(values)
    deep = max(DIP_SIGMAS * normal_spread, floor)
    return Steadiness(
        n=len(values),
        least_gbps=min(values),
        median_gbps=middle,
        cv=stdev(values) / mean if mean > 0.0 else 0.0,
        dips=sum(value < middle * (1 - deep) for value in values) if len(values) >= LEAST_FOR_CV else 0,
        most_cv=UNSTABLE_CV if noise is None or noise >= UNSTABLE_CV else _most_cv(len(values), noise),
    )


def _most_cv(count: int, noise: float) -> float:
    """What chance leaves to healthy series of this noise: (n - 1) CV^2 / noise^2 is chi-squared with n - 1 degrees."""
    return max(UNSTABLE_CV, noise * sqrt(_chi_squared(count - 1) / (count - 1)))


@lru_cache(maxsize=64)
def _chi_squared(degrees: int) -> float:
    """Its upper quantile. Imported here: only where samples are many is it needed."""
    from scipy.special import chdtri

    return float(chdtri(degrees, BY_CHANCE))
