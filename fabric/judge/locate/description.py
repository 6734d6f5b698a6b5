"""The shortest description of what pairs of hosts measured, given a structure of what is normal.

Samples are logarithms of bandwidth. A healthy sample is a mixture of levels with Student t noise (4 degrees of freedom:
heavy tails; 30 where the samples show light ones) or, at the background rate, a dip that belongs to no part, as deep as
other dips are. A faulty part has one loss *d* with a spread, and shows in a share *rho* of its samples. Where several
faulty parts are on one path, the slowest counts (the bottleneck).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, log

import numpy as np

from fabric.judge.locate.cells import DIP_WIDTH, MOST_BACKGROUND, Cells, SampleMatrix
from fabric.judge.locate.fit import SAME_LOSS, SPREADS
from fabric.judge.locate.search import Search
from fabric.judge.locate.structure import FLOOR, Background, Bools, Description, Floats, Ints, Normal

_DEPTH, _NEAR_DEPTH = 0.05, 0.4  # nats: width of the bins of dip depths, and deviation of the kernel over them
_UNSEEN = 5.0  # so many dips of any depth count as seen in addition to the real ones
_LEAST_BACKGROUND = 0.01
_TOUCHED = 0.01  # chance of a part's number of slow samples: below this they are no background
_MOST_SWAPPED = 80.0  # nats that swaps gain at most (54 in 2,700 descriptions of simulated runs)
_FEW_SLOW = 64  # so few slow samples may make no part suspicious; more of them take long to explain


def describe(
    y: Floats,
    normal: Normal,
    cells: Cells,
    floor: float = FLOOR,
    known: Description | None = None,
    *,
    beside: Floats | float = inf,
    stray: Bools | None = None,
    with_rivals: bool = True,
    best: float = -inf,
) -> Description:
    """
    Find the faulty parts given what is normal.

    No part is named for a loss below *floor*. A *known* description tells how many dips belong to no part, and how deep
    they are. Without one, these are the slow samples that no suspicious part explains. If few samples are slow, no dips
    at all is tried as well, as among few no part is suspicious by its share alone; the likelier of the two counts.
    *beside*: what the samples reached that may have been in the way of each sample. *stray*: which are 0 Gb/s for
    whatever reason. *with_rivals*: find rivals, too, which takes as long again. *best* is the score of other
    descriptions: where no swap can reach it, the search stops early.
    """
    everybody = _matrix(y, normal, cells, floor, beside)
    stray = np.zeros(len(y), dtype=np.bool_) if stray is None else stray
    found = _described(everybody, normal, known, stray, with_rivals=with_rivals, best=best)
    if not everybody.together.any():
        return found
    alone = _described(everybody.alone, normal, known, stray, with_rivals=with_rivals, best=best)
    if alone.score <= found.score:
        return found
    # Where a part is bad in any case, samples that were slow only beside others show no second bad part.
    return alone if not found.faults or _slow_without_others(alone, found, cells) else found


def _slow_without_others(alone: Description, shared: Description, cells: Cells) -> bool:
    """Return whether each faulty part was also slow with nobody in the way, and not only where ways were *shared*."""
    for one in alone.faults:
        mine = cells.of(one.part)
        held = mine[alone.slow[mine] & (np.abs(alone.explained[mine] - one.loss) < SAME_LOSS)]
        if len(held) and shared.together[held].all():
            return False
    return True


def _described(
    matrix: SampleMatrix, normal: Normal, known: Description | None, stray: Bools, *, with_rivals: bool, best: float
) -> Description:
    """Return the best description of a matrix, with others in the way or not, as the matrix says."""
    y, slow = matrix.y, matrix.slow & ~matrix.together
    if known is None:
        open_ = tells = _untouched(slow, matrix.cells)
        dips = slow & open_
    else:
        open_, (dips, tells) = known.explained == 0, _dips_beside(matrix, known)
    none = _background(0, 0, len(y))
    seen = _background(int((dips & ~stray).sum()), int((dips & stray).sum()), int(tells.sum()))
    tried = []
    few = known is None and seen != none and slow.sum() <= _FEW_SLOW
    for background in (seen, none) if few else (seen,):
        search = Search(_of_dips(matrix, background, slow & open_, stray))
        # The nats of shares that the samples tell, as BIC has it.
        cost = log(len(y)) / 2 if background != none else 0.0
        for faults in search.starts(best - _MOST_SWAPPED):
            score = search.score(faults) - cost
            if score > best - _MOST_SWAPPED:
                faults = search.settled(faults)
                score = search.score(faults) - cost
            tried.append((score, background, search, faults))
    score, background, search, faults = max(tried, key=lambda one: one[0])
    found = search.with_rivals(faults) if with_rivals else faults
    together, explained = search.congested(faults), search.explained(faults)[1]
    return Description(normal, tuple(found), explained, background, score, matrix.slow, together)


def _dips_beside(matrix: SampleMatrix, known: Description) -> tuple[Bools, Bools]:
    """
    Return which samples dip beside what *known* parts explain, and of which samples that can be told.

    A sample through a bad part may dip as well. That cannot be told where the loss of the part spreads as widely as
    dips.
    """
    tells = np.ones(len(matrix.y), dtype=np.bool_)
    for one in known.faults:
        if any(loss.spread >= max(SPREADS) for loss in one.losses):
            tells[matrix.cells.of(one.part)] = False
    dips = tells & ~matrix.together & (-matrix.y - known.explained > matrix.floor[matrix.of_class])
    return dips, tells


def _of_dips(matrix: SampleMatrix, background: Background, dips: Bools, stray: Bools) -> SampleMatrix:
    """
    Return the matrix with a *background* of dips, which are as deep as *dips* are, and of *stray* samples.

    A stray sample has no depth: that all are 0 Gb/s does not say that one part made them so, only how many are does.
    """
    both = background.dips + (background.lost * (1 - background.dips) if stray.any() else 0.0)
    density = background.dips * np.where(-matrix.y > FLOOR, _depths(-matrix.y, dips), 1e-9)
    density[stray] = background.lost * matrix.normal.density(np.zeros(int(stray.sum())), matrix.of_class[stray])
    return replace(matrix, dips=(both, density / both))


def _matrix(y: Floats, normal: Normal, cells: Cells, floor: float, beside: Floats | float) -> SampleMatrix:
    """Return the matrix for the search, still without its dips."""
    below, one = normal.top[normal.of_class] - y, np.ones(len(normal.noise))
    return SampleMatrix(
        cells,
        y=-below,
        of_class=normal.of_class,
        at_s=np.zeros(len(y)),
        normal=replace(normal, level=normal.level - normal.top[:, None]),
        floor=normal.top - normal.slow_below,
        least=floor * one,
        apart=floor / 2 * one,
        level=0 * one,
        beside=beside - normal.top[normal.of_class],
        faint=True,
    )


def _background(dips: int, lost: int, count: int) -> Background:
    """Return the shares; at least what *count* samples without any do not exclude (rule of three: 3 / count)."""
    least = min(_LEAST_BACKGROUND, 3 / max(count, 1))
    share = float(np.clip(dips / max(count, 1), least, MOST_BACKGROUND))
    return Background(share, max(lost / (count + 1), least))


def _untouched(slow: Bools, cells: Cells) -> Bools:
    """Return which samples touch no part with more *slow* samples than chance explains."""
    bad = beyond_chance(cells.total(slow), cells.through, int(slow.sum()), len(slow)) > log(1 / _TOUCHED)
    found = np.ones(len(slow), dtype=np.bool_)
    found[cells.sample[bad[cells.part_of_entry]]] = False
    return found


def _depths(deviation: Floats, dips: Bools) -> Floats:
    """
    Return the density of each sample's deviation if it is a dip: as deep as the other *dips* are, or of any depth.

    No sample counts for itself. A fabric with traffic of others has many dips of some depth; if dips are few, any depth
    may be. Lost samples are no dips of others' traffic: they say nothing of the depth.
    """
    dips = dips & (deviation < DIP_WIDTH)
    place = np.clip(deviation / _DEPTH, 0, DIP_WIDTH / _DEPTH).astype(np.int64)
    away = np.arange(-4 * _NEAR_DEPTH, 4 * _NEAR_DEPTH + _DEPTH / 2, _DEPTH)
    kernel = np.exp(-0.5 * (away / _NEAR_DEPTH) ** 2)
    kernel /= kernel.sum() * _DEPTH
    bins = np.bincount(place[dips], minlength=max(len(kernel), int(place.max()) + 1))
    near = np.convolve(bins, kernel, mode="same")[place] - kernel.max() * dips
    found: Floats = (np.maximum(near, 0.0) + _UNSEEN / DIP_WIDTH) / (dips.sum() - dips + _UNSEEN)
    return np.where(deviation < DIP_WIDTH, found, 1 / DIP_WIDTH)


def beyond_chance(slow: Ints | Floats, count: Ints, all_slow: int, samples: int) -> Floats:
    """
    Return the nats against chance that so many, and no fewer, of the *count* samples through each part are *slow*.

    *all_slow* of all *samples* are slow. This is half the G statistic of the two by two table: Chernoff's bound on its
    tail.
    """
    seen = np.array([[slow, count - slow], [all_slow - slow, samples - count - all_slow + slow]], dtype=np.float64)
    expected = seen.sum(axis=1, keepdims=True) * seen.sum(axis=0) / samples
    ratio = np.maximum(seen, 1e-300) / np.maximum(expected, 1e-300)
    nats: Floats = (seen * np.log(ratio)).sum(axis=(0, 1))
    return np.where(seen[0, 0] > expected[0, 0], nats, 0.0)


OPEN = 2.0
"""Nats, priors aside, from which a part that is not blamed is worth another test (localise.py A2, seeds 0 to 59)."""

_OPEN_LOSS = 0.7  # share of the floor: a loss that looks smaller now may turn out larger


def open_parts(
    found: Description, y: Floats, cells: Cells, floor: float, stray: Bools | None = None
) -> tuple[tuple[int, float], ...]:
    """
    Return the parts that are not blamed but may be bad, the likeliest first, with their nats, priors aside.

    Others on the same cable may be why a sample is slow; until it is measured once more, a part may be why, too.
    """
    dips, stray = found.slow & (found.explained == 0), np.zeros(len(y), dtype=np.bool_) if stray is None else stray
    matrix = _of_dips(_matrix(y, found.normal, cells, _OPEN_LOSS * floor, inf), found.background, dips, stray)
    return tuple((one.part, one.gain) for one in Search(matrix).open_faults(found.faults) if one.gain > OPEN)
