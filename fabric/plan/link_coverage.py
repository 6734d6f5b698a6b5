"""
Stages of simultaneous RNIC-to-RNIC flows that load every link: each cable, both directions, to half its rate or more.

A burn-in that leaves a link idle says nothing of it. Imbue's ib_burn.py (cluster-health) plans stages until each
directed switch link has a planned load of 0.5 to 1 of its capacity; we take the 0.5 from there and add the host links.

In a stage each RNIC sends at most one flow and receives at most one. Load is counted per stage, never added up over
stages, and is the load that max-min sharing gives at least (`link_coverage_load`). A link that is said to be
covered is covered wherever traffic goes by the routes that were given.

Lower bound on the number of stages. Take a group of links that no flow crosses twice: the uplinks of a leaf, the
downlinks of a leaf, the links from a pod up to the cores, those down from them. A flow carries at most the line rate of
an RNIC, so a link of rate c needs k = ceil(c / (2 line rate)) flows at once to carry c / 2. m such links need m k
crossings. One stage has at most n, where n is the number of RNICs below the group, as each sends (receives) at most
once. So no plan has fewer than ceil(m k / n) stages; the bound is the largest over all groups, and 1 at least.
Links that no route uses are not counted in m.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fabric.plan.link_coverage_fill import fill
from fabric.plan.link_coverage_load import Bools, Floats, Ints, RoutedFabric, covered_by
from fabric.plan.link_coverage_reach import on_routes
from fabric.plan.link_coverage_shift import shifts

LEAST_LOAD = 0.5
"""Of a link's rate: less is not said to have burned it in (Imbue's ib_burn.py: 0.50)."""

NEAR = 1.5
"""Stages over the bound with which the search is content; a choice."""

MOST_STAGES = 128
"""No plan has more (Imbue's ib_burn.py allows as many); what is then left is named."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Flows that run at the same time: *src* sends to *dst*, RNICs by number; no number is twice in either."""

    src: Ints
    dst: Ints


@dataclass(frozen=True, slots=True)
class TierCoverage:
    """
    The directed links of a tier: how many there are, and how many carry half their rate in some stage.

    *never* no traffic can load: they are on no route, or too few RNICs are below them. *missed* are left out although
    there is a way.
    """

    name: str
    links: int
    covered: int
    never: int
    missed: int


@dataclass(frozen=True, slots=True, eq=False)
class CoveragePlan:
    """Stages, the fewest that any plan has, and what they cover; *never* and *missed* are ids of links (or trunks)."""

    stages: tuple[Stage, ...]
    bound: int
    tiers: tuple[TierCoverage, ...]
    never: tuple[int, ...]
    missed: tuple[int, ...]

    @property
    def ratio(self) -> float:
        """Stages over the lower bound; 1 is optimal."""
        return len(self.stages) / self.bound


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """One way to make stages: what each link counts for, and whether stages begin with a shift."""

    worth: Floats
    by_shift: bool = True


def plan_coverage(net: RoutedFabric, *, most_stages: int = MOST_STAGES, seed: int = 0) -> CoveragePlan:
    """
    Few stages that cover all that routes allow. *seed* only decides ties; the same one gives the same plan.

    Each stage is the best of a family of shifts (`link_coverage_shift`), mended flow by flow for what it leaves out.
    Where that takes more than NEAR times the bound, links that few routes cross come first, then shifts are left out.
    Raises ValueError when fewer than two RNICs can take part.
    """
    if int(net.usable.sum()) < 2:
        raise ValueError("link coverage needs two RNICs or more in the run")
    below = _below(net)
    asked: Bools = below > 0  # nobody is there to burn in the rest
    wanted: Bools = asked & (_needs(net) <= below)
    stages, done = _stages(net, wanted, _Way(net.cables.astype(np.float64)), min(most_stages, 1), seed)
    if bool((wanted & ~done).any()):
        crossed = on_routes(net)  # dear, and needed only where a single stage does not do
        wanted &= crossed > 0
        stages, done = _best(net, wanted, net.cables / np.maximum(crossed, 1), most_stages, seed)
    missed, never = wanted & ~done, asked & ~wanted
    return CoveragePlan(
        stages=tuple(stages),
        bound=stage_bound(net, wanted),
        tiers=tuple(_tiers(net, done, never, missed)),
        never=tuple(np.flatnonzero(never).tolist()),
        missed=tuple(np.flatnonzero(missed).tolist()),
    )


def _best(net: RoutedFabric, wanted: Bools, rare: Floats, most: int, seed: int) -> tuple[list[Stage], Bools]:
    """The plan that covers most, and of those the one with fewest stages; stops once one is near the bound."""
    near = NEAR * stage_bound(net, wanted)
    best: tuple[list[Stage], Bools] | None = None
    ways = [_Way(net.cables.astype(np.float64)), _Way(rare), _Way(rare, by_shift=False)]
    for number, way in enumerate(ways):
        stages, done = _stages(net, wanted, way, most, seed + number)
        if best is None or (done.sum(), -len(stages)) > (best[1].sum(), -len(best[0])):
            best = stages, done
        if not (wanted & ~best[1]).any() and len(best[0]) <= near:
            break
    assert best is not None  # there are ways
    return best


def _stages(net: RoutedFabric, wanted: Bools, way: _Way, most: int, seed: int) -> tuple[list[Stage], Bools]:
    """Stages until all is covered, nothing more can be, or there are *most*; and what they cover."""
    rng = np.random.default_rng(seed)
    done: Bools = np.zeros(len(wanted), dtype=np.bool_)
    stages: list[Stage] = []
    while len(stages) < most and bool((wanted & ~done).any()):
        stage = _stage(net, wanted & ~done, way, rng)
        gained = covered_by(net, stage.src, stage.dst, LEAST_LOAD) & wanted & ~done
        if not gained.any():
            break
        done |= gained
        stages.append(stage)
    return stages, done


def stage_bound(net: RoutedFabric, coverable: Bools) -> int:
    """The fewest stages that any plan needs to cover the *coverable* links; the module's text proves it."""
    needs = _needs(net)
    worst = 1
    for tier in range(len(net.tiers)):
        rows = np.flatnonzero(coverable & (net.tier == tier))
        if not len(rows):
            continue
        crossings = np.bincount(net.owner[rows], weights=needs[rows])
        below = net.below(tier, len(crossings))
        worst = max(worst, int(np.ceil(crossings[below > 0] / below[below > 0] - 1e-9).max(initial=1)))
    return worst


def _below(net: RoutedFabric) -> Ints:
    """How many RNICs that take part are below each link: what could cross it at once at most."""
    found = np.zeros(len(net.capacity_gbps), dtype=np.int64)
    for tier in range(len(net.tiers)):
        rows = np.flatnonzero(net.tier == tier)
        if len(rows):
            found[rows] = net.below(tier, int(net.owner[rows].max()) + 1)[net.owner[rows]]
    return found


def _needs(net: RoutedFabric) -> Ints:
    """How many flows at line rate it takes to load each link to half its rate."""
    return np.ceil(LEAST_LOAD * net.capacity_gbps / net.line_rate_gbps - 1e-9).astype(np.int64)


def _stage(net: RoutedFabric, wanted: Bools, way: _Way, rng: np.random.Generator) -> Stage:
    """The shift that gains most, without the flows that gain nothing, mended for what is left; or the mending alone."""
    best, gain = Stage(_none(), _none()), 0.0
    total = float(way.worth[wanted].sum())
    for src, dst in shifts(net) if way.by_shift else ():
        gained = float(way.worth[covered_by(net, src, dst, LEAST_LOAD) & wanted].sum())
        if gained > gain:
            best, gain = Stage(src, dst), gained
        if gain >= total * (1 - 1e-12):
            return best
    kept = _useful(net, best, wanted)
    mended = Stage(*fill(net, kept.src, kept.dst, np.where(wanted, way.worth, 0.0), LEAST_LOAD, rng))
    after = float(way.worth[covered_by(net, mended.src, mended.dst, LEAST_LOAD) & wanted].sum())
    return mended if after > gain else best


def _useful(net: RoutedFabric, stage: Stage, wanted: Bools) -> Stage:
    """The stage without the flows that cross nothing wanted: fewer flows never slow another."""
    if not len(stage.src):
        return stage
    padded: NDArray[np.bool_] = np.append(wanted, False)
    keep = padded[net.links(stage.src, stage.dst)].any(axis=1)
    return replace(stage, src=stage.src[keep], dst=stage.dst[keep])


def _tiers(net: RoutedFabric, done: Bools, never: Bools, missed: Bools) -> list[TierCoverage]:
    asked = done | never | missed
    found = []
    for number, name in enumerate(net.tiers):
        rows = net.tier == number
        counts = [int(net.cables[rows & which].sum()) for which in (asked, done, never, missed)]
        if counts[0]:
            found.append(TierCoverage(name, *counts))
    return found


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)
