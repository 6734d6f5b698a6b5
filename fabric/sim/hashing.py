"""Randomness that does not depend on order: every word is a function of its purpose, never of when it was asked for."""

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b
from math import acos, cos, exp, sqrt

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_SPREAD = sqrt(3.0) / 65536.0  # four 16-bit uniforms, summed: variance 4/12; scaled to variance 1


def mix64(value: int) -> int:
    """Scramble 64 bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def word(base: int, number: int) -> int:
    """Return the *number*-th 64-bit word of the stream that *base* names."""
    return mix64(base + _GOLDEN * (number + 1))


def text_hash(text: str) -> int:
    """Return a 64-bit hash of a text, the same on every machine (unlike ``hash``)."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")


def noise_factor(bits: int, cv: float) -> float:
    """
    Return a factor around 1 with coefficient of variation *cv*: log-scale noise cut at 3.5 sigma, so never absurd.
    """
    total = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48 & 0xFFFF)
    return exp(cv * (total - 131070.0) * _SPREAD)


def uniform(bits: int) -> float:
    """Turn 64 bits into a number above 0 and below 1."""
    return ((bits >> 12) + 0.5) / (1 << 52)


def between(low: float, high: float, bits: int) -> float:
    """Turn 64 bits into a number between *low* and *high*."""
    return low + (high - low) * uniform(bits)


MISSING = 0.003
"""Fraction of bandwidth tests that end without a number under real noise; a choice (about one in a few hundred)."""

REORDERED = 1 / 32
"""Fraction of a collective's rows that adaptive routing makes slow (see ``reordered``)."""

MOST_OVER_LEVEL = 1.006
"""Upper bound of a bandwidth over its level: a healthy RNIC carries 99.2 % of its line, and no line carries 101 %."""

_DIPS, _DEPTH, _CROWD, _LOST = range(1 << 20, (1 << 20) + 4)  # numbers that no row of a tool's table has


@dataclass(frozen=True, slots=True)
class CleanNoise:
    """
    Noise that puts every healthy measurement around one level, with the coefficient of variation *cv*.

    Noise is the difference between what parts carry and what a tool prints. *factor* is that of the *number*-th
    measurement of a command, decided by *bits*; *reordered* is what adaptive routing leaves of it; *is_lost* says
    whether the command fails for no reason that anybody could find.
    """

    cv: float

    def factor(self, bits: int, number: int, _: Collection[str]) -> float:
        """Return a log-normal factor, distributed the same between all hosts."""
        return noise_factor(word(bits, number), self.cv)

    def reordered(self, _bits: int, _number: int) -> float:
        """Return 1: adaptive routing takes nothing."""
        return 1.0

    def is_lost(self, _: int) -> bool:
        """Return False: no command is lost."""
        return False


@dataclass(frozen=True, slots=True)
class RealNoise:
    """
    Noise as pair sets of two real H100 clusters show it, where nothing is wrong with any part.

    Around a level the logarithm spreads by *spread* with the heavy tails of Student's t_4. Between two hosts of *lower*
    the level is less by *drop*: they are placed differently, and no file says so. Between one of them and another host
    the level is also less by *drop*, and by up to *crowd* for traffic that nobody sees. A fraction *dips* of all tests
    between hosts keeps 25 to 60 % of its level; these tests have no part in common. A few tests have no number.
    """

    spread: float
    drop: float
    crowd: float
    dips: float
    lower: frozenset[str]

    def factor(self, bits: int, number: int, hosts: Collection[str]) -> float:
        """Return the factor of a measurement; for a tool inside one host it is the spread alone."""
        own = min(MOST_OVER_LEVEL, exp(self.spread * student_t4(uniform(word(bits, number)))))
        among = {host in self.lower for host in hosts}
        if len(set(hosts)) < 2:
            return own
        level = 1.0 - self.drop if True in among else 1.0
        crowd = 1.0 - self.crowd * uniform(word(bits, _CROWD)) if len(among) > 1 else 1.0
        dip = between(0.25, 0.6, word(bits, _DEPTH)) if uniform(word(bits, _DIPS)) < self.dips else 1.0
        return own * level * crowd * dip

    def reordered(self, bits: int, number: int) -> float:
        """
        Return 1 for nearly all rows, and far less for a few rows that have no part in common.

        Recorded with adaptive routing on (24 sizes, two places, two runs): 2 to 4 of 96 cells kept 16 to 60 %.
        """
        chance = word(bits, (1 << 21) + number)
        return between(0.16, 0.6, mix64(chance)) if uniform(chance) < REORDERED else 1.0

    def is_lost(self, bits: int) -> bool:
        """Return True for one command in a few hundred."""
        return uniform(word(bits, _LOST)) < MISSING


def real_noise(hosts: Collection[str], *, seed: int) -> RealNoise:
    """
    Return the noise of one cluster: spread 0.1 to 0.5 %, dips in 5 to 25 % of tests; for two seeds of three a lower
    level.

    The lower level is 4 to 6 % down, and a third to a half of the hosts have it: neighbours in the inventory's order.
    """
    draw = mix64(seed ^ text_hash("noise"))
    share = between(1 / 3, 0.5, word(draw, 4)) if word(draw, 5) % 3 else 0.0
    names = list(hosts)
    first = word(draw, 6) % max(1, len(names))
    return RealNoise(
        spread=between(0.001, 0.005, word(draw, 0)),
        drop=between(0.04, 0.06, word(draw, 1)),
        crowd=between(0.05, 0.2, word(draw, 2)),
        dips=between(0.05, 0.25, word(draw, 3)),
        lower=frozenset((names[first:] + names[:first])[: int(share * len(names))]),
    )


def student_t4(uniform: float) -> float:
    """Return the quantile of Student's t with four degrees of freedom (W. T. Shaw, J. Comput. Finance 9(4), 2006)."""
    alpha = 4.0 * uniform * (1.0 - uniform)
    root = sqrt(alpha)
    size = 2.0 * sqrt(max(0.0, cos(acos(min(1.0, root)) / 3.0) / root - 1.0))
    return size if uniform > 0.5 else -size
