"""
Pair samples against absolute limits: what is uniformly slow has no outlier, and must fail all the same.

Classes of pairs come first, then hosts that are near their peers and below the limit, then single pairs. A sample that
was low once, and that nothing explains, is measured again before anybody is blamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from fabric.judge.locate.levels import FIFTH
from fabric.judge.locate.pairs.findings import by_dips, pair_numbers, pair_suspect, unexplained
from fabric.judge.locate.pairs.fitted import Fitted
from fabric.judge.locate.search import SURE
from fabric.judge.locate.structure import Bools, Floats, Ints
from fabric.model.outcome import Outcome
from fabric.model.text import fold, gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect

_SIGMAS = 3.0
"""A level this many standard errors from the limit is on one side of it for certain (one in 370)."""

_FAR = 5.0
"""As many for a single pair, of which there are many: chance alone makes one in three million."""

_LEAST_HOSTS = 3  # of a class among others
_NEXT_PAIR = "measure it again before anybody is drained, and each of the two with another partner"
_PAIRS_MOST, _PROBES_MOST, _PLANES_MOST, _ONCE_NAMED = 20, 20, 8, 6


@dataclass(frozen=True)
class SlowClass:
    """
    Classes of a plane that are below the limit: its name in brackets, theirs (empty: all), hosts, numbers and samples.

    *leaf* is the switch that all hosts of the plane share, None where they have several or it is not known.
    """

    where: str
    name: str
    hosts: tuple[str, ...]
    classes: tuple[int, ...]
    gbps: Floats
    limit_gbps: Floats
    samples: Ints
    leaf: str | None = None
    probe_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Below:
    """
    *classes* are below the limit as a whole, *near* says which are too near to tell; *hosts* are suspects.

    *pairs* are suspects below the limit with all their samples, *low*; *once* are low samples that nobody explains.
    """

    classes: SlowClass | None
    near: tuple[str, ...]
    hosts: tuple[Suspect, ...]
    pairs: tuple[Suspect, ...] = ()
    low: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    once: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))


def only_leaf(hosts: Sequence[str], rail: int, topology: Topology) -> str | None:
    """The leaf switch that all *hosts* share on a rail; None where there is more than one, or it is not known."""
    found = {next(iter(topology.hosts[host].leaves[rail : rail + 1]), None) for host in hosts}
    return found.pop() if len(found) == 1 else None


def below_limit(
    fitted: Fitted, limit_gbps: Floats, where: str, *, leaf: str | None = None, probe_ids: Sequence[str] = ()
) -> Below:
    """
    Classes, then hosts, whose level is below the limit of each sample (NaN: none); what is called bad is left out.

    Pairs with one host in common are no class: that host stands out, though no other pair was measured beside it.
    """
    samples, good = fitted.samples, (fitted.decoded.explained == 0) & ~np.isnan(limit_gbps)
    failed, reached, near = list[int](), list[int](), list[str]()
    for number, (found, kind) in enumerate(zip(fitted.references, fitted.classes, strict=True)):
        mine = good & (fitted.of_class == number)
        ends = set(zip(samples.a[mine].tolist(), samples.b[mine].tolist(), strict=True))
        few = (
            len({host for pair in ends for host in pair}) < max(_LEAST_HOSTS, FIFTH * len(samples.hosts))
            and len(fitted.classes) > 1
        )
        if not ends or few or (len(ends) > 1 and frozenset.intersection(*map(frozenset, ends))):
            continue
        limit = float(np.median(limit_gbps[mine]))
        error = found.gbps * found.noise / np.sqrt(mine.sum())
        if abs(found.gbps - limit) <= _SIGMAS * error:
            said = (
                f"{kind.name}{where}: {gbps_text(found.gbps)} Gb/s of {int(mine.sum())} samples, limit {limit:g} Gb/s"
            )
            near.append(f"too near the limit to tell: {said}, standard error {error:.2g}")
        else:
            (failed if found.gbps < limit else reached).append(number)
    slow = good & np.isin(fitted.of_class, failed)
    hosts = _hosts(fitted, limit_gbps, where, good & np.isin(fitted.of_class, reached))
    if not failed:
        return Below(None, tuple(near), hosts)
    slow &= samples.gbps < limit_gbps
    which = np.flatnonzero(slow)[np.argsort(samples.gbps[slow], kind="stable")]
    mine = np.isin(fitted.of_class, failed)
    of = sorted({*samples.a[mine].tolist(), *samples.b[mine].tolist()})
    ids = tuple(probe_ids[i] for i in which[:_PROBES_MOST].tolist()) if probe_ids else ()
    names, whole = tuple(samples.hosts[h] for h in of), len(failed) == len(fitted.classes)
    said = "" if whole else ", ".join(fitted.classes[number].name for number in failed)
    classes = SlowClass(
        where, said, names, tuple(failed), samples.gbps[which], limit_gbps[which], which, leaf if whole else None, ids
    )
    return Below(classes, tuple(near), hosts)


def whole_suspects(found: Sequence[SlowClass], others: Sequence[Sequence[str]] = ()) -> list[Suspect]:
    """
    One suspect for the same hosts on all their planes; or the leaf that they share, which nothing else is theirs alone.

    *others* are the hosts of each plane that is not slow as a whole: those of a leaf are good on another rail.
    """
    by: dict[tuple[str, str, tuple[str, ...]], list[SlowClass]] = {}
    for one in found:
        shared = one.leaf is not None and any(len(set(one.hosts) & set(hosts)) > len(hosts) / 2 for hosts in others)
        key = (one.leaf or "", "", ()) if shared else ("", one.name, () if one.name else one.hosts)
        by.setdefault(key, []).append(one)
    return [_whole(planes, leaf=leaf) for (leaf, *_), planes in by.items()]


def _whole(planes: Sequence[SlowClass], *, leaf: str) -> Suspect:
    hosts = tuple(dict.fromkeys(host for one in planes for host in one.hosts))
    pair = len(hosts) == 2 and not leaf
    more = [f"and {len(planes) - _PLANES_MOST} more"] if len(planes) > _PLANES_MOST else []
    if leaf:
        said = "the leaf switch: every pair under it is below the limit, and on another rail the same hosts are not"
        step = (
            "look at the leaf switch first: its ports, configuration and firmware; then at what all RNICs of this rail "
            "share"
        )
    else:
        which = f"the pairs of these hosts {planes[0].name}".rstrip()
        said = f"nobody stands out: {which} are below the limit as a whole"
        step = (
            "run each of the two with another partner"
            if pair
            else "what they share first: switch configuration, MTU, firmware, PCIe settings, a power cap, or a limit "
            "that is meant for other hardware"
        )
    return Suspect(
        component=leaf or (f"{hosts[0]}+{hosts[1]}" if pair else fold(hosts)),
        kind="leaf" if leaf else "pair" if pair else "group",
        outcome=Outcome.FAIL,
        confidence=SURE,  # that all of it is slow is certain
        evidence=(said, *(_level(one) for one in planes[:_PLANES_MOST]), *more),
        next_step=step,
        hosts=() if leaf else hosts,
        probes=tuple(name for one in planes for name in one.probe_ids)[:_PROBES_MOST],
    )


def _level(plane: SlowClass) -> str:
    required = " or ".join(f"{limit:g}" for limit in np.unique(plane.limit_gbps).tolist())
    middle = gbps_text(median(plane.gbps))
    return f"{len(plane.gbps)} pairs{plane.where}: median {middle} Gb/s, at least {required} required"


def _hosts(fitted: Fitted, limit_gbps: Floats, where: str, use: Bools) -> tuple[Suspect, ...]:
    """Hosts near their peers, which reach the limit, yet below it: with two different partners at least."""
    samples, found = fitted.samples, list[Suspect]()
    use = use & ~unexplained(fitted)
    for host in np.unique(np.concatenate([samples.a[use & (samples.gbps < limit_gbps)],
                                          samples.b[use & (samples.gbps < limit_gbps)]])).tolist():  # fmt: skip
        mine = np.flatnonzero(use & ((samples.a == host) | (samples.b == host)))
        level, limit = float(np.median(samples.gbps[mine])), float(np.median(limit_gbps[mine]))
        noise = max(fitted.references[n].noise for n in set(fitted.of_class[mine].tolist()))
        partners = {*samples.a[mine].tolist(), *samples.b[mine].tolist()} - {host}
        if level * (1 + _SIGMAS * noise / np.sqrt(len(mine))) >= limit or len(partners) < 2:
            continue
        found.append(
            Suspect(
                component=samples.hosts[host] + (f"/{samples.rail}" if samples.rail else ""),
                kind="rnic" if samples.rail else "host",
                outcome=Outcome.FAIL,
                confidence=0.95,
                evidence=(
                    f"below the limit{where}: median {gbps_text(level)} of {len(mine)} samples, limit {limit:g} Gb/s",
                ),
                next_step="loopback on this host, then port counters",
                hosts=(samples.hosts[host],),
            )
        )
    return tuple(found)


def with_pairs(
    below: Below, fitted: Fitted, limit_gbps: float, where: str, said: Sequence[Suspect], *, named_parts: bool
) -> Below:
    """
    Pairs below the limit that no host or class of *said* explains, lowest first, and samples that were below it once.

    At once, without a second sample; the pair is named, no host. Of several samples of a pair the median counts (of two
    the higher: one bad sample that was measured again is a dip), each direction for itself where it is known. Of a
    direction with a single sample, one good sample the other way is enough for it to be a dip until it is measured
    again; a pair that was low once each way is no FAIL where there are so many dips that some pair must be.
    *named_parts*: bad parts are suspects already, and what they explain is theirs; of too few hosts none is named.
    """
    samples = fitted.samples
    named = {host for suspect in said for host in suspect.hosts if suspect.kind in ("host", "rnic", "group", "pair")}
    known = np.array([host in named for host in samples.hosts], dtype=np.bool_)
    open_ = ~known[samples.a] & ~known[samples.b]
    if named_parts:
        open_ &= fitted.decoded.explained == 0
    low_ones, odd = samples.gbps < limit_gbps, unexplained(fitted)
    far = odd | (samples.gbps * (1 + _FAR * fitted.noise) < limit_gbps)
    low: Bools = np.zeros(len(open_), dtype=np.bool_)
    both = pair_numbers(fitted)
    each = samples.a * len(samples.hosts) + samples.b if samples.tells_ways else both
    names, inverse = np.unique(each, return_inverse=True)
    good = np.isin(both, both[~low_ones])
    found: list[tuple[float, Suspect]] = []
    for number in np.unique(inverse[open_ & low_ones]).tolist():
        mine = inverse == number
        count = int(mine.sum())
        level = float(np.sort(samples.gbps[mine])[count // 2])
        error = _FAR * fitted.noise * level / np.sqrt(count)
        if (count == 1 and good[mine].all()) or not (odd[mine].all() or level + error < limit_gbps):
            continue
        if level < limit_gbps:
            low |= mine
            a, b = (samples.hosts[end] for end in divmod(int(names[number]), len(samples.hosts)))
            times = int((both == both[np.flatnonzero(mine)[0]]).sum())
            dips = count == 1 and times > 1  # once each way: in a large file dips alone do that
            chance = by_dips(open_ & low_ones, both, times, fitted.dips) if dips else 0.0
            way = f"{a}->{b}" if samples.tells_ways else f"{a}-{b}"
            reached = f"median {level:,.1f} of {count} samples, limit {limit_gbps:g} Gb/s"
            evidence = (f"{way} below the limit{where}: {reached}",)
            first, last = min(a, b), max(a, b)
            suspect = pair_suspect(first, last, count, evidence=evidence, next_step=_NEXT_PAIR, chance=chance)
            found.append((level, suspect))
    found.sort(key=lambda one: (one[0], one[1].component))
    once: Bools = open_ & low_ones & far & good & ~low
    return replace(below, pairs=tuple(suspect for _, suspect in found[:_PAIRS_MOST]), low=low, once=once)


def said_once(fitted: Fitted, once: Bools, limit_gbps: float, where: str) -> list[tuple[Outcome, str]]:
    """In a line, the single samples below the limit of pairs that reached it else, lowest first; none: nothing."""
    samples = fitted.samples
    which = np.flatnonzero(once)
    if not len(which):
        return []
    arrow = "->" if samples.tells_ways else "-"
    worst = which[np.argsort(samples.gbps[which], kind="stable")]
    names = [
        f"{samples.hosts[samples.a[i]]}{arrow}{samples.hosts[samples.b[i]]} {samples.gbps[i]:,.1f}"
        for i in worst[:_ONCE_NAMED].tolist()
    ]
    more = f" and {len(which) - _ONCE_NAMED} more" if len(which) > _ONCE_NAMED else ""
    text = (
        f"{len(which)} samples{where} are below the limit of {limit_gbps:g} Gb/s once, beside good ones of their pair"
    )
    return [(Outcome.MARGINAL, f"{text}: measure again: {', '.join(names)}{more}")]
