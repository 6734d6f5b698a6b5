"""Samples, the parts that they pass through, and how likely the samples are, given faulty parts.

A *cell* is a part and a class of samples. Probes of one class share capacity alike, so they lose alike where the part
is faulty. Pairs of hosts are all of one class here: what is normal for each pair comes from their structure
(``levels.py``).

A healthy sample is as its ``Normal`` says or, at the background rate, a dip that belongs to no part. Where several
faulty parts are on one way, the slowest counts. Except for pairs, both may count as well: a host that is slow as a
whole and a slow cable of it multiply. The two ends of a pair are different hosts, so there only the slowest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import comb, inf, log

import numpy as np

from fabric.judge.locate.structure import UNKNOWN, Bools, FaultyPart, Floats, Follows, Ints, Normal

NOTHING = log(0.01)
"""What a probe that measured nothing counts as (natural log): a hundredth of the normal."""

DIP_WIDTH = 3.0
"""Nats over which background dips are spread: down to a twentieth of the level."""

MOST_BACKGROUND = 0.4
"""The largest share of samples that are dips of no part; if more samples dip, some part is faulty."""

SHARED = {2 / 3: 0.26, 1 / 2: 0.38, 2 / 5: 0.06, 1 / 3: 0.14, 1 / 4: 0.04}
"""
How often a connection beside others on a cable keeps this share of it, by share, if it shares the cable at all.

Where n queue pairs are laid on one cable at random, each has an n-th of it, and the slowest holds up the others of its
connection: q queue pairs keep q/n. Half of the connections have one and half two queue pairs; other connections are
Poisson with a mean of one. The rest of the probability is for more connections and for uneven parts.
"""

CONGESTION = 1.0
"""
Nats that it costs to say that ways were shared: as much as that a host is bad.

