"""Pair results made from known faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations

import numpy as np

from fabric.model.diagnosis import PairRow

GOOD_GBPS = 392.0


def hosts(count: int) -> list[str]:
    return [f"gpu{number:03d}" for number in range(1, count + 1)]


def all_pairs(
    names: list[str],
    loss: Mapping[str, float] | None = None,
    *,
    cv: float = 0.01,
    seed: int = 0,
    both_ways: bool = False,
    rail: str | None = None,
    level: Callable[[str, str], float] = lambda a, b: 1.0,
) -> list[PairRow]:
    """Everybody with everybody; *loss* by host, ``host:tx`` or ``host:rx``; *level* of a pair when nothing is bad."""
    random = np.random.default_rng(seed)
    loss = loss or {}
    rows = []
    for a, b in permutations(names, 2):
        if not both_ways and a > b:
            continue
        worst = max(loss.get(part, 0.0) for part in (a, b, f"{a}:tx", f"{b}:rx"))
        gbps = GOOD_GBPS * level(a, b) * (1 - worst) * (1 + cv * random.normal())
        rows.append(PairRow(a, b, gbps, len(rows) + 2, rail=rail, directed=both_ways))
    return rows


def row(a: str, b: str, gbps: float) -> PairRow:
    return PairRow(a, b, gbps, 1)
