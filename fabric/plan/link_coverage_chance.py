"""
Stages for switches that choose by a hash nobody knows (ECMP): enough random ones, and what is then likely.

No plan can promise a link here. Stages are random permutations, each another draw. How likely one stage covers a
link is found by drawing hashes. After T stages a link of tier t is missed with probability (1 - p_t)^T; the sum over
all links is at least the probability that any is missed (Boole).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log

import numpy as np

from fabric.plan.link_coverage import LEAST_LOAD, MOST_STAGES, Stage
from fabric.plan.link_coverage_load import Floats, Ints, RoutedFabric, covered_by

MISSED_AT_MOST = 0.05
"""Probability that any link is missed; a choice."""

_DRAWS = 6  # hashes tried; tiers have hundreds of links, so the mean is known to a few per cent


@dataclass(frozen=True, slots=True, eq=False)
class LikelyPlan:
    """
    Random stages; *likely* is the probability at least that every link is covered, as tiers and stages have it.

    *each* is what one stage covers of each tier, on average. *enough* False: the most stages there may be fall short.
    """

    stages: tuple[Stage, ...]
    each: tuple[tuple[str, float], ...]
    likely: float
    enough: bool


def plan_by_chance(
    drawn: Callable[[int], RoutedFabric], *, missed_at_most: float = MISSED_AT_MOST, seed: int = 0
) -> LikelyPlan:
    """As many random stages as it takes; *drawn* gives the fabric with the hash of a number."""
    rng = np.random.default_rng(seed)
    net = drawn(0)
    links, chance = _chances(drawn, rng)
    stages = _enough(links, chance, missed_at_most)
    missed = float((links * (1 - chance) ** stages).sum())
    return LikelyPlan(
        stages=tuple(_permutation(net, rng) for _ in range(stages)),
        each=tuple((name, float(p)) for name, p, count in zip(net.tiers, chance, links, strict=False) if count),
        likely=max(0.0, 1 - missed),
        enough=missed <= missed_at_most,
    )


def _chances(drawn: Callable[[int], RoutedFabric], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """How many links each tier has, and what part of them one stage covers."""
    net = drawn(0)
    tiers = int(net.tier.max()) + 1
    links = np.bincount(net.tier, minlength=tiers).astype(np.float64)
    covered = np.zeros(tiers)
    for number in range(_DRAWS):
        net, stage = drawn(number), _permutation(net, rng)
        covered += np.bincount(net.tier[covered_by(net, stage.src, stage.dst, LEAST_LOAD)], minlength=tiers)
    return links, covered / (_DRAWS * links)


def _enough(links: Floats, chance: Floats, missed_at_most: float) -> int:
    """The fewest stages, by bisection; at most MOST_STAGES."""
    if bool((chance <= 0).any()):
        return MOST_STAGES
    worst = max(ceil(log(missed_at_most / n) / log(1 - p)) if p < 1 else 1 for n, p in zip(links, chance, strict=True))
    first = max(1, min(worst, MOST_STAGES))
    for stages in range(first, MOST_STAGES):
        if float((links * (1 - chance) ** stages).sum()) <= missed_at_most:
            return stages
    return MOST_STAGES


def _permutation(net: RoutedFabric, rng: np.random.Generator) -> Stage:
    """One random cycle through the RNICs of each rail."""
    src: list[Ints] = []
    dst: list[Ints] = []
    rnics = np.flatnonzero(net.usable)
    rail = net.leaf[rnics] % net.rail_step
    for number in range(net.rail_step):
        order = rng.permutation(rnics[rail == number])
        if len(order) > 1:
            src.append(order)
            dst.append(np.roll(order, -1))
    return Stage(np.concatenate(src), np.concatenate(dst))
