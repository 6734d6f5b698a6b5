"""
Tests that tell suspects apart: each suspect with another partner that is cleared, over parts that are cleared.

The first host of a test sends. What a test would pass through is known before it is made, from the same components
that samples have: of all tests that go through a suspect the one is made on which the least else is in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fabric.judge.locate.pairs.components import LINKS
from fabric.judge.locate.pairs.fitted import Fitted
from fabric.judge.locate.pairs.settle import not_crossed, to_settle, uncertain
from fabric.judge.locate.structure import UNKNOWN, Ints
from fabric.model.diagnosis import PairTest

_TESTS_A_SWITCH = 2  # of an uplink, leaf or spine in one round: it has many hosts, a suspected host only itself
_HOSTS_A_LEAF = 2  # from which tests through a switch are sought: more say the same
_MOST = 1 << 16  # tests that are looked at for one switch
_NEVER = 1 << 20  # a count that no path reaches


def targeted(fitted: Fitted) -> list[PairTest]:
    """One host-disjoint round for all that is to be settled; empty when no cleared partner is left to test with."""
    return _Round(fitted).of(to_settle(fitted))


def covering(fitted: Fitted) -> list[PairTest]:
    """
    One round for what is to be settled, and beside it for what no good sample has gone through, so is not cleared.

    That is a direction of a host side, and of an uplink where routes say that it is in use. Empty when all is settled
    and cleared, or no more can be.
    """
    return _Round(fitted).covering()


def accused(fitted: Fitted) -> list[PairTest]:
    """One round for what is blamed and not certain yet, and its rivals alone; empty when all blamed is certain."""
    return _Round(fitted).of(uncertain(fitted))


VERIFY = "once more"
"""Why the tests of the last round are made."""


def verifying(fitted: Fitted) -> list[PairTest]:
    """Every blamed part once more with good partners, and the good hosts once more among themselves; one round."""
    return _Round(fitted).verifying()


@dataclass
class _Round:
    """A round in the making: who is taken, who may be a partner."""

    fitted: Fitted
    _found: list[PairTest] = field(default_factory=list)

    def __post_init__(self) -> None:
        fitted, samples, components = self.fitted, self.fitted.samples, self.fitted.components
        doubtful = [*to_settle(fitted), *(blamed.component for blamed in fitted.decoded.blamed)]
        self._doubtful = np.zeros(len(components.names) + 1, dtype=np.bool_)  # the last: of no component
        self._doubtful[doubtful] = True
        self._open = np.zeros(len(components.names) + 1, dtype=np.bool_)
        good = fitted.ratio > 1 - max(fitted.least_loss / 2, 2 * fitted.noise)
        self._cleared = np.zeros(len(samples.hosts), dtype=np.bool_)
        self._cleared[samples.a[good]] = self._cleared[samples.b[good]] = True
        self._free = np.ones(len(samples.hosts), dtype=np.bool_)
        self._partner = self._free.copy()
        hosts = components.hosts[doubtful]
        self._partner[hosts[hosts != UNKNOWN]] = False
        pair = self._pair(samples.a, samples.b)
        self._met, self._drawn = np.unique(pair[~samples.drawn]), np.unique(pair[samples.drawn])
        self._sure = {c for one in fitted.decoded.blamed if one.certain for c in (one.component, *one.rivals)}
        self._sent = np.bincount(samples.a, minlength=len(samples.hosts))
        self._received = np.bincount(samples.b, minlength=len(samples.hosts))

    def of(self, suspects: list[int]) -> list[PairTest]:
        """A round for these components: hosts first, for a switch has many to be tested with."""
        for component in self._hosts_first(suspects):
            for turn in range(1 if self._is_host(component) else _TESTS_A_SWITCH):
                self._test(component, turn)
        return self._found

    def covering(self) -> list[PairTest]:
        """What is to be settled, then each direction that nothing has gone through: what is free is enough for many."""
        self.of(to_settle(self.fitted))
        missing = not_crossed(self.fitted)
        self._open[missing] = True
        for component in missing:
            if self._open[component]:
                self._test(component, 0)
        return self._found

    def verifying(self) -> list[PairTest]:
        """Blamed hosts, then blamed switches and cables, then neighbours of whom nothing bad is known."""
        components = self.fitted.components
        for component in self._hosts_first([one.component for one in self.fitted.decoded.blamed]):
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

    def _test(self, component: int, turn: int) -> None:
        """The best test through a component, if there is any; of a whole uplink even turns go up and odd ones down."""
        components, host = self.fitted.components, int(self.fitted.components.hosts[component])
        if host != UNKNOWN:
            if self._free[host]:
                others = np.flatnonzero(self._free & self._partner & (np.arange(len(self._free)) != host))
                ends = np.full(len(others), host), others
                self._best(component, *(ends if self._sends(component) else ends[::-1]))
            return
        ways = (
            np.flatnonzero(components.part == component).tolist()[1:] if components.kinds[component] == "link" else []
        )
        for one in (*ways[turn % 2 :], *ways[: turn % 2], component):
            if self._best(one, *self._ends(one)):
                return

    def _sends(self, component: int) -> bool:
        """Whether a host side is to send: as its direction is, else what it did less."""
        kind, host = self.fitted.components.kinds[component], int(self.fitted.components.hosts[component])
        if kind == "host":
            return bool(self._sent[host] <= self._received[host])
        return kind == "host_tx"

    def _ends(self, component: int) -> tuple[Ints, Ints]:
        """From whom to whom a test through a switch or a cable may go."""
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
            if kind == "link_down":
                a, b = b, a
        return a.ravel(), b.ravel()

    def _best(self, component: int, a: Ints, b: Ints) -> bool:
        """
        Make the test of these through the component on which the least else is in doubt; False: there is none.

        What was measured once tells nothing new, unless its way was drawn: then the next draw may take another one. Of
        what is bad for certain that tells nothing either: its rivals are on the same ways.
        """
        pair = self._pair(a, b)
        new = (a != b) & ~np.isin(pair, self._met)
        if component in self._sure:
            new &= ~np.isin(pair, self._drawn)
        a, b, via = self._over(a[new], b[new])
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
        if self._is_host(component):  # it has many partners: it waits for a good one
            doubts[doubts > 0] = _NEVER
        opens = self._open[paths].sum(axis=1)
        length = (paths != UNKNOWN).sum(axis=1)
        unsure = 2 - self._cleared[a].astype(np.int64) - self._cleared[b]
        again = np.isin(self._pair(a, b), self._drawn)
        best = int(np.lexsort((np.abs(a - b), unsure, length, -opens, again, doubts))[0])
        if doubts[best] == _NEVER:
            return False
        self._open[paths[best]] = False
        host = int(components.hosts[component])
        name = components.names[component] if host == UNKNOWN else self.fitted.samples.hosts[host]
        self._add(int(a[best]), int(b[best]), int(via[best]), name)
        return True

    def _over(self, a: Ints, b: Ints) -> tuple[Ints, Ints, Ints]:
        """With the spine that each test would cross: as routes say, else any that can be chosen."""
        samples = self.fitted.samples
        across = (samples.leaf[a] != samples.leaf[b]) & (samples.leaf[a] != UNKNOWN) & (samples.leaf[b] != UNKNOWN)
        if samples.routes or not samples.spines:
            return a, b, np.where(across, samples.route[samples.leaf[a], b], UNKNOWN)
        count = np.where(across, len(samples.spines), 1)
        which = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        return np.repeat(a, count), np.repeat(b, count), np.where(np.repeat(across, count), which, UNKNOWN)

    def _pair(self, a: Ints, b: Ints) -> Ints:
        found: Ints = np.minimum(a, b) * len(self.fitted.samples.hosts) + np.maximum(a, b)
        return found

    def _add(self, a: int, b: int, via: int, why: str) -> None:
        samples = self.fitted.samples
        self._free[[a, b]] = False
        name = samples.spines[via] if via != UNKNOWN else None
        self._found.append(PairTest(samples.hosts[a], samples.hosts[b], name, f"tells about {why}"))
