"""Planes of pair measurements with their best description: what is normal, and which parts are bad.

The structures of what is normal (``levels``) are tried side by side; the one whose description is the shortest wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import exp, inf, log

import numpy as np

from fabric.judge.locate.candidates import SPINES
from fabric.judge.locate.description import describe, open_parts
from fabric.judge.locate.fit import SAME_LOSS
from fabric.judge.locate.levels import (
    FIFTH,
    PLACED,
    Groups,
    cost_of_levels,
    groupings,
    level_and_noise,
    likelihood,
    refitted,
    structures,
    without_duplicates,
)
from fabric.judge.locate.matrix import SIGMAS
from fabric.judge.locate.pairs.components import FAMILY, WHOLE_HOST, Components
from fabric.judge.locate.pairs.joint import LOST_SHARE, Joint
from fabric.judge.locate.pairs.samples import PairSamples
from fabric.judge.locate.search import CERTAIN, LEAST_GAIN, MOST_RIVALS, SURE
from fabric.judge.locate.structure import (
    ALWAYS,
    FLOOR,
    NEAR,
    OFTEN,
    Bools,
    Description,
    FaultyPart,
    Floats,
    Ints,
    Normal,
)
from fabric.model.diagnosis import LinkClass

DOUBTFUL = 0.2
"""
The highest confidence of a part that may be no fault at all.

So often such a part was bad: 12 of 59 on real pairs (`benchmarks/calibration.py --seeds 121:124 --parts 4`).
"""

ELSEWHERE = "hosts that stand elsewhere are as much slower on real clusters"
"""Why slightly slower hosts may be no fault, or, where one rail was measured, the leaf of a fifth of the hosts."""

DRAWN = "it is slow over ways alone that each test draws: measure it under its leaf"
"""Why a host or a leaf may be no fault although all its samples across its leaf are slow."""

NEARLY = "pairs that reach less by chance or by place explain it nearly as well: measure it again"
"""Why no part may be at fault where levels of what is normal explain as much."""

SELDOM = "less than half of its samples are slow"
"""Why a part may be no fault if most pairs through it do not show it."""

TWICE = "two slow tests may be chance: measure it again"
"""Why a part may be no fault if fewer than three samples show it."""

MEASURED_AGAIN = frozenset({DRAWN, NEARLY, SELDOM, TWICE})
"""Doubts that further tests through the part may end."""

LEAST_SLOW = 3
"""With fewer slow samples nothing is called bad: a healthy host of a real run had two."""

_MOST_SURE = {"": SURE, TWICE: 0.8}  # by doubt: nine of the ten parts that real runs had measured slow twice were bad

CLASS_HOSTS = 32
"""Among fewer hosts than this, a host may be the only one of its class."""

_OFTEN = 0.5  # share of its samples that a part must hold down
_ALIKE = 0.05  # largest spread (natural log) of a loss that is the same each time
_OF_FLOOR = 2 / 3  # share of the floor: so a fault of just the floor is found, not missed every other time
_PLACES = log(1 / (1 - PLACED))
_MOST_BETWEEN = log(1 / 0.6)  # real clusters spread what is between groups of hosts over 40 %
_NEAR_GAP, _MOST_GAP = 0.008, 0.08  # between classes by placement (real clusters: 4 to 6 %)
_LOST = log(LOST_SHARE) / 2  # natural log: a level that is lower by more is nearer to nothing than to others
_SAME_LEVEL = 0.01  # natural log: levels of planes that differ by less are one
_MOST_TURNS = 4  # most times that what is normal is sought again
_MAY_GAIN = 50.0  # nats that this may gain: 184 in a description of simulated pairs that was 28 behind another


ALL = "all pairs"

_Levelled = tuple[Floats, Description]
"""The level of each plane, and the best description with these levels."""


_Tried = dict[tuple[bool, bool], _Levelled]
"""The best description by whether it blames a part, and by whether hosts stand in groups."""


@dataclass(frozen=True, slots=True)
class Blamed:
    """
    A component called bad: it loses *loss* (0..1) of what is normal; *rivals* would explain the same nearly as well.

    *gain*: nats over the hypothesis that nobody is bad; *margin*: nats over the best other explanation. *doubt* says
    why it may be no fault: a class of hosts, or a placement that no file mentions.
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
        """Whether the component is called bad, not only possibly so."""
        return not self.doubt and self.gain >= CERTAIN


