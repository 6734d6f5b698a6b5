"""Which pairs to measure next, round by round, until the bad part is named or no more can be learnt.

``further_round`` is a pure function: whoever measures (an engine, a person, the benchmark) runs the tests that it
returns, and asks again with all that was measured. When it returns no tests, the search is over.

After the first rounds each suspect is tested with another partner that is cleared, over parts that are cleared. The
first host of a test sends. What a test would pass through is known before it is made, from the same components that
samples have. Of all tests through a suspect, the one with the least doubt about the rest of its way is made.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from fabric.judge.locate.levels import LEAST_GROUP
from fabric.judge.locate.pairs.components import BUNDLES, LINKS
from fabric.judge.locate.pairs.fitted import MEASURED_AGAIN, Fitted
from fabric.judge.locate.search import CERTAIN
from fabric.judge.locate.structure import UNKNOWN, Bools, Ints
from fabric.model.diagnosis import PairTest

FIRST_ROUNDS = 3
"""Rounds without a suspect in mind: one under the leaves, two across them. All later rounds go after suspects."""

VERIFY = "once more"
"""The reason of the tests of the last round."""

_CLEARED = 2  # good samples for each dip that clear a host: one that is slow in half of its samples is not cleared
_ENOUGH = 6  # samples of a blamed part: two among them that others disturb do not outweigh the rest (a choice)
_ODD = 4.0  # sigmas below what is expected
_SAME_WAY = 3  # slow samples of one way: others' traffic slows a quarter of all at most, three of three in 1 of 64
_AMONG = 2  # tests of each blamed host with others (a choice)
_TESTS_A_SWITCH = 2  # tests per round of an uplink, leaf or spine: it has many hosts, a suspected host only itself
_HOSTS_A_LEAF = 2  # hosts per leaf from which tests through a switch are sought: more say the same
_MOST = 1 << 16  # most tests that are considered for one switch
_NEVER = 1 << 20  # a count that no path reaches


def further_round(fitted: Fitted, *, left: int, draws: int) -> list[PairTest]:
    """
    Return the host-disjoint tests of the next of the rounds that are *left*; none when the verdict stands.

    No verdict stands until everything was measured: a direction that no test went through is not cleared. *draws*: how
    many ways are drawn from each leaf, and to it, before its uplinks count as crossed.
    """
    return _Round(fitted).covering(draws, left) if left > 0 else []


def targeted(fitted: Fitted) -> list[PairTest]:
    """Return one host-disjoint round for all that is to be settled; empty when no cleared partner is left."""
    return _Round(fitted).for_components(to_settle(fitted))


def verifying(fitted: Fitted) -> list[PairTest]:
    """Return one round: every blamed part once more with good partners, and good hosts once more among themselves."""
    return _Round(fitted).verifying()


class _Round:
    """A round in the making: its tests, which hosts are free, and which may be partners."""

    def __init__(self, fitted: Fitted) -> None:
        self.fitted, self._found = fitted, list[PairTest]()
        samples, components = fitted.samples, fitted.components
        parts = len(components.names) + 1  # the last place stands for no component
        self._doubtful = np.zeros(parts, dtype=np.bool_)
        self._doubtful[[*to_settle(fitted), *(blamed.component for blamed in fitted.blamed)]] = True
        self._open, self._bad = np.zeros((2, parts), dtype=np.bool_)
        self._bad[_accused(fitted)] = True
        self._crossed = np.zeros(parts, dtype=np.int64)  # by tests of this round
        good = fitted.ratio > 1 - max(fitted.floor / 3, 2 * fitted.noise)
        self._cleared = np.zeros(len(samples.hosts), dtype=np.bool_)
        self._cleared[samples.a[good]] = self._cleared[samples.b[good]] = True
        self._free = np.ones(len(samples.hosts), dtype=np.bool_)
        self._partner = self._free.copy()
        hosts = components.hosts[_accused(fitted)]
        self._partner[hosts[hosts != UNKNOWN]] = False
        ends = self._ends_of(samples.a, samples.b)
        self._met, self._drawn = np.unique(ends[~samples.drawn]), np.unique(ends[samples.drawn])
        self._sure = {c for one in fitted.blamed if one.certain for c in (one.component, *one.rivals)}
        self._drawn_from, self._drawn_to = _draws(fitted)
        self._sent = np.bincount(samples.a, minlength=len(samples.hosts))
        self._received = np.bincount(samples.b, minlength=len(samples.hosts))

    def for_components(self, suspects: list[int]) -> list[PairTest]:
        """Return a round for these components, the likeliest first; those that its tests cross anyway need no other."""
        for component in suspects:
            for turn in range(1 if self._is_host(component) else _TESTS_A_SWITCH):
                if self._crossed[component] <= turn:
                    self._test(component, turn)
        return self._found

    def covering(self, draws: int, left: int) -> list[PairTest]:
        """
        Return a round for what is to be settled, then, with the free hosts, for what no good sample has gone through.

        Before both come blamed hosts with each other, and what was slow over the same way. What no good sample has gone
        through is a direction of a host side or, where routes say that it is in use, of an uplink; where ways are
        drawn, it is the uplinks of each leaf, until *draws* ways were drawn. Last come hosts with fewer good samples
        than it takes to clear them, if the rounds that are *left* can clear them.
        """
        self._among_blamed()
        self._same_ways()
        self.for_components(to_settle(self.fitted))
        for component, leaf in _uplinks(self.fitted):
            more = True
            while more and min(self._drawn_from[leaf], self._drawn_to[leaf]) < draws:
                more = self._test(component, 0)
        missing = not_crossed(self.fitted)
        self._open[missing] = True
        for component in missing:
            if self._open[component]:
                self._test(component, 0)
        for component in seldom_good(self.fitted, left):
            self._test(component, 0)
        if self._found:
            self._fill_up()
        return self._found

    def _among_blamed(self) -> None:
        """
        Test blamed hosts with each other, if they are enough for a class: hosts of one class reach there what is usual.

        Faults are few and differ, classes are many and agree; tests of blamed hosts with good ones alone cannot tell.
        """
        samples, host = self.fitted.samples, self.fitted.components.hosts
        blamed = np.unique([host[one.component] for one in self.fitted.blamed if self._is_host(one.component)])
        if len(blamed) < LEAST_GROUP:
            return
        among = np.isin(samples.a, blamed) & np.isin(samples.b, blamed)
        met, pairs = samples.by_host(among), set(samples.pair[among].tolist())
        for a, b in combinations(blamed[np.argsort(met[blamed], kind="stable")].tolist(), 2):
            known = int(samples.pairs_of(np.array(a), np.array(b))) in pairs
            if not known and max(met[a], met[b]) < _AMONG and self._free[a] and self._free[b]:
                self._add(a, b, int(samples.route[samples.leaf[a], b]), "whether these hosts are a class")

    def _same_ways(self) -> None:
        """
        Repeat slow tests between leaves over the very same way: a bad part on it is slow again, congestion is gone.

        Each is repeated until it was once as fast as it must be, or slow so often that chance does not explain it.
        """
        samples, fitted = self.fitted.samples, self.fitted
        mine = samples.crosses & ((samples.labels > 0) | ~samples.drawn)
        mine &= ~np.isin(fitted.components.paths, list(self._sure)).any(axis=1)
        slow = mine & (fitted.ratio < 1 - _ODD * fitted.noise)
        times, bad = (np.bincount(samples.same_way, which, len(mine)) for which in (mine, slow))
        again = np.flatnonzero((times > 0) & (times < _SAME_WAY) & (bad == times))
        for one in again[np.argsort(-times[again], kind="stable")].tolist():
            a, b = int(samples.a[one]), int(samples.b[one])
            if self._free[a] and self._free[b]:
                self._add(a, b, int(samples.via[one]), "the way it took", int(samples.labels[one]) or None)

    def _fill_up(self) -> None:
        """
        Test parts that few samples blame for certain with whoever is free: that takes no time.

        No more tests than that: many samples of a bad part look like a class of their own.
        """
        certain = [one.component for one in self.fitted.blamed if one.certain]
        for component in self._hosts_first(certain):
            if not self._crossed[component] and len(self.fitted.through(component)) < _ENOUGH:
                self._test(component, 0)

    def verifying(self) -> list[PairTest]:
        """Return tests of blamed hosts, then of blamed switches and cables, then of neighbours not known as bad."""
        components = self.fitted.components
        for component in self._hosts_first([one.component for one in self.fitted.blamed]):
            cable = components.kinds[component] in LINKS
            for turn in range(2 if cable else 1):  # one each way: the evidence says what either reaches
                self._test(int(components.part[component]) if cable else component, turn)
        leaf = self.fitted.samples.leaf
        for number in np.unique(leaf).tolist():
            free = np.flatnonzero(self._free & self._partner & (leaf == number))
            for a, b in zip(free[::2].tolist(), free[1::2].tolist(), strict=False):
                self._add(a, b, UNKNOWN, "")
        return [replace(test, why=VERIFY) for test in self._found]

    def _hosts_first(self, suspects: list[int]) -> list[int]:
        return sorted(suspects, key=lambda component: not self._is_host(component))

    def _is_host(self, component: int) -> bool:
        return bool(self.fitted.components.hosts[component] != UNKNOWN)

    def _test(self, component: int, turn: int) -> bool:
        """
        Make the best test through a component; return False if there is none.

        For a whole uplink even turns go up and odd ones down.
        """
        components, host = self.fitted.components, int(self.fitted.components.hosts[component])
        if components.kinds[component] == "path":
            return self._once_more(component)
        if host != UNKNOWN:
            if not self._free[host]:
                return False
            others = np.flatnonzero(self._free & self._partner & (np.arange(len(self._free)) != host))
            ends = np.full(len(others), host), others
            return self._best(component, *(ends if self._sends(component) else ends[::-1]))
        ways = (
            np.flatnonzero(components.part == component).tolist()[1:] if components.kinds[component] == "link" else []
        )
        return any(self._best(one, *self._ends(one)) for one in (*ways[turn % 2 :], *ways[: turn % 2], component))

    def _once_more(self, path: int) -> bool:
        """Test the two hosts of a path with each other: nobody else crosses it. Return False if one is busy."""
        samples, one = self.fitted.samples, int(self.fitted.through(path)[0])
        a, b = int(samples.a[one]), int(samples.b[one])
        if not (self._free[a] and self._free[b]):
            return False
        self._crossed[path] += 1
        self._add(a, b, int(samples.via[one]), self.fitted.components.names[path])
        return True

    def _sends(self, component: int) -> bool:
        """Return whether a host side is to send: as its direction says, else what it did less."""
        kind, host = self.fitted.components.kinds[component], int(self.fitted.components.hosts[component])
        if kind == "host":
            return bool(self._sent[host] <= self._received[host])
        return kind == "host_tx"

    def _ends(self, component: int) -> tuple[Ints, Ints]:
        """Return from whom to whom a test through a switch or a cable may go."""
        leaf, kind = int(self.fitted.components.leaf[component]), self.fitted.components.kinds[component]
        free = np.flatnonzero(self._free & self._partner)
        free = free[np.argsort(~self._cleared[free], kind="stable")]
        under = self.fitted.samples.leaf[free]
        if leaf == UNKNOWN:
            order = np.argsort(under, kind="stable")
            place = np.arange(len(free)) - np.searchsorted(under[order], under[order])
            few = free[order[place < _HOSTS_A_LEAF]]
            few = few[:: 1 + len(few) * len(free) // _MOST]
            a, b = np.meshgrid(few, free, indexing="ij")
        else:
            here = free[under == leaf]
            a, b = np.meshgrid(here, free, indexing="ij")
            if kind in ("link_down", "uplinks_down") or (
                kind == "uplinks" and self._drawn_to[leaf] < self._drawn_from[leaf]
            ):
                a, b = b, a
        return a.ravel(), b.ravel()

    def _ends_of(self, a: Ints, b: Ints) -> Ints:
        """Return the number of each two hosts; where samples say which end sent, each direction has its own."""
        samples = self.fitted.samples
        return a * len(samples.hosts) + b if samples.directed else samples.pairs_of(a, b)

    def _best(self, component: int, a: Ints, b: Ints) -> bool:
        """
        Make the test through the component with the least doubt about the rest; return False if there is none.

        *a* and *b* are the possible ends. A pair that was measured once, the same end sending, tells nothing new,
        unless its way was drawn: then the next draw may take another way. For a component that is certainly bad that
        tells nothing new either: its rivals are on the same ways.
        """
        ends = self._ends_of(a, b)
        new = (a != b) & ~np.isin(ends, self._met)
        if component in self._sure:
            new &= ~np.isin(ends, self._drawn)
        a, b, via = self._with_spines(a[new], b[new])
        components = self.fitted.components
        paths = components.way(a, b, via)
        through = (paths == component).any(axis=1)
        a, b, via, paths = a[through], b[through], via[through], paths[through]
        if not len(a):
            return False
        part = np.append(components.part, UNKNOWN)
        on = np.bincount(paths.ravel() + 1, minlength=len(part))[1:]
        avoidable = np.append(on < len(a), False) & self._doubtful
        doubts = (avoidable[paths] & (part[paths] != part[component])).sum(axis=1)
        if self._is_host(component):  # a host has many partners: it waits for one that is not accused itself
            doubts[(avoidable & self._bad)[paths].any(axis=1)] = _NEVER
        opens = self._open[paths].sum(axis=1)
        length = (paths != UNKNOWN).sum(axis=1)
        unsure = 2 - self._cleared[a].astype(np.int64) - self._cleared[b]
        again = np.isin(self.fitted.samples.pairs_of(a, b), self.fitted.samples.pair)  # in either direction
        best = int(np.lexsort((np.abs(a - b), unsure, length, -opens, again, doubts))[0])
        if doubts[best] == _NEVER:
            return False
        self._open[paths[best]] = False
        self._crossed[self._tested_parts(component, paths[best])] += 1
        host = int(components.hosts[component])
        name = components.names[component] if host == UNKNOWN else self.fitted.samples.hosts[host]
        self._add(int(a[best]), int(b[best]), int(via[best]), name)
        return True

    def _tested_parts(self, component: int, path: Ints) -> Ints:
        """
        Return what a test through a component tells of: of drawn parts only the component itself.

        All that is above the leaves is on the way to the uplinks of each leaf: to tell them apart takes tests that
        leave those uplinks out. Between two leaves there are no such tests.
        """
        if len(self.fitted.samples.leaves) == 2:
            return path
        drawn = np.append(np.isin(self.fitted.components.kinds, BUNDLES), False)
        found: Ints = path[~drawn[path] | (path == component)]
        return found

    def _with_spines(self, a: Ints, b: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the tests with the spine that each would cross: as routes say, else each that can be chosen."""
        samples = self.fitted.samples
        across = samples.apart(a, b)
        if samples.routes or not samples.spines:
            return a, b, np.where(across, samples.route[samples.leaf[a], b], UNKNOWN)
        count = np.where(across, len(samples.spines), 1)
        which = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        return np.repeat(a, count), np.repeat(b, count), np.where(np.repeat(across, count), which, UNKNOWN)

    def _add(self, a: int, b: int, via: int, why: str, label: int | None = None) -> None:
        samples = self.fitted.samples
        self._free[[a, b]] = False
        sender, receiver = samples.leaf[[a, b]].tolist()
        if sender != receiver and UNKNOWN not in (sender, receiver):
            self._drawn_from[sender] += 1
            self._drawn_to[receiver] += 1
        name = samples.spines[via] if via != UNKNOWN else None
        self._found.append(PairTest(samples.hosts[a], samples.hosts[b], name, f"tells about {why}", label))


