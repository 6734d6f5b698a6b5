"""
The shortest description of what probes of several kinds measured: the few parts that are faulty, and their losses.

As ``description.py`` for pairs of hosts, with what is different here: probes of several kinds pass through one part,
and each kind shares its capacity differently. So a part has one loss for each class of probes (a *cell* is a part and a
class), and a class that should show a fault and does not speaks against it: that alone tells a cable from its RNIC (by
loopbacks), a GPU from its NVLink, a path from its RNIC. A fault may last for a part of the run only: from some time on,
or between two times.

A healthy sample is its class's level with Student t noise (4 degrees of freedom), or at the background rate a dip that
belongs to no part. Of several faulty parts on one way the slowest counts, or both: a host that is slow as a whole and a
slow cable of it multiply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, inf, log

import numpy as np

from fabric.judge.locate.cells import NOTHING, SPREADS, Cells, FaultyPart
from fabric.judge.locate.fit import DEAD, NO_FIT, OFTEN, ONE_MORE, SOMETIMES, Fit, line, unshown
from fabric.judge.locate.structure import Bools, Floats, Ints

LEAST_GAIN = 3.0
"""Nats from which a part is given as possible."""

RIVAL = 3.0
"""Nats within which another part is named beside the best: one in twenty."""

_MOST_BLAMED = 64
_AT_ONCE = 16  # parts that are fitted together
_MOST_LINES = 8  # of these, those that may have a loss that grows: the best


class Search(Cells):
    """Finds the faulty parts of a matrix: greedy, then swaps and drops until nothing is better."""

    def faults(self) -> tuple[FaultyPart, ...]:
        """The faulty parts, the surest first, each with its evidence beside all others and its rivals."""
        faults = self._of_many_rounds() if self._matrix.clear is not None else self._of_few()
        return tuple(sorted(self._told(faults), key=lambda one: -one.gain))

    def _of_few(self) -> list[FaultyPart]:
        found = self._greedy([])
        begun = [found]
        large = self._matrix.large
        if any(large[one.part] for one in found):
            begun.append(self._greedy(self._greedy([], without=large)))
        return max((self._settled(one) for one in begun), key=self._score)

    def _of_many_rounds(self) -> list[FaultyPart]:
        """Of large parts those last that show now and then: else they stand for some small ones that always do."""
        found = self._settled(self._greedy([]))
        self.rare_of_large = True
        return self._settled(self._greedy(found))

    def matters(self, fault: FaultyPart) -> bool:
        """Whether it loses as much as a faulty part must, on average over a class: a host may be a little low."""
        always = OFTEN[0][0]
        return self._matrix.clear is not None or any(
            one.rho * one.loss >= always * self._matrix.least[self.class_of_cell[one.cell]] for one in fault.losses
        )

    def _score(self, faults: Sequence[FaultyPart]) -> float:
        density, _ = self.explained(faults)
        return float(np.log(density).sum() - sum(self._cost(one) for one in faults))

    def _cost(self, fault: FaultyPart) -> float:
        told = {loss.cell: loss for loss in fault.losses}
        level, many = self._matrix.level, self._matrix.clear is not None
        cap = min((level[self.class_of_cell[one.cell]] * exp(-one.loss) for one in fault.losses), default=0.0)
        shares = [
            one.rho
            for one in fault.losses
            if not many or level[self.class_of_cell[one.cell]] > 0 or one.rho >= OFTEN[-1][0]
        ]
        often = max(shares, default=0.0)
        dead = max((one.loss for one in fault.losses), default=0.0) > DEAD
        cost = float(self._matrix.cost[fault.part]) + self.when(fault.part, fault.since_s, fault.until_s, fault.follows)
        for cell in self.cells_of(fault.part):
            mine = self.during(fault, self.samples_of(cell))
            if cell in told:
                loss = told[cell]
                share = dict(OFTEN).get(loss.rho, SOMETIMES)
                cost += ONE_MORE + dict(SPREADS)[loss.spread] + share * log(max(len(mine), 2))
            elif len(mine):
                of_class = level[self.class_of_cell[cell]]
                against = unshown(
                    np.array([len(mine)]), np.array([often]), np.array([of_class > 0]), dead=np.array([dead]), many=many
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
        if self._matrix.clear is not None:
            for one in sorted(best.values(), key=lambda one: -one.gain)[:_MOST_LINES]:
                for line in self._lines(one, density, explained):
                    if line.gain > best[one.part].gain:
                        best[one.part] = line
        return sorted(best.values(), key=lambda one: (-one.gain, one.part))

    def _lines(self, fault: FaultyPart, density: Floats, explained: Floats) -> Iterator[FaultyPart]:
        """The same part with losses that grow with the hours, or with its temperature."""
        cells = self.cells_of(fault.part)
        mine = self._sample[self._start[cells.start] : self._start[cells.stop]]
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
        first, tenth, last = always[0].copy(), always[0].copy(), always[1].copy()
        open_ = self.open(explained)
        for number, part in enumerate(parts.tolist()):
            cells = self.cells_of(part)
            mine = self._sample[self._start[cells.start] : self._start[cells.stop]]
            times = np.sort(self._matrix.at_s[mine[open_[mine]]])
            first[number], tenth[number], last[number] = times[0], times[len(times) // 10], times[-1]
            if self._matrix.clear is not None:
                tenth[number] = self._turn(mine, open_[mine])
        return [always, (first, always[1]), (tenth, always[1]), (first, last)]

    def _turn(self, samples: Ints, slow: Bools) -> float:
        """From when on most of *samples* are *slow*, and the fewest before: of all times that which parts them best."""
        at_s = self._matrix.at_s[samples]
        order = np.argsort(at_s, kind="stable")
        after = np.cumsum(np.where(slow[order], 1.0, -1.0)[::-1])[::-1]
        return float(at_s[order][after.argmax()])

    def _candidates(self, rest: Sequence[FaultyPart], *, instead: FaultyPart) -> list[FaultyPart]:
        """What may be faulty beside *rest*, the best first; only what shares slow samples with *instead*."""
        density, explained = self.explained(rest)
        parts = self._possible(rest, self.open(explained) & self._passed(instead.part))
        return self._fits(parts, density, explained) if len(parts) else []

    def _possible(self, rest: Sequence[FaultyPart], wanted: Bools, without: Bools | None = None) -> Ints:
        """The parts that *wanted* samples pass through, of many rounds through which two do, or one that failed."""
        passed = np.repeat(self._part_of_cell, self._count)[wanted[self._sample]]
        count = np.bincount(passed, minlength=len(self._matrix.cost))
        if self._matrix.clear is not None:
            failed = wanted & (self._matrix.y <= NOTHING)
            count += np.bincount(np.repeat(self._part_of_cell, self._count)[failed[self._sample]], minlength=len(count))
        possible = count > (self._matrix.clear is not None)
        possible[[one.part for one in rest]] = False
        if without is not None:
            possible &= ~without
        found: Ints = np.flatnonzero(possible)
        return found

    def _greedy(self, faults: Sequence[FaultyPart], *, without: Bools | None = None) -> list[FaultyPart]:
        found = list(faults)
        gains: dict[int, float] = {}
        while len(found) < _MOST_BLAMED:
            best = self._next(found, gains, without)
            if best is None or best.gain < LEAST_GAIN:
                break
            found.append(best)
        return found

    def _next(self, found: Sequence[FaultyPart], gains: dict[int, float], without: Bools | None) -> FaultyPart | None:
        """
        The best further fault.

        Of many rounds *gains* holds what each part gained when it was last fitted: it gains less beside more faults, so
        that only the best of them have to be fitted again.
        """
        density, explained = self.explained(found)
        parts = self._possible(found, self.open(explained), without)
        many = self._matrix.clear is not None
        order = sorted(parts.tolist(), key=lambda part: (-gains.get(part, inf), part))
        at_once = _AT_ONCE if many and gains else len(order)
        best: FaultyPart | None = None
        for start in range(0, len(order), max(1, at_once)):
            some = order[start : start + at_once]
            if best is not None and best.gain >= gains.get(some[0], inf):
                break
            gains.update(dict.fromkeys(some, -inf))
            for one in self._fits(np.sort(np.array(some)), density, explained):
                gains[one.part] = one.gain
                if best is None or one.gain > best.gain:
                    best = one
        return best

    def _settled(self, faults: list[FaultyPart]) -> list[FaultyPart]:
        for _ in range(_MOST_BLAMED):
            if self._matrix.clear is not None:
                faults = self._refitted(faults)
            improved = self._improved(faults)
            if improved is None:
                break
            faults = self._greedy(improved)
        return faults

    def _refitted(self, faults: Sequence[FaultyPart]) -> list[FaultyPart]:
        """Each as it is beside the others: the first were found beside none."""
        found = list(faults)
        for number, fault in enumerate(faults):
            density, explained = self.explained([*found[:number], *found[number + 1 :]])
            if len(self._possible([], self.open(explained) & self._passed(fault.part))):
                found[number] = next(iter(self._fits(np.array([fault.part]), density, explained)), fault)
        return found

    def _passed(self, part: int) -> Bools:
        """Which samples pass through a part."""
        cells = self.cells_of(part)
        found = np.zeros(len(self._matrix.y), dtype=np.bool_)
        found[self._sample[self._start[cells.start] : self._start[cells.stop]]] = True
        return found

    def _improved(self, faults: Sequence[FaultyPart]) -> list[FaultyPart] | None:
        """With one part dropped that is needless beside the others, or swapped; None where nothing is better."""
        for number, fault in enumerate(faults):
            rest = [*faults[:number], *faults[number + 1 :]]
            again = self._candidates(rest, instead=fault)
            if not again or again[0].gain < LEAST_GAIN:
                return rest
            mine = next((one for one in again if one.part == fault.part), None)
            if mine is None or again[0].gain > mine.gain + 0.1:
                return [*rest, again[0]]
        return self._split(faults)

    def _split(self, faults: Sequence[FaultyPart]) -> list[FaultyPart] | None:
        """Of many rounds: with several smaller parts instead of a large one; None where that is no better."""
        for number, fault in enumerate(faults if self._matrix.clear is not None else ()):
            if self._matrix.large[fault.part]:
                rest = [*faults[:number], *faults[number + 1 :]]
                without = np.zeros(len(self._matrix.cost), dtype=np.bool_)
                without[fault.part] = True
                apart = self._greedy(rest, without=without)
                if len(apart) > len(rest) and self._score(apart) > self._score(faults):
                    return apart
        return None

    def _told(self, faults: Sequence[FaultyPart]) -> list[FaultyPart]:
        found = []
        for number, fault in enumerate(faults):
            again = self._candidates([*faults[:number], *faults[number + 1 :]], instead=fault)
            mine = next((one for one in again if one.part == fault.part), fault)
            least = max(mine.gain - RIVAL, 0.0)
            rivals = tuple((one.part, one.gain) for one in again if one.part != fault.part and one.gain > least)
            found.append(replace(mine, rivals=rivals + self._several(faults, fault, mine.gain)))
        return found

    def _several(self, faults: Sequence[FaultyPart], fault: FaultyPart, gain: float) -> tuple[tuple[int, float], ...]:
        """Several parts that together would explain nearly as much as one of which some samples are good."""
        if self._matrix.clear is not None or all(one.rho == OFTEN[0][0] for one in fault.losses):
            return ()
        without = np.zeros(len(self._matrix.cost), dtype=np.bool_)
        without[fault.part] = True
        rest = [one for one in faults if one.part != fault.part]
        apart = self._greedy(rest, without=without)
        lead = self._score(faults) - self._score(apart)
        return tuple((one.part, gain - lead) for one in apart[len(rest) :] if lead < RIVAL)
