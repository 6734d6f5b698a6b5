"""
How well a set of bad components explains the samples, in nats, for all components at once.

A sample's ratio to the reference is (1 - the largest loss on its way) plus noise. Its misfit is z^2/2 of the residual,
bounded on both sides: a sample may be slow by chance (about 1 % are, transiently by 5-30 %), and one such dip must not
name anybody; it is fast by chance far less often, so one good sample speaks louder for a component than one bad sample
against it (the bounds are choices: z = 4 below, 5 above).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from fabric.analysis.pairs.samples import UNKNOWN, Floats, Ints

MOST_BELOW = 4.0**2 / 2
"""Nats that one sample slower than expected can say at most."""

MOST_ABOVE = 5.0**2 / 2
"""Nats that one sample faster than expected can say at most."""

_NEAR = 2.5  # sigmas within which samples are averaged to one level


@dataclass(frozen=True)
class Evidence:
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
        part = Evidence(self.ratio[of_it], self.noise, np.zeros((len(of_it), 1), dtype=np.int64), 1, self.least_loss)
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