def to_settle(fitted: Fitted) -> list[int]:
    """Return components that another test would tell about: blamed but not certain, their rivals, and open ones."""
    return list(dict.fromkeys([*_accused(fitted, certain=False), *fitted.open, *_unexplained_hosts(fitted)]))


def _accused(fitted: Fitted, *, certain: bool = True) -> list[int]:
    """Return the components that are blamed, with their rivals; without those that are certain if not *certain*."""
    return [
        component
        for one in fitted.blamed
        if certain or one.margin < CERTAIN or one.doubt in MEASURED_AGAIN
        for component in (one.component, *one.rivals)
    ]


def _odd(fitted: Fitted) -> Bools:
    """Return which samples are slow without anything that explains them."""
    found: Bools = (fitted.explained == 0) & (fitted.ratio < 1 - _ODD * fitted.noise)
    return found


def _unexplained_hosts(fitted: Fitted) -> list[int]:
    """
    Return host sides that are not cleared: a dip, or a partner that is bad anyway, may hide a fault of theirs.

    These are hosts with fewer than two good samples for each slow one that nothing explains, hosts none of whose
    samples reaches the usual level, and hosts that were never measured with anything good; under a bad leaf it is
    enough that the partner is good with others.
    """
    samples, components = fitted.samples, fitted.components
    odd = _odd(fitted)
    good = (fitted.explained == 0) & ~odd
    count, dips = samples.by_host(good), samples.by_host(odd)
    blamed = {int(components.part[blamed.component]) for blamed in fitted.blamed}
    side = components.host_sides.tolist()
    bad_leaves = {int(components.leaf[c]) for c in blamed if components.kinds[c] == "leaf"}
    with_good = set(samples.a[count[samples.b] > 0].tolist()) | set(samples.b[count[samples.a] > 0].tolist())
    measured = sorted({*samples.a.tolist(), *samples.b.tolist()})
    hidden = [
        host
        for host in measured
        if count[host] == 0 and not (int(samples.leaf[host]) in bad_leaves and host in with_good)
    ]
    slow = (count > 0) & (fitted.reaching == 0)
    doubtful = [*np.flatnonzero((count < _CLEARED * dips) | slow).tolist(), *hidden]
    return [side[host] for host in dict.fromkeys(doubtful) if side[host] not in blamed]


