"""The terms of a description: what is normal, what a faulty part does, and the best hypothesis made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import exp, inf, lgamma, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabric.probes.sources import STEPS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNKNOWN = -1
"""In an array of indexes: not known, or none."""

FLOOR = 0.03
"""The smallest loss worth naming (InfiniBand practice warns at 10 %, published GEMM checks at 3.5 %)."""

HEAVY, LIGHT = 4.0, 30.0
"""Degrees of freedom of the noise: heavy tails as real clusters have, or nearly normal where the samples show it."""


def student(z: Floats, degrees: float) -> Floats:
    """Return the density of Student's t distribution."""
    scale = exp(lgamma((degrees + 1) / 2) - lgamma(degrees / 2)) / (degrees * pi) ** 0.5
    found: Floats = scale * (1 + z * z / degrees) ** (-(degrees + 1) / 2)
    return found


@dataclass(frozen=True)
class Normal:
    """
    What healthy samples reach. Class ``of_class[i]`` of sample *i* has levels (log Gb/s), their weights, one *noise*.

    *level* and *weight* have a row for each class; a class with fewer levels than others has weights of 0. *cost*: nats
    that it costs to say this structure. *groups*: the group of each host where hosts fall into groups, else None.
    *names* are those of the classes, *degrees* the degrees of freedom of the noise.
    """

    cost: float
    of_class: Ints
    level: Floats
    weight: Floats
    noise: Floats
    groups: Ints | None = None
    names: tuple[str, ...] = ("all pairs",)
    degrees: float = HEAVY

    def expected(self, y: Floats) -> Floats:
        """Return what each sample should be: the nearest level that is no fault; if it is slow, the main one."""
        level = self._healthy[self.of_class]
        nearest = np.abs(y[:, None] - level).argmin(axis=1)
        found: Floats = level[np.arange(len(y)), nearest]
        slow = y < self.slow_below[self.of_class]
        found[slow] = np.minimum(self.top, np.maximum(self.main, self.top - NEAR))[self.of_class][slow]
        return found

    @cached_property
    def _healthy(self) -> Floats:
        """By class: its levels that are no faults, infinity for others."""
        return np.where((self.weight > 0) & (self.level >= self.top[:, None] - NEAR), self.level, np.inf)

    @cached_property
    def top(self) -> Floats:
        """By class: the highest level."""
        found: Floats = np.where(self.weight > 0, self.level, -np.inf).max(axis=1)
        return found

    @cached_property
    def main(self) -> Floats:
        """By class: the most frequent level."""
        found: Floats = self.level[np.arange(len(self.level)), self.weight.argmax(axis=1)]
        return found

    @cached_property
    def slow_below(self) -> Floats:
        """By class: a sample below it is slow: by the floor or the noise below the lowest level that is no fault."""
        lowest: Floats = self._healthy.min(axis=1)
        return lowest - np.maximum(FLOOR, 3 * self.noise)

    @classmethod
    def of_noise(cls, noise: Floats, of_class: Ints) -> Normal:
        """Return a structure with one level for each class, for samples that are given as shares of it."""
        return cls(0.0, of_class, np.zeros((len(noise), 1)), np.ones((len(noise), 1)), noise)

    def density(self, y: Floats, of_class: Ints, loss: Floats | float = 0.0, spread: float = 0.0) -> Floats:
        """Return the density of samples of these classes, held down by *loss* with a *spread*."""
        width = np.hypot(self.noise, spread)[of_class]
        found = np.zeros(len(y))
        for number in range(self.level.shape[1]):
            weight = self.weight[of_class, number]
            if weight.any():
                found += weight * student((y - self.level[of_class, number] + loss) / width, self.degrees)
        return found / width


NEAR = 0.13
"""Levels farther than this below the highest (a ratio of 0.88) are faults: real classes of hosts are 4 to 6 % apart."""


ALWAYS, OFTEN = 0.98, 0.65
"""Shares of its samples in which a faulty part shows. Parts that are drawn, or of many rounds, may show in fewer."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What a part loses in one cell: *loss* (natural log), give or take *spread*, in a share *rho* of the samples."""

    cell: int
    loss: float
    spread: float
    rho: float


@dataclass(frozen=True, slots=True)
class Follows:
    """
    A loss that grows with time (seconds) or, if *warm*, with the temperature of the part (degrees Celsius).

    It is none at *zero* and all at *full*, and is seen from *least* on. What is lost between *zero* and *least* belongs
    to it, too: no other part explains that. Bandwidth falls in a straight line, and by the share *lost* at *full*.
    """

    warm: bool
    zero: float
    full: float
    least: float
    lost: float

    @property
    def begins(self) -> float:
        """From where on samples belong to it: *zero*, or a step less where a thermometer may read too little."""
        return self.zero - STEPS["module_c"] * self.warm


@dataclass(frozen=True, slots=True)
class FaultyPart:
    """
    A faulty *part* from *since_s* to *until_s*, with its *losses*, its evidence *gain* in nats, and its rivals.

    *cost*: the nats that it costs to say what it does, and when. *follows*: what its losses grow with. *ways*: for a
    bundle of things, the ways over the faulty one. *rivals*: other parts that would explain nearly as much, with the
    gain of each.
    """

    part: int
    gain: float
    cost: float
    losses: tuple[Loss, ...]
    since_s: float = -inf
    until_s: float = inf
    follows: Follows | None = None
    ways: frozenset[int] | None = None
    rivals: tuple[tuple[int, float], ...] = ()

    @property
    def loss(self) -> float:
        """The largest loss of its cells, natural logarithm."""
        return max(one.loss for one in self.losses)

    @property
    def share_lost(self) -> float:
        """The largest loss as a share of the normal bandwidth."""
        return 1 - exp(-self.loss)


class Background(NamedTuple):
    """The shares of samples that belong to no part: *dips*, and those that are *lost* (0 Gb/s)."""

    dips: float
    lost: float


@dataclass(frozen=True)
class Description:
    """
    The best hypothesis found: *faults*, the best first, over *normal*; *explained* is the loss of each sample by them.

    *background* is what belongs to no part, *score* the nats of the whole. *slow*: which samples are
    slow. *together*: which are slow because of others on the same cable.
    """

    normal: Normal
    faults: tuple[FaultyPart, ...]
    explained: Floats
    background: Background
    score: float
    slow: Bools = field(repr=False)
    together: Bools = field(repr=False)