The logarithm of the number of samples beside slow ones is added, half of it for how often, half for how many shared
(chosen with clean and planted ECMP, seeds 5201 to 5220).
"""

LOSSY = 10.0
"""The same for a class that loses packets beside others: as rare as two pairs that became bad just then."""

EVENNESS = 0.004
"""How evenly connections share a cable: the spread of the parts that they get, natural log."""

_VANISHED = NOTHING / 2  # a sample below this measured no number
_AS_USUAL = 2.0  # the shares of SHARED count as so many samples
_EVEN = 0.1  # nats: the parts of connections that share a cable differ by less
_MOST_SHARED = 0.9  # largest share of the samples beside slow ones that were on the same cable
_DEPTH = 0.1  # nats: dips whose depths differ by less are equally deep
_FAILURE = 1e-4  # how much rarer than a dip it is that a healthy probe measures nothing
LOST = 1 / 300  # share of healthy tests that end without a number, and nobody finds out why: one in a few hundred
_LEAST_BACKGROUND = 0.003
_TOUCHED = 0.6  # share of a part's samples that are slow from which they are no background
_WHOLE_BUNDLE = 2.3  # nats: all things of a bundle are faulty at once ten times more seldom than one of them
_LINE = 2.0  # nats that a growing loss costs in addition to its slope (tried on a burn-in of a day)
_RARE = 0.5  # a part that shows in a smaller share of its samples explains only those that it probably slowed
_MANY = 2.0  # a part with more samples than this times the median of all parts is large
_MOST_SPREADS = 2.0  # times its spread: so much more than a part's loss does it explain (95 % of what it may be)
_ALL = slice(None)
_NONE = np.empty(0, dtype=np.int64)
_NO_DIP = 1e-9  # density, as a dip, of a sample that is not slow


@dataclass(frozen=True)
class Entries:
    """
    Which samples pass through which parts: entry *e* says that ``sample[e]`` passes through ``part[e]``.

    By entry: if the part is a bundle of things (the cables above a leaf), *way* is the part that is the way over one of
    them; else UNKNOWN. By part: *cost* is the nats that it costs to say that the part is faulty, 0 where other evidence
    says so; a *large* part has many samples. *both_ways_part* is the part that both directions of one thing belong to;
    they are never rivals. A part *is_drawn* where a sample passes one of several things and nobody knows which: if one
    of them is faulty, few samples show it; *share* is the share of them where that is known, else 0. Where any k of n
    like things are one hypothesis, in whatever order they were found, *family* numbers their family and *things* is n.
    """

    sample: Ints
    part: Ints
    way: Ints
    cost: Floats
    large: Bools
    is_drawn: Bools
    share: Floats
    both_ways_part: Ints | None = None
    family: Ints | None = None
    things: Ints | None = None

    @classmethod
    def of_paths(
        cls,
        paths: Ints,
        family: Ints,
        extra: Floats,
        both_ways_part: Ints,
        is_drawn: Bools,
        share: Floats,
        many: Mapping[int, int] | None = None,
    ) -> Entries:
        """
        Build the entries from *paths*: a row for each sample, the parts on its way, filled up with UNKNOWN.

        To say that a part is faulty costs the logarithm of the number of things in its *family*, and *extra* nats for a
        rarer part. *many* gives the size of each family of which only some things are listed.
        """
        part = paths.ravel()
        known = part != UNKNOWN
        part, sample = part[known], np.repeat(np.arange(len(paths)), paths.shape[1])[known]
        count = np.bincount(part, minlength=len(extra))
        own = (both_ways_part == np.arange(len(both_ways_part))) & (count > 0)
        things = np.maximum(np.bincount(family[own], minlength=int(family.max(initial=0)) + 1)[family], 1)
        for one, count_of in (many or {}).items():
            things[family == one] = count_of
        usual = float(np.median(count[count > 0])) if len(part) else 0.0
        return cls(
            sample,
            part,
            np.broadcast_to(UNKNOWN, len(part)),
            cost_of(things, extra),
            (count > _MANY * usual) & (extra > 0),
            is_drawn,
            share,
            both_ways_part,
            family,
            things,
        )

    def costs(self, taken: Sequence[int] = ()) -> Floats:
        """
        Return by part the nats to say that it is faulty, too, when *taken* are: in one family ln C(n, k) + k.

        Inside hosts there are no families: an RNIC and its port would explain the same, so the number of either that is
        faulty elsewhere must not change their odds.
        """
        if self.family is None or self.things is None or not len(taken):
            return self.cost
        faulty = np.bincount(self.family[list(taken)], minlength=int(self.family.max()) + 1)[self.family]
        further = np.maximum(np.log(np.maximum(self.things - faulty, 1) / (faulty + 1)), 0.0)
        found: Floats = self.cost - np.log(self.things) + further
        return found


def cost_of(things: Ints | Floats | int, extra: Floats | float) -> Floats:
    """Return the nats that it costs to say which of so many *things* is faulty, with *extra* nats for a rarer kind."""
    return np.log(things) + 1 + extra


class Cells:
    """Entries grouped by cell; *of_class* is the class of each sample."""

    def __init__(self, entries: Entries, of_class: Ints) -> None:
        self.entries, self.parts, classes = entries, len(entries.cost), int(of_class.max(initial=0)) + 1
        key = entries.part * classes + of_class[entries.sample]
        small = self.parts * classes < 1 << 16  # small numbers sort several times as fast
        order = np.argsort(key.astype(np.uint16) if small else key, kind="stable")
        self.sample, self.way, key = entries.sample[order], entries.way[order], key[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        self.start = np.append(first, len(key))
        self.count: Ints = np.diff(self.start)
        self.part, self.of_class = key[first] // classes, key[first] % classes
        self.part_of_entry = np.repeat(self.part, self.count)
        self._first_cell = np.searchsorted(self.part, np.arange(self.parts + 1))

    def samples_of(self, cell: int) -> Ints:
        """Return the samples of one cell."""
        return self.sample[self.start[cell] : self.start[cell + 1]]

    def of(self, part: int) -> Ints:
        """Return the samples that pass through a part."""
        return self.sample[self.entries_of(part)]

    def cells_of(self, part: int) -> range:
        """Return the cells of a part."""
        return range(int(self._first_cell[part]), int(self._first_cell[part + 1]))

    def entries_of(self, part: int) -> slice:
        """Return the entries of all cells of a part."""
        cells = self.cells_of(part)
        return slice(int(self.start[cells.start]), int(self.start[cells.stop]))

    @cached_property
    def through(self) -> Ints:
        """By part: how many samples pass through it."""
        return np.bincount(self.part, self.count, minlength=self.parts).astype(np.int64)

    @cached_property
    def is_bundle(self) -> Bools:
        """By part: whether it has ways over one of its things."""
        found = np.zeros(self.parts, dtype=np.bool_)
        found[self.part_of_entry[self.way != UNKNOWN]] = True
        return found

    def total(self, which: Bools) -> Ints:
        """Return by part how many of the *which* samples pass through it."""
        return np.bincount(self.part_of_entry[which[self.sample]], minlength=self.parts)

    @cached_property
    def first_with_same_samples(self) -> Ints:
        """By part: the first part through which the very same samples pass; where *both_ways_part* is known, that."""
        if self.entries.both_ways_part is not None:
            return self.entries.both_ways_part
        first: dict[bytes, int] = {}
        rows = (self.of(part).tobytes() for part in range(self.parts))
        return np.array([first.setdefault(own, part) for part, own in enumerate(rows)])

    def of_parts(self, parts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the cells of *parts*, the samples of these, and for each sample the place of its cell and its way."""
        cells = np.concatenate([np.arange(self._first_cell[p], self._first_cell[p + 1]) for p in parts.tolist()])
        count = self.count[cells]
        ends = np.cumsum(count)
        entry = np.arange(ends[-1]) + np.repeat(self.start[cells] - (ends - count), count)
        return cells, self.sample[entry], np.repeat(np.arange(len(cells)), count), self.way[entry]


