"""
One kind and rail of measurements, decoded: link classes, reference, noise and spread estimated from the samples.

Each class of links (same leaf, across leaves) has its own reference, so that the slower class is no bad host. The
least loss worth naming is two thirds of the effect floor (a fault of just the floor is then found, not missed every
other time), but never less than four times the spread between healthy hosts, which a few samples make significant
although nothing is broken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median

import numpy as np

from fabric.judge.locate.pairs.components import Components, components_of
from fabric.judge.locate.pairs.decode import CERTAIN, OF_SPREAD, Decoded, decode, learnt
from fabric.judge.locate.pairs.reference import (
    PRIOR_COUNT,
    PRIOR_NOISE,
    Grouping,
    Reference,
    classes_of,
    of_good,
    of_healthy,
    reference,
)
from fabric.judge.locate.pairs.samples import Floats, Ints, PairEvidence, PairSamples

EFFECT_FLOOR = 0.03
"""The smallest loss worth naming (the practice: InfiniBand is warned about at 10 %, GEMM at 3.5 %)."""

_OF_FLOOR = 2 / 3
_HIGH = 4.0  # standard errors of a variance from n hosts, in units of 1 / sqrt(n), for its upper bound: a choice
_LEAST_HOSTS_FOR_SPREAD = 8
_NOISIER = 1.2  # times the noise that is found: with less the noise is known, whoever is bad (a choice)
_DIPS = 0.01  # share of samples that are slow once, by anything: so many are normal


@dataclass(frozen=True)
class Fitted:
    """What was estimated, and the components found bad with it; *of_class* is the class of each sample."""

    samples: PairSamples
    components: Components
    evidence: PairEvidence
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

    Who is blamed is no surer than that these samples are not as likely with nobody bad and more noise.

    *usual* is what good pairs reach elsewhere, by the name of a class: taken in place of what these samples say.
    *least_noise*: the noise (CV) is taken to be no less, whatever these samples say.
    """
    components = components_of(samples)
    classes, of_class = classes_of(samples)
    plane = _Plane(samples, components, classes, of_class, _OF_FLOOR * floor, least_noise)
    references = _references(samples, of_class, len(classes))
    found = _decoded(plane, _with_usual(references, classes, usual))
    if not found.decoded.blamed:
        return found
    nobody = _with_usual(_of_all(samples, of_class, references), classes, usual)
    if _evidence(plane, nobody).noise < _NOISIER * found.evidence.noise:
        return found
    return _beside(found, _decoded(plane, nobody))


@dataclass(frozen=True)
class _Plane:
    """What is decoded, and with what: the samples, *least_loss* worth naming and *least_noise*."""

    samples: PairSamples
    components: Components
    classes: tuple[Grouping, ...]
    of_class: Ints
    least_loss: float
    least_noise: float


def _with_usual(
    references: tuple[Reference, ...], classes: tuple[Grouping, ...], usual: Mapping[str, Reference] | None
) -> tuple[Reference, ...]:
    """Those of *usual* in the place of the same classes."""
    if not usual:
        return references
    return tuple(usual.get(kind.name, found) for kind, found in zip(classes, references, strict=True))


def _decoded(plane: _Plane, references: tuple[Reference, ...]) -> Fitted:
    """Who is bad beside these references, then once more beside those of the samples that nothing bad holds down."""
    samples, components, of_class = plane.samples, plane.components, plane.of_class
    evidence = _evidence(plane, references)
    decoded = decode(evidence, components)
    good = decoded.explained == 0
    spread = 0.0
    if good.any():
        references = tuple(
            of_good(found, samples.gbps[good & (of_class == number)]) for number, found in enumerate(references)
        )
        evidence = _evidence(plane, references)
        spread, at_most = _spread(samples, evidence, good)
        least = max(plane.least_loss, OF_SPREAD * spread)
        evidence = replace(evidence, least_loss=least, spread=at_most)
        decoded = decode(evidence, components)
    return Fitted(samples, components, evidence, decoded, plane.classes, of_class, references, spread)


def _of_all(samples: PairSamples, of_class: Ints, references: tuple[Reference, ...]) -> tuple[Reference, ...]:
    """Level and noise of each class if nobody is bad."""
    return tuple(of_healthy(found, samples.gbps[of_class == number]) for number, found in enumerate(references))


def _beside(found: Fitted, other: Fitted) -> Fitted:
    """
    No part is surer than its plane is likelier than *other*, which explains the same samples by noise.

    Noise and who is bad are found together: called bad, slow samples no longer count for the noise, which is then so
    small that they must be bad. Of few samples both are possible, and FAIL waits until one of them is likelier.
    """
    lead = _cost(other) - _cost(found)
    also = {one.component: one.gain for one in other.decoded.blamed}
    blamed = []
    for one in found.decoded.blamed:
        most = max(lead, also.get(one.component, 0.0))
        sure = float(1 / (1 + np.exp(-np.clip(most, -50, 50))))
        kept = replace(one, gain=min(one.gain, most), margin=min(one.margin, most))
        blamed.append(replace(kept, confidence=min(one.confidence, sure)))
    blamed.sort(key=lambda one: (-one.margin, one.component))
    return replace(found, decoded=replace(found.decoded, blamed=tuple(blamed)))


def _cost(fitted: Fitted) -> float:
    """Nats against the samples, against their noise (the prior of ``reference``) and against who is blamed."""
    evidence = fitted.evidence
    losses = {one.component: one.loss for one in fitted.decoded.blamed}
    z = (evidence.ratio - 1 + fitted.decoded.explained) / evidence.noise
    density = (1 - _DIPS) * np.exp(-z * z / 2) / (np.sqrt(2 * np.pi) * evidence.noise) + _DIPS
    share = (PRIOR_NOISE / evidence.noise) ** 2
    penalties = learnt(losses, fitted.components)[list(losses)].sum()
    return float(penalties - np.log(density).sum() + PRIOR_COUNT / 2 * (share - np.log(share)))


