"""
A rail whose own pairs do not tell what is normal; its other rails do.

Most of its pairs may cross something bad: nobody stands out on it.

Of two leaves one that is slow holds down all pairs but those under the other: what a good pair reaches is then taken
for a lucky one. Rails of one kind of test and one line rate should reach the same, so the plane is decoded once more
against what the others reach. That counts only when the plane itself has pairs that do reach it, and the bad part is a
switch or cable that all the slow ones share: where nothing on the rail is good, it may be slower by design.

Or a few lucky pairs are taken for the level, and good hosts look slow beside them; or the few samples of a rail lie
close together by chance, and one that does not looks like a fault. So where a rail is a little ahead of the others, or
steadier than they are, only who is bad against their level and their noise, too, is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


def beside_alike(planes: Sequence[tuple[str, Fitted]], floor: float) -> list[tuple[str, Fitted]]:
    """
    The planes, each with its kind of test; those that blame somebody decoded beside the others of their kind.

    Their level may differ by design, which a file does not tell: a rail that is behind as a whole stays as it is.
    """
    found = list(planes)
    for kind in dict.fromkeys(kind for kind, _ in planes):
        alike = [number for number, (other, _) in enumerate(planes) if other == kind]
        if len(alike) >= LEAST_PLANES:
            usual = _usual([planes[number][1] for number in alike])
            for number in alike:
                found[number] = (kind, _less_blamed(planes[number][1], usual, floor))
    return found


def _less_blamed(fitted: Fitted, usual: Mapping[str, Usual], floor: float) -> Fitted:
    """With the usual noise and spread at least, and decoded against the usual level where this is a little ahead."""
    ahead, noise, spread = {}, fitted.evidence.noise, fitted.evidence.spread
    for kind, reference in zip(fitted.classes, fitted.references, strict=True):
        beside = usual.get(kind.name)
        if beside is None or abs(reference.gbps / beside.level.gbps - 1) > floor:
            continue
        noise, spread = max(noise, beside.level.noise), max(spread, beside.spread)
        if reference.gbps > (1 + AHEAD * floor) * beside.level.gbps:
            ahead[kind.name] = beside.level
    found = replace(fitted, evidence=replace(fitted.evidence, noise=noise, spread=spread))
    if not fitted.decoded.blamed or (not ahead and noise == fitted.evidence.noise):
        return found
    again = fit(fitted.samples, floor=floor, usual=ahead, least_noise=noise)
    again = replace(again, evidence=replace(again.evidence, spread=max(again.evidence.spread, spread)))
    before, after = ({one.component for one in each.decoded.blamed} for each in (fitted, again))
    return again if after <= before else found


@dataclass(frozen=True, slots=True)
class Usual:
    """Of one class of links the *level* of most planes, and the *spread* between healthy hosts, at most, as a share."""

    level: Reference
    spread: float


def _usual(planes: Sequence[Fitted]) -> dict[str, Usual]:
    """By the name of a class the medians over planes, where enough have it."""
    found: dict[str, list[tuple[Reference, float]]] = {}
    for fitted in planes:
        for kind, reference in zip(fitted.classes, fitted.references, strict=True):
            found.setdefault(kind.name, []).append((reference, fitted.evidence.spread))
    return {
        name: Usual(
            Reference(median(one.gbps for one, _ in levels), median(one.noise for one, _ in levels)),
            median(spread for _, spread in levels),
        )
        for name, levels in found.items()
        if len(levels) >= LEAST_PLANES
    }


def _anew(fitted: Fitted, usual: Mapping[str, Usual], floor: float) -> Fitted:
    behind = [
        kind.name in usual and reference.gbps < (1 - floor * 2 / 3) * usual[kind.name].level.gbps
        for kind, reference in zip(fitted.classes, fitted.references, strict=True)
    ]
    if not any(behind):
        return fitted
    again = fit(fitted.samples, floor=floor, usual={name: one.level for name, one in usual.items()})
    kinds = {again.components.kinds[one.component] for one in again.decoded.blamed if one.gain >= CERTAIN}
    good = (again.decoded.explained == 0) & (again.evidence.ratio > 1 - again.evidence.least_loss)
    return again if kinds and kinds <= _SWITCHES and int(np.count_nonzero(good)) >= LEAST_GOOD else fitted
