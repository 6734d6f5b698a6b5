"""
The few components that explain the slow samples: greedy maximum likelihood with add, drop and swap moves.

The same family as Flock (CoNEXT'23, arXiv 2305.03348): the component that wins most nats beyond its prior penalty is
called bad, all losses are fitted again, and those no longer worth their penalty are dropped, until nothing is won.
When more than 15 % of the samples are slow the search starts from what SCOMP finds (Aldridge, Baldassini and Johnson
2014), because a greedy search begins with a switch that seems to explain many bad hosts at once.

**Margin**: nats by which a component beats the best other explanation: that it is good, or that another component is
bad in its place. **Confidence**: its share of the likelihood among those explanations, 1 / (1 + e^-gain + sum of
e^-(gain - rival's gain)): two components that nothing tells apart have 0.5 each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fabric.judge.locate.pairs.components import BAD_HOST, Components
from fabric.judge.locate.pairs.samples import UNKNOWN, Bools, Floats, Ints, PairEvidence

NEVER = 1e9
"""The penalty, in nats, of a component that shall not be considered."""

_DEAR = 20.0  # nats; no prior is as high

ENOUGH = 0.8
"""A component may be bad when at least this share of its samples is slow (a choice: noise lets a few pass)."""


def scomp(evidence: PairEvidence, slow: Bools, penalties: Floats, part: Ints) -> list[int]:
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


CERTAIN = 6.0
"""Nats of margin from which a component is called localised (e^6 = 400 to 1)."""

OF_SPREAD = 4.0
"""A loss of less than so many times the spread between healthy hosts is not worth naming (a choice)."""

_SMALL = 1.5
"""A loss below so many times the least one worth naming is small (a choice)."""

OPEN = 1.2
"""
A component that is not blamed and could win this many nats is worth another test.