@dataclass(frozen=True)
class Fitted:
    """
    Samples of one plane with what was estimated, and the components found bad with it.

    *blamed*: the most certain first; *open* components may be bad. By sample: *explained* is the expected loss, *ratio*
    what it reached of what a good one should reach, *of_class* its class. *noise* is that of one sample. *floor*: a
    smaller loss is not worth naming, however certain it is. *degrees* of freedom of the noise. *together*: samples that
    are slow because of others on the same cable.
    """

    samples: PairSamples
    components: Components
    ratio: Floats
    noise: float
    floor: float
    blamed: tuple[Blamed, ...]
    open: tuple[int, ...]
    explained: Floats
    classes: tuple[LinkClass, ...]
    of_class: Ints
    degrees: float
    together: Bools

    def through(self, component: int) -> Ints:
        """Return the samples that pass through a component, slowest first."""
        mine = np.flatnonzero((self.components.paths == component).any(axis=1))
        return mine[np.argsort(self.ratio[mine], kind="stable")]

    @property
    def good(self) -> Ints:
        """By host: how many of its samples are not explained by a bad part."""
        return self.samples.by_host(self.explained == 0)

    @property
    def reaching(self) -> Ints:
        """By host: how many of its samples reach the usual level of their class, or are slow because of others."""
        level, noise = np.array([(one.gbps, one.noise) for one in self.classes]).T[:, self.of_class]
        reached = self.samples.gbps >= level * (1 - np.maximum(self.floor, SIGMAS * noise))
        return self.samples.by_host((self.explained == 0) & (reached | self.together))

    @property
    def needed(self) -> int:
        """How many good samples rule out that a host is slow by the floor: three times the error of their mean."""
        return int(np.ceil((SIGMAS * self.noise / self.floor) ** 2))


def fit(samples: PairSamples, *, floor: float = FLOOR) -> Fitted:
    """Decode the samples of one plane, of which at least one is above 0, by itself."""
    return fit_together([samples], floor=floor)[0]


def fit_together(planes: Sequence[PairSamples], *, floor: float = FLOOR) -> list[Fitted]:
    """
    Decode planes of one kind and line rate together: each tells the others what is normal and who is bad.

    *floor* is the effect floor, a share of what is normal. Each plane has a sample above 0.
    """
    joint = Joint.of(planes)
    least, levels = _OF_FLOOR * floor, _own_levels(joint)
    tried = _tried(joint, levels, least)
    joint = joint.with_paths(_best(tried.values())[1])
    refined = {blames: _refined(joint, *one, least) for blames, one in tried.items()}
    score = {blames: max(found.score, refined[blames].score) for blames, (_, found) in tried.items()}
    blames = score.get(True, -inf) > score.get(False, -inf) - CERTAIN
    nearly = False
    if blames and False in tried and not refined[False].faults:
        # "Nobody is bad" is reported only if much likelier; a part is in doubt if the hosts' places may explain it.
        nearly = score[False] > score[True] - (CERTAIN if refined[False].normal.groups is not None else 0.0)
    own = tried[blames][0]
    return _split(joint, own, joint.y - own[joint.plane], refined[blames], floor, NEARLY if nearly else "")


