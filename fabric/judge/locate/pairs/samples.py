"""Pair measurements of one kind and one rail, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNKNOWN = -1
"""In an array of indexes: not known, or there is none."""


@dataclass(frozen=True)
class PairSamples:
    """
    What was measured between hosts: sample *i* is *gbps[i]* from host *a[i]* to host *b[i]* (indexes into *hosts*).

    *leaf* holds the leaf switch of each host (an index into *leaves*), *via* the spine that each sample crossed (an
    index into *spines*); UNKNOWN where it is not known. *directed*: the samples say which end sent. *one_way*: that is
    certain, for it is how we measured; the order of a file's two columns may be nobody's intention. *rail* is the name
    of the RNIC or rail that was measured, None when the samples are of whole hosts.
    """

    hosts: tuple[str, ...]
    a: Ints
    b: Ints
    gbps: Floats
    leaves: tuple[str, ...]
    leaf: Ints
    spines: tuple[str, ...]
    via: Ints
    directed: bool = False
    rail: str | None = None
    one_way: bool = False

    @cached_property
    def crosses(self) -> Bools:
        """Which samples are known to leave their leaf switch."""
        known = (self.leaf[self.a] != UNKNOWN) & (self.leaf[self.b] != UNKNOWN)
        crossing: Bools = known & (self.leaf[self.a] != self.leaf[self.b])
        return crossing

    @cached_property
    def both_ways(self) -> bool:
        """Whether most pairs were measured in both directions."""
        if not self.directed or not len(self.a):
            return False
        pairs = set(zip(self.a.tolist(), self.b.tolist(), strict=True))
        return sum((b, a) in pairs for a, b in pairs) >= len(pairs) / 2

    @property
    def tells_ways(self) -> bool:
        """Whether the two directions of a part can be told apart."""
        return self.one_way or self.both_ways


MOST_BELOW = 4.0**2 / 2
"""Nats that one sample slower than expected can say at most."""

MOST_ABOVE = 5.0**2 / 2
"""Nats that one sample faster than expected can say at most."""

_NEAR = 2.5  # sigmas within which samples are averaged to one level


@dataclass(frozen=True)
class PairEvidence:
    """
    *ratio* of each sample to its reference, *noise* of one sample, *paths* as in ``Components``.

    *least_loss*: a smaller loss is not worth naming, however certain it is. *spread*: the standard deviation between
    healthy hosts, at most, a share of the reference; infinite where it cannot be told.
    """

    ratio: Floats
    noise: float
    paths: Ints
    components: int
    least_loss: float
    spread: float = inf

    @cached_property
    def _entries(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Sample and component of every step of every path, by component and there by ratio; starts and counts."""
        width = self.paths.shape[1]
        component = self.paths.ravel()
        keep = component != UNKNOWN
        sample = np.repeat(np.arange(len(self.paths)), width)[keep]
        component = component[keep]
        order = np.lexsort((self.ratio[sample], component))
        sample, component = sample[order], component[order]
        count = np.bincount(component, minlength=self.components)
        return sample, component, np.cumsum(count) - count, count

    @property
    def counts(self) -> Ints:
        """How many samples pass through each component."""
        return self._entries[3]

    def samples_of(self, component: int) -> Ints:
        """The samples that pass through a component, slowest first."""
        sample, _, start, count = self._entries
        return sample[start[component] : start[component] + count[component]]

    def explained(self, losses: dict[int, float], *, without: int | None = None) -> Floats:
        """The loss that each sample is expected to have when these components are bad."""
        largest = np.zeros(len(self.ratio))
        for component, loss in losses.items():
            if component != without:
                of_it = self.samples_of(component)
                largest[of_it] = np.maximum(largest[of_it], loss)
        return largest

    def misfit(self, ratio: Floats, loss: Floats) -> Floats:
        """Nats by which samples miss what is expected of them."""
        z = (ratio - 1 + loss) / self.noise
        squared = z * z / 2
        below: Floats = np.where(z < 0, np.minimum(squared, MOST_BELOW), np.minimum(squared, MOST_ABOVE))
        return below

    def gains(self, explained: Floats) -> tuple[Floats, Floats]:
        """
        For every component the nats won by calling it bad in addition, and the loss it would then have.

        It must be worse than what holds its samples down anyway, by as much as is worth naming: under a leaf that lost
        3 % the lowest of sixteen healthy hosts, which differ by half a percent, fits better with 4 %, and is not bad.
        """
        sample, component, start, count = self._entries
        seen = np.flatnonzero(count)
        ratio, expected = self.ratio[sample], explained[sample]
        now = self.misfit(ratio, expected)
        best_gain, best_loss = np.zeros(self.components), np.zeros(self.components)
        for level in self._levels(ratio, now, component, start, count, seen):
            level = self._refined(level, ratio, expected, component)
            loss = np.clip(1 - level, 0.0, 1.0)
            loss[loss < self.least_loss] = 0.0
            worse = expected <= loss[component] - self.least_loss
            loss[np.bincount(component, worse, minlength=self.components) == 0] = 0.0
            new = self.misfit(ratio, np.maximum(expected, loss[component]))
            gain = np.bincount(component, now - new, minlength=self.components)
            gain[loss == 0.0] = 0.0
            better = gain > best_gain
            best_gain[better], best_loss[better] = gain[better], loss[better]
        return best_gain, best_loss

    def gain_of(self, component: int, explained: Floats) -> tuple[float, float]:
        """As ``gains``, for one component alone."""
        of_it = self.samples_of(component)
        part = PairEvidence(
            self.ratio[of_it], self.noise, np.zeros((len(of_it), 1), dtype=np.int64), 1, self.least_loss
        )
        gain, loss = part.gains(explained[of_it])
        return float(gain[0]), float(loss[0])

    def _levels(
        self, ratio: Floats, now: Floats, component: Ints, start: Ints, count: Ints, seen: Ints
    ) -> list[Floats]:
        """Where to begin looking for a component's level: middle, top, and the mean of what is not explained yet."""
        found = []
        for quantile, rounded in ((0.5, np.floor), (0.75, np.ceil)):
            level = np.ones(self.components)
            level[seen] = ratio[start[seen] + rounded(quantile * (count[seen] - 1)).astype(np.int64)]
            found.append(level)
        open_ = (now > 2.0).astype(np.float64)
        weight = np.bincount(component, open_, minlength=self.components)
        total = np.bincount(component, open_ * ratio, minlength=self.components)
        found.append(np.where(weight > 0, total / np.maximum(weight, 1), 1.0))
        return found

    def _refined(self, level: Floats, ratio: Floats, expected: Floats, component: Ints) -> Floats:
        """The mean of the samples near the level, those left out that something worse holds down anyway."""
        at = level[component]
        near = (np.abs(ratio - at) < _NEAR * self.noise) & (1 - expected > at)
        weight = np.bincount(component, near, minlength=self.components)
        total = np.bincount(component, near * ratio, minlength=self.components)
        return np.where(weight > 0, total / np.maximum(weight, 1), level)
