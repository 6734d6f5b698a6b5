"""
One kind and rail of pair measurements with the best description of them: what is normal, and which parts are bad.

The structures of what is normal (``levels``) are tried side by side; the one whose description is the shortest wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean, median

import numpy as np

from fabric.judge.locate.description import CERTAIN, describe, open_parts
from fabric.judge.locate.levels import FIFTH, PLACED, refitted, structures
from fabric.judge.locate.pairs.components import EXTRA, FAMILY, SPINES, WHOLE_HOST, Components, components_of
from fabric.judge.locate.pairs.samples import UNKNOWN, Floats, Ints, PairSamples
from fabric.judge.locate.structure import NEAR, Description, Effect, Incidence, Normal

EFFECT_FLOOR = 0.03
"""The smallest loss worth naming (the practice: InfiniBand is warned about at 10 %, GEMM at 3.5 %)."""

SURE = 0.99
"""Confidence is never more: the model is not the world."""

DOUBTFUL = 0.5
"""Confidence is never more where it may be no fault at all."""

CLASS_HOSTS = 32
"""Among fewer hosts one may be the only one of its class."""

_NOISIER = 1.1  # times: less is the same
_OFTEN = 0.5  # of its samples a part must hold down
_OF_FLOOR = 2 / 3  # a fault of just the floor is then found, not missed every other time
_NOTHING = 1e-3  # of the highest: what a sample of nothing counts as
_SAME = 0.03  # losses so near are one
_NEAR_GAP = 0.008
_LEAST_OF_HOST, _LEAST_HOSTS = 2, 6  # samples, and hosts with so many, that say how far hosts are apart
_STEPS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)  # times that


@dataclass(frozen=True, slots=True)
class Grouping:
    """*name* (``same leaf``, ``across leaves``, ``within a group``, ``between groups``, ``all pairs``) and groups."""

    name: str
    groups: tuple[tuple[str, ...], ...] = ()


ALL = Grouping("all pairs")


@dataclass(frozen=True, slots=True)
class Reference:
    """*gbps* is what a good pair reaches, *noise* the coefficient of variation of good samples."""

    gbps: float
    noise: float


@dataclass(frozen=True, slots=True)
class Blamed:
    """
    A component called bad: *loss* 0..1 of what is normal; *rivals* would explain the same nearly as well.

    *gain*: nats over nobody being bad; *margin*: over the best other explanation. *doubt* says why it may be no fault:
    a class of hosts, a placement that no file mentions.
    """

    component: int
    loss: float
    margin: float
    confidence: float
    rivals: tuple[int, ...]
    gain: float
    doubt: str = ""

    @property
    def certain(self) -> bool:
        """Whether it is called bad, not only possibly so."""
        return not self.doubt and self.gain >= CERTAIN


@dataclass(frozen=True)
class Decoded:
    """
    *blamed*, most certain first; *open* components may be bad; *explained* is the expected loss of each sample.

    *likely* are those of *open* that more than chance speaks against.
    """

    blamed: tuple[Blamed, ...]
    open: tuple[int, ...]
    likely: tuple[int, ...]
    explained: Floats


@dataclass(frozen=True)
class Fitted:
    """
    What was estimated, and the components found bad with it; *of_class* is the class of each sample.

    *ratio* of each sample to what is expected of it, *noise* of one sample. *least_loss*: a smaller one is not worth
    naming, however certain it is.
    """

    samples: PairSamples
    components: Components
    ratio: Floats
    noise: float
    least_loss: float
    decoded: Decoded
    classes: tuple[Grouping, ...]
    of_class: Ints
    references: tuple[Reference, ...]
    normal: Normal

    def through(self, component: int) -> Ints:
        """The samples that pass through a component, slowest first."""
        mine = self.components.incidence.of(component)
        found: Ints = mine[np.argsort(self.ratio[mine], kind="stable")]
        return found

    def loss_by(self, losses: Mapping[int, float]) -> Floats:
        """The loss that each sample is expected to have when these components are bad."""
        largest = np.zeros(len(self.ratio))
        for component, loss in losses.items():
            mine = self.components.incidence.of(component)
            largest[mine] = np.maximum(largest[mine], loss)
        return largest


def fit(samples: PairSamples, *, floor: float = EFFECT_FLOOR, usual: Normal | None = None) -> Fitted:
    """
    Decode samples, of which at least one is above 0. *floor* is the effect floor, a share of what is normal.

    *usual*: what is normal elsewhere, taken in place of what these samples say.
    """
    components = components_of(samples)
    incidence = components.incidence
    y = _logs(samples)
    known = samples.leaf if samples.leaves and (samples.leaf != UNKNOWN).all() else None
    tried = [usual] if usual is not None else structures(y, samples.a, samples.b, len(samples.hosts), known)
    found = max((describe(y, one, incidence, floor=_OF_FLOOR * floor) for one in tried), key=lambda one: one.score)
    again = refitted(found.normal, y, found.explained == 0) if usual is None else found.normal
    if found.effects or again.degrees != found.normal.degrees:
        found = describe(y, again, incidence, floor=_OF_FLOOR * floor)
    return _fitted(samples, components, incidence, y, found, floor)


def _fitted(
    samples: PairSamples,
    components: Components,
    incidence: Incidence,
    y: Floats,
    found: Description,
    floor: float,
) -> Fitted:
    normal = found.normal
    doubts = _doubts(found, y, incidence, components, samples)
    spread = _spread(found, y, samples)
    blamed = [
        _blamed(
            effect, doubt, _healthy(effect, y, normal, incidence, spread if components.hosts[effect.part] >= 0 else 0)
        )
        for effect, doubt in zip(found.effects, doubts, strict=True)
    ]
    counts = np.bincount(normal.of_class, minlength=len(normal.noise))
    noise = float(np.sqrt((counts * normal.noise**2).sum() / counts.sum()))
    maybe = open_parts(found, y, incidence, _OF_FLOOR * floor)
    decoded = Decoded(
        tuple(sorted(blamed, key=lambda one: (-one.margin, one.component))),
        tuple(part for part, _ in maybe),
        tuple(part for part, gain in maybe if gain > LIKELY),
        1 - np.exp(-found.explained),
    )
    references = tuple(Reference(exp(level), float(s)) for level, s in zip(normal.main, normal.noise, strict=True))
    return Fitted(
        samples,
        components,
        np.exp(y - normal.expected(y)),
        noise,
        _OF_FLOOR * floor,
        decoded,
        _classes(samples, normal),
        normal.of_class,
        references,
        normal,
    )


def _blamed(effect: Effect, doubt: str, healthy: float) -> Blamed:
    """*healthy*: the nats that are explained by how far healthy hosts are apart."""
    gain = effect.gain - healthy
    others = sum(exp(other - effect.gain) for _, other in effect.rivals)
    best = max(max((other for _, other in effect.rivals), default=0.0), healthy)
    return Blamed(
        effect.part,
        effect.share_lost,
        margin=effect.gain - best,
        confidence=min(DOUBTFUL if doubt else SURE, 1 / (1 + exp(-gain) + others)),
        rivals=tuple(part for part, _ in effect.rivals),
        gain=gain,
        doubt=doubt,
    )


def _spread(found: Description, y: Floats, samples: PairSamples) -> float:
    """
    How far healthy hosts are apart (standard deviation, natural log): by how much more their means differ than noise.

    A sample differs by both its hosts and by noise, s^2 in all; the mean of a host's n samples therefore by its own
    spread^2 + (s^2 - spread^2) / n.
    """
    normal = found.normal
    good = (found.explained == 0) & ~found.slow
    away = (y - normal.expected(y))[good]
    ends = np.concatenate([samples.a[good], samples.b[good]])
    count = np.bincount(ends, minlength=len(samples.hosts))
    mean = np.bincount(ends, np.tile(away, 2), minlength=len(samples.hosts)) / np.maximum(count, 1)
    many = count >= _LEAST_OF_HOST
    if many.sum() < _LEAST_HOSTS:
        return 0.0
    n = count[many]
    excess = (mean[many] ** 2 - (away**2).mean() / n) / (1 - 1 / n)
    return float(np.sqrt(max(np.average(excess, weights=n), 0.0)))


def _healthy(effect: Effect, y: Floats, normal: Normal, incidence: Incidence, spread: float) -> float:
    """Nats of an effect that a healthy host explains which is slower by chance, as hosts with this *spread* are."""
    if spread <= 0:
        return 0.0
    mine = incidence.of(effect.part)
    before = np.log(normal.density(y[mine], normal.of_class[mine])).sum()
    found = (
        float(np.log(normal.density(y[mine], normal.of_class[mine], spread * step)).sum() - before) - step**2 / 2
        for step in _STEPS
    )
    return max(0.0, *found)


def _doubts(
    found: Description, y: Floats, incidence: Incidence, components: Components, samples: PairSamples
) -> list[str]:
    """
    Why each effect may be no fault, empty where it is one.

    Faults are few and differ; classes are many and agree. A host that is little slower than all others may stand
    elsewhere, where no file says who stands where.
    """
    hosts, placed = len(samples.hosts), samples.placed
    small = [one for one in found.effects if one.loss < NEAR and components.hosts[one.part] != UNKNOWN]
    level = found.normal.level[found.normal.weight > 0]
    gaps = [high - low for high in level for low in level if 0 < high - low < NEAR]
    least = max(gaps, default=0.0) + _NEAR_GAP if found.normal.groups is not None else log(1 / (1 - PLACED))
    behind = found.normal.expected(y) - y
    doubts = []
    for one in found.effects:
        alike = sum(abs(other.loss - one.loss) < _SAME for other in small)
        of_place = one in small and (not placed or one.loss < PLACED + _SAME)
        if of_place and alike > max(1, FIFTH * hosts):
            doubts.append(f"{alike} of {hosts} hosts lose as much: a class of hosts (make, wiring, place), not faults")
        elif one in small and not placed and hosts < CLASS_HOSTS and one.loss < least:
            doubts.append("hosts that stand elsewhere are as much slower on real clusters: give an inventory")
        elif (behind[incidence.of(one.part)] > one.loss / 2).mean() < _OFTEN:
            doubts.append("less than half of its samples are slow")
        else:
            doubts.append("")
    return doubts


def _classes(samples: PairSamples, normal: Normal) -> tuple[Grouping, ...]:
    """The classes of the structure, by name."""
    if len(normal.noise) == 1:
        return (ALL,)
    if samples.leaves and normal.known:
        return tuple(Grouping(name) for name in normal.names)
    assert normal.groups is not None, "several classes are of groups"
    size = int(normal.groups.max()) + 1
    groups = tuple(
        tuple(host for host, group in zip(samples.hosts, normal.groups.tolist(), strict=True) if group == number)
        for number in range(size)
    )
    return tuple(Grouping(name, groups) for name in normal.names)


LIKELY = 4.0
"""Nats, priors aside, from which a part that is not blamed is followed further (e^4 = 55 to 1)."""

LEAST_GOOD = 3
"""Pairs that reach the usual level and are explained by nothing bad: fewer may be lucky ones."""

LEAST_PLANES = 3
"""Fewer rails do not tell which of them is the usual one."""


def against_usual(planes: Sequence[Fitted], floor: float, *, levels: bool = True) -> list[Fitted]:
    """
    The planes, which are alike by kind and line rate, decoded anew beside each other where they differ.

    A plane's noise is no less than the mean of all: few samples lie close together by chance. With *levels* one that
    is behind the others as a whole by two thirds of *floor* (a share) or more is decoded beside their level.
    """
    if len(planes) < LEAST_PLANES:
        return list(planes)
    noise = fmean(one.noise for one in planes)
    found = [_noisier(one, noise, floor) for one in planes]
    if levels:
        usual = _usual(found)
        found = [_anew(one, usual, floor) for one in found]
    return together(found, floor)


def _noisier(fitted: Fitted, noise: float, floor: float) -> Fitted:
    if fitted.noise > noise / _NOISIER:
        return fitted
    normal = replace(fitted.normal, noise=np.maximum(fitted.normal.noise, noise))
    return fit(fitted.samples, floor=floor, usual=normal)


def _usual(planes: Sequence[Fitted]) -> dict[str, float]:
    """By the name of a class the median of what planes reach, Gb/s, where enough have it."""
    found: dict[str, list[float]] = {}
    for fitted in planes:
        for kind, level in zip(fitted.classes, fitted.references, strict=True):
            found.setdefault(kind.name, []).append(level.gbps)
    return {name: median(levels) for name, levels in found.items() if len(levels) >= LEAST_PLANES}


def _anew(fitted: Fitted, usual: Mapping[str, float], floor: float) -> Fitted:
    beside = np.array(
        [
            log(usual.get(kind.name, level.gbps) / level.gbps)
            for kind, level in zip(fitted.classes, fitted.references, strict=True)
        ]
    )
    if not (beside > _OF_FLOOR * floor).any():
        return fitted
    normal = replace(fitted.normal, level=fitted.normal.level + beside[:, None])
    again = fit(fitted.samples, floor=floor, usual=normal)
    kinds = {again.components.kinds[one.component] for one in again.decoded.blamed if one.certain}
    good = (again.decoded.explained == 0) & (again.ratio > 1 - again.least_loss)
    return again if kinds and kinds <= _SWITCHES and good.sum() >= LEAST_GOOD else fitted


_SWITCHES = frozenset({"leaf", "spines", "uplinks", "link", "link_up", "link_down", "spine", "core"})


@dataclass
class _Joint:
    """The parts of several planes in one numbering: whole hosts, and spines that planes share, are one part each."""

    planes: Sequence[Fitted]

    def __post_init__(self) -> None:
        self.numbers: dict[tuple[str, str], int] = {}
        self.places: list[list[tuple[int, int]]] = []
        self.rows: list[tuple[int, float]] = []
        self.whole: list[int] = []
        self.paths = self._paths()

    def _number(self, key: tuple[str, str], family: int, extra: float, whole: int = UNKNOWN) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.rows)
            self.rows.append((family, extra))
            self.places.append([])
            self.whole.append(self.numbers[key] if whole == UNKNOWN else whole)
        return self.numbers[key]

    def _paths(self) -> Ints:
        width = max(one.components.paths.shape[1] for one in self.planes) + 2
        blocks = []
        for place, plane in enumerate(self.planes):
            mine = plane.components
            number = np.full(len(mine.names) + 1, UNKNOWN, dtype=np.int64)  # the last: no part
            for component in np.argsort(mine.part != np.arange(len(mine.part)), kind="stable").tolist():
                kind, whole = mine.kinds[component], int(mine.part[component])
                of = UNKNOWN if whole == component else int(number[whole])
                name = f"{mine.names[component]} {place}" if kind == SPINES else mine.names[component]
                number[component] = self._number((kind, name), FAMILY[kind], EXTRA.get(kind, 0.0), of)
                self.places[number[component]].append((place, component))
            block = np.full((len(mine.paths), width), UNKNOWN, dtype=np.int64)
            block[:, : mine.paths.shape[1]] = number[mine.paths]
            for column, ends in ((-2, plane.samples.a), (-1, plane.samples.b)):
                hosts = [self._number(("whole host", name), WHOLE_HOST, 0.0) for name in plane.samples.hosts]
                block[:, column] = np.array(hosts, dtype=np.int64)[ends]
                for host, component in enumerate(mine.host_sides.tolist()):
                    if (place, component) not in self.places[hosts[host]]:
                        self.places[hosts[host]].append((place, component))
            blocks.append(block)
        return np.concatenate(blocks)

    def incidence(self) -> Incidence:
        """For the locator."""
        family, extra = zip(*self.rows, strict=True)
        return Incidence.of_paths(
            self.paths, np.array(family, dtype=np.int64), np.array(extra), np.array(self.whole, dtype=np.int64)
        )

    def normal(self) -> Normal:
        """What is normal in each plane, class by class."""
        most = max(one.normal.level.shape[1] for one in self.planes)
        first = np.cumsum([0, *(len(one.normal.noise) for one in self.planes)])
        pad = [(0, 0), (0, most)]
        return Normal(
            "several planes",
            0.0,
            np.concatenate([one.normal.of_class + start for one, start in zip(self.planes, first, strict=False)]),
            np.concatenate([np.pad(one.normal.level, pad)[:, :most] for one in self.planes]),
            np.concatenate([np.pad(one.normal.weight, pad)[:, :most] for one in self.planes]),
            np.concatenate([one.normal.noise for one in self.planes]),
            degrees=min(one.normal.degrees for one in self.planes),
        )


def together(planes: Sequence[Fitted], floor: float) -> list[Fitted]:
    """
    The planes decoded as one: a host that is slow on all its rails, or a spine of several, is one part.

    Evidence adds up over rails before anybody is named. Planes that nobody is blamed in are left as they are.
    """
    if len(planes) < 2 or sum(bool(one.decoded.blamed) for one in planes) < 2:
        return list(planes)
    joint = _Joint(planes)
    incidence, normal = joint.incidence(), joint.normal()
    y = np.concatenate([_logs(one.samples) for one in planes])
    found = describe(y, normal, incidence, floor=_OF_FLOOR * floor)
    ends = np.cumsum([0, *(len(one.samples.a) for one in planes)])
    split = []
    for place, plane in enumerate(planes):
        mine = slice(int(ends[place]), int(ends[place + 1]))
        effects = [
            replace(effect, part=component, rivals=joint_rivals(effect, joint, place))
            for effect in found.effects
            for where, component in joint.places[effect.part]
            if where == place
        ]
        one = replace(
            found, normal=plane.normal, effects=tuple(effects), explained=found.explained[mine], slow=found.slow[mine]
        )
        split.append(_fitted(plane.samples, plane.components, plane.components.incidence, y[mine], one, floor))
    return split


def joint_rivals(effect: Effect, joint: _Joint, place: int) -> tuple[tuple[int, float], ...]:
    """The rivals of an effect in one plane, in its own numbers."""
    own = {component for where, component in joint.places[effect.part] if where == place}
    return tuple(
        (component, gain)
        for part, gain in effect.rivals
        for where, component in joint.places[part]
        if where == place and component not in own
    )


def _logs(samples: PairSamples) -> Floats:
    found: Floats = np.log(np.maximum(samples.gbps, _NOTHING * float(samples.gbps.max())))
    return found