def _tried(joint: Joint, levels: Sequence[Floats], least: float) -> dict[bool, _Levelled]:
    """
    Return the best description that blames a part (key True), and the best that blames none (key False).

    Samples of 0 Gb/s never say what is normal, however many they are, nor do samples that lost more than places
    differ: a fault slowed them. It hides what is normal and where their hosts stand: both are sought again in the
    other samples, until nothing is better. Or hosts that seem faulty just stand elsewhere. Both are sought beside the
    best description with groups of hosts, and beside the best without.
    """
    y, left = joint.y - levels[-1][joint.plane], ~joint.lost
    groups = groupings(y[left], joint.a[left], joint.b[left], len(joint.hosts))
    tried = _best_of_each(_described(joint, levels, groups, least, left))
    begun = {False: -inf, True: -inf}  # by whether hosts stand in groups: the score of the last start
    for _ in range(_MOST_TURNS):
        best = _best(tried.values())[1].score
        every = {of_groups: _best([tried[key] for key in tried if key[1] == of_groups]) for _, of_groups in tried}
        new = {key: one for key, one in every.items() if one[1].score > max(best - _MAY_GAIN, begun[key] + LEAST_GAIN)}
        for of_groups, (own, found) in new.items():
            begun[of_groups] = found.score
            y, left = joint.y - own[joint.plane], (found.explained < NEAR) & ~joint.lost
            if not left.any():  # then nothing says what is normal
                continue
            groups = joint.possible_groups([one.part for one in found.faults], y, found.normal.groups)
            if not left.all():
                groups += groupings(y[left], joint.a[left], joint.b[left], len(joint.hosts))
            if groups or not left.all():
                tried = _best_of_each(chain(tried.values(), _described(joint, levels, groups, least, left, best)))
        if not new:
            break
    return {blames: _best([tried[key] for key in tried if key[0] == blames]) for blames, _ in tried}


def _best_of_each(every: Iterable[_Levelled]) -> _Tried:
    found: _Tried = {}
    for one in every:
        key = bool(one[1].faults), one[1].normal.groups is not None
        found[key] = _best((found.get(key, one), one))
    return found


def _best(of: Iterable[_Levelled]) -> _Levelled:
    return max(of, key=lambda one: one[1].score)


def _refined(joint: Joint, own: Floats, found: Description, least: float) -> Description:
    """Return the description with what is normal as its healthy samples tell it, and with rivals."""
    y = joint.y - own[joint.plane]
    again = refitted(found.normal, y, (found.explained == 0) & ~joint.lost)
    return describe(y, again, joint.cells, floor=least, known=found, beside=joint.beside_of(own), stray=joint.stray)


def _described(
    joint: Joint, levels: Sequence[Floats], groups: Sequence[Groups], least: float, reference: Bools, best: float = -inf
) -> Iterator[_Levelled]:
    """
    Yield for each structure of what is normal, also of these *groups*, the levels of the planes and the description.

    The *reference* samples say what is normal. *best* is the score of other descriptions.
    """
    for own in levels:
        y = joint.y - own[joint.plane]
        cost, beside = cost_of_levels(np.abs(own[own != 0.0]), len(y)), joint.beside_of(own)
        every = without_duplicates(structures(y, joint.a, joint.b, groups, joint.across, reference))
        for normal in sorted(every, key=lambda one: one.cost - likelihood(y, one)):
            if (normal.top < normal.top.max() + _LOST).any():  # where all is lost nothing is normal
                continue
            priced = replace(normal, cost=normal.cost + cost)
            found = describe(
                y, priced, joint.cells, floor=least, beside=beside, stray=joint.stray, with_rivals=False, best=best
            )
            best = max(best, found.score)
            yield own, found


def _own_levels(joint: Joint) -> list[Floats]:
    """Return by plane how far its level may be from the usual one: not at all and, where planes differ, as measured."""
    seen = np.array([log(level_and_noise(one.gbps[one.gbps > 0])[0]) for one in joint.planes])
    apart = seen - np.median(seen)
    apart[np.abs(apart) < _SAME_LEVEL] = 0.0
    return [np.zeros(len(seen)), apart] if apart.any() else [apart]


