"""Pair results as a small matrix: engineers read a slow row, column or cell at a glance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabric.analysis.pairs.fitted import Fitted
from fabric.analysis.pairs.planes import natural
from fabric.analysis.pairs.samples import UNKNOWN
from fabric.model.diagnosis import PairMatrix

MOST_HOSTS = 24
"""Of more hosts, those that are blamed and as many of their peers are shown."""


def matrix_of(test: str, fitted: Fitted, not_measured: Sequence[str] = ()) -> PairMatrix:
    """Mean ratios between at most ``MOST_HOSTS`` hosts, and half as many of those that were *not_measured*."""
    samples, evidence = fitted.samples, fitted.evidence
    hosts = _chosen(fitted)
    place = np.full(len(samples.hosts), UNKNOWN)
    place[hosts] = np.arange(len(hosts))
    inside = (place[samples.a] != UNKNOWN) & (place[samples.b] != UNKNOWN)
    cell = place[samples.a[inside]] * len(hosts) + place[samples.b[inside]]
    total = np.bincount(cell, evidence.ratio[inside], minlength=len(hosts) ** 2).reshape(len(hosts), -1)
    count = np.bincount(cell, minlength=len(hosts) ** 2).reshape(len(hosts), -1)
    if not samples.both_ways:
        total, count = total + total.T, count + count.T
    ratios = tuple(
        tuple(float(t / n) if n else None for t, n in zip(*row, strict=True)) for row in zip(total, count, strict=True)
    )
    names = tuple(samples.hosts[host] for host in hosts)
    empty = [host for host in not_measured if host not in samples.hosts][: MOST_HOSTS // 2]
    if empty:
        names, ratios = _with_empty(names, ratios, empty)
    return PairMatrix(
        test, samples.rail, names, ratios, samples.both_ways, 1 - max(evidence.least_loss, 3 * evidence.noise)
    )


def _with_empty(
    names: tuple[str, ...], ratios: tuple[tuple[float | None, ...], ...], empty: Sequence[str]
) -> tuple[tuple[str, ...], tuple[tuple[float | None, ...], ...]]:
    """With a row and a column for each host of which nothing is known, in their place."""
    place = {name: number for number, name in enumerate(names)}
    every = tuple(sorted((*names, *empty), key=natural))
    drawn = tuple(
        tuple(ratios[place[row]][place[column]] if row in place and column in place else None for column in every)
        for row in every
    )
    return every, drawn


def _chosen(fitted: Fitted) -> list[int]:
    everybody = range(len(fitted.samples.hosts))
    if len(everybody) <= MOST_HOSTS:
        return list(everybody)
    bad = sorted({int(fitted.components.hosts[blamed.component]) for blamed in fitted.decoded.blamed} - {UNKNOWN})
    chosen = bad[: MOST_HOSTS // 2]
    peers = [host for host in everybody if host not in bad][: MOST_HOSTS // 2]
    return sorted([*chosen, *peers])
