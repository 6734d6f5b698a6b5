"""
Which components every sample passes through.

Between two hosts: both host sides (PCIe path, RNIC, cable and leaf port are one component to a pair test; loopback and
port counters tell them apart), their leaves, and when they are on different leaves either the two uplinks and the
spine (the path is known), or all uplinks of each leaf together (adaptive routing, ECMP: the path is not known). With a
wrongly assumed path precision falls to 0.83-0.87 (simulated, 150 runs), so an unknown path is never guessed. Where the
leaves are not known and the spines are, the spine alone is on the way.

A cable has two directions, which can fail apart: where samples say which end sent, a host side and an uplink are there
three times, as a whole and once for each direction. Those are one part to whoever repairs it, so they are never rivals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fabric.judge.locate.pairs.samples import UNKNOWN, Ints, PairSamples
from fabric.judge.locate.structure import Incidence

SPINES = "spines"
"""All that is between the leaves, where the path of a test is not known: a spine or a cable that some of them cross."""

FAMILY = {
    "host": 0,
    "host_tx": 0,
    "host_rx": 0,
    "link": 1,
    "link_up": 1,
    "link_down": 1,
    "uplinks": 2,
    "leaf": 3,
    "spine": 4,
    "spines": 4,
}
"""Kinds of one family: directions are those of the same things."""

WHOLE_HOST = 5
"""The family of hosts as a whole, of all their rails."""

EXTRA = {
    "host_tx": 1.6,
    "host_rx": 1.6,
    "link": 1.0,
    "link_up": 2.6,
    "link_down": 2.6,
    "uplinks": 2.0,
    "leaf": 2.0,
    "spine": 2.0,
    "spines": 2.0,
}
"""Nats by which a kind is rarer than a bad host: one direction of it (a fifth), a cable between switches, a switch."""

LINKS = frozenset({"link", "link_up", "link_down"})
"""An uplink as a whole, from the leaf to the spine, and from the spine to the leaf."""


@dataclass(frozen=True)
class Components:
    """
    Component *c* is called *names[c]*; row *i* of *paths* lists the components of sample *i*, filled up with UNKNOWN.

    *hosts[c]* is the host (an index) a host side belongs to, *leaf[c]* the leaf of a leaf or its uplinks, *spine[c]*
    the spine of a spine or an uplink; UNKNOWN otherwise. *part[c]* is the component that is both directions of *c*,
    *c* itself where it is no single direction. One direction of an uplink is called as the uplink is; its kind tells.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    hosts: Ints
    leaf: Ints
    spine: Ints
    part: Ints
    paths: Ints

    @cached_property
    def host_sides(self) -> Ints:
        """By host: the component that is its whole side."""
        found: Ints = np.full(int(self.hosts.max(initial=-1)) + 1, UNKNOWN)
        for component, kind in enumerate(self.kinds):
            if kind == "host":
                found[self.hosts[component]] = component
        return found

    @cached_property
    def incidence(self) -> Incidence:
        """The same for the locator."""
        family = np.array([FAMILY[kind] for kind in self.kinds], dtype=np.int64)
        extra = np.array([EXTRA.get(kind, 0.0) for kind in self.kinds])
        return Incidence.of_paths(self.paths, family, extra, self.part)