def _split(joint: Joint, own: Floats, y: Floats, found: Description, floor: float, doubt: str) -> list[Fitted]:
    """Return what was found, plane by plane; *doubt* holds for all that is blamed."""
    normal = found.normal
    blamed = _blamed(joint, found, [doubt or one for one in _doubts(joint, found, y)])
    noise = float(np.median(normal.noise[normal.of_class]))
    ratio, explained = np.exp(y - normal.expected(y)), 1 - np.exp(-found.explained)
    maybe = open_parts(found, y, joint.cells, _OF_FLOOR * floor, joint.stray)
    split = []
    for place, (samples, components) in enumerate(zip(joint.planes, joint.components, strict=True)):
        mine = joint.samples_of(place)
        here = [
            replace(one, component=component, rivals=_rivals(one, joint, place))
            for one in blamed
            for component in joint.components_of(one.component, place)
            if (components.paths == component).any()  # skip a core of all planes that no sample of this one crossed
        ]
        here.sort(key=lambda one: (-one.margin, one.component))
        present, of_class = np.unique(normal.of_class[mine], return_inverse=True)
        split.append(
            Fitted(
                samples,
                components,
                ratio[mine],
                noise,
                floor,
                tuple(here),
                tuple(component for part, _ in maybe for component in joint.components_of(part, place)),
                explained[mine],
                tuple(
                    _link_class(normal, n, float(own[place]), joint, samples, int(count))
                    for n, count in zip(present.tolist(), np.bincount(of_class), strict=True)
                ),
                of_class,
                normal.degrees,
                found.together[mine],
            )
        )
    return split


def _link_class(normal: Normal, number: int, own: float, joint: Joint, samples: PairSamples, count: int) -> LinkClass:
    """Return a class of the structure, with the hosts of a plane by group if it has groups."""
    name = normal.names[number] if len(normal.names) > 1 else ALL
    groups: tuple[tuple[str, ...], ...] = ()
    if normal.groups is not None:
        of = dict(zip(joint.hosts, normal.groups.tolist(), strict=True))
        every = range(int(normal.groups.max()) + 1)
        groups = tuple(tuple(host for host in samples.hosts if of[host] == group) for group in every)
    level, noise = exp(float(normal.main[number]) + own), float(normal.noise[number])
    return LinkClass(name, samples.kind, samples.rail, level, noise, count, groups)


def _rivals(blamed: Blamed, joint: Joint, place: int) -> tuple[int, ...]:
    """Return the rivals in one plane, as component numbers of that plane."""
    own = joint.components_of(blamed.component, place)
    found = (component for part in blamed.rivals for component in joint.components_of(part, place))
    return tuple(component for component in found if component not in own)


def _blamed(joint: Joint, found: Description, doubts: Sequence[str]) -> list[Blamed]:
    blamed = []
    for fault, doubt in zip(found.faults, doubts, strict=True):
        others = [other for _, other in fault.rivals]
        odds = exp(-fault.gain) + sum(exp(other - fault.gain) for other in others)
        part, rivals = _named(fault, joint)
        blamed.append(
            Blamed(
                part,
                fault.share_lost,
                margin=fault.gain - max([0.0, *others]),
                confidence=min(_MOST_SURE.get(doubt, DOUBTFUL), 1 / (1 + odds)),
                rivals=rivals[:MOST_RIVALS],
                gain=fault.gain,
                doubt=doubt,
            )
        )
    return blamed


def _named(fault: FaultyPart, joint: Joint) -> tuple[int, tuple[int, ...]]:
    """
    Return the part to name, and what cannot be told from it.

    With two leaves, what one sends up is what the other receives: one cable of either is named as what is between them.
    Where all samples are slow it is not one cable.
    """
    part, rivals = fault.part, tuple(part for part, _ in fault.rivals)
    if joint.family[part] == FAMILY["uplinks"] and all(loss.rho < ALWAYS for loss in fault.losses):
        same = any(np.array_equal(joint.cells.of(one), joint.cells.of(part)) for one in rivals)
        spines = [one for one in rivals if joint.cells.entries.is_drawn[one] and joint.family[one] == FAMILY[SPINES]]
        if same and spines:
            return spines[0], (part, *(one for one in rivals if one != spines[0]))
    return part, rivals


