"""What a network would give a traffic pattern: share of line rate by routing engine, with links slow, lossy or down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabric.sim.faults import LinkFault
from fabric.sim.net.clos import Floats, Ints
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.named_clos import NamedClos
from fabric.sim.net.route import AR_ALPHA, AR_ETA, Paths, pooled, routes
from fabric.sim.net.traffic import Traffic, traffic
from fabric.sim.phy.quality import goodput_factor
from fabric.sim.subnet.links import LinkState, link_state

ENGINES_BY_DEFAULT = ("ftree", "updn", "ecmp", "ar")
PER_JOB = ("pairs", "ring")
BUSIEST = 5


@dataclass(frozen=True)
class Question:
    """What is asked: a pattern over some hosts of a network, the engines to compare, and what is wrong with links."""

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
    stalled: int  # that got nothing at all


@dataclass(frozen=True, slots=True)
class BusyLink:
    """A link, or the trunk that adaptive routing uses as one: what flows at line rate would put on it, worst seed."""

    name: str
    load_gbps: float
    capacity_gbps: float

    @property
    def ratio(self) -> float | None:
        """Load over capacity; None when it carries nothing at all."""
        return self.load_gbps / self.capacity_gbps if self.capacity_gbps else None


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What one routing engine makes of it; *healthy* is the same without faults, where there are any."""

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
    """One engine on links in one state; remembers the most that was asked of each link."""

    def __init__(self, question: Question, engine: str, state: LinkState) -> None:
        self._question, self._engine, self._state = question, engine, state
        clos = question.net.clos
        if engine == "ar":
            alpha = AR_ALPHA[question.link_layer]
            self._capacity = pooled(clos, state.capacity_gbps, eta=AR_ETA, alpha=alpha)
            self._loss = _sprayed(question.net, state, weighted=alpha > 0)
        else:
            self._capacity, self._loss = state.capacity_gbps, state.loss
        self._load = np.zeros(len(self._capacity))

    def shares(self, flows: Traffic, seed: int) -> Floats:
        """Goodput over the fair part of line rate, of each job or flow."""
        src, dst, job = flows
        question, clos = self._question, self._question.net.clos
        paths = routes(clos, src, dst, engine=self._engine, salt=seed, qps=question.qps, down=self._state.down)
        fan = len(src) / len(np.unique(src))  # flows that share an RNIC at best
        member = job[paths.flow] if question.pattern in PER_JOB else paths.flow
        alone = question.pattern not in PER_JOB and len(paths.flow) == len(src)  # no sub-flows to couple
        rate = max_min(paths.links, self._capacity, weight=paths.weight, job=None if alone else member)
        line_rate_gbps = clos.spec.line_rate_gbps
        self._remember(paths, line_rate_gbps / fan)
        share: Floats = rate * self._goodput(paths, member, len(rate)) * (fan / line_rate_gbps)
        return share

    def _goodput(self, paths: Paths, member: Ints, members: int) -> Floats:
        """What go-back-N leaves of each member's rate: that of its worst sub-flow."""
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
        """The links of which most was asked, between switches first where several are alike."""
        used = np.flatnonzero(self._load > 0)
        with np.errstate(divide="ignore"):
            ratio = np.round(self._load[used] / self._capacity[used], 9)
        access = used < 2 * self._question.net.clos.nics
        top = used[np.lexsort((used, access, -ratio))][:BUSIEST]
        name = self._question.net.trunk_name if self._engine == "ar" else self._question.net.link_name
        return tuple(BusyLink(name(int(at)), float(self._load[at]), float(self._capacity[at])) for at in top)


def _sprayed(net: NamedClos, state: LinkState, *, weighted: bool) -> Floats:
    """
    The loss of each trunk: the mean of its links, since packets go over all of them.

    Queues steer packets away from slow links where they are known (*weighted*), but never from a lossy one as fast as
    ever.
    """
    part = state.capacity_gbps if weighted else np.where(state.capacity_gbps > 0, 1.0, 0.0)
    whole = pooled(net.clos, part, eta=1.0)
    lost = pooled(net.clos, part * state.loss, eta=1.0)
    found: Floats = np.divide(lost, whole, out=np.zeros_like(lost), where=whole > 0)
    return found


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