@dataclass(frozen=True)
class SampleMatrix:
    """
    Samples and the parts that they pass through, as *cells*.

    By sample: *y* is the log of the share of its class's highest level that it reached, *of_class* its class in
    *normal*, *at_s* when it began. By class, natural logs: *floor* is the loss from which a sample is slow; *least* the
    least loss that a part may have; *apart* by how much this must exceed the loss of another part of the same samples;
    *level*, in Gb/s, that of classes of single flows, in which one cap shows alike, else 0. *timed*: parts may become
    faulty in the course of the run. *lost*: the samples that ended without a number, where that need not be a fault.
    *rounds*: there are many rounds, and a part may be bad now and then. *warmth*: by part, its temperature at given
    times, degrees Celsius, NaN where not known. *dips*: the share of dips and the density of each sample's depth as a
    dip, where known. *beside*: the least share (log) of the samples that ran meanwhile on ways that may be shared, inf:
    none did. *faint*: a part may lose less than the noise of one sample, so samples that are not slow count as
    evidence, too. *moments*: by part, whether it is no part, but a while in which all was slow; *of_hosts*, beside
    these: whether it belongs to one host.
    """

    cells: Cells
    y: Floats
    of_class: Ints
    at_s: Floats
    normal: Normal
    floor: Floats
    least: Floats
    apart: Floats
    level: Floats
    lost: Bools | None = None
    timed: bool = False
    rounds: bool = False
    warmth: Mapping[int, Callable[[Floats], Floats]] = field(default_factory=dict)
    dips: tuple[float, Floats] | None = None
    beside: Floats | float = inf
    faint: bool = False
    moments: Bools | None = None
    of_hosts: Bools | None = None

    @cached_property
    def slow(self) -> Bools:
        """Which samples are slow."""
        return self.y < -self.floor[self.of_class]

    @cached_property
    def together(self) -> Bools:
        """Which samples are slow beside another sample that was as slow, or slower."""
        alike = (self.y <= _VANISHED) == (self.beside <= _VANISHED)
        found: Bools = self.slow & alike & (self.beside <= self.y + _EVEN)
        return found

    @property
    def alone(self) -> SampleMatrix:
        """The same matrix without samples that are in the way of others."""
        return replace(self, beside=inf)