def _doubts(joint: Joint, found: Description, y: Floats) -> list[str]:
    """
    Return by fault why it may be none, empty where it is one.

    Faults are few and differ; classes are many and agree. A host that is a little slower than all others may stand
    elsewhere, where no file says who stands where.
    """
    cells, hosts = joint.cells, len(joint.hosts)
    placed = all(one.placed for one in joint.planes)
    family = joint.family
    small = [one for one in found.faults if one.loss < NEAR]
    quiet = (found.normal.weight > 0) & (found.normal.noise < FLOOR)[:, None]
    level = found.normal.level[quiet]
    gaps = [high - low for high in level for low in level if 0 < high - low < _MOST_GAP]
    least = max(gaps) + _NEAR_GAP if gaps else _PLACES if not placed and hosts < CLASS_HOSTS else 0.0
    behind = found.normal.expected(y) - y
    doubts = []
    for one in found.faults:
        kin = [other for other in small if family[other.part] == family[one.part]]
        shows = behind[cells.of(one.part)] > one.loss / 2
        alike = sum(abs(other.loss - one.loss) < SAME_LOSS for other in kin)
        things = joint.things(one.part)
        of_place = one in small and (not placed or one.loss < PLACED + SAME_LOSS)
        if of_place and alike > max(1, FIFTH * things):
            doubts.append(f"{alike} of {things} lose as much: a class (make, wiring, place), not faults")
        elif one in small and family[one.part] in _HOST_FAMILIES and one.loss < least:
            doubts.append(ELSEWHERE if placed else f"{ELSEWHERE}: give an inventory")
        elif hosts < CLASS_HOSTS and family[one.part] == WHOLE_HOST and _varies(one):
            doubts.append(ELSEWHERE)
        elif one.loss < _PLACES and _is_large_leaf(one, joint):
            doubts.append(f"{ELSEWHERE}: measure other rails")
        elif _may_be_drawn(one, joint, behind):
            doubts.append(DRAWN)
        elif shows.mean() < _OFTEN and not _is_one_way(one, joint):
            doubts.append(SELDOM)
        elif shows.sum() < LEAST_SLOW:
            doubts.append(TWICE)
        else:
            doubts.append("")
    return doubts


def _is_large_leaf(fault: FaultyPart, joint: Joint) -> bool:
    """Return whether the part is a leaf, of five or fewer, that no other rail tells about."""
    large = FIFTH * joint.things(fault.part) <= 1
    return joint.family[fault.part] == FAMILY["leaf"] and large and len(joint.planes) == 1


def _varies(fault: FaultyPart) -> bool:
    """Return whether a part always loses, a varying amount, and no more than others' traffic between places takes."""
    (loss,) = fault.losses
    return loss.rho >= OFTEN and loss.spread >= _ALIKE and loss.loss < _MOST_BETWEEN


def _is_one_way(fault: FaultyPart, joint: Joint) -> bool:
    """Return whether the part is one of several ways that samples draw: few samples take it, all equally slow."""
    (loss,) = fault.losses
    return bool(joint.cells.entries.is_drawn[fault.part]) and loss.spread <= _ALIKE


def _may_be_drawn(fault: FaultyPart, joint: Joint, behind: Floats) -> bool:
    """Return whether all slow samples of a host or a leaf left the leaf over a drawn way that may be what is bad."""
    if joint.family[fault.part] not in _UNDER_A_LEAF or joint.cells.entries.is_drawn[fault.part]:
        return False
    mine = joint.cells.of(fault.part)
    slow = mine[behind[mine] > fault.loss / 2]
    return bool(joint.drawn[slow].all())


_UNDER_A_LEAF = frozenset({FAMILY["host"], WHOLE_HOST, FAMILY["leaf"]})

_HOST_FAMILIES = frozenset({FAMILY["host"], WHOLE_HOST})
