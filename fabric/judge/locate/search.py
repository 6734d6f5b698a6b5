"""
The search for the shortest description of what was measured: the few parts that are faulty, and what they do.

A hypothesis says which parts hold samples down. Its score is the log likelihood of all samples minus what it costs to
say the hypothesis, in nats; the best score wins (minimum description length). What a part adds to the score is the
evidence for it; parts that would add nearly as much in its place are its rivals.

The search is the same for all samples: greedy, then parts swapped and dropped until nothing is better. What a
faulty part does to samples is the likelihood of who inherits it: of pairs of hosts (``description.py``), and of probes
of several kinds (``inside.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fabric.judge.locate.structure import Bools, FaultyPart, Floats, Ints

LEAST_GAIN = 3.0
"""Nats from which a part is given as possible; ``CERTAIN`` from which it is called bad."""

CERTAIN = 5.0
"""A part is bad from so many nats on (chosen with benchmarks/real_pairs.py, seeds 1 to 12: 1 of 1,200 sets FAILs)."""

SURE = 0.99
"""Confidence is never more: the model is not the world."""

SAME_LOSS = 0.03
"""Losses (natural logarithm) so near are one."""

CHANCE = 0.05
"""That healthy samples of a run make anything be said of a part: what is told of chance alone keeps below it."""

MOST_NAMED, MOST_RIVALS = 20, 8
"""Probes, pairs or cables that are named one by one, and rivals of a suspect."""

_MOST_BLAMED = 64
_BETTER = 0.1  # nats that a swap must gain
QUARTILES = (0.25, 0.5, 0.75)
NOBODY: Ints = np.empty(0, dtype=np.int64)


class FaultSearch(ABC):
    """
    Finds the faulty parts: of *large* ones there is a smaller part for each of their faults.

    *whole* is the part that both directions of one thing belong to: they are never rivals. Another part is named beside
    the best within *rival* nats.
    """

    large: Bools
    whole: Ints
    rival: float

    @abstractmethod
    def explained(self, faults: Sequence[FaultyPart]) -> tuple[Floats, Floats]:
        """The density of every sample given *faults*, and the loss that explains it."""

    @abstractmethod
    def score(self, faults: Sequence[FaultyPart]) -> float:
        """Log likelihood of all samples minus what it costs to say the hypothesis."""

    @abstractmethod
    def candidates(
        self, rest: Sequence[FaultyPart], *, instead: int | None = None, banned: Ints = NOBODY
    ) -> list[FaultyPart]:
        """What may be faulty beside *rest*, the best first; of what shares samples with *instead*, and that itself."""

    def begun(self) -> list[list[FaultyPart]]:
        """
        Where to begin: with whatever gains most, and with small parts before those that many samples pass through.

        A greedy search begins with a switch that seems to explain many bad hosts at once, and no single swap undoes
        that.
        """
        found, large = self.greedy([]), np.flatnonzero(self.large)
        if not any(self.large[one.part] for one in found):
            return [found]
        small = self.greedy(self.greedy([], banned=large))
        for fault in [one for one in found if self.large[one.part]]:
            rest = [one for one in found if one.part != fault.part]
            found = max(found, self.greedy(rest, banned=large), key=self.score)
        return [found, small]

    def greedy(self, faults: Sequence[FaultyPart], *, banned: Ints = NOBODY) -> list[FaultyPart]:
        """With further parts, the best first, until none is worth it; never the *banned* ones."""
        found = list(faults)
        while len(found) < _MOST_BLAMED:
            best = next(iter(self.candidates(found, banned=banned)), None)
            if best is None or best.gain < LEAST_GAIN:
                break
            found.append(best)
        return found

    def settled(self, faults: Sequence[FaultyPart]) -> list[FaultyPart]:
        """Swapped and dropped until nothing is better."""
        found = list(faults)
        for _ in range(_MOST_BLAMED):
            improved = self._improved(found)
            if improved is None:
                break
            found = self.greedy(improved)
        return found

    def _improved(self, faults: Sequence[FaultyPart]) -> list[FaultyPart] | None:
        """With one part dropped that is needless beside the others, or swapped; None where nothing is better."""
        for number, fault in enumerate(faults):
            rest = [*faults[:number], *faults[number + 1 :]]
            again = self.candidates(rest, instead=fault.part)
            if not again or again[0].gain < LEAST_GAIN:
                return rest
            mine = next((one for one in again if one.part == fault.part), None)
            if mine is None or again[0].gain > mine.gain + _BETTER:
                return [*rest, again[0]]
        return None

    def told(self, faults: Sequence[FaultyPart]) -> list[FaultyPart]:
        """The surest first, each as it is beside all others, and with its rivals."""
        found = []
        for number, fault in enumerate(faults):
            again = self.candidates([*faults[:number], *faults[number + 1 :]], instead=fault.part)
            mine = next((one for one in again if one.part == fault.part), fault)
            least = max(mine.gain - self.rival, 0.0)
            others = [one for one in again if self.whole[one.part] != self.whole[fault.part] and one.gain > least]
            best = {int(self.whole[one.part]): (one.part, one.gain) for one in reversed(others)}
            rivals = sorted(best.values(), key=lambda one: (-one[1], one[0]))
            found.append(replace(mine, rivals=tuple(rivals)))
        return sorted(found, key=lambda one: -one.gain)


def quartiles(value: Floats, of: Ints, count: int, shares: Sequence[float] = QUARTILES) -> Iterator[tuple[Bools, Ints]]:
    """
    For each share, which of *count* things have values, and where in *value* each of these has that quantile.

    *of* is the thing of each value.
    """
    order = np.lexsort((value, of))
    number = np.bincount(of, minlength=count)
    start, seen = np.cumsum(number) - number, number > 0
    for share in shares:
        yield seen, order[start[seen] + np.rint(share * (number[seen] - 1)).astype(np.int64)]
