"""
What became of a bandwidth over hours: does it dip, fade, step down, or follow the temperature?

Every rule needs evidence (the chance that a healthy part looks so is below *alpha*) and an effect (a loss of at least
*floor*): significance is not importance, and of thousands of healthy parts a few are always far out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, erfc, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]

LEAST_POINTS = 8
"""Fewer measurements say nothing of a course (a choice; a rank correlation of -1 over 8 points has p = 2e-5)."""

DIP_SIGMAS = 5.0
"""A point this many spreads below its peers is no noise (facts: dips above 5 sigma, Poisson limit)."""

LEAST_WARMING_C = 5.0
"""A temperature that moved less explains nothing (a choice)."""

LEAST_RHO = -0.6
"""Spearman's rank correlation from which bandwidth is said to follow the temperature (a choice)."""

QUARTER = 4


@dataclass(frozen=True, slots=True)
class Dips:
    """*count* of *n* measurements dipped, to *depth* of what is normal (their median); *low* to *high*: 95 % bounds."""

    count: int
    n: int
    depth: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Trend:
    """*kind* ``drift`` or ``step``: *change* of its bandwidth in all (-0.1: a tenth lost); *at_s*: when it stepped."""

    kind: str
    change: float
    chance: float
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Heat:
    """Rank correlation with the temperature, and how much is lost between its coldest and its warmest quarter."""

    rho: float
    change: float
    cold_c: float
    warm_c: float
    chance: float


def dips(shares: Numbers, low: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Dips:
    """How often these shares of the normal dip, with an exact interval (Clopper and Pearson 1934)."""
    import numpy as np
    from scipy.special import betaincinv

    count, n = int(low.sum()), len(shares)
    least = float(betaincinv(count, n - count + 1, 0.025)) if count else 0.0
    most = float(betaincinv(count + 1, n - count, 0.975)) if count < n else 1.0
    return Dips(count, n, float(np.median(shares[low])) if count else 1.0, least, most)


def is_low(share: float, *, floor: float, sigma: float) -> bool:
    """Whether one point is below what is normal by the floor and by five spreads."""
    return share < 1.0 - max(floor, DIP_SIGMAS * sigma)


def low_since(low: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, float] | None:
    """
    From which point on all are *low*, where none was before, and the chance of that order; None: it is another.

    Of all C(n, k) orders of k low points among n only one has them last.
    """
    k = int(low.sum())
    if not 0 < k < len(low) or not low[-k:].all():
        return None
    return len(low) - k, 1.0 / comb(len(low), k)


def trend(at_s: Numbers, shares: Numbers, *, floor: float, alpha: float) -> Trend | None:
    """Whether the level sinks: gradually (Theil-Sen slope, Mann-Kendall) or at once; *at_s* ascends."""
    import numpy as np

    n = len(shares)
    if n < LEAST_POINTS:
        return None
    split = _best_split(shares)
    before, after = float(np.median(shares[:split])), float(np.median(shares[split:]))
    slope = theil_sen(at_s, shares)
    drop = slope * float(at_s[-1] - at_s[0])
    if before <= 0.0 or min(drop, after - before) > -floor:
        return None
    chance = mann_kendall(shares)
    if chance >= alpha:
        return None
    middle = float(np.median(shares - slope * at_s))
    of_line = float(np.abs(shares - (middle + slope * at_s)).sum())
    of_step = float(np.abs(shares[:split] - before).sum() + np.abs(shares[split:] - after).sum())
    if of_step <= of_line and after - before <= -floor:
        return Trend("step", after / before - 1.0, chance, float(at_s[split]))
    if drop > -floor:
        return None
    start = max(middle + slope * float(at_s[0]), 1e-9)
    return Trend("drift", max(-1.0, drop / start), chance)


def heat(temperatures_c: Numbers, shares: Numbers, *, floor: float, alpha: float) -> Heat | None:
    """Whether bandwidth is lost when it is warm."""
    import numpy as np

    n = len(shares)
    if n < LEAST_POINTS:
        return None
    order = np.argsort(temperatures_c, kind="stable")
    part = max(2, n // QUARTER)
    cold, warm = order[:part], order[-part:]
    cold_c, warm_c = float(np.median(temperatures_c[cold])), float(np.median(temperatures_c[warm]))
    base = float(np.median(shares[cold]))
    change = float(np.median(shares[warm])) / base - 1.0 if base > 0.0 else 0.0
    if warm_c - cold_c < LEAST_WARMING_C or change > -floor:
        return None
    rho = spearman(temperatures_c, shares)
    chance = _tail(rho, n)
    return Heat(rho, change, cold_c, warm_c, chance) if rho <= LEAST_RHO and chance < alpha else None


def theil_sen(at_s: Numbers, values: Numbers) -> float:
    """The median slope over all pairs of points: up to 29 % of them may be anything (Sen 1968)."""
    import numpy as np

    first, second = np.triu_indices(len(values), 1)
    apart = at_s[second] - at_s[first]
    real = apart > 0.0
    return float(np.median((values[second] - values[first])[real] / apart[real])) if real.any() else 0.0


def mann_kendall(values: Sequence[float] | Numbers) -> float:
    """The chance that numbers without a trend sink so steadily (Mann 1945; one-sided, normal approximation)."""
    import numpy as np

    listed = np.asarray(values)
    n = len(listed)
    first, second = np.triu_indices(n, 1)
    score = float(np.sign(listed[second] - listed[first]).sum())
    if score >= 0.0:
        return 1.0
    spread = sqrt(n * (n - 1) * (2 * n + 5) / 18.0)
    return 0.5 * erfc((-score - 1.0) / spread / sqrt(2.0))


def spearman(one: Numbers, other: Numbers) -> float:
    """Rank correlation, -1 to 1; equal numbers share their rank. 0 where one of them never changes."""
    import numpy as np
    from scipy.stats import rankdata

    ranks = rankdata(one), rankdata(other)
    if np.ptp(ranks[0]) == 0.0 or np.ptp(ranks[1]) == 0.0:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def _tail(rho: float, n: int) -> float:
    """The chance of so low a rank correlation without one: Student's t with n - 2 degrees of freedom."""
    from scipy.special import stdtr

    if rho <= -1.0:
        return 0.0
    return float(stdtr(n - 2, rho * sqrt((n - 2) / (1.0 - rho * rho))))


def _best_split(values: Numbers) -> int:
    """Where two levels describe the numbers best (least squares; at least two on either side)."""
    import numpy as np

    n = len(values)
    sums, squares = np.cumsum(values), np.cumsum(values * values)
    k = np.arange(2, n - 1)
    left = squares[k - 1] - sums[k - 1] ** 2 / k
    right = (squares[-1] - squares[k - 1]) - (sums[-1] - sums[k - 1]) ** 2 / (n - k)
    return int(k[np.argmin(left + right)])
