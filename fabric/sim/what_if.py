"""What a network would give a traffic pattern: share of line rate by routing engine, with links slow, lossy or down."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fabric.sim.faults import LinkFault
from fabric.sim.net.clos import Clos, Floats, Ints
from fabric.sim.net.links import LinkState, link_state
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.named_clos import NamedClos
from fabric.sim.net.route import AR_ALPHA, Paths, pooled, routes
from fabric.sim.phy.quality import goodput_factor

Traffic: TypeAlias = tuple[Ints, Ints, Ints]


def ring(clos: Clos, hosts: Ints) -> Traffic:
    """Return one ring through *hosts* in this order, on every rail; all of it is one job."""
    order = np.asarray(hosts, dtype=np.int64)
    return _every_rail(clos, order, np.roll(order, -1), np.zeros(len(order), dtype=np.int64))


def all_to_all(clos: Clos, hosts: Ints) -> Traffic:
    """Return the traffic of every host to every other, on every rail; all of it is one job."""
    order = np.asarray(hosts, dtype=np.int64)
    src, dst = np.repeat(order, len(order)), np.tile(order, len(order))
    apart = src != dst
    return _every_rail(clos, src[apart], dst[apart], np.zeros(int(apart.sum()), dtype=np.int64))


def _every_rail(clos: Clos, src: Ints, dst: Ints, job: Ints) -> Traffic:
    rails = np.arange(clos.spec.rails, dtype=np.int64)
    ends = clos.nic_at[np.stack([src, dst])[:, :, np.newaxis], rails].reshape(2, -1)
    there = (ends >= 0).all(axis=0)  # a rail without an RNIC at one end carries nothing between them
    return ends[0, there], ends[1, there], np.repeat(job, clos.spec.rails)[there]


PATTERNS = ("permutation", "pairs", "ring", "all_to_all")
ORDERS = ("sorted", "random")
DEFAULT_ORDER = {"permutation": "random", "pairs": "random", "ring": "sorted", "all_to_all": "sorted"}
"""
The default order of hosts for each pattern.

