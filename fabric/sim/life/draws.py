"""A stream of random numbers that is a pure function of its name."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log

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