def not_crossed(fitted: Fitted) -> list[int]:
    """
    Return directions that no good sample has gone through, uplinks first: nothing cleared them, nothing accuses them.

    An uplink counts only where a route leads over it to a host that is not bad. Directions beside a bad part do not
    count, as that would hide them anyway. Empty where samples do not tell which end sent.
    """
    components = fitted.components
    good = (fitted.explained == 0) & ~_odd(fitted)
    count = components.through(good)
    blamed = {int(components.part[blamed.component]) for blamed in fitted.blamed}
    bad = np.isin(components.part, list(blamed))
    usable = _usable(fitted, bad)
    leaves = {int(components.leaf[c]) for c in blamed if components.kinds[c] == "leaf"}
    on_leaf = np.append(fitted.samples.leaf, UNKNOWN)[components.hosts]
    side = (components.hosts != UNKNOWN) & ~bad & ~np.isin(on_leaf, list(leaves - {UNKNOWN}))
    directed = components.part != np.arange(len(bad))
    found = np.flatnonzero((count == 0) & directed & (side | usable)).tolist()
    return sorted(found, key=lambda c: components.kinds[c].startswith("host"))


def seldom_good(fitted: Fitted, left: int) -> list[int]:
    """Return host sides, nothing bad known, that up to *left* samples more clear; the fewest good samples first."""
    components, count, needed = fitted.components, fitted.good, fitted.needed
    blamed = {int(components.part[one.component]) for one in fitted.blamed}
    short = np.flatnonzero((count > 0) & (count < needed) & (count + left >= needed))
    sides = components.host_sides[short[np.argsort(count[short], kind="stable")]]
    return [side for side in sides.tolist() if side not in blamed]


