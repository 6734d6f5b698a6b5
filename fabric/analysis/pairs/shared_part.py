"""
Slow samples that nothing explains and that pass through the same part: too many there to be single dips.

The decoder blames nobody while good samples of a part speak against it, so an intermittent fault looks like dips. Of
dips it is known that they fall anywhere: of N samples K are slow, n of the N pass through a part, and k of the K do so
by chance with the upper tail of the hypergeometric distribution. Below 5 % for all parts of all planes together
(Bonferroni) they are not transient: eight rails without a fault would else be eight times as often in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma

import numpy as np

from fabric.analysis.pairs.fitted import Fitted
from fabric.analysis.pairs.samples import UNKNOWN, Bools, Ints

LEVEL = 0.05
"""The chance that any part of any plane is named where slow samples fall anywhere (a choice)."""

_LEAST = 2  # slow samples that share a part
_PARTS_MOST = 4
_NEGLIGIBLE = 1e-12  # terms of the tail sink from there on


@dataclass(frozen=True, slots=True)
class Shared:
    """*name* of a part, the indexes of the slow *samples* through it, and how many pass *through* it in all."""

    name: str
    samples: Ints
    through: int


def shared_parts(fitted: Fitted, odd: Bools, planes: int = 1) -> tuple[Shared, ...]:
    """
    The parts that *odd* samples share beyond chance, the least likely first; a sample counts for one part only.

    *planes* is how many are looked at for one verdict, this one among them.
    """
    components, left = fitted.components, odd.copy()
    looked_at = len(set(components.part.tolist())) * planes
    through = _through(components.paths, np.ones(len(odd), dtype=np.bool_), len(components.names))
    found: list[Shared] = []
    while left.sum() >= _LEAST and len(found) < _PARTS_MOST:
        slow = _through(components.paths, left, len(components.names))
        chances = {
            c: _chance(len(odd), int(left.sum()), int(through[c]), int(slow[c]))
            for c in np.flatnonzero((slow >= _LEAST) & (slow * len(odd) > 2 * through * left.sum())).tolist()
        }
        # Of equally unlikely ones the whole part before its directions, which come after it.
        best = min(chances, key=lambda c: (chances[c], c), default=UNKNOWN)
        if best == UNKNOWN or chances[best] * looked_at > LEVEL:
            break
        mine = left & (components.paths == best).any(axis=1)
        found.append(Shared(components.names[best], np.flatnonzero(mine), int(through[best])))
        left &= ~mine
    return tuple(found)


def _through(paths: Ints, which: Bools, components: int) -> Ints:
    """How many of some samples pass through each component."""
    crossed = paths[which].ravel()
    found: Ints = np.bincount(crossed[crossed != UNKNOWN], minlength=components)
    return found


def _chance(samples: int, slow: int, through: int, both: int) -> float:
    """That of *slow* among *samples*, *both* or more are among the *through* that pass a part, by chance."""
    total = 0.0
    for k in range(max(both, slow + through - samples), min(slow, through) + 1):
        ways = _log_ways(through, k) + _log_ways(samples - through, slow - k) - _log_ways(samples, slow)
        total += exp(ways)
        if exp(ways) < _NEGLIGIBLE * total:
            break
    return min(total, 1.0)


def _log_ways(of: int, chosen: int) -> float:
    """Logarithm of the binomial coefficient."""
    return lgamma(of + 1) - lgamma(chosen + 1) - lgamma(of - chosen + 1)
