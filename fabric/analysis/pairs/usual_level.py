"""
A rail whose own pairs do not tell what is normal; its other rails do.

Most of its pairs may cross something bad: nobody stands out on it.

Of two leaves one that is slow holds down all pairs but those under the other: what a good pair reaches is then taken
for a lucky one. Rails of one kind of test and one line rate should reach the same, so the plane is decoded once more
against what the others reach. That counts only when the plane itself has pairs that do reach it, and the bad part is a
switch or cable that all the slow ones share: where nothing on the rail is good, it may be slower by design.

Or a few lucky pairs are taken for the level, and good hosts look slow beside them. So where a rail is a little ahead of
the others, only who is bad against their level, too, is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from fabric.analysis.pairs.decode import CERTAIN
from fabric.analysis.pairs.fitted import Fitted, fit
from fabric.analysis.pairs.reference import Reference

LEAST_PLANES = 3
"""Fewer rails do not tell which of them is the usual one (a choice)."""

LEAST_GOOD = 3
"""Pairs that reach the usual level and are explained by nothing bad: fewer may be lucky ones (a choice)."""

AHEAD = 0.25
"""A rail that is ahead by so much of the effect floor may have had lucky pairs (a choice: 0.75 % of a floor of 3 %)."""

_SWITCHES = frozenset({"leaf", "uplinks", "link", "link_up", "link_down", "spine"})


def against_usual(planes: Sequence[Fitted], floor: float) -> list[Fitted]:
    """
    The planes, which are alike by kind and line rate; one that is behind the others as a whole is decoded anew.

    Behind is a plane whose reference is below the median of all by two thirds of *floor* (a share) or more. One that is
    a little ahead is decoded anew, too, if somebody is blamed on it.
    """
    if len(planes) < LEAST_PLANES:
        return list(planes)
    usual = _usual(planes)
    return [_less_blamed(_anew(one, usual, floor), usual, floor) for one in planes]


def _less_blamed(fitted: Fitted, usual: dict[str, Reference], floor: float) -> Fitted:
    """Decoded against the usual level where this is a little ahead of it, and fewer are to blame then."""
    low, high = 1 + AHEAD * floor, 1 + floor * 2 / 3
    ahead = {
        kind.name: usual[kind.name]
        for kind, reference in zip(fitted.classes, fitted.references, strict=True)
        if kind.name in usual and low < reference.gbps / usual[kind.name].gbps < high
    }
    if not ahead or not fitted.decoded.blamed:
        return fitted
    again = fit(fitted.samples, floor=floor, usual=ahead)
    before, after = ({one.component for one in found.decoded.blamed} for found in (fitted, again))
    return again if after < before else fitted


def _usual(planes: Sequence[Fitted]) -> dict[str, Reference]:
    """By the name of a class the median of its level (Gb/s) and noise over planes, where enough have it."""
    found: dict[str, list[Reference]] = {}
    for fitted in planes:
        for kind, reference in zip(fitted.classes, fitted.references, strict=True):
            found.setdefault(kind.name, []).append(reference)
    return {
        name: Reference(median(one.gbps for one in levels), median(one.noise for one in levels))
        for name, levels in found.items()
        if len(levels) >= LEAST_PLANES
    }


def _anew(fitted: Fitted, usual: dict[str, Reference], floor: float) -> Fitted:
    behind = [
        kind.name in usual and reference.gbps < (1 - floor * 2 / 3) * usual[kind.name].gbps
        for kind, reference in zip(fitted.classes, fitted.references, strict=True)
    ]
    if not any(behind):
        return fitted
    again = fit(fitted.samples, floor=floor, usual=usual)
    kinds = {again.components.kinds[one.component] for one in again.decoded.blamed if one.gain >= CERTAIN}
    good = (again.decoded.explained == 0) & (again.evidence.ratio > 1 - again.evidence.least_loss)
    return again if kinds and kinds <= _SWITCHES and int(np.count_nonzero(good)) >= LEAST_GOOD else fitted
