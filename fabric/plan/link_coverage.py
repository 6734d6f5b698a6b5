"""
Stages of simultaneous RNIC-to-RNIC flows that load every link: each cable, both directions, to half its rate or more.

A burn-in that leaves a link idle says nothing of it. Imbue's ib_burn.py (cluster-health) plans stages until each
directed switch link has a planned load of 0.5 to 1 of its capacity; we take the 0.5 from there and add the host links.

In a stage each RNIC sends at most one flow and receives at most one. Load is counted per stage, never added up over
stages, and is the load that max-min sharing gives at least. A link that is said to be covered is covered wherever
traffic goes by the routes that were given.

Lower bound on the number of stages. Take a group of links that no flow crosses twice: the uplinks of a leaf, the
downlinks of a leaf, the links from a pod up to the cores, those down from them. A flow carries at most the line rate of
an RNIC, so a link of rate c needs k = ceil(c / (2 line rate)) flows at once to carry c / 2. m such links need m k
crossings. One stage has at most n, where n is the number of RNICs below the group, as each sends (receives) at most
once. So no plan has fewer than ceil(m k / n) stages; the bound is the largest over all groups, and 1 at least.
Links that no route uses are not counted in m.

Where switches choose by a hash that nobody knows (ECMP) no plan can promise a link. Stages are random permutations
then, enough of them that hardly any link is likely to be missed (`plan_by_chance`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from fabric.plan.routed_fabric import LEAST_LOAD, TIERS, RoutedFabric
from fabric.sim.net.clos import Bools, Floats, Ints

MOST_STAGES = 128
"""No plan has more (Imbue's ib_burn.py allows as many); what is then left is named."""

NEAR = 1.5
"""Stages over the bound with which the search is content; a choice."""

MISSED_AT_MOST = 0.05
"""Probability that any link is missed by stages at random; a choice."""

_DRAWS = 6  # hashes tried; tiers have hundreds of links, so the mean is known to a few per cent
_MOST_STEPS = 6  # leaf shifts tried; a choice: with regular leaves the first does, the others tile uneven ones
_ROUNDS = 12  # of mending a stage
_PROPOSALS = 1 << 14  # of a round and tier; a choice: a leaf of 64 uplinks is then hit many times in each


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
class LikelyPlan:
    """
    Random stages; *likely* is the probability at least that every link is covered, as tiers and stages have it.

    *each* is what one stage covers of each tier, on average. *enough* False: the most stages there may be fall short.
    """

    stages: tuple[Stage, ...]
    each: tuple[tuple[str, float], ...]
    likely: float
    enough: bool


def plan_coverage(net: RoutedFabric, *, most_stages: int = MOST_STAGES, seed: int = 0) -> CoveragePlan:
    """
    Few stages that cover all that routes allow. *seed* only decides ties; the same one gives the same plan.

    Each stage is the best of a family of shifts, mended flow by flow for what it leaves out; where one stage does not
    do, links that few routes cross come first. Raises ValueError when fewer than two RNICs can take part.
    """
    if len(net.rnics) < 2:
        raise ValueError("link coverage needs two RNICs or more in the run")
    rng = np.random.default_rng(seed)
    asked: Bools = net.below > 0  # nobody is there to burn in the rest
    wanted: Bools = asked & (net.needs <= net.below)
    stages, left = _stages(net, np.where(wanted, net.cables, 0.0), rng, most=min(most_stages, 1))
    if left.any():
        crossed = net.on_routes()  # dear, and needed only where a single stage does not do
        wanted &= crossed > 0
        worth = np.where(wanted, net.cables / np.maximum(crossed, 1), 0.0)
        stages, left = _stages(net, worth, rng, most=most_stages)
        if left.any() or len(stages) > NEAR * stage_bound(net, wanted):
            others = _stages(net, worth, rng, most=most_stages, by_shift=False)
            stages, left = min((stages, left), others, key=lambda made: (made[1].sum(), len(made[0])))
    never = asked & ~wanted
    return CoveragePlan(
        stages=tuple(stages),
        bound=stage_bound(net, wanted),
        tiers=tuple(_tiers(net, asked, never, left)),
        never=tuple(np.flatnonzero(never).tolist()),
        missed=tuple(np.flatnonzero(left).tolist()),
    )


def stage_bound(net: RoutedFabric, coverable: Bools) -> int:
    """The fewest stages that any plan needs to cover the *coverable* links; the module's text proves it."""
    worst = 1
    for tier in range(len(TIERS)):
        rows = np.flatnonzero(coverable & (net.tier == tier))
        crossings = np.bincount(net.owner[rows], weights=net.needs[rows])[net.owner[rows]]
        worst = max(worst, int(np.ceil(crossings / net.below[rows] - 1e-9).max(initial=1)))
    return worst


def plan_by_chance(
    drawn: Callable[[int], RoutedFabric], *, missed_at_most: float = MISSED_AT_MOST, seed: int = 0
) -> LikelyPlan:
    """
    As many random stages as it takes; *drawn* gives the fabric with the hash of a number.

    How likely one stage covers a link is found by drawing hashes. After T stages a link of tier t is missed with
    probability (1 - p_t)^T; the sum over all links is at least the probability that any is missed (Boole).
    """
    rng = np.random.default_rng(seed)
    net = drawn(0)
    links = np.bincount(net.tier)
    covered = np.zeros(len(links))
    for number in range(_DRAWS):
        stage = _permutation(net, rng)
        covered += np.bincount(net.tier[drawn(number).covered(stage.src, stage.dst)], minlength=len(links))
    chance = covered / (_DRAWS * np.maximum(links, 1))
    missed = {count: float((links * (1 - chance) ** count).sum()) for count in range(1, MOST_STAGES + 1)}
    stages = next((count for count in missed if missed[count] <= missed_at_most), MOST_STAGES)
    return LikelyPlan(
        stages=tuple(_permutation(net, rng) for _ in range(stages)),
        each=tuple((name, float(p)) for name, p, count in zip(TIERS, chance, links, strict=False) if count),
        likely=max(0.0, 1 - missed[stages]),
        enough=missed[stages] <= missed_at_most,
    )


def _permutation(net: RoutedFabric, rng: np.random.Generator) -> Stage:
    """One random cycle through the RNICs of each rail."""
    rail = net.clos.leaf_of(net.rnics) % net.rail_step
    orders = [rng.permutation(net.rnics[rail == number]) for number in range(net.rail_step)]
    cycles = [(order, np.roll(order, -1)) for order in orders if len(order) > 1]
    return Stage(*(np.concatenate(ends) for ends in zip(*cycles, strict=True)))


def _stages(
    net: RoutedFabric, worth: Floats, rng: np.random.Generator, *, most: int, by_shift: bool = True
) -> tuple[list[Stage], Bools]:
    """
    Stages until all is covered, nothing more can be, or there are *most*; and what they leave out.

    *worth* is what each link counts for, 0 where it is not wanted. *by_shift*: stages begin with a shift.
    """
    left: Bools = worth > 0
    stages: list[Stage] = []
    while len(stages) < most and left.any():
        stage = _stage(net, np.where(left, worth, 0.0), rng, _shifts(net) if by_shift else ())
        gained = net.covered(stage.src, stage.dst) & left
        if not gained.any():
            break
        left &= ~gained
        stages.append(stage)
    return stages, left


def _stage(net: RoutedFabric, worth: Floats, rng: np.random.Generator, shifts: Iterable[Stage]) -> Stage:
    """The shift that gains most, without the flows that gain nothing, mended for what is left; or that alone."""
    best, gain = Stage(net.rnics[:0], net.rnics[:0]), 0.0
    for shift in shifts:
        gained = float(worth[net.covered(shift.src, shift.dst)].sum())
        if gained > gain:
            best, gain = shift, gained
        if gain >= worth.sum() * (1 - 1e-12):
            return best
    keep = np.append(worth > 0, False)[net.crossed(best.src, best.dst)].any(axis=1)  # fewer flows never slow another
    mended = _mended(net, Stage(best.src[keep], best.dst[keep]), worth, rng)
    return mended if worth[net.covered(mended.src, mended.dst)].sum() > gain else best


def _shifts(net: RoutedFabric) -> Iterator[Stage]:
    """
    Permutations that load a fat tree evenly, the most likely first: everyone sends so many pods, leaves and ports on.

    Shift permutations are free of contention where destinations are dealt out to uplinks in turn (Zahavi, JPDC 2012),
    which OpenSM's engines do when leaves are full. Two numbers make room where they are not free of it: only the first
    *out* ports of a leaf leave it, the others stay under it; and of the leaves of a pod only *across* send each port
    out of the pod, another set of leaves for each port, so that every spine gets as many.
    """
    width, pods = net.clos.leaves_per_pod, net.clos.pods
    ports = int(net.clos.port_of(np.arange(net.clos.nics)).max()) + 1  # those in use
    powers = [1 << power for power in range(width.bit_length()) if 1 << power < width]
    wide = [0] if pods == 1 else sorted({width, *powers, 0}, reverse=True)
    outs = sorted({ports, *(ports - ports // part for part in (2, 3, 4) if ports // part > 1)}, reverse=True)
    steps = dict.fromkeys(step * net.rail_step % width for step in range(_MOST_STEPS + 1))
    grid = np.full((pods * width, ports), -1, dtype=np.int64)  # the RNIC on each port of each leaf
    grid[net.clos.leaf_of(net.rnics), net.clos.port_of(net.rnics)] = net.rnics
    for turn, out, across, step in product((0, ports // 2), outs, wide, steps):
        if step or (across == width and pods > 1):
            yield _shift(net, grid, step, across, out, turn)


def _shift(net: RoutedFabric, grid: Ints, step: int, across: int, out: int, turn: int) -> Stage:
    """One permutation; none has a flow to itself."""
    ports, width = grid.shape[1], net.clos.leaves_per_pod
    leaf, port = np.divmod(np.arange(grid.size), ports)
    pod, place = np.divmod(leaf, width)
    crosses = (place - port) % width < across
    far = (pod + crosses) % net.clos.pods * width + (place + step) % width
    inside = out + (port - out + 1) % max(ports - out, 1)
    to_leaf = np.where(port >= out, leaf, far)
    to_port = np.where(port >= out, inside, (port + turn) % out)
    src, dst = grid.ravel(), grid[to_leaf, np.minimum(to_port, ports - 1)]
    runs = (src >= 0) & (dst >= 0)
    runs[runs] = net.meet(src[runs], dst[runs])
    return Stage(src[runs], dst[runs])


def _mended(net: RoutedFabric, stage: Stage, worth: Floats, rng: np.random.Generator) -> Stage:
    """
    With flows added that cross links which are still wanted, between RNICs that are still free.

    A flow is added only where no link on its way gets so many flows that one falls below half the line rate: then host
    links stay covered, whatever is added.
    """
    most = np.maximum(1, np.floor(net.capacity_gbps / (LEAST_LOAD * net.clos.spec.line_rate_gbps) + 1e-9))
    src, dst = stage.src, stage.dst
    for _ in range(_ROUNDS):
        left = np.where(net.covered(src, dst), 0.0, worth)
        if not left.any():
            break
        more = _accepted(net, _proposals(net, src, dst, left > 0, rng), left, most - net.flows(src, dst))
        src, dst = np.append(src, more.src), np.append(dst, more.dst)
    return Stage(src, dst)


def _proposals(net: RoutedFabric, src: Ints, dst: Ints, wanted: Bools, rng: np.random.Generator) -> Stage:
    """Random flows from below (to below) the wanted links, between free RNICs, to (from) anywhere."""
    senders, receivers = np.setdiff1d(net.rnics, src), np.setdiff1d(net.rnics, dst)
    found = [(senders[:0], receivers[:0])]
    for tier in range(len(TIERS)):
        ends = [senders, receivers]
        near = ends[tier % 2]
        ends[tier % 2] = near[np.isin(net.place(near, tier), net.owner[wanted & (net.tier == tier)])]
        if len(ends[0]) and len(ends[1]):
            found.append((rng.choice(ends[0], _PROPOSALS), rng.choice(ends[1], _PROPOSALS)))
    src, dst = (np.concatenate(ends) for ends in zip(*found, strict=True))
    way = net.meet(src, dst)
    return Stage(src[way], dst[way])


def _accepted(net: RoutedFabric, proposed: Stage, left: Floats, room: Ints) -> Stage:
    """Which proposals to take, best first; *room*: how many flows more each link may have."""
    crossed = net.crossed(proposed.src, proposed.dst)
    gains = np.append(left, 0.0)[crossed].sum(axis=1)
    rows = np.argsort(-gains, kind="stable")
    rows = rows[gains[rows] > 0]
    sends, receives, flows, taken = set[int](), set[int](), Counter[int](), list[int]()
    flat = (each.tolist() for each in (rows, proposed.src[rows], proposed.dst[rows], crossed[rows]))
    for row, a, b, path in zip(*flat, strict=True):
        links = [link for link in path if link < len(left)]
        helps = any(left[link] > 0 and flows[link] < net.needs[link] for link in links)
        if helps and a not in sends and b not in receives and all(flows[link] < room[link] for link in links):
            sends.add(a)
            receives.add(b)
            flows.update(links)
            taken.append(row)
    return Stage(proposed.src[taken], proposed.dst[taken])


def _tiers(net: RoutedFabric, asked: Bools, never: Bools, missed: Bools) -> Iterator[TierCoverage]:
    done = asked & ~never & ~missed
    for number, name in enumerate(TIERS):
        links, *counts = (int(net.cables[(net.tier == number) & which].sum()) for which in (asked, done, never, missed))
        if links:
            yield TierCoverage(name, links, *counts)
