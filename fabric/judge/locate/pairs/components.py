"""The components that every pair sample passes through.

A sample passes both host sides (PCIe path, RNIC, cable and leaf port are one component to a pair test; loopback and
port counters tell them apart) and their leaves. If these are two, it also passes all uplinks of each leaf together and,
where the path is known, the two uplinks and the spine. With adaptive routing or ECMP it is not known, and never
guessed: with a wrongly assumed path precision falls to 0.83-0.87 (simulated, 150 runs). Where the spines are known and
the leaves are not, the spine alone is on the way.

A cable has two directions, which can fail apart. Where samples say which end sent, a host side, an uplink and, on
unknown paths, all uplinks of a leaf are there three times: as a whole and once for each direction. These are one part
to whoever repairs it, so they are never rivals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from fabric.judge.locate.candidates import CORES, SPINES
from fabric.judge.locate.pairs.samples import PairSamples
from fabric.judge.locate.structure import UNKNOWN, Bools, Ints

FAMILY = {"host": 0, "link": 1, "uplinks": 2, "leaf": 3, "path": 6, "all_uplinks": 7}
FAMILY |= dict.fromkeys(("spine", "core", SPINES, CORES), 4)
"""By kind of a part: the number of its family, all parts that are alike."""

WHOLE_HOST = 5
"""The family of whole hosts, over all their rails."""

EXTRA = {"host": 0.0, "link": 1.0}
EXTRA |= dict.fromkeys(("uplinks", "all_uplinks", "leaf", "spine", "core", SPINES, CORES, "path"), 2.0)
"""Nats by which a kind is rarer than a bad host: a cable between switches, a switch, what is between two hosts."""

ONE_WAY = 1.6
"""Nats by which it is rarer that one direction of a part alone is bad (a fifth)."""

NO_PAIRS: Ints = np.empty(0, dtype=np.int64)

BUNDLES = ("uplinks", "uplinks_up", "uplinks_down", SPINES, CORES)
"""Kinds that stand for several things, of which a sample crosses one, not known which."""

LINKS = frozenset({"link", "link_up", "link_down"})
"""The kinds of an uplink: as a whole, from the leaf to the spine, and from the spine to the leaf."""


@dataclass(frozen=True)
class Components:
    """
    Component *c* is called *names[c]*; row *i* of *paths* lists the components of sample *i*, filled up with UNKNOWN.

    *hosts[c]* is the host (an index) that a host side belongs to, *leaf[c]* the leaf of a leaf or of its uplinks;
    UNKNOWN otherwise. *part[c]* is the component that is both directions of *c*, or *c* itself if it is no single
    direction. One direction of an uplink has the name of the uplink; its kind tells which. *way* returns the rows of
    paths of samples that were not measured, from hosts *a* to hosts *b* over spines *via*.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    hosts: Ints
    leaf: Ints
    part: Ints
    paths: Ints
    way: Callable[[Ints, Ints, Ints], Ints]

    def through(self, which: Bools) -> Ints:
        """Return for each component how many of the *which* samples pass through it."""
        crossed = self.paths[which]
        return np.bincount(crossed[crossed != UNKNOWN], minlength=len(self.names))

    @cached_property
    def host_sides(self) -> Ints:
        """By host: the component that is its whole side."""
        return np.flatnonzero(np.array(self.kinds) == "host")


