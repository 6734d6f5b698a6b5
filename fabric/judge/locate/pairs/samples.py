"""Pair measurements of one kind and one rail, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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
    of the RNIC or rail that was measured, None when the samples are of whole hosts. *placed*: an inventory says where
    all hosts stand, be it under one leaf.
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
    placed: bool = False

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


@dataclass(frozen=True)
class PairEvidence:
    """
    *ratio* of each sample to its reference, *noise* of one sample, *paths* as in ``Components``.

    *least_loss*: a smaller loss is not worth naming, however certain it is.
    """

    ratio: Floats
    noise: float
    paths: Ints
    components: int
    least_loss: float

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

    def samples_of(self, component: int) -> Ints:
        """The samples that pass through a component, slowest first."""
        sample, _, start, count = self._entries
        return sample[start[component] : start[component] + count[component]]

    def explained(self, losses: dict[int, float]) -> Floats:
        """The loss that each sample is expected to have when these components are bad."""
        largest = np.zeros(len(self.ratio))
        for component, loss in losses.items():
            of_it = self.samples_of(component)
            largest[of_it] = np.maximum(largest[of_it], loss)
        return largest