def _references(samples: PairSamples, of_class: Ints, classes: int) -> tuple[Reference, ...]:
    """One for each class."""
    members = [of_class == number for number in range(classes)]
    return tuple(reference(samples.a[mine], samples.b[mine], samples.gbps[mine]) for mine in members)


def _evidence(plane: _Plane, references: tuple[Reference, ...]) -> PairEvidence:
    samples, of_class = plane.samples, plane.of_class
    expected = np.array([found.gbps for found in references])[of_class]
    counts = np.bincount(of_class, minlength=len(references))
    noise = float(np.sqrt(sum(n * found.noise**2 for n, found in zip(counts, references, strict=True)) / counts.sum()))
    names = len(plane.components.names)
    return PairEvidence(
        samples.gbps / expected, max(noise, plane.least_noise), plane.components.paths, names, plane.least_loss
    )


def _spread(samples: PairSamples, evidence: PairEvidence, good: np.ndarray) -> tuple[float, float]:
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


LEAST_PLANES = 3
"""Fewer rails do not tell which of them is the usual one (a choice)."""

LEAST_GOOD = 3
"""Pairs that reach the usual level and are explained by nothing bad: fewer may be lucky ones (a choice)."""

AHEAD = 0.25
"""A rail that is ahead by so much of the effect floor may have had lucky pairs (a choice: 0.75 % of a floor of 3 %)."""

_SWITCHES = frozenset({"leaf", "uplinks", "link", "link_up", "link_down", "spine"})


def against_usual(planes: Sequence[Fitted], floor: float) -> list[Fitted]:
    """
    The planes, which are alike by kind and line rate; one that is behind the others as a whole is decoded anew.

    Behind is a plane whose reference is below the median of all by two thirds of *floor* (a share) or more. One that is
    a little ahead is decoded anew, too, if somebody is blamed on it.
    """
    if len(planes) < LEAST_PLANES:
        return list(planes)
    usual = _usual(planes)
    return [_less_blamed(_anew(one, usual, floor), usual, floor) for one in planes]


def beside_alike(planes: Sequence[tuple[str, Fitted]], floor: float) -> list[tuple[str, Fitted]]:
    """
    The planes, each with its kind of test; those that blame somebody decoded beside the others of their kind.

    Their level may differ by design, which a file does not tell: a rail that is behind as a whole stays as it is.
    """
    found = list(planes)
    for kind in dict.fromkeys(kind for kind, _ in planes):
        alike = [number for number, (other, _) in enumerate(planes) if other == kind]
        if len(alike) >= LEAST_PLANES:
            usual = _usual([planes[number][1] for number in alike])
            for number in alike:
                found[number] = (kind, _less_blamed(planes[number][1], usual, floor))
    return found


def _less_blamed(fitted: Fitted, usual: Mapping[str, Usual], floor: float) -> Fitted:
    """With the usual noise and spread at least, and decoded against the usual level where this is a little ahead."""
    ahead, noise, spread = {}, fitted.evidence.noise, fitted.evidence.spread
    for kind, level in zip(fitted.classes, fitted.references, strict=True):
        beside = usual.get(kind.name)
        if beside is None or abs(level.gbps / beside.level.gbps - 1) > floor:
            continue
        noise, spread = max(noise, beside.level.noise), max(spread, beside.spread)
        if level.gbps > (1 + AHEAD * floor) * beside.level.gbps:
            ahead[kind.name] = beside.level
    found = replace(fitted, evidence=replace(fitted.evidence, noise=noise, spread=spread))
    if not fitted.decoded.blamed or (not ahead and noise == fitted.evidence.noise):
        return found
    again = fit(fitted.samples, floor=floor, usual=ahead, least_noise=noise)
    again = replace(again, evidence=replace(again.evidence, spread=max(again.evidence.spread, spread)))
    before, after = ({one.component for one in each.decoded.blamed} for each in (fitted, again))
    return again if after <= before else found


@dataclass(frozen=True, slots=True)
class Usual:
    """Of one class of links the *level* of most planes, and the *spread* between healthy hosts, at most, as a share."""

    level: Reference
    spread: float


def _usual(planes: Sequence[Fitted]) -> dict[str, Usual]:
    """By the name of a class the medians over planes, where enough have it."""
    found: dict[str, list[tuple[Reference, float]]] = {}
    for fitted in planes:
        for kind, level in zip(fitted.classes, fitted.references, strict=True):
            found.setdefault(kind.name, []).append((level, fitted.evidence.spread))
    return {
        name: Usual(
            Reference(median(one.gbps for one, _ in levels), median(one.noise for one, _ in levels)),
            median(spread for _, spread in levels),
        )
        for name, levels in found.items()
        if len(levels) >= LEAST_PLANES
    }


def _anew(fitted: Fitted, usual: Mapping[str, Usual], floor: float) -> Fitted:
    behind = [
        kind.name in usual and level.gbps < (1 - floor * 2 / 3) * usual[kind.name].level.gbps
        for kind, level in zip(fitted.classes, fitted.references, strict=True)
    ]
    if not any(behind):
        return fitted
    again = fit(fitted.samples, floor=floor, usual={name: one.level for name, one in usual.items()})
    kinds = {again.components.kinds[one.component] for one in again.decoded.blamed if one.gain >= CERTAIN}
    good = (again.decoded.explained == 0) & (again.evidence.ratio > 1 - again.evidence.least_loss)
    return again if kinds and kinds <= _SWITCHES and int(np.count_nonzero(good)) >= LEAST_GOOD else fitted
