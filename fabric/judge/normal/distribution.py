"""
The distribution of one key over good runs: trimmed, and refused when it is two distributions.

Trimming drops what is further than 3.5 robust standard deviations from the median, and again with what is left, until
nothing is dropped (the idea of ``fix_threshold`` in SuperBench's baseline generation). Two classes in one key (two
generations of hosts, two PCIe layouts) would make a median that nobody has and a spread that hides any fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median, pvariance

from fabric.judge.normal.keys import floor_of
from fabric.judge.normal.peers import LEAST_SPREAD, SCALE, Z_SLOW
from fabric.model.recorded import Key, Recorded
from fabric.model.text import fold

LEAST_SAMPLES = 8
"""Fewer samples of a key are not recorded: their spread is not known (a choice, as for peers)."""

APART = 5.0
"""Ashman's D above which two halves are two classes (Ashman, Bird and Zepf 1994 say 2 for fitted modes; cutting one
normal in its middle gives 2.7 and a uniform 3.5, so a cut needs more; a choice)."""

LEAST_SHARE = 0.1
"""A smaller part than this share of the samples is outliers, not a class (a choice)."""


MOST_TRIMMED = 0.1
"""When more than this share would be left out as outliers, it is no distribution that is left (a choice)."""


@dataclass(frozen=True, slots=True)
class RecordedNumber:
    """One number of a good run, and of whom: host, and the parts within it (``mlx5_0``, ``gpu3``)."""

    value_gbps: float
    hosts: tuple[str, ...]
    parts: tuple[str, ...]
    run: str


@dataclass(frozen=True, slots=True)
class Split:
    """Why the samples of one key are not one class, in words."""

    text: str


def record(key: Key, samples: Sequence[RecordedNumber]) -> Recorded | Split | None:
    """The distribution of a key; None when there are too few samples, a ``Split`` when they are no one class."""
    if len(samples) < LEAST_SAMPLES:
        return None
    ordered = sorted(samples, key=lambda sample: sample.value_gbps)
    at = two_classes([sample.value_gbps for sample in ordered], floor=floor_of(key.kind))
    if at is not None:
        return Split(f"these look like two classes: {_two(ordered[:at], ordered[at:])}")
    kept = trimmed([sample.value_gbps for sample in ordered])
    if len(samples) - len(kept) > MOST_TRIMMED * len(samples):
        return Split(
            f"{len(samples) - len(kept)} of {len(samples)} samples are far from the others: these are no one class"
        )
    middle = median(kept)
    mad = median(abs(value - middle) for value in kept)
    runs = tuple(sorted({sample.run for sample in samples}))
    cv = SCALE * mad / middle if middle > 0.0 else 0.0
    return Recorded(key, middle, mad, len(kept), cv, runs, len(samples) - len(kept))


def trimmed(values: Sequence[float]) -> list[float]:
    """Without outliers on either side; every pass drops at least one, so it ends."""
    kept = list(values)
    while True:
        middle = median(kept)
        spread = max(SCALE * median(abs(value - middle) for value in kept), LEAST_SPREAD * middle)
        inside = [value for value in kept if abs(value - middle) <= -Z_SLOW * spread]
        if len(inside) == len(kept):
            return kept
        kept = inside


def two_classes(ordered: Sequence[float], *, floor: float) -> int | None:
    """Where sorted values fall apart into two classes (the index of the first of the upper one); None: they do not."""
    least = max(3, round(LEAST_SHARE * len(ordered)))
    if len(ordered) < 2 * least:
        return None
    gaps = [(ordered[at] - ordered[at - 1], at) for at in range(least, len(ordered) - least + 1)]
    _, at = max(gaps)
    low, high = ordered[:at], ordered[at:]
    apart = fmean(high) - fmean(low)
    if apart < floor * fmean(high):
        return None
    spread = sqrt(pvariance(low) + pvariance(high))
    return at if apart * sqrt(2.0) > APART * spread else None


def _two(low: Sequence[RecordedNumber], high: Sequence[RecordedNumber]) -> str:
    sides = []
    for side, other in ((high, low), (low, high)):
        middle = median(sample.value_gbps for sample in side)
        sides.append(f"{len(side)} samples around {middle:.1f} Gb/s ({_whose(side, other)})")
    return " and ".join(sides)


def _whose(side: Sequence[RecordedNumber], other: Sequence[RecordedNumber]) -> str:
    """What tells one side from the other: its hosts, or its parts, or else one of them as an example."""
    hosts, others = ({host for sample in one for host in sample.hosts} for one in (side, other))
    if not hosts & others:
        return fold(sorted(hosts))
    parts, others = ({part for sample in one for part in sample.parts} for one in (side, other))
    if parts - others:
        return fold(sorted(parts - others))
    return f"such as {' '.join((*side[0].hosts, *side[0].parts))}"
