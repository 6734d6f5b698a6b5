"""What a description is made of: what is normal, which samples pass through which part, what a faulty part does."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import exp, inf, lgamma, pi

import numpy as np
from numpy.typing import NDArray

from fabric.probes.sources import STEPS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNKNOWN = -1
"""In an array of indexes: not known, or there is none."""

FLOOR = 0.03
"""The smallest loss worth naming (InfiniBand practice warns at 10 %, published GEMM checks at 3.5 %)."""

HEAVY, LIGHT = 4.0, 30.0
"""Degrees of freedom of the noise: heavy tails as real clusters have, or nearly normal where the samples show it."""


def student(z: Floats, degrees: float) -> Floats:
    """Density of Student's t distribution."""
    scale = exp(lgamma((degrees + 1) / 2) - lgamma(degrees / 2)) / (degrees * pi) ** 0.5
    found: Floats = scale * (1 + z * z / degrees) ** (-(degrees + 1) / 2)
    return found


@dataclass(frozen=True)
class Normal:
    """
    What healthy samples reach. Class ``of_class[i]`` of sample *i* has *level* (log Gb/s), a *weight*, one *noise*.

    *level* and *weight* have a row a class; a class with fewer levels than others has weights of 0. *cost*: nats that
    it takes to say this structure. *groups*: the hosts' groups where the samples fall into such, else None; *names*
    those of the classes.
    """

    name: str
    cost: float
    of_class: Ints
    level: Floats
    weight: Floats
    noise: Floats
    groups: Ints | None = None
    names: tuple[str, ...] = ("all pairs",)
    degrees: float = HEAVY

    def expected(self, y: Floats) -> Floats:
        """What each sample should be: its nearest level, of those that are no fault; its main one where it is slow."""
        near = (self.weight > 0) & (self.level >= self.top[:, None] - NEAR)
        level = np.where(near, self.level, np.inf)[self.of_class]
        nearest = np.abs(y[:, None] - level).argmin(axis=1)
        found: Floats = level[np.arange(len(y)), nearest]
        slow = y < self.least[self.of_class]
        found[slow] = np.minimum(self.top, np.maximum(self.main, self.top - NEAR))[self.of_class][slow]
        return found

    @cached_property
    def top(self) -> Floats:
        """By class: its highest level."""
        found: Floats = np.where(self.weight > 0, self.level, -np.inf).max(axis=1)
        return found

    @cached_property
    def main(self) -> Floats:
        """By class: its most frequent level."""
        found: Floats = self.level[np.arange(len(self.level)), self.weight.argmax(axis=1)]
        return found

    @cached_property
    def least(self) -> Floats:
        """By class: a sample below it is slow, by the floor or the noise below the lowest level that is no fault."""
        near = (self.weight > 0) & (self.level >= self.top[:, None] - NEAR)
        lowest: Floats = np.where(near, self.level, np.inf).min(axis=1)
        found: Floats = lowest - np.maximum(FLOOR, 3 * self.noise)
        return found

    @classmethod
    def of_noise(cls, noise: Floats, of_class: Ints) -> Normal:
        """One level a class, which samples are given as shares of."""
        return cls("classes", 0.0, of_class, np.zeros((len(noise), 1)), np.ones((len(noise), 1)), noise)

    def density(self, y: Floats, of_class: Ints, loss: Floats | float = 0.0, spread: float = 0.0) -> Floats:
        """Of samples of these classes, held down by *loss* with a *spread*."""
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
"""Shares of its samples in which a faulty part shows; of what is drawn, or measured in many rounds, any below too."""


@dataclass(frozen=True, slots=True)
class Loss:
    """In one cell: a *loss* (natural log), give or take *spread*, in a share *rho* of its samples."""

    cell: int
    loss: float
    spread: float
    rho: float


@dataclass(frozen=True, slots=True)
class Follows:
    """
    A loss that grows with time, or with the *warm* of the part: none at *zero*, all at *full*, seen from *least* on.

    What is lost before it is seen belongs to it, too: no other part explains that.

    Seconds, or degrees Celsius.
    """

    warm: bool
    zero: float
    full: float
    least: float

    @property
    def begins(self) -> float:
        """From where on its samples belong to it: a thermometer may read a step too little."""
        return self.zero - STEPS["module_c"] * self.warm


@dataclass(frozen=True, slots=True)
class FaultyPart:
    """
    A faulty *part* from *since_s* to *until_s*, its losses, its evidence in nats, and what would explain as much.

    *cost*: the nats that it takes to say what it does, and when. *follows*: with what its losses grow. *ways*: of a
    bundle of things, the ways over the one that is faulty.
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
        """The largest, natural logarithm."""
        return max(one.loss for one in self.losses)

    @property
    def share_lost(self) -> float:
        """The largest loss as a share of the normal bandwidth."""
        return 1 - exp(-self.loss)


@dataclass(frozen=True)
class Description:
    """
    The best hypothesis found: *effects*, the best first, over *normal*; *explained* is each sample's loss by them.

    *background* is the share of dips that belong to no part, *score* the nats of the whole. *together*: samples that
    are slow because of others on the same cable.
    """

    normal: Normal
    effects: tuple[FaultyPart, ...]
    explained: Floats
    background: float
    score: float
    slow: Bools = field(repr=False)
    together: Bools = field(repr=False)
