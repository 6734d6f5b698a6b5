"""Tests that tell suspects apart: each suspect with another partner that is cleared, over parts that are cleared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fabric.analysis.pairs.decode import CERTAIN
from fabric.analysis.pairs.fitted import Fitted
from fabric.analysis.pairs.likelihood import MOST_BELOW
from fabric.analysis.pairs.samples import UNKNOWN
from fabric.model.diagnosis import PairTest

_CLEARED = 2
_SMALL, _CERTAIN_IF_SMALL = 1.5, 2 * CERTAIN  # a loss just large enough may be spread between hosts: look again
_TESTS_A_SWITCH = 2  # of an uplink, leaf or spine in one round: it has many hosts, a suspected host only itself


def to_settle(fitted: Fitted) -> list[int]:
    """Components that another test would say more about: blamed but not certain, their rivals, and open ones."""
    found: dict[int, None] = {}
    for blamed in fitted.decoded.blamed:
        small = blamed.loss < _SMALL * fitted.evidence.least_loss
        if blamed.margin < (_CERTAIN_IF_SMALL if small else CERTAIN):
            found[blamed.component] = None
            found.update(dict.fromkeys(blamed.rivals))
    found.update(dict.fromkeys(fitted.decoded.open))
    found.update(dict.fromkeys(_unexplained_hosts(fitted)))
    return list(found)


def _unexplained_hosts(fitted: Fitted) -> list[int]:
    """
    Host sides that are not cleared: a dip, or a partner that is bad anyway, may hide a fault of theirs.

    Those are hosts with a slow sample that nothing explains and fewer than two good ones, and hosts that were never
    measured with anything good; under a bad leaf it is enough that the partner is good with others.
    """
    samples, evidence = fitted.samples, fitted.evidence
    free = fitted.decoded.explained == 0
    odd = free & (evidence.misfit(evidence.ratio, fitted.decoded.explained) >= 0.99 * MOST_BELOW) & (evidence.ratio < 1)
    good = free & ~odd
    ends = np.concatenate([samples.a[good], samples.b[good]])
    count = np.bincount(ends, minlength=len(samples.hosts))
    hosts = sorted(set(samples.a[odd].tolist()) | set(samples.b[odd].tolist()))
    blamed = {blamed.component for blamed in fitted.decoded.blamed}
    side = {int(h): c for c, h in enumerate(fitted.components.hosts) if fitted.components.kinds[c] == "host"}
    bad_leaves = {int(fitted.components.leaf[c]) for c in blamed if fitted.components.kinds[c] == "leaf"}
    with_good = set(samples.a[count[samples.b] > 0].tolist()) | set(samples.b[count[samples.a] > 0].tolist())
    measured = sorted({*samples.a.tolist(), *samples.b.tolist()})
    hidden = [
        host
        for host in measured
        if count[host] == 0 and not (int(samples.leaf[host]) in bad_leaves and host in with_good)
    ]
    doubtful = [*(host for host in hosts if count[host] < _CLEARED), *hidden]
    return [side[host] for host in dict.fromkeys(doubtful) if side[host] not in blamed]


Routes = Mapping[tuple[str, str], str]
"""By leaf and host: the spine over which the leaf sends to the host. Empty: a spine can be chosen, or is not known."""


def targeted(fitted: Fitted, routes: Routes | None = None) -> list[PairTest]:
    """
    One host-disjoint round for all that is to be settled; empty when no cleared partner is left to test with.

    With *routes* a test names the spine that it will cross, and partners are chosen so that it is the right one.
    """
    return _Round(fitted, routes or {}).tests()


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

    def __post_init__(self) -> None:
        samples, components = self.fitted.samples, self.fitted.components
        doubtful = [*to_settle(self.fitted), *(blamed.component for blamed in self.fitted.decoded.blamed)]
        self._doubtful_hosts = {int(components.hosts[c]) for c in doubtful} - {UNKNOWN}
        self._doubtful = set(doubtful)
        evidence = self.fitted.evidence
        good = evidence.ratio > 1 - max(evidence.least_loss / 2, 2 * evidence.noise)
        self._cleared = set(samples.a[good].tolist()) | set(samples.b[good].tolist())
        self._met: dict[int, set[int]] = {}
        for a, b in zip(samples.a.tolist(), samples.b.tolist(), strict=True):
            self._met.setdefault(a, set()).add(b)
            self._met.setdefault(b, set()).add(a)
        self._link = {
            (int(components.leaf[c]), int(components.spine[c])): c
            for c, kind in enumerate(components.kinds)
            if kind == "link"
        }
        self._leaf = {int(components.leaf[c]): c for c, kind in enumerate(components.kinds) if kind == "leaf"}

    def tests(self) -> list[PairTest]:
        """Hosts first: they have one way into the network, switches have many hosts to be tested with."""
        components = self.fitted.components
        suspects = to_settle(self.fitted)
        for host in dict.fromkeys(int(components.hosts[c]) for c in suspects if components.hosts[c] != UNKNOWN):
            self._host(host)
        for component in suspects:
            if components.hosts[component] == UNKNOWN:
                for _ in range(_TESTS_A_SWITCH):
                    self._switch(component)
        return self._found

    def verifying(self) -> list[PairTest]:
        """Blamed hosts, then blamed switches and cables, then neighbours of whom nothing bad is known."""
        components = self.fitted.components
        blamed = [one.component for one in self.fitted.decoded.blamed]
        for component in sorted(blamed, key=lambda c: components.hosts[c] == UNKNOWN):
            host = int(components.hosts[component])
            if host == UNKNOWN:
                self._switch(component)
            elif host not in self._used:
                self._host(host)
        for leaf in range(max(len(self.fitted.samples.leaves), 1)):
            free = self._free(leaf if self.fitted.samples.leaves else UNKNOWN)
            for a, b in zip(sorted(free)[::2], sorted(free)[1::2], strict=False):
                self._add(a, b, None, "")
        return [replace(test, why=VERIFY) for test in self._found]

    def _host(self, host: int) -> None:
        """Another partner: under the same leaf, where nothing else is between them, unless the leaf is in doubt too."""
        leaf = int(self.fitted.samples.leaf[host])
        if self._leaf.get(leaf) not in self._doubtful:
            for other in self._partners(host, leaf):
                self._add(host, other, None, self.fitted.samples.hosts[host])
                return
        for other in self._partners(host, None):
            via = self._spine_for(host, other) if self._link else None
            if via != UNKNOWN:
                self._add(host, other, via, self.fitted.samples.hosts[host])
                return

    def _switch(self, component: int) -> None:
        components = self.fitted.components
        leaf, spine, kind = (
            int(components.leaf[component]),
            int(components.spine[component]),
            components.kinds[component],
        )
        pairs = {"leaf": self._within, "link": self._over, "spine": self._over, "uplinks": self._over}[kind](
            leaf, spine
        )
        if pairs is not None:
            self._add(*pairs, spine if spine != UNKNOWN else None, components.names[component])

    def _within(self, leaf: int, spine: int) -> tuple[int, int] | None:
        del spine
        for a in self._free(leaf):
            for b in self._partners(a, leaf):
                return a, b
        return None

    def _over(self, leaf: int, spine: int) -> tuple[int, int] | None:
        """Two hosts on different leaves whose other uplink is not in doubt; of a spine, any two leaves."""
        leaves = range(len(self.fitted.samples.leaves))
        for here in [leaf] if leaf != UNKNOWN else [x for x in leaves if not self._in_doubt(x, spine)]:
            for a in self._free(here):
                for b in self._partners(a, None):
                    there = int(self.fitted.samples.leaf[b])
                    if there != here and not self._in_doubt(there, spine):
                        if self._goes(a, b, spine):
                            return a, b
                        if self._goes(b, a, spine):
                            return b, a
        return None

    def _goes(self, a: int, b: int, spine: int) -> bool:
        """Whether a test from *a* to *b* can be sent over a spine."""
        return not self.routes or spine == UNKNOWN or self._route(a, b) == self.fitted.samples.spines[spine]

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

    def _in_doubt(self, leaf: int, spine: int) -> bool:
        return self._link.get((leaf, spine)) in self._doubtful or self._leaf.get(leaf) in self._doubtful

    def _spine_for(self, host: int, other: int) -> int:
        """A spine over which a leaf that is in doubt itself can be asked."""
        leaf, there = int(self.fitted.samples.leaf[host]), int(self.fitted.samples.leaf[other])
        for spine in range(len(self.fitted.samples.spines)):
            if not self._goes(host, other, spine):
                continue
            if self._link.get((leaf, spine)) not in self._doubtful and not self._in_doubt(there, spine):
                return spine
        return UNKNOWN

    def _add(self, a: int, b: int, via: int | None, why: str) -> None:
        samples = self.fitted.samples
        name = samples.spines[via] if via is not None and via != UNKNOWN and samples.spines else None
        self._used |= {a, b}
        self._found.append(PairTest(samples.hosts[a], samples.hosts[b], name, f"tells about {why}"))