A choice, and a trade: of hosts that lost 3 % at a noise of 2 % one in fourteen looks good after the first six samples
and was cleared too early with 2.5 nats. With 1.2 nats one in twenty of all such hosts is missed (R .952 of 100 fleets,
not .83), for 6.8 samples a host, not 6.3, and a round or two more wherever the noise of a round is not well below the
least loss, on a clean fleet too; with 1.0 nats it would be 7.2 samples.
"""

_OPEN_LOSS = 0.7  # of the least loss worth naming: what looks smaller now may turn out larger

MANY = 0.15
"""Share of slow samples from which SCOMP starts the search."""

SURE = 0.99
"""Confidence is never more: the model is not the world (a choice)."""

_MOST_MOVES = 1000
_RIVALS = 8  # named at most


@dataclass(frozen=True, slots=True)
class Blamed:
    """A component called bad: *loss* 0..1 of the reference; *rivals* would explain the same nearly as well."""

    component: int
    loss: float
    margin: float
    confidence: float
    rivals: tuple[int, ...]
    gain: float


def certain_from(loss: float, evidence: PairEvidence) -> float:
    """
    The nats from which a part that lost *loss* is called bad.

    Twice as many where that is little more than is worth naming and healthy parts may differ by a quarter of it: of a
    hundred the lowest looks so after a few samples (16 hosts with 8 rails that differ by 0.5 %, four samples of 1 %
    each: one data set in thirteen had a part that was).
    """
    differ = OF_SPREAD * evidence.spread >= evidence.least_loss
    return settled_from(loss, evidence) if differ else CERTAIN


def settled_from(loss: float, evidence: PairEvidence) -> float:
    """The nats from which no more samples are asked for: twice as many wherever the loss is just worth naming."""
    return CERTAIN * (2 if loss < _SMALL * evidence.least_loss else 1)


@dataclass(frozen=True)
class Decoded:
    """*blamed*, most certain first; *open* components may be bad; *explained* is the expected loss of each sample."""

    blamed: tuple[Blamed, ...]
    open: tuple[int, ...]
    explained: Floats


def slow_samples(evidence: PairEvidence) -> Bools:
    """Which samples are slower than noise or the effect floor allow."""
    slow: Bools = evidence.ratio < 1 - max(evidence.least_loss, 3 * evidence.noise)
    return slow


def decode(evidence: PairEvidence, components: Components) -> Decoded:
    """
    Name what is bad.

    Where much is bad, hosts are bad more often than was thought: their prior is then taken from what was found, and the
    search is done once more. Else one bad leaf would seem likelier than ten bad hosts on it.
    """
    penalties = components.penalties
    slow = slow_samples(evidence)
    many = bool(slow.mean() > MANY)
    losses = _searched(_start(evidence, slow, penalties, components) if many else {}, evidence, penalties)
    if many:
        penalties = learnt(losses, components)
        losses = _searched(_start(evidence, slow, penalties, components), evidence, penalties)
    losses = _swapped(losses, evidence, penalties)
    leads = dict[int, float]()
    if many:
        losses, leads = _split(losses, evidence, slow, penalties, components)
    return _decoded(losses, evidence, penalties, leads, components)


def _split(
    losses: dict[int, float], evidence: PairEvidence, slow: Bools, penalties: Floats, components: Components
) -> tuple[dict[int, float], dict[int, float]]:
    """
    Each blamed leaf against its hosts one by one: the better of both, and by how many nats a leaf that stays leads.

    Single exchanges never find this: only all the hosts together take the place of a leaf.
    """
    leads: dict[int, float] = {}
    for leaf in [c for c in losses if components.kinds[c] == "leaf"]:
        banned = penalties.copy()
        banned[components.leaf == components.leaf[leaf]] = NEVER  # its uplinks too: they would stand in for it
        apart = _searched(_start(evidence, slow, banned, components), evidence, banned)
        lead = _cost(apart, evidence, penalties) - _cost(losses, evidence, penalties)
        if lead < 0:
            losses = apart
        else:
            leads[leaf] = lead
    return losses, leads


def _cost(losses: dict[int, float], evidence: PairEvidence, penalties: Floats) -> float:
    """Misfit of all samples and the penalties of what is blamed, in nats."""
    misfit = evidence.misfit(evidence.ratio, evidence.explained(losses)).sum()
    return float(misfit + sum(penalties[component] for component in losses))


def _start(evidence: PairEvidence, slow: Bools, penalties: Floats, components: Components) -> dict[int, float]:
    """What SCOMP finds, with losses."""
    nothing = np.zeros(len(evidence.ratio))
    found = {c: evidence.gain_of(c, nothing)[1] for c in scomp(evidence, slow, penalties, components.part)}
    return _settled({c: loss for c, loss in found.items() if loss > 0}, evidence, penalties)


def learnt(losses: dict[int, float], components: Components) -> Floats:
    """Penalties with the share of bad hosts that was found (at most 40 %)."""
    sides = [number for number, kind in enumerate(components.kinds) if kind.startswith("host")]
    bad = len({int(components.hosts[c]) for c in losses} - {UNKNOWN})
    hosts = len(set(components.hosts[sides].tolist()))
    share = min(bad / hosts, 0.4)
    penalties = components.penalties.copy()
    if share > BAD_HOST:
        penalties[sides] = np.minimum(penalties[sides], np.log((1 - share) / share))
    return penalties


def _searched(losses: dict[int, float], evidence: PairEvidence, penalties: Floats) -> dict[int, float]:
    """Components added, best first, until none is worth its penalty."""
    for _ in range(_MOST_MOVES):
        gains, found = evidence.gains(evidence.explained(losses))
        net = gains - penalties
        net[list(losses)] = -np.inf
        best = int(np.argmax(net))
        if net[best] <= 0:
            break
        losses[best] = float(found[best])
        before = set(losses)
        losses = _settled(losses, evidence, penalties)
        if best not in losses and before - {best} == set(losses):
            break
    return losses


def _settled(losses: dict[int, float], evidence: PairEvidence, penalties: Floats) -> dict[int, float]:
    """Losses fitted again, one after the other, and components dropped that are no longer worth their penalty."""
    losses = dict(losses)
    for component in sorted(losses, key=lambda c: losses[c]):
        gain, loss = evidence.gain_of(component, evidence.explained(losses, without=component))
        if gain <= penalties[component]:
            del losses[component]
        else:
            losses[component] = loss
    return losses


def _swapped(losses: dict[int, float], evidence: PairEvidence, penalties: Floats) -> dict[int, float]:
    """Components exchanged for others that explain the samples better in their place."""
    for component in list(losses):
        rest = {c: loss for c, loss in losses.items() if c != component}
        gains, found = evidence.gains(evidence.explained(rest))
        net = gains - penalties
        net[list(rest)] = -np.inf
        best = int(np.argmax(net))
        if best != component and net[best] > net[component] + 1e-9:
            losses = _settled({**rest, best: float(found[best])}, evidence, penalties)
            if set(losses) == set(rest):
                break
        if component not in losses and best not in losses:
            break
    return losses


def _decoded(
    losses: dict[int, float], evidence: PairEvidence, penalties: Floats, leads: dict[int, float], components: Components
) -> Decoded:
    explained = evidence.explained(losses)
    blamed = [_blamed(component, losses, evidence, penalties, components) for component in losses]
    blamed = [replace(one, margin=min(one.margin, leads.get(one.component, np.inf))) for one in blamed]
    gains, _ = replace(evidence, least_loss=_OPEN_LOSS * evidence.least_loss).gains(explained)
    gains[list(losses)] = 0.0
    open_ = np.flatnonzero(gains > OPEN)
    return Decoded(
        tuple(sorted(blamed, key=lambda one: (-one.margin, one.component))),
        tuple(int(c) for c in open_[np.argsort(-gains[open_], kind="stable")]),
        explained,
    )


def _blamed(
    component: int, losses: dict[int, float], evidence: PairEvidence, penalties: Floats, components: Components
) -> Blamed:
    """How sure one component is, against being good and against every other part in its place."""
    gains, _ = evidence.gains(evidence.explained(losses, without=component))
    net = gains - penalties
    mine = float(net[component])
    others = net.copy()
    others[list(losses)] = -np.inf
    others[components.part == components.part[component]] = -np.inf
    rival = float(others.max(initial=-np.inf))
    near = np.flatnonzero(others > mine - CERTAIN)
    near = near[others[near] > 0]
    near = near[np.argsort(-others[near], kind="stable")]
    near = near[np.sort(np.unique(components.part[near], return_index=True)[1])]  # the best of each part
    weight = 1.0 + np.exp(-max(mine, -50.0)) + float(np.exp(np.clip(others[near] - mine, -50, 50)).sum())
    return Blamed(
        component,
        losses[component],
        margin=mine - max(rival, 0.0),
        confidence=float(min(1.0 / weight, SURE)),
        rivals=tuple(int(c) for c in near[:_RIVALS]),
        gain=mine,
    )