class Likelihood:
    """The likelihood of samples, given faulty parts."""

    def __init__(self, matrix: SampleMatrix) -> None:
        self.matrix, self.cells = matrix, matrix.cells
        self.rare_of_large = False  # of many rounds: whether large parts, too, may show now and then
        self._base = self._unblamed(np.zeros(len(matrix.y)))

    def _unblamed(self, explained: Floats) -> Floats:
        """Return the density of each sample where no part is to blame: noise, and dips that belong to no part."""
        matrix = self.matrix
        share, deep = self._dips(explained) if matrix.dips is None else matrix.dips
        found: Floats = (1 - share) * self.density_at_loss(_ALL, 0.0, 0.0) + share * deep
        if matrix.together.any():
            self._add_congestion(found, explained)
        if matrix.lost is not None:
            of_class = matrix.of_class[matrix.lost]
            found[matrix.lost] = LOST * matrix.normal.density(np.zeros(len(of_class)), of_class)
        return found

    @cached_property
    def in_the_way(self) -> Bools:
        """Which samples ran beside a slow sample, so that one may have been in the way of the other."""
        matrix = self.matrix
        return matrix.together | (matrix.beside < -matrix.floor[matrix.of_class])

    def _add_congestion(self, density: Floats, explained: Floats) -> None:
        """Add to *density* that others on the same cable slow samples, as often as samples beside slow ones show it."""
        matrix, open_ = self.matrix, explained == 0
        often, mine, losses = self._often(open_), np.flatnonzero(matrix.together), -np.log(list(SHARED))
        known = mine[open_[mine]]
        away = np.abs(matrix.y[known][:, None] + losses)
        near = np.bincount(away.argmin(axis=1)[away.min(axis=1) < _EVEN], minlength=len(losses))
        weights = (near + _AS_USUAL * np.array(list(SHARED.values()))) / (len(known) + _AS_USUAL)
        density[self.in_the_way] *= 1 - often
        density[mine] += often * self._divided(mine, np.zeros(len(mine)), weights)
        lost = mine[matrix.y[mine] <= _VANISHED]
        density[lost] += often * self.density_at_loss(lost, -matrix.y[lost], 0.0)

    def _often(self, open_: Bools) -> float:
        """Return how often a sample that ran beside a slow one was on the same cable."""
        together, beside = (float((which & open_).sum()) for which in (self.matrix.together, self.in_the_way))
        return min((together + 0.5) / (beside + 1.0), _MOST_SHARED)

    def slowed(self, samples: Ints, loss: Floats, spread: float) -> tuple[Floats, Bools]:
        """
        Return the density of samples through a faulty part with this *loss*, and which lose more as they shared it.

        Two connections that run at once over a cable have half of it each, also of a bad one.
        """
        held, shared = self.density_at_loss(samples, loss, spread), self.matrix.together[samples]
        found = np.zeros(len(samples), dtype=np.bool_)
        if shared.any():
            often = self._often(np.ones(len(self.matrix.y), dtype=np.bool_))
            beside = often * self._divided(samples[shared], loss[shared], np.array(list(SHARED.values())), spread)
            found[shared] = beside > (1 - often) * held[shared]
            held[shared] = (1 - often) * held[shared] + beside
        if self.matrix.dips is not None:  # samples through a bad part dip as often as others
            share, deep = self.matrix.dips
            held = (1 - share) * held + share * deep[samples]
        return held, found

    def _divided(self, mine: Ints, loss: Floats, weights: Floats, spread: float = 0.0) -> Floats:
        """Return the density of samples that share a cable with this *loss*; *weights*: how often each of SHARED is."""
        more = zip(weights.tolist(), -np.log(list(SHARED)), strict=True)
        found: Floats = (1 - weights.sum()) / DIP_WIDTH + np.sum(
            [weight * self.density_at_loss(mine, loss + lost, max(spread, EVENNESS)) for weight, lost in more], axis=0
        )
        return found

    def _dips(self, explained: Floats) -> tuple[float, Floats]:
        """
        Return the share of dips that belong to no part, and the density of each sample's depth as a dip.

        With many rounds both are estimated from the samples that no part explains.
        """
        matrix = self.matrix
        failure = np.where(matrix.y <= NOTHING, _FAILURE, 1.0)
        if not matrix.rounds:
            return self._background(), np.where(matrix.slow, failure / DIP_WIDTH, _NO_DIP)
        left = matrix.slow & (explained == 0) & ~matrix.together
        dips, of = left.sum(), (explained == 0).sum()
        share = min((dips + 0.5) / (of + 1.0), MOST_BACKGROUND)
        depth = (-matrix.y / _DEPTH).clip(0).astype(np.int64)
        alike = np.bincount(depth[left & (failure == 1)], minlength=depth.max() + 1)[depth] * (failure == 1) / _DEPTH
        return share, np.where(matrix.slow, (alike + 0.5 * failure / DIP_WIDTH) / (dips + 0.5), _NO_DIP)

    def _background(self) -> float:
        """Return the share of slow samples among those that pass no part of which most samples are slow."""
        matrix, cells = self.matrix, self.cells
        bad = (cells.total(matrix.slow) >= _TOUCHED * cells.through) & (cells.through >= 2)
        touched = matrix.together.copy()
        touched[cells.sample[bad[cells.part_of_entry]]] = True
        share = (matrix.slow & ~touched).sum() / max(1, (~touched).sum())
        return float(np.clip(share, _LEAST_BACKGROUND, MOST_BACKGROUND))

    def during(self, fault: FaultyPart, cell: int) -> Ints:
        """Return the samples of a cell that began while its part was faulty, on the ways over what is faulty of it."""
        samples, cells = self.cells.samples_of(cell), self.cells
        if fault.ways is not None:
            samples = samples[np.isin(cells.way[cells.start[cell] : cells.start[cell + 1]], list(fault.ways))]
        if fault.since_s > -inf or fault.until_s < inf:
            at_s = self.matrix.at_s[samples]
            samples = samples[(at_s >= fault.since_s) & (at_s <= fault.until_s)]
        if fault.follows is not None:
            samples = samples[self.along(fault.part, samples, warm=fault.follows.warm) >= fault.follows.begins]
        return samples

    def along(self, part: int, samples: Ints, *, warm: bool) -> Floats:
        """Return what the losses of a part may grow with: the time of each sample, or how *warm* the part was then."""
        at_s = self.matrix.at_s[samples]
        return self.matrix.warmth[part](at_s) if warm else at_s

    def grown(self, part: int, samples: Ints, follows: Follows | None) -> Floats:
        """Return by sample the share of its full loss that a part had at that time."""
        if follows is None:
            return np.ones(len(samples))
        x = self.along(part, samples, warm=follows.warm)
        along = np.nan_to_num((x - follows.zero) / (follows.full - follows.zero)).clip(0.0, 1.0)
        share: Floats = np.log1p(-follows.lost * along) / np.log1p(-follows.lost)
        return share

    def cost_of_when(self, fault: FaultyPart) -> float:
        """
        Return the nats that it costs to say when a part is faulty, and which of its ways are.

        A start, an end and a slope are each one of as many values as the part has samples. The faulty ways are some of
        all; to say how many costs a number, unless other evidence says that the part is faulty.
        """
        entries = self.cells.entries_of(fault.part)
        count = log(max(entries.stop - entries.start, 2))
        line = 0.0 if fault.follows is None else count + _LINE
        which = _WHOLE_BUNDLE if self.cells.is_bundle[fault.part] else 0.0
        if fault.ways is not None:
            ways = np.unique(self.cells.way[entries])
            known = self.cells.entries.cost[fault.part] == 0
            which = log(comb(len(ways), len(fault.ways))) + (0.0 if known else log(len(ways)) / 2)
        return ((fault.since_s > -inf) + (fault.until_s < inf)) * count + line + which

    @cached_property
    def cost_of_congestion(self) -> float:
        """Nats that it costs to say that some samples are slow, or lost, because of others on the same cable."""
        if not self.matrix.together.any():
            return 0.0
        lossy = (self.matrix.y[self.matrix.together] <= _VANISHED).any()
        return (LOSSY if lossy else CONGESTION) + log(float(self.in_the_way.sum()))

    def explained(self, faults: Sequence[FaultyPart]) -> tuple[Floats, Floats]:
        """Return the density of every sample given *faults*, and the loss that explains it."""
        found = self._given(faults, self._base)
        if not faults or not (self.matrix.rounds or self.matrix.together.any()):
            return found
        return self._given(faults, self._unblamed(found[1]))

    def _given(self, faults: Sequence[FaultyPart], base: Floats) -> tuple[Floats, Floats]:
        """
        Return density and explained loss of every sample; without faults its density is *base*.

        Of several faults on one way either the greater loss counts or their sum: which, is said once for each class.
        """
        density, explained = base.copy(), np.zeros(len(base))
        losses = sorted(
            (loss.loss, number, loss.cell, loss) for number, one in enumerate(faults) for loss in one.losses
        )
        for *_, number, _, loss in losses:
            mine = self.during(faults[number], loss.cell)
            before = explained[mine]
            alone = loss.loss * self.grown(faults[number].part, mine, faults[number].follows)
            held, shared = self.slowed(mine, np.maximum(alone, before), loss.spread)
            lost = np.maximum(alone, before)
            both = np.flatnonzero(before > 0) if not self.matrix.faint else _NONE
            if len(both):
                summed = (alone + before)[both]
                adding = self.density_at_loss(mine[both], summed, loss.spread)
                without = (1 - loss.rho) * density[mine[both]]
                if np.log((loss.rho * adding + without) / (loss.rho * held[both] + without)).sum() > 0:
                    held[both], lost[both] = adding, summed
                held[both] *= 0.5 ** (1 / len(both))
            slowed = loss.rho * held
            density[mine] = slowed + (1 - loss.rho) * density[mine]
            by_it = slowed / density[mine]
            deeper = -self.matrix.y[mine] - lost
            lost = lost + np.where(shared, np.maximum(deeper, 0.0), np.clip(deeper, 0.0, _MOST_SPREADS * loss.spread))
            explained[mine] = lost if loss.rho >= _RARE else np.where(by_it > 0.5, lost, before)
        return density, explained

    def unexplained(self, explained: Floats, samples: Ints | slice = _ALL) -> Bools:
        """Return which of *samples* are slow, and slower than the loss that explains them."""
        matrix, least = self.matrix, self.least_unexplained_loss(explained[samples], samples)
        return matrix.slow[samples] & (-matrix.y[samples] > least)

    def least_unexplained_loss(self, explained: Floats, samples: Ints | slice) -> Floats:
        """Return the loss from which samples ask for another part than the one that explains them."""
        matrix, of_class = self.matrix, self.matrix.of_class[samples]
        return explained + np.where(explained > 0, matrix.apart[of_class], matrix.least[of_class])

    def density_at_loss(self, samples: Ints | slice, loss: Floats | float, spread: float) -> Floats:
        """Return the density of samples that lose so much."""
        return self.matrix.normal.density(self.matrix.y[samples], self.matrix.of_class[samples], loss, spread)
