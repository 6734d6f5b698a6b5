"""
SCOMP: a small set of components that every slow sample passes through and (nearly) no good one does.

Aldridge, Baldassini and Johnson, "Group Testing Algorithms: Bounds and Simulations" (IEEE Trans. Inf. Theory 2014):
components seen in good tests are cleared; one that is alone in a slow test is bad for certain; the rest is covered
greedily. It uses only slow or not, so it holds when so much is bad that likelihoods mislead, and it is not the last
word: ``decode.py`` fits losses to what it finds and drops what is not needed.
"""

from __future__ import annotations

import numpy as np

from fabric.analysis.pairs.likelihood import Evidence
from fabric.analysis.pairs.samples import UNKNOWN, Bools, Floats, Ints

NEVER = 1e9
"""The penalty, in nats, of a component that shall not be considered."""

_DEAR = 20.0  # nats; no prior is as high

ENOUGH = 0.8
"""A component may be bad when at least this share of its samples is slow (a choice: noise lets a few pass)."""


def scomp(evidence: Evidence, slow: Bools, penalties: Floats, part: Ints) -> list[int]:
    """The components found, certain ones first; *part* as in ``Components``: a whole stands for its directions."""
    width = evidence.paths.shape[1]
    counts = np.maximum(evidence.counts, 1)
    bad = np.bincount(_flat(evidence.paths[slow]), minlength=evidence.components)
    possible = (bad >= ENOUGH * counts) & (bad > 0) & (penalties < NEVER)
    possible &= (part == np.arange(len(part))) | ~possible[part]
    if not possible.any():
        return []
    paths = evidence.paths[slow]
    candidate = np.where(paths == UNKNOWN, False, possible[paths])
    alone = candidate.sum(axis=1) == 1
    found = sorted(set(paths[alone][candidate[alone]].tolist()))
    covered = np.isin(paths, found).any(axis=1) if found else np.zeros(len(paths), dtype=np.bool_)
    while not covered.all():
        left, open_ = paths[~covered], candidate[~covered]
        votes = np.bincount(left[open_], minlength=evidence.components).astype(np.float64)
        # of equals the likelier: what has the lower penalty
        best = int(np.argmax(votes - np.minimum(penalties, _DEAR) / (_DEAR * (width + 1))))
        if votes[best] < 1:
            break
        found.append(best)
        covered |= (paths == best).any(axis=1)
    return found


def _flat(paths: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    flat = paths.ravel()
    known: np.ndarray[tuple[int], np.dtype[np.int64]] = flat[flat != UNKNOWN]
    return known