class _Made:
    """Components as they are numbered."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int, int, int, int]] = []

    def add(
        self, name: str, kind: str, host: int = UNKNOWN, leaf: int = UNKNOWN, spine: int = UNKNOWN, part: int = UNKNOWN
    ) -> int:
        number = len(self.rows)
        self.rows.append((name, kind, host, leaf, spine, number if part == UNKNOWN else part))
        return number

    def direction(self, whole: int, mark: str, kind: str) -> int:
        """One direction of a component; *mark* is added to its name."""
        name, _, host, leaf, spine, _ = self.rows[whole]
        return self.add(f"{name}{mark}", kind, host, leaf, spine, whole)


DIRECTIONS = frozenset({"host_tx", "host_rx", "link_up", "link_down"})
"""Kinds of components that are one direction of a part."""


def components_of(samples: PairSamples) -> Components:
    """Every component that the samples may speak of, with the way of each sample through them."""
    made = _Made()
    at = f"/{samples.rail}" if samples.rail else ""
    names = [f"{host}{at}" for host in samples.hosts]
    host = np.array([made.add(name, "host", number) for number, name in enumerate(names)], dtype=np.int64)
    columns = [host[samples.a], host[samples.b]]
    if samples.tells_ways:
        sends = np.array([made.direction(c, ":tx", "host_tx") for c in host.tolist()], dtype=np.int64)
        receives = np.array([made.direction(c, ":rx", "host_rx") for c in host.tolist()], dtype=np.int64)
        columns += [sends[samples.a], receives[samples.b]]
    if samples.leaves:
        columns += _switches(samples, made)
    elif len(samples.spines) > 1:  # one spine over everything cannot be told from the fleet
        columns.append(_spines(samples, made)[samples.via])
    paths = np.stack(columns, axis=1)
    _, kinds, hosts, leaf, spine, part = zip(*made.rows, strict=True)
    return Components(
        tuple(row[0] for row in made.rows),
        kinds,
        np.array(hosts, dtype=np.int64),
        np.array(leaf, dtype=np.int64),
        np.array(spine, dtype=np.int64),
        np.array(part, dtype=np.int64),
        paths,
    )


def _switches(samples: PairSamples, made: _Made) -> list[Ints]:
    """Leaf, uplink and spine columns of the paths."""
    names = samples.leaves
    leaf = np.array([*(made.add(name, "leaf", leaf=n) for n, name in enumerate(names)), UNKNOWN], dtype=np.int64)
    of_a, of_b = samples.leaf[samples.a], samples.leaf[samples.b]
    crosses, known = samples.crosses, samples.via != UNKNOWN
    columns = [leaf[of_a], np.where(of_a == of_b, UNKNOWN, leaf[of_b])]
    blind = crosses & ~known
    if blind.any():
        up = np.array([*(made.add(f"{name}:uplinks", "uplinks", leaf=n) for n, name in enumerate(names)), UNKNOWN])
        columns += [np.where(blind, up[of_a], UNKNOWN), np.where(blind, up[of_b], UNKNOWN)]
        columns.append(np.where(blind, made.add(SPINES, "spines"), UNKNOWN))
    if (crosses & known).any():
        columns += _known_paths(samples, made)
    return columns


def _spines(samples: PairSamples, made: _Made) -> Ints:
    """The component of each spine; the last is of samples whose spine is not known."""
    names = [made.add(name, "spine", spine=n) for n, name in enumerate(samples.spines)]
    return np.array([*names, UNKNOWN], dtype=np.int64)


def _known_paths(samples: PairSamples, made: _Made) -> list[Ints]:
    spine = _spines(samples, made)
    link = np.array(
        [
            [made.add(f"{leaf}--{name}", "link", leaf=number, spine=other) for other, name in enumerate(samples.spines)]
            for number, leaf in enumerate(samples.leaves)
        ],
        dtype=np.int64,
    )
    sees = samples.crosses & (samples.via != UNKNOWN)
    of_a, of_b = samples.leaf[samples.a], samples.leaf[samples.b]
    columns = [
        np.where(sees, spine[samples.via], UNKNOWN),
        np.where(sees, link[of_a, samples.via], UNKNOWN),
        np.where(sees, link[of_b, samples.via], UNKNOWN),
    ]
    if samples.tells_ways:
        up, down = (_directions(link, kind, made) for kind in ("link_up", "link_down"))
        columns += [np.where(sees, up[of_a, samples.via], UNKNOWN), np.where(sees, down[of_b, samples.via], UNKNOWN)]
    return columns


def _directions(link: Ints, kind: str, made: _Made) -> Ints:
    """One direction of every uplink, as *link* has them whole: by leaf and spine."""
    numbers = [made.direction(whole, "", kind) for whole in link.ravel().tolist()]
    return np.array(numbers, dtype=np.int64).reshape(link.shape)
