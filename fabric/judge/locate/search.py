"""The search for the shortest description of what was measured: the few parts that are faulty, and what they do.

A hypothesis says which parts hold samples down. Its score is the log likelihood of all samples minus what it costs to
say the hypothesis, in nats; the best score wins (minimum description length). What a part adds to the score is the
evidence for it; parts that would add nearly as much in its place are its rivals. The search is greedy; then parts are
swapped, dropped and fitted again until nothing is better.

Probes of several kinds pass through one part, and each kind shares its capacity differently. So a part has one loss for
each class of probes (a *cell* is a part and a class), and a class that should show a fault and does not is evidence
against it. Only this tells a cable from its RNIC (by loopbacks), a GPU from its NVLink, a path from its RNIC. A fault
may last for a part of the run only: from some time on, or between two times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, log

import numpy as np

from fabric.judge.locate.cells import NOTHING, Likelihood, SampleMatrix
from fabric.judge.locate.fit import DEAD, SAME_LOSS, Fit, OtherFaults, line
from fabric.judge.locate.structure import ALWAYS, OFTEN, Bools, FaultyPart, Floats, Ints

LEAST_GAIN = 3.0
"""Nats from which a part is reported as possible; from ``CERTAIN`` on it is called bad."""

CERTAIN = 5.0
"""Nats from which a part is called bad (chosen with benchmarks/real_pairs.py, seeds 1 to 12: 1 of 1,200 sets FAILs)."""

SURE = 0.99
"""The highest confidence: the model is not the world."""

CHANCE = 0.05
"""The probability that healthy samples of a run cause any report of a part: reports by chance alone stay below it."""

MOST_NAMED, MOST_RIVALS = 20, 8
"""The most probes, pairs or cables that are named one by one, and the most rivals of a suspect."""

_MOST_BLAMED = 64
_BETTER = 0.1  # nats that a swap must gain
_AT_ONCE = 16  # parts that are fitted together
_MOST_LINES = 8  # so many, the best of them, are also tried with a loss that grows
_RIVAL, _RIVAL_OF_PAIRS = 3.0, 5.0  # nats within which another part is named beside the best
_SHARP = 0.4  # the density of the best fit is at most this over its noise
_NOBODY: Ints = np.empty(0, dtype=np.int64)


class Search(Likelihood):
    """The search for the faulty parts of a matrix: for each fault of a large part there is also a smaller part."""

    def __init__(self, matrix: SampleMatrix) -> None:
        super().__init__(matrix)
        entries = self.cells.entries
        self._large = entries.large | self.cells.is_bundle
        self._both_ways = np.arange(len(entries.cost)) if entries.both_ways_part is None else entries.both_ways_part

    def faults(self) -> list[FaultyPart]:
        """Return the faulty parts, the surest first, each with its evidence beside all others and its rivals."""
        starts = [self.greedy([])] if self.matrix.rounds else self.starts()
        found = max(map(self.settled, starts), key=self.score)
        if self.matrix.rounds:
            # Large parts that show now and then come last: earlier, one would stand for small parts that always show.
            self.rare_of_large = True
            found = self.settled(self.greedy(found))
        return self.with_rivals(found)

    def matters(self, fault: FaultyPart) -> bool:
        """Return whether a fault loses enough on average over a class: one that shows seldom may not."""
        return any(
            one.rho * one.loss >= ALWAYS * self.matrix.least[self.cells.of_class[one.cell]] for one in fault.losses
        )

    def score(self, faults: Sequence[FaultyPart]) -> float:
        """Return the log likelihood of all samples minus what it costs to say the hypothesis."""
        density, _ = self.explained(faults)
        parts, entries = [one.part for one in faults], self.cells.entries
        which = sum(float(entries.costs(parts[:number])[part]) for number, part in enumerate(parts))
        cost = self.matrix.normal.cost + self.cost_of_congestion + sum(one.cost for one in faults)
        return float(np.log(density).sum()) - cost - which

    def congested(self, faults: Sequence[FaultyPart]) -> Bools:
        """Return which samples are slow because of others on the same cable, and of no part."""
        found: Bools = self.matrix.together & (self.explained(faults)[1] == 0)
        return found

    def left_over(self, faults: Sequence[FaultyPart]) -> Bools:
        """Return which samples are slow and explained neither by a part nor by others on the same cable."""
        found: Bools = self.matrix.slow & ~self.matrix.together & (self.explained(faults)[1] == 0)
        return found

    def _beside(self, faults: Sequence[FaultyPart]) -> OtherFaults:
        return OtherFaults(*self.explained(faults), self.cells.entries.costs([one.part for one in faults]))

    def _fits(self, parts: Ints, given: OtherFaults, *, narrow: bool = False) -> list[FaultyPart]:
        """
        Return the best fault of each of *parts*, the best first.

        If *narrow*, each has one loss in each cell, the least that shows: others may be why some samples lose more.
        """
        best: dict[int, FaultyPart] = {}
        for since_s, until_s in self._spans(parts, given.explained):
            for one in Fit(self, parts, given, since_s, until_s, narrow=narrow).faults():
                better = one.part not in best or one.gain > best[one.part].gain
                if better and not (one.gain >= LEAST_GAIN and self._is_of_one_host(one)):
                    best[one.part] = one
        for one in sorted(best.values(), key=lambda one: -one.gain)[: _MOST_LINES if self.matrix.timed else 0]:
            best[one.part] = max([one, *self._lines(one, given)], key=lambda one: one.gain)
        return sorted(best.values(), key=lambda one: (-one.gain, one.part))

    def _is_of_one_host(self, fault: FaultyPart) -> bool:
        """Return whether a fault is a moment in which all that was slow passes through one part of a host."""
        moments, of_hosts = self.matrix.moments, self.matrix.of_hosts
        if moments is None or of_hosts is None or not moments[fault.part]:
            return False
        mine = np.zeros(len(self.matrix.y), dtype=np.bool_)
        mine[np.concatenate([self.during(fault, one.cell) for one in fault.losses])] = True
        mine &= self.matrix.slow
        return bool((self.cells.total(mine)[of_hosts] == mine.sum()).any())

    def _lines(self, fault: FaultyPart, given: OtherFaults) -> Iterator[FaultyPart]:
        """Yield faults of the same part with losses that grow with the hours, or with its temperature."""
        cells = self.cells.cells_of(fault.part)
        mine = self.cells.of(fault.part)
        slow = mine[self.unexplained(given.explained, mine) & (self.matrix.y[mine] > -DEAD)]
        one = np.array([fault.part])
        floor = float(self.matrix.least[self.cells.of_class[cells.start : cells.stop]].min())
        for warm in (False, True) if fault.part in self.matrix.warmth else (False,):
            follows = line(self.along(fault.part, slow, warm=warm), -self.matrix.y[slow], floor, warm=warm)
            if follows is not None:
                yield from Fit(self, one, given, follows=follows).faults()

    def _spans(self, parts: Ints, explained: Floats) -> list[tuple[Floats, Floats]]:
        """
        Return when each part may have been faulty, as starts and ends.

        Always; from its first slow sample on; from its turn on; or for a while (``_turns``).
        """
        always = np.full(len(parts), -inf), np.full(len(parts), inf)
        if not self.matrix.timed:
            return [always]
        first, turn, came, went = np.empty((4, len(parts)))
        open_ = self.unexplained(explained)
        for number, part in enumerate(parts.tolist()):
            mine = self.cells.of(part)
            first[number] = self.matrix.at_s[mine[open_[mine]]].min()
            turn[number], came[number], went[number] = self._turns(mine, open_[mine])
        return [always, (first, always[1]), (turn, always[1]), (came, went)]

    def _turns(self, samples: Ints, slow: Bools) -> tuple[float, float, float]:
        """
        Return the time that best divides *samples*, from which on most are *slow*, and the two that do so for a while.

        The best are those with the most slow samples more than others after it, or between them (Kadane 1984).
        """
        order = np.argsort(self.matrix.at_s[samples], kind="stable")
        at_s, more = self.matrix.at_s[samples][order], np.cumsum(np.where(slow[order], 1.0, -1.0))
        before = np.append(0.0, more[:-1])
        last = int((more - np.minimum.accumulate(before)).argmax())
        first, turn = int(before[: last + 1].argmin()), int(before.argmin())
        return float(at_s[turn]), float(at_s[first]), float(at_s[last])

    def candidates(self, rest: Sequence[FaultyPart], instead: int) -> list[FaultyPart]:
        """Return what may be faulty beside *rest*, the best first, of parts that share slow samples with *instead*."""
        given = self._beside(rest)
        parts = self._possible(rest, given)
        parts = parts[self._enough(self._asking(given.explained) & self.samples_through(instead))[parts]]
        if self.matrix.faint:
            parts = np.union1d(parts, instead)
        return self._fits(parts, given) if len(parts) else []

    def open_faults(self, rest: Sequence[FaultyPart]) -> list[FaultyPart]:
        """Return what may be faulty beside *rest* if it were free to say so, the likeliest first."""
        free = OtherFaults(*self.explained(rest), None)
        parts = self._possible(rest, free)
        found = Fit(self, parts, free).faults() if len(parts) else []
        return sorted(found, key=lambda one: (-one.gain, one.part))

    def _asking(self, explained: Floats) -> Bools:
        """Return which samples ask for another part than those that explain them."""
        if not self.matrix.faint:
            return self.unexplained(explained)
        return -self.matrix.y - explained > self.matrix.apart[self.matrix.of_class]

    def _possible(self, rest: Sequence[FaultyPart], given: OtherFaults, banned: Ints = _NOBODY) -> Ints:
        """
        Return the parts, except *banned* ones, that may be faulty beside *rest*.

        If losses are faint, these are the parts that may gain more than they cost, else those with enough asking
        samples.
        """
        matrix, asking = self.matrix, self._asking(given.explained)
        if matrix.faint:
            possible = self._room(asking, given.density) > (0.0 if given.costs is None else given.costs)
        else:
            possible = self._enough(asking)
        # Of parts with the very same samples (an RNIC and its cable, without loopbacks) only one is faulty.
        alike = self.cells.first_with_same_samples
        possible &= ~np.isin(alike, alike[[one.part for one in rest]])
        possible[banned] = False
        return np.flatnonzero(possible)

    def _enough(self, asking: Bools) -> Bools:
        """Return by part whether an asking sample passes through it; with many rounds two, or one that failed."""
        count = self.cells.total(asking)
        if self.matrix.rounds:
            count += self.cells.total(asking & (self.matrix.y <= NOTHING))
        return count > self.matrix.rounds

    def _room(self, asking: Bools, density: Floats) -> Floats:
        """Return by part the most nats that it may gain: of many parts few have enough *asking* samples."""
        matrix, cells, drawn = self.matrix, self.cells, self.cells.entries.is_drawn
        entry = np.flatnonzero(asking[cells.sample])
        part, sample = cells.part_of_entry[entry], cells.sample[entry]
        most, low = np.zeros(len(density)), np.flatnonzero(asking)
        noise = matrix.normal.noise[matrix.of_class[low]]
        most[low] = np.maximum(np.log(_SHARP / noise / density[low]), 0.0)
        well = cells.through - np.bincount(part, minlength=cells.parts)
        well = well * ~drawn  # for a drawn part one sample may be enough
        return np.bincount(part, most[sample], minlength=cells.parts) + well * log(1 - OFTEN)

    def starts(self, least: float = -inf) -> list[list[FaultyPart]]:
        """
        Return faults to begin with: the parts that gain most and, as another start, small parts before large ones.

        A greedy search begins with a switch that seems to explain many bad hosts at once, and no single swap undoes
        that. If the first start scores less than *least*, a second one is not worth it.
        """
        found, large = self.greedy([]), np.flatnonzero(self._large)
        if not any(self._large[one.part] for one in found) or self.score(found) < least:
            return [found]
        small = self.greedy(self.greedy([], banned=large))
        return [found, small]

    def greedy(self, faults: Sequence[FaultyPart], *, banned: Ints = _NOBODY) -> list[FaultyPart]:
        """
        Return *faults* with further parts, the best first, until none is worth it; never the *banned* ones.

        A part gains less beside more faults than when it was last fitted, so only the best have to be fitted again.
        """
        found, gains = list(faults), dict[int, float]()
        while len(found) < _MOST_BLAMED:
            best = self._next(found, gains, banned)
            if best is None or best.gain < LEAST_GAIN:
                break
            found.append(best)
        return found

    def settled(self, faults: Sequence[FaultyPart], *, one_by_one: bool = False) -> list[FaultyPart]:
        """
        Return *faults* after swaps and drops, and, unless *one_by_one*, several of these at once, until nothing is
        better.
        """
        found = list(faults)
        for _ in range(_MOST_BLAMED):
            improved = self._improved(found)
            # With pairs a part has one loss, which hardly changes beside others, and small parts were tried first.
            if improved is None and not (one_by_one or self.matrix.faint):
                improved = self._apart(max(self._refitted(found), found, key=self.score))
            if improved is None:
                break
            found = self.greedy(improved)
        return found

    def _next(self, found: Sequence[FaultyPart], gains: dict[int, float], banned: Ints) -> FaultyPart | None:
        """Return the best further fault; *gains* holds what each part gained when it was last fitted."""
        given = self._beside(found)
        parts = self._possible(found, given, banned)
        order = sorted(parts.tolist(), key=lambda part: (-gains.get(part, inf), part))
        at_once = _AT_ONCE if gains else max(1, len(order))
        best: FaultyPart | None = None
        for start in range(0, len(order), at_once):
            some = order[start : start + at_once]
            if best is not None and best.gain >= gains.get(some[0], inf):
                break
            gains.update(dict.fromkeys(some, -inf))
            for one in self._fits(np.sort(np.array(some)), given):
                gains[one.part] = one.gain
                if best is None or one.gain > best.gain:
                    best = one
        return best

    def _refitted(self, faults: Sequence[FaultyPart], where: Bools | bool = True) -> list[FaultyPart]:
        """
        Return each fault fitted again beside all others, if it has asking samples *where*: the first were found beside
        none.
        """
        found = list(faults)
        for number, fault in enumerate(faults if len(faults) > 1 else ()):
            mine = self.matrix.slow & self.samples_through(fault.part) & where
            given = self._beside([*found[:number], *found[number + 1 :]]) if mine.any() else None
            if given is not None and (self._asking(given.explained) & mine).any():
                found[number] = next(iter(self._fits(np.array([fault.part]), given)), fault)
        return found

    def samples_through(self, part: int) -> Bools:
        """Return which samples pass through a part."""
        found = np.zeros(len(self.matrix.y), dtype=np.bool_)
        found[self.cells.of(part)] = True
        return found

    def _improved(self, faults: Sequence[FaultyPart]) -> list[FaultyPart] | None:
        """Return the faults with a part dropped (needless beside others) or swapped; None: nothing better."""
        found = list(faults) if self.matrix.faint else self._refitted(faults)
        for number, fault in enumerate(found):
            rest = [*found[:number], *found[number + 1 :]]
            again = self.candidates(rest, fault.part)
            if not again or again[0].gain < LEAST_GAIN:
                return rest
            mine = next((one for one in again if one.part == fault.part), None)
            if mine is None or again[0].gain > mine.gain + _BETTER:
                return [*rest, again[0]]
        return None

    def _apart(self, faults: Sequence[FaultyPart]) -> list[FaultyPart] | None:
        """
        Return the faults without some of them, whose samples the others, fitted again, and further ones describe
        better.

        A large part makes way for several smaller ones so, a small one for fewer parts in all, and several for one that
        has most of what shows them in it. None where nothing is better.
        """
        least = self.score(faults)
        for gone, begun, more in self._without(faults):
            found = self.greedy(begun, banned=np.array(gone))
            if self.score(found) > least - _RIVAL and (more or len(found) < len(faults)):
                found = self.settled(found, one_by_one=True)
                if self.score(found) > least + _BETTER:
                    return found
        return None

    def _without(self, faults: Sequence[FaultyPart]) -> Iterator[tuple[list[int], list[FaultyPart], bool]]:
        """
        Yield parts to do without, the faults to begin with, and whether more faults than before may come of it.

        Each part is left out, or begins again with what its single flows say if it takes more from collectives. Several
        make way for one that has most of what shows them in it.
        """
        for one in faults:
            rest = self._refitted(_but(faults, [one.part]), self.samples_through(one.part))
            yield [one.part], rest, bool(self._large[one.part])
        for one in faults:
            if self._loses_more_than_of_flows(one):
                rest = _but(faults, [one.part])
                yield [one.part], [*self._as_of_flows(one.part, self._beside(rest)), *rest], True
        slow, within = self.matrix.slow, []
        for one in faults:
            mine = self.cells.total(slow & self.samples_through(one.part))
            within.append(2 * mine > mine[one.part])
        for part in np.flatnonzero(np.sum(within, axis=0) > 1) if faults else ():
            inside = [one.part for one, parts in zip(faults, within, strict=True) if parts[part]]
            if part not in inside:
                rest = _but(faults, inside)
                yield inside, [*self._fits(np.array([part]), self._beside(rest), narrow=True)[:1], *rest], False

    def _loses_more_than_of_flows(self, fault: FaultyPart) -> bool:
        """Return whether a fault takes more from collectives than from single flows: another part may be why."""
        of_flow = self.matrix.level[self.cells.of_class] > 0
        most = max((one.loss for one in fault.losses if of_flow[one.cell]), default=inf)
        return any(one.loss > most + SAME_LOSS for one in fault.losses)

    def _as_of_flows(self, part: int, given: OtherFaults) -> list[FaultyPart]:
        """Return the best fault of a part by its single flows alone, with the same loss in each class of others."""
        level, cells = self.matrix.level, self.cells.cells_of(part)
        of_flow = level[self.matrix.of_class] > 0
        alone = given._replace(explained=np.where(of_flow, given.explained, inf))
        found = []
        for one in self._fits(np.array([part]), alone)[:1]:
            most = max(one.losses, key=lambda loss: loss.loss)
            others = [cell for cell in cells if not level[self.cells.of_class[cell]]]
            found.append(replace(one, losses=(*one.losses, *(replace(most, cell=cell) for cell in others))))
        return found

    def with_rivals(self, faults: Sequence[FaultyPart]) -> list[FaultyPart]:
        """Return the faults, the surest first, each fitted beside all others and with its rivals."""
        found, near = [], _RIVAL_OF_PAIRS if self.matrix.faint else _RIVAL
        for number, fault in enumerate(faults):
            again = self.candidates([*faults[:number], *faults[number + 1 :]], fault.part)
            mine = next((one for one in again if one.part == fault.part), fault)
            least = max(mine.gain - near, 0.0)
            others = [
                one for one in again if self._both_ways[one.part] != self._both_ways[fault.part] and one.gain > least
            ]
            best = {int(self._both_ways[one.part]): (one.part, one.gain) for one in reversed(others)}
            rivals = sorted(best.values(), key=lambda one: (-one[1], one[0]))
            found.append(replace(mine, rivals=tuple(rivals)))
        return sorted(found, key=lambda one: -one.gain)


def _but(faults: Sequence[FaultyPart], parts: Sequence[int]) -> list[FaultyPart]:
    """Return the faults of other parts, the surest first."""
    return sorted((one for one in faults if one.part not in parts), key=lambda one: -one.gain)


def searched(matrix: SampleMatrix) -> tuple[Search, list[FaultyPart]]:
    """Return the search that describes a matrix best, with its faults: some were in the way of others, or none was."""
    search = Search(matrix)
    found = [(search, search.faults())]
    if matrix.together.any():
        alone = Search(matrix.alone)
        found.append((alone, alone.faults()))
    return max(found, key=lambda one: one[0].score(one[1]))
