"""
Tests that tell suspects apart: each suspect with another partner that is cleared, over parts that are cleared.

The first host of a test sends. What is suspected in one direction is tested in that direction.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fabric.judge.locate.pairs.components import LINKS
from fabric.judge.locate.pairs.fitted import Fitted
from fabric.judge.locate.pairs.samples import UNKNOWN
from fabric.judge.locate.pairs.settle import Routes, not_crossed, to_settle, uncertain
from fabric.model.diagnosis import PairTest

_TESTS_A_SWITCH = 2  # of an uplink, leaf or spine in one round: it has many hosts, a suspected host only itself
_UP, _DOWN = "link_up", "link_down"


def targeted(fitted: Fitted, routes: Routes | None = None) -> list[PairTest]:
    """
    One host-disjoint round for all that is to be settled; empty when no cleared partner is left to test with.

    With *routes* a test names the spine that it will cross, and partners are chosen so that it is the right one.
    """
    return _Round(fitted, routes or {}).tests()


def covering(fitted: Fitted, routes: Routes) -> list[PairTest]:
    """
    One round for what is to be settled, and beside it for what no good sample has gone through, so is not cleared.

    That is a direction of a host side, and of an uplink where *routes* say that it is in use. Empty when all is settled
    and cleared, or no more can be.
    """
    return _Round(fitted, routes).covering()


def accused(fitted: Fitted, routes: Routes) -> list[PairTest]:
    """One round for what is blamed and not certain yet, and its rivals alone; empty when all blamed is certain."""
    return _Round(fitted, routes).of(uncertain(fitted))


VERIFY = "once more"
"""Why the tests of the last round are made."""


def verifying(fitted: Fitted, routes: Routes | None = None) -> list[PairTest]:
    """Every blamed part once more with good partners, and the good hosts once more among themselves; one round."""
    return _Round(fitted, routes or {}).verifying()


@dataclass
class _Round:
    """A round in the making: who is taken, who may be a partner."""

    fitted: Fitted
    routes: Routes
    _used: set[int] = field(default_factory=set)
    _found: list[PairTest] = field(default_factory=list)
    _open: set[tuple[str, int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        samples, components = self.fitted.samples, self.fitted.components
        doubtful = [*to_settle(self.fitted), *(blamed.component for blamed in self.fitted.decoded.blamed)]
        self._doubtful_hosts = {int(components.hosts[c]) for c in doubtful} - {UNKNOWN}
        self._doubtful = set(doubtful)
        good = self.fitted.ratio > 1 - max(self.fitted.least_loss / 2, 2 * self.fitted.noise)
        self._cleared = set(samples.a[good].tolist()) | set(samples.b[good].tolist())
        self._met: dict[int, set[int]] = {}
        for a, b in zip(samples.a.tolist(), samples.b.tolist(), strict=True):
            self._met.setdefault(a, set()).add(b)
            self._met.setdefault(b, set()).add(a)
        self._links = "link" in components.kinds
        self._doubtful_links = {
            (way, int(components.leaf[c]), int(components.spine[c]))
            for c in doubtful
            if components.kinds[c] in LINKS
            for way in ((_UP, _DOWN) if components.kinds[c] == "link" else (components.kinds[c],))
        }
        self._sent = np.bincount(samples.a, minlength=len(samples.hosts))
        self._received = np.bincount(samples.b, minlength=len(samples.hosts))
        self._leaf = {int(components.leaf[c]): c for c, kind in enumerate(components.kinds) if kind == "leaf"}

    def tests(self) -> list[PairTest]:
        """Hosts first: they have one way into the network, switches have many hosts to be tested with."""
        return self.of(to_settle(self.fitted))

    def of(self, suspects: list[int]) -> list[PairTest]:
        """A round for these components."""
        components = self.fitted.components
        for component in suspects:
            if components.hosts[component] != UNKNOWN:
                self._host(component)
        for component in suspects:
            if components.hosts[component] == UNKNOWN:
                for turn in range(_TESTS_A_SWITCH):
                    self._switch(component, turn)
        return self._found

    def covering(self) -> list[PairTest]:
        """Those, then each direction that nothing has gone through: what is free of hosts is enough for many."""
        self.tests()
        components = self.fitted.components
        open_ = not_crossed(self.fitted, self.routes)
        self._open = {(components.kinds[c], int(components.leaf[c]), int(components.spine[c])) for c in open_}
        for component in open_:
            kind, leaf, spine = components.kinds[component], components.leaf[component], components.spine[component]
            if components.hosts[component] != UNKNOWN:
                self._host(component)
            elif (kind, int(leaf), int(spine)) in self._open:
                self._switch(component, 0)
        return self._found

    def verifying(self) -> list[PairTest]:
        """Blamed hosts, then blamed switches and cables, then neighbours of whom nothing bad is known."""
        components = self.fitted.components
        blamed = [one.component for one in self.fitted.decoded.blamed]
        for component in sorted(blamed, key=lambda c: components.hosts[c] == UNKNOWN):
            if components.hosts[component] != UNKNOWN:
                self._host(component)
            elif components.kinds[component] in LINKS:
                for turn in range(_TESTS_A_SWITCH):  # one each way: the evidence says what either reaches
                    self._switch(int(components.part[component]), turn)
            else:
                self._switch(component, 0)
        for leaf in range(max(len(self.fitted.samples.leaves), 1)):
            free = self._free(leaf if self.fitted.samples.leaves else UNKNOWN)
            for a, b in zip(sorted(free)[::2], sorted(free)[1::2], strict=False):
                self._add((a, b), None, "")
        return [replace(test, why=VERIFY) for test in self._found]

    def _host(self, component: int) -> None:
        """Another partner: under the same leaf, where nothing else is between them, unless the leaf is in doubt too."""
        host = int(self.fitted.components.hosts[component])
        if host in self._used:
            return
        sends = self._sends(component)
        leaf = int(self.fitted.samples.leaf[host])
        if self._leaf.get(leaf) not in self._doubtful:
            for other in self._partners(host, leaf):
                self._add(_ordered(host, other, sends), None, self.fitted.samples.hosts[host])
                return
        for other in self._partners(host, None):
            ends = _ordered(host, other, sends)
            via = self._spine_for(host, other, ends) if self._links else None
            if via != UNKNOWN:
                self._add(ends, via, self.fitted.samples.hosts[host])
                return

    def _sends(self, component: int) -> bool:
        """Whether a host side is to send: as its direction is, else what it did less."""
        kind, host = self.fitted.components.kinds[component], int(self.fitted.components.hosts[component])
        if kind == "host":
            return bool(self._sent[host] <= self._received[host])
        return kind == "host_tx"

    def _switch(self, component: int, turn: int) -> None:
        """A test through a leaf, spine or uplink; of a whole uplink even turns go up and odd ones down, if they can."""
        components = self.fitted.components
        leaf, spine = int(components.leaf[component]), int(components.spine[component])
        kind = components.kinds[component]
        if kind == "leaf":
            ends = self._within(leaf)
        else:
            ways = {_UP: (_UP,), _DOWN: (_DOWN,)}.get(kind, (_UP, _DOWN) if turn % 2 == 0 else (_DOWN, _UP))
            found = (self._over(leaf, spine, way) for way in ways)
            ends = next((ends for ends in found if ends is not None), None)
        if ends is not None:
            self._add(ends, spine if spine != UNKNOWN else None, components.names[component])

    def _within(self, leaf: int) -> tuple[int, int] | None:
        for a in self._free(leaf):
            for b in self._partners(a, leaf):
                return a, b
        return None

    def _over(self, leaf: int, spine: int, way: str) -> tuple[int, int] | None:
        """
        Two hosts on different leaves whose other uplink is not in doubt; of a spine, any two leaves.

        Where there are none, two whose other uplink is in doubt only in the direction that is not used, and then any
        two: with another partner even two doubtful parts say more than no test.
        """
        back = _DOWN if way == _UP else _UP
        for doubted in ((_UP, _DOWN), (back,), ()):
            ends = self._over_less(leaf, spine, way, doubted)
            if ends is not None:
                return ends
        return None

    def _over_less(self, leaf: int, spine: int, way: str, doubted: tuple[str, ...]) -> tuple[int, int] | None:
        """As ``_over``; of the other uplink these directions must not be in doubt."""
        leaves = range(len(self.fitted.samples.leaves))
        back = _DOWN if way == _UP else _UP
        first = {there for kind, there, over in self._open if (kind, over) == (back, spine)}
        here_too = (way,) if doubted == (back,) else doubted
        for here in [leaf] if leaf != UNKNOWN else [x for x in leaves if not self._in_doubt(x, spine, here_too)]:
            for a in self._free(here):
                partners = self._partners(a, None)
                if first:  # one test for two directions that nothing has gone through
                    partners.sort(key=lambda b: int(self.fitted.samples.leaf[b]) not in first)
                for b in partners:
                    there = int(self.fitted.samples.leaf[b])
                    ends = _ordered(a, b, way == _UP)
                    if there != here and not self._in_doubt(there, spine, doubted) and self._goes(ends, spine):
                        self._open -= {(way, here, spine), (back, there, spine)}
                        return ends
        return None

    def _goes(self, ends: tuple[int, int], spine: int) -> bool:
        """Whether a test can be sent over a spine."""
        return not self.routes or spine == UNKNOWN or self._route(*ends) == self.fitted.samples.spines[spine]

    def _route(self, a: int, b: int) -> str | None:
        samples = self.fitted.samples
        return self.routes.get((samples.leaves[int(samples.leaf[a])], samples.hosts[b]))

    def _free(self, leaf: int) -> list[int]:
        """Hosts of a leaf that may be partners, cleared ones first."""
        hosts = np.flatnonzero(self.fitted.samples.leaf == leaf).tolist()
        free = [host for host in hosts if host not in self._used and host not in self._doubtful_hosts]
        return sorted(free, key=lambda host: (host not in self._cleared, host))

    def _partners(self, host: int, leaf: int | None) -> list[int]:
        """Free hosts (of a leaf), cleared ones first, then those not met yet, then the nearest in number."""
        samples = self.fitted.samples
        among = range(len(samples.hosts)) if leaf is None else np.flatnonzero(samples.leaf == leaf).tolist()
        met = self._met.get(host, set())
        free = [
            other
            for other in among
            if other != host and other not in self._used and other not in self._doubtful_hosts and other not in met
        ]
        return sorted(free, key=lambda other: (other not in self._cleared, abs(other - host)))

    def _in_doubt(self, leaf: int, spine: int, ways: tuple[str, ...] = (_UP, _DOWN)) -> bool:
        """Whether a leaf, or its uplink in one of these directions, is in doubt; no directions: never."""
        if not ways:
            return False
        uplink = any((way, leaf, spine) in self._doubtful_links for way in ways)
        return uplink or self._leaf.get(leaf) in self._doubtful

    def _spine_for(self, host: int, other: int, ends: tuple[int, int]) -> int:
        """A spine over which a leaf that is in doubt itself can be asked."""
        leaf, there = int(self.fitted.samples.leaf[host]), int(self.fitted.samples.leaf[other])
        for spine in range(len(self.fitted.samples.spines)):
            if not self._goes(ends, spine):
                continue
            own = any((way, leaf, spine) in self._doubtful_links for way in (_UP, _DOWN))
            if not own and not self._in_doubt(there, spine):
                return spine
        return UNKNOWN

    def _add(self, ends: tuple[int, int], via: int | None, why: str) -> None:
        samples = self.fitted.samples
        name = samples.spines[via] if via is not None and via != UNKNOWN and samples.spines else None
        a, b = ends
        self._used |= {a, b}
        self._found.append(PairTest(samples.hosts[a], samples.hosts[b], name, f"tells about {why}"))


def _ordered(host: int, other: int, sends: bool) -> tuple[int, int]:
    return (host, other) if sends else (other, host)
