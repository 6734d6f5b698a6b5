"""Pair results against an absolute limit: what is uniformly slow has no outlier, and must fail all the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fabric.judge.locate.pairs.findings import CHANCE, by_dips, maybe_dips, unexplained
from fabric.judge.locate.pairs.fitted import Fitted
from fabric.judge.locate.pairs.samples import Bools, Ints
from fabric.model.outcome import Outcome
from fabric.model.text import fold
from fabric.model.verdict import Suspect

_SIGMAS = 3.0
"""A level this many standard errors from the limit is on one side of it for certain (a choice)."""

_FAR = 5.0
"""As many for a single pair, of which there are many: chance alone makes one in three million (a choice)."""

_PAIRS_MOST, _ONCE_NAMED = 20, 6


def below_limit(fitted: Fitted, limit_gbps: float, where: str) -> tuple[list[Suspect], list[str]]:
    """
    Classes, then hosts, whose level is below the limit; and what is too near the limit to tell.

    Hosts that are called bad already, or whose class is below as a whole, are not listed again.
    """
    suspects: list[Suspect] = []
    near: list[str] = []
    good = fitted.decoded.explained == 0
    samples = fitted.samples
    failed: set[int] = set()
    for number, (found, kind) in enumerate(zip(fitted.references, fitted.classes, strict=True)):
        mine = good & (fitted.of_class == number)
        error = found.gbps * found.noise / np.sqrt(max(int(mine.sum()), 1))
        said = f"{kind.name}{where}: {found.gbps:,.1f} Gb/s of {int(mine.sum())} samples, limit {limit_gbps:g} Gb/s"
        if abs(found.gbps - limit_gbps) <= _SIGMAS * error:
            near.append(f"too near the limit to tell: {said}, standard error {error:.2g}")
        elif found.gbps < limit_gbps:
            failed.add(number)
            hosts = sorted({samples.hosts[h] for h in (*samples.a[mine].tolist(), *samples.b[mine].tolist())})
            suspects.append(_group(kind.name, hosts, said))
    return suspects + _hosts(fitted, limit_gbps, where, failed), near


@dataclass(frozen=True, slots=True)
class PairsBelow:
    """*suspects* are pairs below the limit, *low* their samples, *once* single low samples of pairs that are good."""

    suspects: tuple[Suspect, ...]
    low: Bools
    once: Bools


def pairs_below(fitted: Fitted, limit_gbps: float, where: str, said: list[Suspect], open_: Bools) -> PairsBelow:
    """
    Pairs below the limit that no host or class of *said* explains, lowest first, and samples that were below it once.

    At once, without a second sample, as a probe of a run is judged by its limit; the pair is named, no host. Of several
    samples of a pair the median counts (of two the higher: one bad sample that was measured again is a dip), each
    direction for itself where it is known. Of a direction with a single sample, one good sample the other way is enough
    for it to be a dip until it is measured again; a pair that was low once each way is no FAIL where there are so many
    dips that some pair must be. *open_* are the samples that no bad part explains.
    """
    samples = fitted.samples
    named = {host for suspect in said for host in suspect.hosts if suspect.kind in ("host", "rnic", "group", "pair")}
    known = np.array([host in named for host in samples.hosts], dtype=np.bool_)
    open_ = open_ & ~known[samples.a] & ~known[samples.b]
    below = samples.gbps < limit_gbps
    odd = unexplained(fitted)
    far = odd | (samples.gbps * (1 + _FAR * fitted.noise) < limit_gbps)
    low: Bools = np.zeros(len(open_), dtype=np.bool_)
    names, inverse = np.unique(_pairs(fitted, ordered=samples.tells_ways), return_inverse=True)
    both = _pairs(fitted, ordered=False)
    good = np.isin(both, both[~below])
    found: list[tuple[float, Suspect]] = []
    for number in np.unique(inverse[open_ & below]).tolist():
        mine = inverse == number
        count = int(mine.sum())
        level = float(np.sort(samples.gbps[mine])[count // 2])
        error = _FAR * fitted.noise * level / np.sqrt(count)
        if count == 1 and good[mine].all():
            continue
        if level < limit_gbps and (odd[mine].all() or level + error < limit_gbps):
            low |= mine
            a, b = (samples.hosts[end] for end in divmod(int(names[number]), len(samples.hosts)))
            suspect = _pair(a, b, level, count, limit_gbps, where, samples.tells_ways)
            times = int((both == both[np.flatnonzero(mine)[0]]).sum())
            if count == 1 and times > 1:  # once each way: in a large file dips alone do that
                suspect = _or_dips(suspect, by_dips(open_ & below, both, times))
            found.append((level, suspect))
    found.sort(key=lambda one: (one[0], one[1].component))
    once: Bools = open_ & below & far & good & ~low
    return PairsBelow(tuple(suspect for _, suspect in found[:_PAIRS_MOST]), low, once)


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


def _pairs(fitted: Fitted, *, ordered: bool) -> Ints:
    """The pair of each sample, as a number; *ordered*: each direction is one of its own."""
    samples = fitted.samples
    a, b = samples.a, samples.b
    first, second = (a, b) if ordered else (np.minimum(a, b), np.maximum(a, b))
    found: Ints = first * len(samples.hosts) + second
    return found


def _pair(a: str, b: str, level: float, count: int, limit_gbps: float, where: str, tells_ways: bool) -> Suspect:
    way = f"{a}->{b}" if tells_ways else f"{a}-{b}"
    return Suspect(
        component="--".join((a, b) if a < b else (b, a)),
        kind="path",
        outcome=Outcome.FAIL,
        # Laplace: k of k samples are below.
        confidence=round((count + 1) / (count + 2), 2),
        evidence=(f"{way} below the limit{where}: median {level:,.1f} of {count} samples, limit {limit_gbps:g} Gb/s",),
        next_step="measure it again before anybody is drained, and each of the two with another partner",
        hosts=(a, b),
    )


def _or_dips(suspect: Suspect, chance: float) -> Suspect:
    """INCONCLUSIVE where dips alone would make such a pair."""
    if chance <= CHANCE:
        return suspect
    return replace(suspect, outcome=Outcome.INCONCLUSIVE, evidence=(*suspect.evidence, *maybe_dips(chance)))


def _group(name: str, hosts: list[str], said: str) -> Suspect:
    pair = len(hosts) == 2
    return Suspect(
        component=f"{hosts[0]}+{hosts[1]}" if pair else fold(hosts),
        kind="pair" if pair else "group",
        outcome=Outcome.FAIL,
        confidence=0.99,
        evidence=(
            f"nobody stands out: {name} are below the limit as a whole",
            said,
        ),
        next_step="run each of the two with another partner" if pair else
        "what they share first: switch configuration, MTU, firmware, PCIe settings, or a limit for other hardware",
        hosts=tuple(hosts),
    )  # fmt: skip


def _hosts(fitted: Fitted, limit_gbps: float, where: str, failed: set[int]) -> list[Suspect]:
    """Hosts within the effect floor of their peers, yet below the limit: with two different partners at least."""
    samples = fitted.samples
    use = (fitted.decoded.explained == 0) & ~np.isin(fitted.of_class, sorted(failed))
    ends = np.concatenate([samples.a[use], samples.b[use]])
    others = np.concatenate([samples.b[use], samples.a[use]])
    values = np.concatenate([samples.gbps[use]] * 2)
    order = np.argsort(ends, kind="stable")
    ends, others, values = ends[order], others[order], values[order]
    if not len(ends):
        return []
    start = np.flatnonzero(np.r_[True, ends[1:] != ends[:-1]])
    found = []
    for begin, end in zip(start, np.r_[start[1:], len(ends)], strict=True):
        host, count = int(ends[begin]), int(end - begin)
        level = float(np.median(values[begin:end]))
        error = _SIGMAS * fitted.noise * level / np.sqrt(count)
        if level + error >= limit_gbps or len(set(others[begin:end].tolist())) < 2:
            continue
        name = samples.hosts[host] + (f"/{samples.rail}" if samples.rail else "")
        found.append(
            Suspect(
                component=name,
                kind="rnic" if samples.rail else "host",
                outcome=Outcome.FAIL,
                confidence=0.95,
                evidence=(
                    f"below the limit{where}: median {level:,.1f} of {count} samples, limit {limit_gbps:g} Gb/s",
                ),
                next_step="loopback on this host, then port counters",
                hosts=(samples.hosts[host],),
            )
        )
    return found