Ring: the rank order of a host list is usual, and decides the result. Pairs and permutations of a scheduler that does
not look at the network are as good as random.
"""


def flows_of(pattern: str, *, hosts: int, rails: int) -> int:
    """Return how many flows a pattern has."""
    each = {"permutation": 1, "pairs": 1, "ring": 1, "all_to_all": hosts - 1}[pattern]
    return each * (hosts - hosts % 2 if pattern == "pairs" else hosts) * rails


def traffic(pattern: str, net: NamedClos, *, hosts: Ints, order: str, seed: int) -> Traffic:
    """
    Return source RNICs, destination RNICs and the job of each flow.

    ``permutation``: every RNIC sends to one and receives from one; sorted, to the same rail of the host half the list
    further; random, to any RNIC that the switches join it with. ``pairs``: two-host rings of each host of the first
    half with its counterpart in the second; an odd host is left out. ``ring``: one ring through all. ``all_to_all``:
    every host to every other. All but a random permutation stay on their rail. Flows that no switch joins are left out.
    """
    src, dst, job = _flows(pattern, net, hosts, order, seed)
    here, there = (net.part[net.clos.leaf_at[ends]] for ends in (src, dst))
    joined = here == there
    return src[joined], dst[joined], np.unique(job[joined], return_inverse=True)[1]


def _flows(pattern: str, net: NamedClos, hosts: Ints, order: str, seed: int) -> Traffic:
    if order == "random":
        if pattern == "permutation":
            return _drawn_permutation(net, hosts, seed)
        hosts = np.random.default_rng(seed).permutation(hosts)
    if pattern == "permutation":
        src, dst, _ = _every_rail(net.clos, hosts, np.roll(hosts, -(len(hosts) // 2)), hosts)
        return src, dst, np.arange(len(src), dtype=np.int64)
    if pattern == "ring":
        return ring(net.clos, hosts)
    if pattern == "all_to_all":
        return all_to_all(net.clos, hosts)
    return _pairs(net, hosts)


def _pairs(net: NamedClos, hosts: Ints) -> Traffic:
    half = len(hosts) // 2
    one, other = hosts[:half], hosts[half : 2 * half]
    src, dst = np.concatenate([one, other]), np.concatenate([other, one])
    return _every_rail(net.clos, src, dst, np.tile(np.arange(half, dtype=np.int64), 2))


def _drawn_permutation(net: NamedClos, hosts: Ints, seed: int) -> Traffic:
    """Return one random cycle through the RNICs of each group that switches join."""
    rng = np.random.default_rng(seed)
    nics = net.clos.nic_at[hosts[:, np.newaxis], np.arange(net.clos.spec.rails)].ravel()
    nics = nics[nics >= 0]
    part = net.part[net.clos.leaf_at[nics]]
    cycles = [rng.permutation(nics[part == number]) for number in np.unique(part)]
    src = np.concatenate(cycles)
    dst = np.concatenate([np.roll(cycle, -1) for cycle in cycles])
    return src, dst, np.arange(len(src), dtype=np.int64)


ENGINES_BY_DEFAULT = ("ftree", "updn", "ecmp", "ar")
PER_JOB = ("pairs", "ring")
BUSIEST = 5


@dataclass(frozen=True)
class Question:
    """A question: a pattern over some hosts of a network, the engines to compare, and what is wrong with links."""

    inventory: str  # its name
    net: NamedClos
    link_layer: str  # "infiniband" | "ethernet"
    pattern: str
    order: str
    hosts: tuple[int, ...]
    engines: tuple[str, ...] = ENGINES_BY_DEFAULT
    faults: tuple[LinkFault, ...] = ()
    qps: int = 1
    seeds: int = 10
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Shares:
    """How shares of line rate spread over flows or jobs and all seeds; *cv* is None where the mean is 0."""

    count: int
    mean: float
    median: float
    p5: float
    least: float
    cv: float | None
    stalled: int  # number that got nothing at all


@dataclass(frozen=True, slots=True)
class BusyLink:
    """A link, or a trunk that adaptive routing pools, and its load with flows at line rate, for the worst seed."""

    name: str
    load_gbps: float
    capacity_gbps: float

    @property
    def ratio(self) -> float | None:
        """Return load over capacity; None when it carries nothing at all."""
        return self.load_gbps / self.capacity_gbps if self.capacity_gbps else None


@dataclass(frozen=True, slots=True)
class EngineResult:
    """The result of one routing engine; *healthy* is the result without faults, where there are any."""

    engine: str
    shares: Shares
    healthy: Shares | None
    busiest: tuple[BusyLink, ...]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer, engine by engine in the order asked."""

    question: Question
    state: LinkState
    engines: tuple[EngineResult, ...]


def what_if(question: Question) -> WhatIf:
    """Simulate every engine with every seed; the same question has the same answer everywhere."""
    broken = link_state(question.net, question.faults, link_layer=question.link_layer)
    engines = tuple(_engine(question, engine, broken) for engine in question.engines)
    return WhatIf(question, broken, engines)


def _engine(question: Question, engine: str, broken: LinkState) -> EngineResult:
    states = [broken] if not question.faults else [broken, link_state(question.net, (), link_layer=question.link_layer)]
    networks = [_Network(question, engine, state) for state in states]
    samples: list[list[Floats]] = [[] for _ in networks]
    for number in range(question.seeds):
        seed = question.seed + number
        hosts = np.array(question.hosts, dtype=np.int64)
        flows = traffic(question.pattern, question.net, hosts=hosts, order=question.order, seed=seed)
        for network, found in zip(networks, samples, strict=True):
            found.append(network.shares(flows, seed))
    shares = [_spread(np.concatenate(found)) for found in samples]
    return EngineResult(engine, shares[0], shares[1] if len(shares) > 1 else None, networks[0].busiest())