class _Made:
    """Components in the making, numbered as they are added."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int, int, int]] = []

    def add(self, name: str, kind: str, host: int = UNKNOWN, leaf: int = UNKNOWN, part: int = UNKNOWN) -> int:
        number = len(self.rows)
        self.rows.append((name, kind, host, leaf, number if part == UNKNOWN else part))
        return number

    def direction(self, whole: int, mark: str, kind: str) -> int:
        """Add one direction of a component, with *mark* added to its name, and return its number."""
        name, _, host, leaf, _ = self.rows[whole]
        return self.add(f"{name}{mark}", kind, host, leaf, whole)


def components_of(samples: PairSamples, pairs: Ints = NO_PAIRS) -> Components:
    """
    Return every component that the samples may tell of, with the way of each sample through them.

    What is between two hosts alone is a component only for *pairs* (numbers, ascending): all pairs would be too many.
    """
    made = _Made()
    parts = [_sides(samples, made)]
    if samples.leaves:
        parts.append(_leaves(samples, made))
        if samples.spines:
            parts.append(_above(samples, made))
    elif len(samples.spines) > 1:  # one spine over everything cannot be told from the fleet
        spine = np.array([*(made.add(name, "spine") for name in samples.spines), UNKNOWN], dtype=np.int64)
        parts.append(lambda _a, _b, via: [spine[via]])

    if len(pairs):
        parts.append(_between(samples, made, pairs))

    def way(a: Ints, b: Ints, via: Ints) -> Ints:
        return np.stack([column for part in parts for column in part(a, b, via)], axis=1)

    names, kinds, hosts, leaf, part = zip(*made.rows, strict=True)
    host, under, whole = (np.array(values, dtype=np.int64) for values in (hosts, leaf, part))
    return Components(names, kinds, host, under, whole, way(samples.a, samples.b, samples.via), way)


_Columns = Callable[[Ints, Ints, Ints], list[Ints]]
"""Returns the components of some kinds on the ways from hosts to hosts over spines."""


def _sides(samples: PairSamples, made: _Made) -> _Columns:
    """Add both hosts, and what the first sends and the second receives."""
    at = f"/{samples.rail}" if samples.rail else ""
    host = [made.add(f"{name}{at}", "host", number) for number, name in enumerate(samples.hosts)]
    whole = np.array(host, dtype=np.int64)
    if not samples.tells_ways:
        return lambda a, b, _via: [whole[a], whole[b]]
    sends = np.array([made.direction(c, ":tx", "host_tx") for c in host], dtype=np.int64)
    receives = np.array([made.direction(c, ":rx", "host_rx") for c in host], dtype=np.int64)
    return lambda a, b, _via: [whole[a], whole[b], sends[a], receives[b]]


def _between(samples: PairSamples, made: _Made, pairs: Ints) -> _Columns:
    """Add what is between the two hosts of each of *pairs* alone."""
    ends = [
        (samples.hosts[a], samples.hosts[b]) for a, b in (divmod(pair, len(samples.hosts)) for pair in pairs.tolist())
    ]
    path = np.array([made.add(f"{a}--{b}", "path") for a, b in ends], dtype=np.int64)

    def columns(a: Ints, b: Ints, _via: Ints) -> list[Ints]:
        number = samples.pairs_of(a, b)
        place = np.minimum(np.searchsorted(pairs, number), len(pairs) - 1)
        return [np.where(pairs[place] == number, path[place], UNKNOWN)]

    return columns


def _leaves(samples: PairSamples, made: _Made) -> _Columns:
    """
    Add the leaves, all uplinks of each leaf together and, where ways between them are not known, all that is above.

    With two levels the latter is the spines; with three, the spines of each pod and the cores between pods.
    """
    names = samples.leaves
    leaf = np.array([*(made.add(name, "leaf", leaf=n) for n, name in enumerate(names)), UNKNOWN], dtype=np.int64)
    (above, spines, up, down), cores = np.full((4, len(leaf)), UNKNOWN, dtype=np.int64), UNKNOWN
    drawn = bool(samples.drawn.any())
    if samples.spines and not drawn:
        above[:-1] = [made.add(f"{name}:uplinks", "all_uplinks", leaf=n) for n, name in enumerate(names)]
    elif drawn:
        above[:-1] = [made.add(f"{name}:uplinks", "uplinks", leaf=n) for n, name in enumerate(names)]
        pods = [samples.pods.get(name, SPINES) for name in names]
        of_pod = {pod: made.add(pod, SPINES) for pod in dict.fromkeys(pods)}
        spines[:-1] = [of_pod[pod] for pod in pods]
        cores = made.add(CORES, CORES) if len(of_pod) > 1 else UNKNOWN
        if samples.tells_ways:
            up[:-1] = [made.direction(whole, "", "uplinks_up") for whole in above[:-1].tolist()]
            down[:-1] = [made.direction(whole, "", "uplinks_down") for whole in above[:-1].tolist()]

    def columns(a: Ints, b: Ints, via: Ints) -> list[Ints]:
        here, there = samples.leaf[a], samples.leaf[b]
        blind = samples.apart(a, b) & ((via == UNKNOWN) | (not drawn))
        found = [leaf[here], np.where(here == there, UNKNOWN, leaf[there])]
        apart = spines[here] != spines[there]
        beyond = (np.where(apart, spines[there], UNKNOWN), np.where(apart, cores, UNKNOWN))
        over = (above[here], above[there], spines[here], *beyond, up[here], down[there])
        return [*found, *(np.where(blind, one, UNKNOWN) for one in over)]

    return columns


def _above(samples: PairSamples, made: _Made) -> _Columns:
    """Add what is known above the leaves: switches, the cables between them, and the cables of the leaves."""
    links: dict[tuple[str, str], tuple[int, int, int]] = {}

    def link(lower: str, upper: str, leaf: int = UNKNOWN) -> tuple[int, int, int]:
        if (lower, upper) not in links:
            whole = made.add(f"{lower}--{upper}", "link", leaf=leaf)
            ways = [
                made.direction(whole, "", kind) if samples.tells_ways else UNKNOWN for kind in ("link_up", "link_down")
            ]
            links[lower, upper] = (whole, ways[0], ways[1])
        return links[lower, upper]

    longest = max(len(way) for way in samples.ways)
    switch: dict[str, int] = {}
    among = np.full((len(samples.ways) + 1, 3 * longest), UNKNOWN, dtype=np.int64)
    for number, way in enumerate(samples.ways):
        for place, name in enumerate(way):
            if name not in switch:
                switch[name] = made.add(name, "spine" if place in (0, len(way) - 1) else "core")
            among[number, place] = switch[name]
        for place, (one, other) in enumerate(pairwise(way)):
            rises = place < len(way) // 2
            whole, up, down = link(one, other) if rises else link(other, one)
            among[number, longest + 2 * place : longest + 2 * place + 2] = whole, up if rises else down
    first, last = np.full((2, len(samples.leaves) + 1, len(samples.ways) + 1, 2), UNKNOWN, dtype=np.int64)
    for leaf, number in _steps(samples, samples.a, down=False):
        whole, up, _ = link(samples.leaves[leaf], samples.ways[number][0], leaf)
        first[leaf, number] = whole, up
    for leaf, number in _steps(samples, samples.b, down=True):
        whole, _, down = link(samples.leaves[leaf], samples.ways[number][-1], leaf)
        last[leaf, number] = whole, down

    def columns(a: Ints, b: Ints, via: Ints) -> list[Ints]:
        over = np.where(samples.apart(a, b), via, UNKNOWN)
        return [*among[over].T, *first[samples.leaf[a], over].T, *last[samples.leaf[b], over].T]

    return columns


def _steps(samples: PairSamples, ends: Ints, *, down: bool) -> list[tuple[int, int]]:
    """
    Return every leaf with each spine over which it sends, or receives (*down*), as far as samples and routes say.

    *ends* are the hosts of the samples that are under the leaves; without routes any leaf has any spine.
    """
    if not samples.routes:
        return [(leaf, way) for leaf in range(len(samples.leaves)) for way in range(len(samples.ways))]
    used = samples.crosses & (samples.via != UNKNOWN)
    leaf, host = np.nonzero(samples.route != UNKNOWN)
    leaves = [samples.leaf[ends[used]], samples.leaf[host] if down else leaf]
    over = [samples.via[used], samples.route[leaf, host]]
    return sorted(set(zip(np.concatenate(leaves).tolist(), np.concatenate(over).tolist(), strict=True)))
