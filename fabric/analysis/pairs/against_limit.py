"""Pair results against an absolute limit: what is uniformly slow has no outlier, and must fail all the same."""

from __future__ import annotations

import numpy as np

from fabric.analysis.pairs.fitted import Fitted
from fabric.model.names import fold
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect

_SIGMAS = 3.0
"""A level this many standard errors from the limit is on one side of it for certain (a choice)."""


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
        error = _SIGMAS * fitted.evidence.noise * level / np.sqrt(count)
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