def _draws(fitted: Fitted) -> tuple[Ints, Ints]:
    """Return by leaf how many ways were drawn from it and to it."""
    samples = fitted.samples
    drawn = samples.drawn & (samples.same_way == np.arange(len(samples.a)))
    count = len(samples.leaves) or 1
    sent, received = (np.bincount(samples.leaf[ends[drawn]], minlength=count) for ends in (samples.a, samples.b))
    return sent, received


def _uplinks(fitted: Fitted) -> list[tuple[int, int]]:
    """Return the uplinks of each leaf that is not bad, with the leaf."""
    components = fitted.components
    bad = {int(components.leaf[one.component]) for one in fitted.blamed if components.hosts[one.component] == UNKNOWN}
    uplinks = [(c, int(components.leaf[c])) for c, kind in enumerate(components.kinds) if kind == "uplinks"]
    return [one for one in uplinks if one[1] not in bad]


def _usable(fitted: Fitted, bad: Bools) -> Bools:
    """Return which components are on a route without bad parts, from a good host of each leaf to each host."""
    samples, components = fitted.samples, fitted.components
    found = np.zeros(len(bad) + 1, dtype=np.bool_)  # the last place stands for no component
    well = np.flatnonzero(~bad[components.host_sides])
    leaves, first = np.unique(samples.leaf[well], return_index=True)
    leaf, b = np.nonzero(samples.route[leaves] != UNKNOWN)
    if len(b):
        paths = components.way(well[first][leaf], b, samples.route[leaves[leaf], b])
        found[paths[~np.append(bad, False)[paths].any(axis=1)].ravel()] = True
    return found[:-1]
