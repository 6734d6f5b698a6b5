"""
The likelihood of probes of several kinds, for the search for the shortest description.

Probes of several kinds pass through one part, and each kind shares its capacity differently. So a part has one loss for
each class of probes (a *cell* is a part and a class), and a class that should show a fault and does not speaks against
it: that alone tells a cable from its RNIC (by loopbacks), a GPU from its NVLink, a path from its RNIC. A fault may last
for a part of the run only: from some time on, or between two times.

A healthy sample is its class's level with Student t noise (4 degrees of freedom), or at the background rate a dip that
belongs to no part. Of several faulty parts on one way the slowest counts, or both: a host that is slow as a whole and a
slow cable of it multiply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, inf, log

import numpy as np

from fabric.judge.locate.cells import NOTHING, SPREADS, Cells, SampleMatrix
from fabric.judge.locate.fit import DEAD, NO_FIT, ONE_MORE, SHARES, SOMETIMES, Fit, line, unshown
from fabric.judge.locate.search import LEAST_GAIN, NOBODY, FaultSearch
from fabric.judge.locate.structure import ALWAYS, OFTEN, UNKNOWN, Bools, FaultyPart, Floats, Ints

_AT_ONCE = 16  # parts that are fitted together
_MOST_LINES = 8  # of these, those that may have a loss that grows: the best


class Search(Cells, FaultSearch):
    """Finds the faulty parts of a matrix."""

    rival = 3.0

    def __init__(self, matrix: SampleMatrix) -> None:
        super().__init__(matrix)
        entries = matrix.entries
        self.large, self.whole = entries.large.copy(), np.arange(len(entries.cost))
        self.large[entries.part[entries.way != UNKNOWN]] = True
        first: dict[bytes, int] = {}
        rows = (self._sample[self._entries_of(part)].tobytes() for part in range(len(entries.cost)))
        self._alike = np.array([first.setdefault(own, part) for part, own in enumerate(rows)])

    def faults(self) -> list[FaultyPart]:
        """The faulty parts, the surest first, each with its evidence beside all others and its rivals."""
        begun = [self.greedy([])] if self._matrix.rounds else self.begun()
        found = max(map(self.settled, begun), key=self.score)
        if self._matrix.rounds:
            # Of large parts those last that show now and then: else they stand for some small ones that always do.
            self.rare_of_large = True
            found = self.settled(self.greedy(found))
        return self.told(found)

    def matters(self, fault: FaultyPart) -> bool:
        """Whether it loses as much as a faulty part must, on average over a class: a host may be a little low."""
        return any(
            one.rho * one.loss >= ALWAYS * self._matrix.least[self.class_of_cell[one.cell]] for one in fault.losses
        )

    def score(self, faults: Sequence[FaultyPart]) -> float:
        """Log likelihood of all samples minus what it costs to say the hypothesis."""
        density, _ = self.explained(faults)
        return float(np.log(density).sum() - sum(self._cost(one) for one in faults))

    def _cost(self, fault: FaultyPart) -> float:
        told = {loss.cell: loss for loss in fault.losses}
        level = self._matrix.level
        cap = min((level[self.class_of_cell[one.cell]] * exp(-one.loss) for one in fault.losses), default=0.0)
        shares = [one.rho for one in fault.losses if level[self.class_of_cell[one.cell]] > 0 or one.rho >= OFTEN]
        often = max(shares, default=0.0)
        dead = fault.loss > DEAD
        cost = float(self._matrix.entries.cost[fault.part]) + self.when(fault)
        for cell in self.cells_of(fault.part):
            mine = self.during(fault, cell)
            if cell in told:
                loss = told[cell]
                share = SHARES.get(loss.rho, SOMETIMES)
                cost += ONE_MORE + SPREADS[loss.spread] + share * log(max(len(mine), 2))
            elif len(mine):
                of_class = level[self.class_of_cell[cell]]
                against = unshown(
                    np.array([len(mine)]), np.array([often]), np.array([of_class > 0]), dead=np.array([dead])
                )
                clear = 0.0 if 0 < of_class <= cap else float(against[0])
                cost += NO_FIT if self._matrix.slow[mine].any() else clear
        return cost

    def _fits(self, parts: Ints, density: Floats, explained: Floats) -> list[FaultyPart]:
        """The best fault of each of *parts*, the best first."""
        best: dict[int, FaultyPart] = {}
        for since_s, until_s in self._spans(parts, explained):
            for one in Fit(self, parts, density, explained, since_s, until_s).faults():
                if one.part not in best or one.gain > best[one.part].gain:
                    best[one.part] = one
        for one in sorted(best.values(), key=lambda one: -one.gain)[: _MOST_LINES if self._matrix.timed else 0]:
            best[one.part] = max([one, *self._lines(one, density, explained)], key=lambda one: one.gain)
        return sorted(best.values(), key=lambda one: (-one.gain, one.part))

    def _lines(self, fault: FaultyPart, density: Floats, explained: Floats) -> Iterator[FaultyPart]:
        """The same part with losses that grow with the hours, or with its temperature."""
        cells = self.cells_of(fault.part)
        mine = self._sample[self._entries_of(fault.part)]
        slow = mine[self.open(explained)[mine] & (self._matrix.y[mine] > -DEAD)]
        always = np.array([-inf]), np.array([inf])
        floor = float(self._matrix.least[self.class_of_cell[cells.start : cells.stop]].min())
        for warm in (False, True) if fault.part in self._matrix.warmth else (False,):
            follows = line(self.along(fault.part, slow, warm=warm), -self._matrix.y[slow], floor, warm=warm)
            if follows is not None:
                yield from Fit(self, np.array([fault.part]), density, explained, *always, follows).faults()

    def _spans(self, parts: Ints, explained: Floats) -> list[tuple[Floats, Floats]]:
        """When each part may have been faulty: always, from its first slow samples on, or between first and last."""
        always = (np.full(len(parts), -inf), np.full(len(parts), inf))
        if not self._matrix.timed:
            return [always]
        first, turn, last = always[0].copy(), always[0].copy(), always[1].copy()
        open_ = self.open(explained)
        for number, part in enumerate(parts.tolist()):
            mine = self._sample[self._entries_of(part)]
            times = self._matrix.at_s[mine[open_[mine]]]
            first[number], turn[number], last[number] = times.min(), self._turn(mine, open_[mine]), times.max()
        return [always, (first, always[1]), (turn, always[1]), (first, last)]

    def _turn(self, samples: Ints, slow: Bools) -> float:
        """From when on most of *samples* are *slow*, and the fewest before: of all times that which parts them best."""
        at_s = self._matrix.at_s[samples]
        order = np.argsort(at_s, kind="stable")
        after = np.cumsum(np.where(slow[order], 1.0, -1.0)[::-1])[::-1]
        return float(at_s[order][after.argmax()])

    def candidates(
        self, rest: Sequence[FaultyPart], *, instead: int | None = None, banned: Ints = NOBODY
    ) -> list[FaultyPart]:
        """What may be faulty beside *rest*, the best first; only what shares slow samples with *instead*."""
        density, explained = self.explained(rest)
        wanted = self.open(explained)
        if instead is not None:
            wanted &= self.passed(instead)
        parts = self._possible(rest, wanted, banned)
        return self._fits(parts, density, explained) if len(parts) else []

    def _possible(self, rest: Sequence[FaultyPart], wanted: Bools, banned: Ints = NOBODY) -> Ints:
        """The parts that *wanted* samples pass through, of many rounds through which two do, or one that failed."""
        passed = np.repeat(self._part_of_cell, self._count)[wanted[self._sample]]
        count = np.bincount(passed, minlength=len(self._matrix.entries.cost))
        if self._matrix.rounds:
            failed = wanted & (self._matrix.y <= NOTHING)
            count += np.bincount(np.repeat(self._part_of_cell, self._count)[failed[self._sample]], minlength=len(count))
        possible = count > self._matrix.rounds
        # What the very same samples pass through (an RNIC and its cable, but for loopbacks) is faulty once.
        possible &= ~np.isin(self._alike, self._alike[[one.part for one in rest]])
        possible[banned] = False
        found: Ints = np.flatnonzero(possible)
        return found

    def greedy(self, faults: Sequence[FaultyPart], *, banned: Ints = NOBODY) -> list[FaultyPart]:
        """
        With further parts, the best first.

        A part gains less beside more faults than when it was last fitted, so that only the best have to
        be fitted again.
        """
        found, gains = list(faults), dict[int, float]()
        while (best := self._next(found, gains, banned)) is not None and best.gain >= LEAST_GAIN:
            found.append(best)
        return found

    def _next(self, found: Sequence[FaultyPart], gains: dict[int, float], banned: Ints) -> FaultyPart | None:
        """The best further fault; *gains* holds what each part gained when it was last fitted."""
        density, explained = self.explained(found)
        parts = self._possible(found, self.open(explained), banned)
        order = sorted(parts.tolist(), key=lambda part: (-gains.get(part, inf), part))
        at_once = _AT_ONCE if gains else max(1, len(order))
        best: FaultyPart | None = None
        for start in range(0, len(order), at_once):
            some = order[start : start + at_once]
            if best is not None and best.gain >= gains.get(some[0], inf):
                break
            gains.update(dict.fromkeys(some, -inf))
            for one in self._fits(np.sort(np.array(some)), density, explained):
                gains[one.part] = one.gain
                if best is None or one.gain > best.gain:
                    best = one
        return best

    def _refitted(self, faults: Sequence[FaultyPart]) -> list[FaultyPart]:
        """Each as it is beside the others: the first were found beside none."""
        found = list(faults)
        for number, fault in enumerate(faults):
            density, explained = self.explained([*found[:number], *found[number + 1 :]])
            if len(self._possible([], self.open(explained) & self.passed(fault.part))):
                found[number] = next(iter(self._fits(np.array([fault.part]), density, explained)), fault)
        return found

    def passed(self, part: int) -> Bools:
        """Which samples pass through a part."""
        found = np.zeros(len(self._matrix.y), dtype=np.bool_)
        found[self._sample[self._entries_of(part)]] = True
        return found

    def _improved(self, faults: Sequence[FaultyPart]) -> list[FaultyPart] | None:
        found = self._refitted(faults)
        return super()._improved(found) or self._split(found)

    def _split(self, faults: Sequence[FaultyPart]) -> list[FaultyPart] | None:
        """With several smaller parts instead of a large one; None where that is no better."""
        for number, fault in enumerate(faults):
            if self.large[fault.part]:
                rest = [*faults[:number], *faults[number + 1 :]]
                apart = self.greedy(rest, banned=np.array([fault.part]))
                if len(apart) > len(rest) and self.score(apart) > self.score(faults):
                    return apart
        return None
