"""
One kind and rail of measurements, decoded: link classes, reference, noise and spread estimated from the samples.

Each class of links (same leaf, across leaves) has its own reference, so that the slower class is no bad host. The
least loss worth naming is two thirds of the effect floor (a fault of just the floor is then found, not missed every
other time), but never less than four times the spread between healthy hosts, which a few samples make significant
although nothing is broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from fabric.analysis.pairs.components import Components, components_of
from fabric.analysis.pairs.decode import OF_SPREAD, Decoded, decode
from fabric.analysis.pairs.likelihood import Evidence
from fabric.analysis.pairs.link_classes import Grouping, classes_of
from fabric.analysis.pairs.reference import Reference, of_good, reference
from fabric.analysis.pairs.samples import Floats, Ints, PairSamples

EFFECT_FLOOR = 0.03
"""The smallest loss worth naming (the practice: InfiniBand is warned about at 10 %, GEMM at 3.5 %)."""

_OF_FLOOR = 2 / 3
_HIGH = 4.0  # standard errors of a variance from n hosts, in units of 1 / sqrt(n), for its upper bound: a choice
_LEAST_HOSTS_FOR_SPREAD = 8


@dataclass(frozen=True)
class Fitted:
    """What was estimated, and the components found bad with it; *of_class* is the class of each sample."""

    samples: PairSamples
    components: Components
    evidence: Evidence
    decoded: Decoded
    classes: tuple[Grouping, ...]
    of_class: Ints
    references: tuple[Reference, ...]
    spread: float


def fit(
    samples: PairSamples,
    *,
    floor: float = EFFECT_FLOOR,
    usual: Mapping[str, Reference] | None = None,
    least_noise: float = 0.0,
) -> Fitted:
    """
    Decode samples, of which at least one is above 0. *floor* is the effect floor, a share of the reference.

    *usual* is what good pairs reach elsewhere, by the name of a class: taken in place of what these samples say.
    *least_noise*: the noise (CV) is taken to be no less, whatever these samples say.
    """
    components = components_of(samples)
    classes, of_class = classes_of(samples)
    references = _references(samples, of_class, len(classes))
    if usual:
        references = tuple(usual.get(kind.name, found) for kind, found in zip(classes, references, strict=True))
    least = _OF_FLOOR * floor
    evidence = _evidence(samples, components, references, of_class, least, least_noise)
    decoded = decode(evidence, components)
    # Once more, with reference, noise and spread of the samples that nothing bad is said to hold down.
    good = decoded.explained == 0
    spread = 0.0
    if good.any():
        references = tuple(
            of_good(found, samples.gbps[good & (of_class == number)]) for number, found in enumerate(references)
        )
        evidence = _evidence(samples, components, references, of_class, least, least_noise)
        spread, at_most = _spread(samples, evidence, good)
        least = max(least, OF_SPREAD * spread)
        evidence = replace(evidence, least_loss=least, spread=at_most)
        decoded = decode(evidence, components)
    return Fitted(samples, components, evidence, decoded, classes, of_class, references, spread)


def _references(samples: PairSamples, of_class: Ints, classes: int) -> tuple[Reference, ...]:
    """One for each class."""
    members = [of_class == number for number in range(classes)]
    return tuple(reference(samples.a[mine], samples.b[mine], samples.gbps[mine]) for mine in members)


def _evidence(
    samples: PairSamples,
    components: Components,
    references: tuple[Reference, ...],
    of_class: Ints,
    least: float,
    least_noise: float,
) -> Evidence:
    expected = np.array([found.gbps for found in references])[of_class]
    counts = np.bincount(of_class, minlength=len(references))
    noise = float(np.sqrt(sum(n * found.noise**2 for n, found in zip(counts, references, strict=True)) / counts.sum()))
    ratio = samples.gbps / expected
    return Evidence(ratio, max(noise, least_noise), components.paths, len(components.names), least)


def _spread(samples: PairSamples, evidence: Evidence, good: np.ndarray) -> tuple[float, float]:
    """
    Standard deviation between hosts beyond what noise makes of their means, and what it is at most.

    Robust (1.4826 x MAD); of fewer than eight hosts nothing is told (0, and no bound).
    """
    ends = np.concatenate([samples.a[good], samples.b[good]])
    values: Floats = np.clip(np.concatenate([evidence.ratio[good]] * 2), 0.5, 1.5)
    count = np.bincount(ends, minlength=len(samples.hosts))
    seen = count > 0
    if seen.sum() < _LEAST_HOSTS_FOR_SPREAD:
        return 0.0, inf
    keep = np.abs(values - np.median(values)) < 4 * evidence.noise
    count = np.bincount(ends[keep], minlength=len(samples.hosts))
    seen = count > 0
    mean = np.bincount(ends[keep], values[keep], minlength=len(samples.hosts))[seen] / count[seen]
    within = float(np.mean(evidence.noise**2 / count[seen]))
    between = (1.4826 * float(np.median(np.abs(mean - np.median(mean))))) ** 2
    error = 1 / np.sqrt(seen.sum())
    # The other end of a pair varies as well: half of what is seen between hosts of few partners is theirs.
    spread = np.sqrt(max(between - within * (1 + 2 * error), 0.0))
    return float(spread), float(np.sqrt(max(between * (1 + _HIGH * error) - within, 0.0)))
