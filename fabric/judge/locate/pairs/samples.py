"""Pair measurements of one kind and one rail, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fabric.judge.locate.structure import UNKNOWN, Bools, Floats, Ints

Routes = Mapping[tuple[str, str], str]
"""By leaf and host: the spine over which the leaf sends to the host. Empty: a spine can be chosen, or is not known."""

OVER = ">"
"""Stands between the switches of a way of three levels: ``p0-spine0>core03>p1-spine0``."""


@dataclass(frozen=True)
class PairSamples:
    """
    What was measured between hosts: sample *i* is *gbps[i]* from host *a[i]* to host *b[i]* (indexes into *hosts*).

    *leaf* holds the leaf switch of each host (an index into *leaves*), *via* the spine that each sample crossed (an
    index into *spines*); UNKNOWN where it is not known. Of three levels a "spine" is all that is above the leaves on
    one way, the names joined by ``OVER``. *routes* say which is crossed where that is static. *directed*: the samples
    say which end sent. *one_way*: that is certain, for it is how we measured; the order of a file's two columns may be
    nobody's intention. *rail* is the name of the RNIC or rail that was measured, None when the samples are of whole
    hosts. *placed*: an inventory says where all hosts stand, be it under one leaf.
    """

    hosts: tuple[str, ...]
    a: Ints
    b: Ints
    gbps: Floats
    leaves: tuple[str, ...]
    leaf: Ints
    spines: tuple[str, ...]
    via: Ints
    directed: bool = False
    rail: str | None = None
    one_way: bool = False
    placed: bool = False
    routes: Routes = field(default_factory=dict)

    @cached_property
    def ways(self) -> tuple[tuple[str, ...], ...]:
        """The switches that each of *spines* stands for, in the order in which they are crossed."""
        return tuple(tuple(name.split(OVER)) for name in self.spines)

    @cached_property
    def route(self) -> Ints:
        """The index of the spine over which each leaf (a row) sends to each host; the last row: of no leaf."""
        found = np.full((len(self.leaves) + 1, len(self.hosts)), UNKNOWN, dtype=np.int64)
        leaf, host, spine = (
            {name: n for n, name in enumerate(all_)} for all_ in (self.leaves, self.hosts, self.spines)
        )
        for (here, there), over in self.routes.items():
            if here in leaf and there in host and over in spine and leaf[here] != self.leaf[host[there]]:
                found[leaf[here], host[there]] = spine[over]
        return found

    @cached_property
    def crosses(self) -> Bools:
        """Which samples are known to leave their leaf switch."""
        known = (self.leaf[self.a] != UNKNOWN) & (self.leaf[self.b] != UNKNOWN)
        crossing: Bools = known & (self.leaf[self.a] != self.leaf[self.b])
        return crossing

    @cached_property
    def drawn(self) -> Bools:
        """Which samples took one of several ways between leaves, nobody knows which: ECMP draws it per connection."""
        found: Bools = self.crosses & (self.via == UNKNOWN)
        return found

    @cached_property
    def both_ways(self) -> bool:
        """Whether most pairs were measured in both directions."""
        if not self.directed or not len(self.a):
            return False
        hosts = len(self.hosts)
        pairs = np.sort(self.a * hosts + self.b)
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        back = pairs % hosts * hosts + pairs // hosts
        return bool(np.isin(back, pairs, assume_unique=True).mean() >= 1 / 2)

    @property
    def tells_ways(self) -> bool:
        """Whether the two directions of a part can be told apart."""
        return self.one_way or self.both_ways