class _Network:
    """One engine on links in one state; remembers the highest load of each link."""

    def __init__(self, question: Question, engine: str, state: LinkState) -> None:
        self._question, self._engine, self._state = question, engine, state
        clos = question.net.clos
        if engine == "ar":
            alpha = AR_ALPHA[question.link_layer]
            self._capacity = pooled(clos, state.capacity_gbps, alpha=alpha)
            self._loss = _sprayed(question.net, state, weighted=alpha > 0)
        else:
            self._capacity, self._loss = state.capacity_gbps, state.loss
        self._load = np.zeros(len(self._capacity))

    def shares(self, flows: Traffic, seed: int) -> Floats:
        """Return goodput over the fair part of line rate, of each job or flow."""
        src, dst, job = flows
        question, clos = self._question, self._question.net.clos
        paths = routes(clos, src, dst, engine=self._engine, salt=seed, qps=question.qps, down=self._state.down)
        fan = len(src) / len(np.unique(src))  # flows that share an RNIC at best
        member = job[paths.flow] if question.pattern in PER_JOB else paths.flow
        alone = question.pattern not in PER_JOB and len(paths.flow) == len(src)  # no sub-flows to couple
        rate = max_min(paths.links, self._capacity, weight=paths.weight, job=None if alone else member)
        line_rate_gbps = clos.spec.line_rate_gbps
        self._remember(paths, line_rate_gbps / fan)
        return rate * self._goodput(paths, member, len(rate)) * (fan / line_rate_gbps)

    def _goodput(self, paths: Paths, member: Ints, members: int) -> Floats:
        """Return what go-back-N leaves of each member's rate: that of its worst sub-flow."""
        worst = np.ones(members)
        if not self._loss.any():
            return worst
        passed = np.append(1.0 - self._loss, 1.0)[paths.links].prod(axis=1)
        losses, which = np.unique(1.0 - passed, return_inverse=True)
        rate_gbps = self._question.net.clos.spec.line_rate_gbps
        factors = np.array([goodput_factor(float(loss), rate_gbps=rate_gbps) for loss in losses])
        np.minimum.at(worst, member, factors[which])
        return worst

    def _remember(self, paths: Paths, flow_gbps: float) -> None:
        weights = np.broadcast_to(paths.weight[:, np.newaxis] * flow_gbps, paths.links.shape)
        load = np.bincount(paths.links.ravel(), weights=weights.ravel(), minlength=len(self._load) + 1)[:-1]
        self._load = np.maximum(self._load, load)

    def busiest(self) -> tuple[BusyLink, ...]:
        """Return the links with the highest load over capacity; at equal load those between switches first."""
        used = np.flatnonzero(self._load > 0)
        with np.errstate(divide="ignore"):
            ratio = np.round(self._load[used] / self._capacity[used], 9)
        access = used < 2 * self._question.net.clos.nics
        top = used[np.lexsort((used, access, -ratio))][:BUSIEST]
        net = self._question.net
        names = net.trunk_names if self._engine == "ar" else net.link_names
        return tuple(BusyLink(names[int(at)], float(self._load[at]), float(self._capacity[at])) for at in top)


def _sprayed(net: NamedClos, state: LinkState, *, weighted: bool) -> Floats:
    """
    Return the loss of each trunk: the mean of its links, since packets go over all of them.

    Queues steer packets away from slow links where they are known (*weighted*), but never from a lossy link, which is
    as fast as ever.
    """
    part = state.capacity_gbps if weighted else np.where(state.capacity_gbps > 0, 1.0, 0.0)
    whole = pooled(net.clos, part, eta=1.0)
    lost = pooled(net.clos, part * state.loss, eta=1.0)
    return np.divide(lost, whole, out=np.zeros_like(lost), where=whole > 0)


def _spread(shares: Floats) -> Shares:
    mean = float(shares.mean())
    return Shares(
        count=len(shares),
        mean=mean,
        median=float(np.median(shares)),
        p5=float(np.percentile(shares, 5)),
        least=float(shares.min()),
        cv=float(shares.std()) / mean if mean > 0 else None,
        stalled=int((shares <= 0).sum()),
    )
