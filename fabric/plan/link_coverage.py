"""Stages of simultaneous RNIC-to-RNIC flows that load every link, in both directions, to half its rate or more.

A burn-in that leaves a link idle says nothing about it. Imbue's ib_burn.py (cluster-health) plans stages until each
directed switch link has a planned load of 0.5 to 1 of its capacity; we take the 0.5 from there and add the host links.

In a stage each RNIC sends at most one flow and receives at most one. Load is counted per stage, never added up over
stages, and is the least load that max-min sharing gives. A link that counts as covered is covered wherever traffic
follows the given routes.

Lower bound on the number of stages. Take a group of links of which no flow crosses two: the uplinks of a leaf, the
downlinks of a leaf, the links from a pod up to the cores, those down from them. A flow carries at most the line rate of
an RNIC, so a link of rate c needs k = ceil(c / (2 line rate)) flows at once to carry c / 2. So m such links need m k
crossings. One stage has at most n, where n is the number of RNICs below the group, as each sends (receives) at most
once. So no plan has fewer than ceil(m k / n) stages; the bound is the largest over all groups, and at least 1. Links
that no route uses are not counted in m.

Where switches choose by an unknown hash (ECMP) no plan can promise a link. Stages are random permutations then, enough
of them that hardly any link is likely to be missed (`plan_by_chance`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fabric.sim.net.clos import Bools, Clos, Floats, Ints
from fabric.sim.net.route import pooled, routes

LEAST_LOAD = 0.5
"""Share of a link's rate; a smaller load does not count as burn-in (Imbue's ib_burn.py: 0.50)."""

TIERS = ("host to leaf", "leaf to host", "leaf to spine", "spine to leaf", "spine to core", "core to spine")
"""Names of the tiers of directed links, by number; even tiers go up and belong to the senders below them."""

_ROUNDING = 1e-9  # tolerance for sums of shares
_AT_ONCE = 1 << 18  # flows of one look-up: some tens of MiB of arrays

MOST_STAGES = 128
"""No plan has more stages (Imbue's ib_burn.py allows as many); links that are left then are named."""

NEAR = 1.5
"""Ratio of stages to the bound with which the search is content; a choice."""

MISSED_AT_MOST = 0.05
"""Probability that any link is missed by random stages; a choice."""

_DRAWS = 6  # hashes tried; tiers have hundreds of links, so the mean is known to a few per cent
_MOST_STEPS = 6  # leaf shifts tried; a choice: the first suffices for regular leaves, the others tile uneven ones
_ROUNDS = 12  # of mending a stage
_PROPOSALS = 1 << 14  # of a round and tier; a choice: a leaf of 64 uplinks is then hit many times in each


@dataclass(frozen=True, eq=False)
class RoutedFabric:
    """
    Directed links by number, and which of them a flow between two RNICs (by number) crosses.

    With adaptive routing a "link" is a trunk: the parallel cables of a leaf or pod, which the switch is taken to load
    evenly; *cables* is the number of directed links it stands for (1 for a plain link), *capacity_gbps* that of all of
    them together. *owner* is the RNIC, the leaf or the pod below a link, by its *tier*. Only *usable* RNICs take part,
    and where rails have spines of their own, only RNICs under leaves of the same *part* have a way to each other.
    """

    clos: Clos
    routing: str
    salt: int
    usable: Bools  # of each RNIC
    part: Ints  # of each leaf
    tier: Ints
    owner: Ints
    cables: Ints
    capacity_gbps: Floats

    @property
    def rail_step(self) -> int:
        """Leaves until the next one of the same rail."""
        return self.clos.spec.rails if self.clos.spec.rail_optimised else 1

    @property
    def rnics(self) -> Ints:
        """The RNICs that take part."""
        return np.flatnonzero(self.usable)

    @cached_property
    def needs(self) -> Ints:
        """How many flows at line rate it takes to load each link to half its rate."""
        return np.ceil(LEAST_LOAD * self.capacity_gbps / self.line_gbps - 1e-9).astype(np.int64)

    @cached_property
    def line_gbps(self) -> float:
        """The rate that every RNIC can send at least, Gb/s."""
        return float(self.clos.capacity_gbps[self.rnics].min())

    @cached_property
    def below(self) -> Ints:
        """How many RNICs that take part are below each link: the most flows that could cross it at once."""
        found = np.zeros(len(self.tier), dtype=np.int64)
        for tier in range(len(TIERS)):
            rows = self.tier == tier
            place = self.place(self.rnics, tier)
            found[rows] = np.bincount(place, minlength=self.owner[rows].max(initial=0) + 1)[self.owner[rows]]
        return found

    def place(self, rnics: Ints, tier: int) -> Ints:
        """Return the owners of those links of a tier that are above these RNICs."""
        if tier < 2:
            return rnics
        leaf = self.clos.leaf_at[rnics]
        return leaf if tier < 4 else self.clos.pod_of(leaf)

    def meet(self, src: Ints, dst: Ints) -> Bools:
        """Return which of these pairs are two different RNICs with a way between them."""
        apart: Bools = (src != dst) & (self.part[self.clos.leaf_at[src]] == self.part[self.clos.leaf_at[dst]])
        return apart

    def crossed(self, src: Ints, dst: Ints) -> NDArray[np.integer]:
        """Return the links of each flow in a row, padded with the number of links."""
        return routes(self.clos, src, dst, engine=self.routing, salt=self.salt).links

    def flows(self, src: Ints, dst: Ints) -> Ints:
        """Return how many of these flows cross each link."""
        return np.bincount(self.crossed(src, dst).ravel(), minlength=len(self.tier) + 1)[:-1]

    def covered(self, src: Ints, dst: Ints) -> Bools:
        """
        Return which links carry LEAST_LOAD of their capacity or more while these flows run.

        Each flow gets at least the smallest equal share on its way: with n flows on a link of capacity c, max-min
        fairness gives each of them c / n or more unless it is limited elsewhere, and then the same is true there.
        """
        crossed, size = self.crossed(src, dst), len(self.tier) + 1
        rates = np.repeat(self._rates(crossed), crossed.shape[1])
        load = np.bincount(crossed.ravel(), weights=rates, minlength=size)[:-1]
        enough: Bools = load >= LEAST_LOAD * self.capacity_gbps * (1 - _ROUNDING)
        return enough

    def _rates(self, crossed: NDArray[np.integer]) -> Floats:
        """Return the smallest equal share of each flow on its way, Gb/s."""
        flows = np.bincount(crossed.ravel(), minlength=len(self.tier) + 1)
        found: Floats = (np.append(self.capacity_gbps, np.inf) / np.maximum(flows, 1))[crossed].min(axis=1)
        return found

    def shares(self, stage: Stage) -> list[int]:
        """Return the least that each flow of a stage gets, in per cent of the slower of its two lines."""
        line = np.minimum(self.capacity_gbps[stage.src], self.capacity_gbps[self.clos.nics + stage.dst])
        rates = self._rates(self.crossed(stage.src, stage.dst))
        found: list[int] = np.floor(100 * rates / line + _ROUNDING).astype(np.int64).tolist()
        return found

    def on_routes(self) -> Ints:
        """
        Return on how many routes from a leaf to a usable RNIC each link is; 0 means on none.

        A forwarding table knows only the leaf that a packet comes from, so one sender of each leaf stands for all of
        its leaf. The links up of the other senders are covered by flows to their neighbours in the list.
        """
        rnics = self.rnics
        senders = rnics[np.unique(self.clos.leaf_at[rnics], return_index=True)[1]]
        pairs = [(rnics, np.roll(rnics, by)) for by in (1, -self.rail_step, self.rail_step)]
        for some in np.array_split(senders, -(-len(senders) * len(rnics) // _AT_ONCE)):
            pairs.append((np.repeat(some, len(rnics)), np.tile(rnics, len(some))))
        seen = np.zeros(len(self.tier), dtype=np.int64)
        for src, dst in pairs:
            way = self.meet(src, dst)
            seen += self.flows(src[way], dst[way])
        return seen


def routed_fabric(
    clos: Clos, *, routing: str, usable: Bools | None = None, part: Ints | None = None, salt: int = 0
) -> RoutedFabric:
    """
    Return a Clos with its routes; without *usable* every RNIC takes part, without *part* all leaves are joined.

    ``ecmp`` gives the routes of the hash *salt*, to judge a plan that does not know it.
    """
    width, cores = clos.spec.up, clos.spec.up * clos.spec.core_up
    counts = np.repeat([clos.nics, clos.leaves, clos.pods if cores else 0], 2)
    tier = np.repeat(np.arange(len(TIERS)), counts)
    owner = np.concatenate([np.arange(count) for count in counts])
    cables = np.repeat([1, 1, width, width, cores, cores], counts)
    capacity = clos.capacity_gbps
    if routing != "ar":
        tier, owner = (np.repeat(each, cables) for each in (tier, owner))
        cables = np.ones(len(tier), dtype=np.int64)
    else:
        capacity = pooled(clos, capacity, eta=1.0)
    return RoutedFabric(
        clos=clos,
        routing=routing,
        salt=salt,
        usable=np.ones(clos.nics, dtype=np.bool_) if usable is None else usable,
        part=np.zeros(clos.leaves, dtype=np.int64) if part is None else part,
        tier=tier,
        owner=owner,
        cables=cables,
        capacity_gbps=capacity,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Flows that run at the same time: *src* sends to *dst*, RNICs by number; no number is twice in either."""

    src: Ints
    dst: Ints


@dataclass(frozen=True, slots=True)
class TierCoverage:
    """
    The directed links of a tier: how many there are, and how many carry half their rate in some stage.

    *never*: links that no traffic can load, because they are on no route or too few RNICs are below them. The remaining
    links are left out although there is a way to load them.
    """

    name: str
    links: int
    covered: int
    never: int


@dataclass(frozen=True, slots=True, eq=False)
class CoveragePlan:
    """
    Stages, the lower bound on their number, and what they cover; *never* and *missed* are ids of links (or trunks).
    """

    stages: tuple[Stage, ...]
    bound: int
    tiers: tuple[TierCoverage, ...]
    never: tuple[int, ...]
    missed: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LikelyPlan:
    """
    Random stages; *likely* is a lower bound on the probability that every link is covered.

    *each* is the share of each tier that one stage covers on average.
    """

    stages: tuple[Stage, ...]
    each: tuple[tuple[str, float], ...]
    likely: float


def plan_coverage(net: RoutedFabric) -> CoveragePlan:
    """
    Plan few stages that cover all that the routes allow; the same fabric gives the same plan.

    Each stage is the best of a family of shifts, mended flow by flow for the links that it leaves out. If one stage is
    not enough, links that few routes cross come first. Raises ValueError when fewer than two RNICs can take part.
    """
    if len(net.rnics) < 2:
        raise ValueError("link coverage needs two RNICs or more in the run")
    rng = np.random.default_rng(0)
    asked: Bools = net.below > 0  # no RNIC is there to burn in the rest
    wanted: Bools = asked & (net.needs <= net.below)
    stages, left = _stages(net, np.where(wanted, net.cables, 0.0), rng, most=1)
    if left.any():
        crossed = net.on_routes()  # expensive, and needed only where a single stage is not enough
        wanted &= crossed > 0
        worth = np.where(wanted, net.cables / np.maximum(crossed, 1), 0.0)
        stages, left = _stages(net, worth, rng, most=MOST_STAGES)
        if left.any() or len(stages) > NEAR * stage_bound(net, wanted):
            others = _stages(net, worth, rng, most=MOST_STAGES, by_shift=False)
            stages, left = min((stages, left), others, key=lambda made: (made[1].sum(), len(made[0])))
    never = asked & ~wanted
    return CoveragePlan(
        stages=tuple(stages),
        bound=stage_bound(net, wanted),
        tiers=tuple(_tiers(net, asked, asked & ~never & ~left, never)),
        never=tuple(np.flatnonzero(never).tolist()),
        missed=tuple(np.flatnonzero(left).tolist()),
    )


def stage_bound(net: RoutedFabric, coverable: Bools) -> int:
    """Return the fewest stages that any plan needs to cover the *coverable* links; proof in the module's text."""
    worst = 1
    for tier in range(len(TIERS)):
        rows = np.flatnonzero(coverable & (net.tier == tier))
        crossings = np.bincount(net.owner[rows], weights=net.needs[rows])[net.owner[rows]]
        worst = max(worst, int(np.ceil(crossings / net.below[rows] - 1e-9).max(initial=1)))
    return worst


def plan_by_chance(drawn: Callable[[int], RoutedFabric]) -> LikelyPlan:
    """
    Plan as many random stages as it takes; *drawn* returns the fabric with the hash of a number.

    The probability that one stage covers a link is found by drawing hashes. After T stages a link of tier t is missed
    with probability (1 - p_t)^T; the sum over all links bounds the probability that any is missed from above (Boole).
    """
    rng = np.random.default_rng(0)
    net = drawn(0)
    links = np.bincount(net.tier)
    covered = np.zeros(len(links))
    for number in range(_DRAWS):
        stage = _permutation(net, rng)
        covered += np.bincount(net.tier[drawn(number).covered(stage.src, stage.dst)], minlength=len(links))
    chance = covered / (_DRAWS * np.maximum(links, 1))
    missed = {count: float((links * (1 - chance) ** count).sum()) for count in range(1, MOST_STAGES + 1)}
    stages = next((count for count in missed if missed[count] <= MISSED_AT_MOST), MOST_STAGES)
    return LikelyPlan(
        stages=tuple(_permutation(net, rng) for _ in range(stages)),
        each=tuple((name, float(p)) for name, p, count in zip(TIERS, chance, links, strict=False) if count),
        likely=max(0.0, 1 - missed[stages]),
    )


def _permutation(net: RoutedFabric, rng: np.random.Generator) -> Stage:
    """Return one random cycle through the RNICs of each rail."""
    rail = net.clos.leaf_at[net.rnics] % net.rail_step
    orders = [rng.permutation(net.rnics[rail == number]) for number in range(net.rail_step)]
    cycles = [(order, np.roll(order, -1)) for order in orders if len(order) > 1]
    return Stage(*(np.concatenate(ends) for ends in zip(*cycles, strict=True)))


def _stages(
    net: RoutedFabric, worth: Floats, rng: np.random.Generator, *, most: int, by_shift: bool = True
) -> tuple[list[Stage], Bools]:
    """
    Return stages until all is covered, nothing more can be, or there are *most*; and the links they leave out.

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
    """
    Return the best shift, without flows that gain nothing, mended for the rest; or unmended if that gains no less.
    """
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
    Yield permutations that load a fat tree evenly, the most likely first: shifts by so many pods, leaves and ports.

    Shift permutations are free of contention where destinations are dealt out to uplinks in turn (Zahavi, JPDC 2012),
    which OpenSM's engines do when leaves are full. Two numbers make room where contention remains: only the first *out*
    ports of a leaf send out of it, the others stay under it; and of the leaves of a pod only *across* send each port
    out of the pod, another set of leaves for each port, so that every spine gets as many.
    """
    width, pods = net.clos.leaves_per_pod, net.clos.pods
    ports = int(net.clos.port_of(np.arange(net.clos.nics)).max()) + 1  # ports in use
    powers = [1 << power for power in range(width.bit_length()) if 1 << power < width]
    wide = [0] if pods == 1 else sorted({width, *powers, 0}, reverse=True)
    outs = sorted({ports, *(ports - ports // part for part in (2, 3, 4) if ports // part > 1)}, reverse=True)
    steps = dict.fromkeys(step * net.rail_step % width for step in range(_MOST_STEPS + 1))
    grid = np.full((pods * width, ports), -1, dtype=np.int64)  # the RNIC on each port of each leaf
    grid[net.clos.leaf_at[net.rnics], net.clos.port_of(net.rnics)] = net.rnics
    if not net.clos.spec.up:
        yield _shift(net, grid, 0, width, 0, 0)  # nothing leaves a leaf
        return
    for turn, out, across, step in product((0, ports // 2), outs, wide, steps):
        if step or (across == width and pods > 1):
            yield _shift(net, grid, step, across, out, turn)


def _shift(net: RoutedFabric, grid: Ints, step: int, across: int, out: int, turn: int) -> Stage:
    """Return one permutation; no RNIC sends to itself."""
    ports, width = grid.shape[1], net.clos.leaves_per_pod
    leaf, port = np.divmod(np.arange(grid.size), ports)
    pod, place = np.divmod(leaf, width)
    crosses = (place - port) % width < across
    far = (pod + crosses) % net.clos.pods * width + (place + step) % width
    inside = out + (port - out + 1) % max(ports - out, 1)
    to_leaf = np.where(port >= out, leaf, far)
    to_port = np.where(port >= out, inside, (port + turn) % max(out, 1))
    src, dst = grid.ravel(), grid[to_leaf, np.minimum(to_port, ports - 1)]
    runs = (src >= 0) & (dst >= 0)
    runs[runs] = net.meet(src[runs], dst[runs])
    return Stage(src[runs], dst[runs])


def _mended(net: RoutedFabric, stage: Stage, worth: Floats, rng: np.random.Generator) -> Stage:
    """
    Add flows that cross links which are still wanted, between RNICs that are still free.

    A flow is added only where no link on its way gets so many flows that one falls below half the line rate: so host
    links stay covered, whatever is added.
    """
    most = np.maximum(1, np.floor(net.capacity_gbps / (LEAST_LOAD * net.line_gbps) + 1e-9))
    src, dst = stage.src, stage.dst
    for _ in range(_ROUNDS):
        left = np.where(net.covered(src, dst), 0.0, worth)
        if not left.any():
            break
        more = _accepted(net, _proposals(net, src, dst, left > 0, rng), left, most - net.flows(src, dst))
        src, dst = np.append(src, more.src), np.append(dst, more.dst)
    return Stage(src, dst)


def _proposals(net: RoutedFabric, src: Ints, dst: Ints, wanted: Bools, rng: np.random.Generator) -> Stage:
    """Return random flows between free RNICs that begin (or end) below the wanted links; the other end is anywhere."""
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
    """Choose the proposals to take, best first; *room*: how many more flows each link may have."""
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


def _tiers(net: RoutedFabric, *kinds: Bools) -> Iterator[TierCoverage]:
    for number, name in enumerate(TIERS):
        links, *counts = (int(net.cables[(net.tier == number) & which].sum()) for which in kinds)
        if links:
            yield TierCoverage(name, links, *counts)
