"""Pair samples against absolute limits: a fabric that is slow as a whole has no outlier, and must fail all the same.

Classes of pairs are judged first, then hosts that are near their peers but below the limit, then single pairs. A sample
that was low once, and that nothing explains, is measured again before anybody is blamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from fabric.judge.locate.levels import FIFTH, PLACED
from fabric.judge.locate.matrix import SIGMAS
from fabric.judge.locate.pairs.findings import FAR, good_again, pair_suspect, some, unexplained
from fabric.judge.locate.pairs.fitted import TWICE, Fitted
from fabric.judge.locate.search import MOST_NAMED, SURE
from fabric.judge.locate.structure import Bools
from fabric.model.outcome import Outcome
from fabric.model.text import fold, gbps_text
from fabric.model.verdict import Suspect

_LEAST_HOSTS = 3  # least hosts of a class among others
_NEXT_PAIR = "measure it again before anybody is drained, and each of the two with another partner"
_NEXT_LEAF = (
    "look at the leaf switch first: its ports, configuration and firmware; then at what all RNICs of this rail share"
)
_NEXT_GROUP = (
    "what they share first: switch configuration, MTU, firmware, PCIe settings, a power cap, or a limit that is meant "
    "for other hardware"
)


@dataclass(frozen=True)
class Below:
    """
    What is below the limit: *classes* (numbers) as a whole, and *hosts* as suspects.

    *near* says which classes are too near to tell. *whole*: every class is below. *explained*: the samples of all
    these.
    """

    classes: tuple[int, ...]
    whole: bool
    near: tuple[str, ...]
    hosts: tuple[Suspect, ...]
    explained: Bools


def below_limit(fitted: Fitted) -> Below:
    """Return the classes, then the hosts, whose level is below the limit; samples of bad parts are left out."""
    samples, limits = fitted.samples, fitted.samples.limits_gbps
    good = (fitted.explained == 0) & ~fitted.together & ~np.isnan(limits)
    failed, reached, near = list[int](), list[int](), list[str]()
    for number, kind in enumerate(fitted.classes):
        mine = good & (fitted.of_class == number)
        if not _is_class(fitted, mine):
            continue
        limit, error = float(np.median(limits[mine])), kind.gbps * kind.noise / np.sqrt(mine.sum())
        if abs(kind.gbps - limit) <= SIGMAS * error:
            measured = f"{gbps_text(kind.gbps)} Gb/s of {int(mine.sum())} samples, limit {limit:g} Gb/s"
            text = f"too near the limit to tell: {kind.name}{samples.where}: {measured}"
            near.append(f"{text}, standard error {error:.2g}")
        else:
            (failed if kind.gbps < limit else reached).append(number)
    hosts = _hosts(fitted, good & np.isin(fitted.of_class, reached))
    named = np.isin(samples.hosts, [host for one in hosts for host in one.hosts])
    explained = np.isin(fitted.of_class, failed) | named[samples.a] | named[samples.b]
    whole = bool(failed) and not reached and not near
    return Below(tuple(failed), whole, tuple(near), tuple(hosts), explained)


def _is_class(fitted: Fitted, mine: Bools) -> bool:
    """
    Return whether some samples make a class; where there are several classes, one of few hosts is none.

    Pairs that all have one host in common are none: that host stands out, though no other pair was measured beside it.
    """
    hosts = len(fitted.samples.hosts)
    one, other = np.divmod(np.unique(fitted.samples.pair[mine]), hosts)
    few = len(fitted.classes) > 1 and len(np.unique([one, other])) < max(_LEAST_HOSTS, FIFTH * hosts)
    if few or len(one) < 2:
        return len(one) == 1 and not few
    return not any(((one == host) | (other == host)).all() for host in (one[0], other[0]))


def as_a_whole(
    fitted: Fitted, below: Below, others: Sequence[Sequence[str]] = (), *, one_leaf: bool = False
) -> Suspect:
    """
    Return the classes of a plane that are below the limit as a suspect: their hosts, or the leaf that is theirs alone.

    *others* are the hosts of each plane that is not slow as a whole: they show that the hosts of a leaf are good on
    another rail. *one_leaf*: all planes that are slow as a whole share one leaf. Then it is this leaf, or what all its
    hosts share, if these are farther below the limit than places differ. A leaf under which any pair reaches its limit
    is no suspect: a slow switch holds every pair down.
    """
    samples = fitted.samples
    mine = np.isin(fitted.of_class, below.classes)
    hosts = tuple(samples.hosts[h] for h in np.unique([samples.a[mine], samples.b[mine]]).tolist())
    slow = np.flatnonzero(mine & (fitted.explained == 0) & (samples.gbps < samples.limits_gbps))
    slow = slow[np.argsort(samples.gbps[slow], kind="stable")]
    required = " or ".join(f"{limit:g}" for limit in np.unique(samples.limits_gbps[slow]).tolist())
    median = gbps_text(float(np.median(samples.gbps[slow])))
    level = f"{len(slow)} pairs{samples.where}: median {median} Gb/s, at least {required} required"
    probes = tuple(samples.probe_ids[i] for i in slow[:MOST_NAMED].tolist()) if samples.probe_ids else ()
    alone = any(len(set(hosts) & set(each)) > len(each) / 2 for each in others)
    far = one_leaf and bool(np.median(samples.gbps[slow] / samples.limits_gbps[slow]) < 1 - PLACED)
    every = below.whole and not (samples.gbps >= samples.limits_gbps).any()
    if every and samples.only_leaf and len(hosts) > 2 and (alone or far):
        text = "the leaf switch: every pair under it is below the limit"
        text += ", and on another rail the same hosts are not" if alone else "; or what all these hosts share"
        return Suspect(
            component=samples.only_leaf,
            kind="leaf",
            outcome=Outcome.FAIL,
            confidence=SURE if alone else 1 / 2,
            evidence=(text, level),
            ambiguous_with=() if alone else (fold(hosts),),
            next_step=_NEXT_LEAF,
            probes=probes,
        )
    name = "" if below.whole else f" {', '.join(fitted.classes[number].name for number in below.classes)}"
    pair = len(hosts) == 2
    return Suspect(
        component=f"{hosts[0]}+{hosts[1]}" if pair else fold(hosts),
        kind="pair" if pair else "group",
        outcome=Outcome.FAIL,
        confidence=SURE,  # that all of it is slow is certain
        evidence=(f"nobody stands out: the pairs of these hosts{name} are below the limit as a whole", level),
        next_step="run each of the two with another partner" if pair else _NEXT_GROUP,
        hosts=hosts,
        probes=probes,
    )


def _hosts(fitted: Fitted, use: Bools) -> list[Suspect]:
    """Return hosts near their peers, which reach the limit, but below it: with two different partners at least."""
    samples, limits = fitted.samples, fitted.samples.limits_gbps
    use = use & ~unexplained(fitted)
    low = use & (samples.gbps < limits)
    found = []
    for host in np.unique([samples.a[low], samples.b[low]]).tolist():
        mine = np.flatnonzero(use & ((samples.a == host) | (samples.b == host)))
        level, limit = float(np.median(samples.gbps[mine])), float(np.median(limits[mine]))
        noise = max(fitted.classes[n].noise for n in set(fitted.of_class[mine].tolist()))
        partners = {*samples.a[mine].tolist(), *samples.b[mine].tolist()} - {host}
        if level * (1 + SIGMAS * noise / np.sqrt(len(mine))) >= limit or len(partners) < 2:
            continue
        reached = f"median {gbps_text(level)} of {len(mine)} samples, limit {limit:g} Gb/s"
        found.append(
            Suspect(
                component=samples.hosts[host] + (f"/{samples.rail}" if samples.rail else ""),
                kind="rnic" if samples.rail else "host",
                outcome=Outcome.FAIL,
                confidence=0.95,
                evidence=(f"below the limit{samples.where}: {reached}",),
                next_step="loopback on this host, then port counters",
                hosts=(samples.hosts[host],),
            )
        )
    return found


@dataclass(frozen=True)
class LowPairs:
    """Pairs below the limit (*suspects*), whose samples are *low*, and samples *once* below it beside good ones."""

    suspects: tuple[Suspect, ...]
    low: Bools
    once: Bools


def low_pairs(fitted: Fitted, suspects: Sequence[Suspect], *, named_parts: bool) -> LowPairs:
    """
    Return pairs below the limit that no host or class of *suspects* explains, lowest first, and samples once below it.

    Such a pair is a suspect at once, without a second sample; the pair is named, no host. Of several samples of a pair
    the median counts (of two the higher: one bad sample that was measured again is a dip), each direction for itself
    where it is known. If a direction has a single sample, one good sample the other way makes it a dip until it is
    measured again; a pair that was low once each way may be so by chance. *named_parts*: bad parts are suspects
    already, and their samples are left out; with too few hosts no part is named.
    """
    samples, limits = fitted.samples, fitted.samples.limits_gbps
    named = [suspect.hosts for suspect in suspects if suspect.kind in ("host", "rnic", "group", "pair")]
    known = np.isin(samples.hosts, list(chain.from_iterable(named)))
    below, odd, both = samples.gbps < limits, unexplained(fitted), samples.pair
    open_ = below & ~known[samples.a] & ~known[samples.b]
    if named_parts:
        open_ &= fitted.explained == 0
    low: Bools = np.zeros(len(open_), dtype=np.bool_)
    names, inverse = np.unique(
        samples.a * len(samples.hosts) + samples.b if samples.tells_ways else both, return_inverse=True
    )
    good = np.isin(both, both[~below])
    found: list[tuple[float, Suspect]] = []
    for number in np.unique(inverse[open_]).tolist():
        mine = np.flatnonzero(inverse == number)
        count, limit = len(mine), float(limits[mine[0]])
        level = float(np.sort(samples.gbps[mine])[count // 2])
        far = odd[mine].all() or level * (1 + FAR * fitted.noise / np.sqrt(count)) < limit
        if level >= limit or not far or (count == 1 and good[mine[0]]):
            continue
        low[mine] = True
        a, b = (samples.hosts[end] for end in divmod(int(names[number]), len(samples.hosts)))
        times = int((both == both[mine[0]]).sum())
        doubts = [TWICE] if count == 1 and times > 1 else []  # once each way
        way = f"{a}->{b}" if samples.tells_ways else f"{a}-{b}"
        reached = f"median {level:,.1f} of {count} samples, limit {limit:g} Gb/s"
        evidence = (f"{way} below the limit{samples.where}: {reached}",)
        suspect = pair_suspect(min(a, b), max(a, b), count, evidence=evidence, next_step=_NEXT_PAIR, doubts=doubts)
        found.append((level, suspect))
    found.sort(key=lambda one: (one[0], one[1].component))
    far_below = odd | (samples.gbps * (1 + FAR * fitted.noise) < limits)
    return LowPairs(tuple(one for _, one in found[:MOST_NAMED]), low, open_ & far_below & good & ~low)


def single_low_lines(fitted: Fitted, once: Bools) -> list[tuple[Outcome, str]]:
    """Return in a line the single samples below the limit of pairs that otherwise reached it, lowest first."""
    samples, which = fitted.samples, np.flatnonzero(once)
    if not len(which):
        return []
    arrow = "->" if samples.tells_ways else "-"
    worst = which[np.argsort(samples.gbps[which], kind="stable")].tolist()
    names = [f"{samples.hosts[samples.a[i]]}{arrow}{samples.hosts[samples.b[i]]} {samples.gbps[i]:,.1f}" for i in worst]
    limit = f"{samples.limits_gbps[worst[0]]:g} Gb/s"
    text = f"{len(which)} samples{samples.where} are below the limit of {limit} once, beside good ones of their pair"
    again = "" if good_again(fitted, once).sum() == len(which) else "measure again: "
    return [(Outcome.MARGINAL, f"{text}: {again}{some(names)}")]
