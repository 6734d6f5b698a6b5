"""Pair measurements of one kind and one rail as arrays, and how rows of pair results become these arrays."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from math import nan

import numpy as np

from fabric.judge.locate.candidates import CORES, SPINES, spines_above
from fabric.judge.locate.structure import UNKNOWN, Bools, Floats, Ints
from fabric.model import gathered
from fabric.model.diagnosis import PairRow, PairTest
from fabric.model.text import fold, other_names
from fabric.model.topology import Host, Topology

Routes = Mapping[tuple[str, str], str]
"""By leaf and host: the spine over which the leaf sends to the host. Empty: it can be chosen, or is not known."""

OVER = ">"
"""Separates the switches of a way in a three-level fabric: ``p0-spine0>core03>p1-spine0``."""


@dataclass(frozen=True)
class PairSamples:
    """
    Measurements between hosts: sample *i* is *gbps[i]* from host *a[i]* to host *b[i]* (indexes into *hosts*).

    *leaf* holds the leaf switch of each host (an index into *leaves*), *via* the spine that each sample crossed (an
    index into *spines*); UNKNOWN where not known. With three levels a "spine" is all switches above the leaves on one
    way, their names joined by ``OVER``. *routes* say which spine is crossed where that is static. *directed*: the
    samples say which end sent. *one_way*: that is certain, as we measured it so; the order of a file's two columns may
    mean nothing. *rail* is the name of the RNIC or rail that was measured, None when the samples are of whole hosts.
    *placed*: an inventory says where all hosts stand; if they are under a single leaf, *only_leaf* is that.

    *kind* is the name of the test in evidence, *limit_gbps* the limit of each sample or of all (NaN: none), *probe_ids*
    are the probes that took the samples, if any, *slowest_beside_gbps* is what the samples in the way of each reached.
    *shares* come from ``shares_above``, *pods* from ``pods_of``. *label* is the flow label of each sample or of all, 0
    for none: samples of the same two ends and label took the same way, even if a hash drew it.
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
    only_leaf: str | None = None
    kind: str = ""
    limit_gbps: Floats | float = nan
    probe_ids: tuple[str, ...] = ()
    slowest_beside_gbps: Floats | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    pods: Mapping[str, str] = field(default_factory=dict)
    label: Ints | int = 0

    @property
    def where(self) -> str:
        """The kind of test and the rail in brackets, after a blank; empty when neither is known."""
        text = ", ".join(part for part in (self.kind, self.rail or "") if part)
        return f" ({text})" if text else ""

    @cached_property
    def limits_gbps(self) -> Floats:
        """The limit of each sample; NaN: none."""
        return np.broadcast_to(self.limit_gbps, len(self.gbps))

    @property
    def stray(self) -> Bools:
        """Which samples are 0 Gb/s for whatever reason: in a run, all that are 0 lost their packets on the way."""
        found: Bools = (self.gbps == 0) & (not self.probe_ids)
        return found

    @cached_property
    def ways(self) -> tuple[tuple[str, ...], ...]:
        """The switches that each of *spines* stands for, in the order in which they are crossed."""
        return tuple(tuple(name.split(OVER)) for name in self.spines)

    @cached_property
    def route(self) -> Ints:
        """The index of the spine over which each leaf (a row) sends to each host; the last row is for no leaf."""
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
        return self.apart(self.a, self.b)

    def apart(self, a: Ints, b: Ints) -> Bools:
        """Return which of the hosts *a* and *b* are known to be under two different leaf switches."""
        here, there = self.leaf[a], self.leaf[b]
        found: Bools = (here != there) & (here != UNKNOWN) & (there != UNKNOWN)
        return found

    def pairs_of(self, a: Ints, b: Ints) -> Ints:
        """Return the number of each pair of hosts (indexes), whichever of the two sends."""
        return np.minimum(a, b) * len(self.hosts) + np.maximum(a, b)

    def by_host(self, which: Bools) -> Ints:
        """Return for each host how many of the *which* samples it sent or received."""
        return np.bincount(np.concatenate([self.a[which], self.b[which]]), minlength=len(self.hosts))

    @cached_property
    def pair(self) -> Ints:
        """The pair of each sample as a number: the lower host index times the number of hosts, plus the higher."""
        return self.pairs_of(self.a, self.b)

    @cached_property
    def drawn(self) -> Bools:
        """Which samples took one of several ways between leaves, not known which: ECMP draws a way per connection."""
        found: Bools = self.crosses & (self.via == UNKNOWN)
        return found

    @cached_property
    def labels(self) -> Ints:
        """The flow label of each sample, 0 where it had none."""
        return np.broadcast_to(self.label, len(self.a))

    @cached_property
    def same_way(self) -> Ints:
        """By sample: the first sample that took the same way; itself where no other is known to have taken it."""
        own = np.arange(len(self.a))
        ends = np.stack([self.a, self.b, self.labels, np.where(self.drawn & (self.labels == 0), own, UNKNOWN)])
        _, first, of = np.unique(ends, axis=1, return_index=True, return_inverse=True)
        return first[of.ravel()]

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


def shares_above(leaves: Iterable[str], topology: Topology) -> dict[str, float]:
    """
    Return by leaf the share of one-way samples that takes a given cable above it, and for ``SPINES`` that of one spine.

    ``CORES`` has the share of the samples from pod to pod that takes a given core. A hash is as likely to draw one way
    as another. Empty where the inventory does not say what is above the leaves.
    """
    above = {leaf: topology.above[leaf] for leaf in leaves if topology.above.get(leaf)}
    things = {leaf: sum(cables.values()) for leaf, cables in above.items()}
    things |= {SPINES: min(map(len, above.values()))} if above else {}
    cores = [pod.spines * pod.cores for leaf in above if (pod := topology.pods.get(leaf)) is not None]
    things |= {CORES: min(cores)} if cores else {}
    return {name: 1 / count for name, count in things.items() if count > 1}


def pods_of(leaves: Collection[str], topology: Topology) -> dict[str, str]:
    """
    Return by leaf the pod that it is in, in a three-level fabric, named as its spines are: ``p0-spine[0-3]``.

    Empty where a leaf has no cores above its spines.
    """
    return {leaf: spines_above(leaf, topology) for leaf in leaves} if topology.pods.keys() >= set(leaves) else {}


_NUMBERED = re.compile(r"(?:rail)?(\d{1,3})")


def planes_of(rows: Sequence[PairRow], topology: Topology | None) -> list[PairSamples]:
    """
    Return the samples of each plane, in order of appearance.

    Of each kind only the largest message size counts: latency rules smaller ones. Each kind on each rail is a plane of
    its own, because a good pair reaches something else in each.
    """
    sizes = gathered({(row.kind, row.size_bytes) for row in rows})
    largest = {kind: max(of_kind) for kind, of_kind in sizes.items()}
    groups = gathered(((row.kind, row.rail), row) for row in rows if row.size_bytes == largest[row.kind])
    return [_samples(group, kind, rail, topology) for (kind, rail), group in groups.items()]


def unknown_names(rows: Sequence[PairRow], topology: Topology) -> list[tuple[int, str]]:
    """Return what the inventory does not have: the line of the row, and a text with the nearest name."""
    found: dict[str, tuple[int, str]] = {}
    spelled = other_names([*topology.hosts, *sorted({name for row in rows for name in (row.a, row.b)})])
    for row in rows:
        for what, name, known in (
            ("host", row.a, topology.hosts),
            ("host", row.b, topology.hosts),
            ("switch", row.via, topology.switches),
        ):
            if name is not None and name not in known and name not in found:
                same = spelled.get(name)
                near = [same] if same in known else get_close_matches(name, known, n=1)
                more = f"; did you mean {near[0]!r}?" if near else ""
                found[name] = (row.line, f"{what} {name!r} is not in the inventory{more}")
        key = f"{row.a} {row.rail}"
        if row.rail is not None and row.a in topology.hosts and key not in found:
            host_of = topology.hosts[row.a]
            if host_of.leaves and _rail(host_of, row.rail) is None:
                devices = ", ".join(rnic.device for rnic in host_of.platform.rnics)
                found[key] = (row.line, f"expected a rail of {row.a} (0 to {len(host_of.leaves) - 1}, or {devices}), "
                                        f"got {row.rail!r}")  # fmt: skip
    return list(found.values())


def _samples(rows: Sequence[PairRow], kind: str, rail: str | None, topology: Topology | None) -> PairSamples:
    a, b, via = [row.a for row in rows], [row.b for row in rows], [row.via for row in rows]
    hosts = tuple(sorted({*a, *b}, key=natural))
    spines = tuple(sorted({name for name in set(via) if name is not None}, key=natural))
    leaves, leaf = _leaves(hosts, rail, topology)
    return PairSamples(
        hosts=hosts,
        a=_numbers(hosts, a),
        b=_numbers(hosts, b),
        gbps=np.array([row.gbps for row in rows]),
        leaves=leaves,
        leaf=leaf,
        spines=spines,
        via=_numbers(spines, via),
        directed=all(row.directed for row in rows),
        rail=rail_name(rail, hosts, topology),
        placed=topology is not None and all(_leaf(topology.hosts.get(host), rail) is not None for host in hosts),
        kind=kind,
    )


def samples_under(
    leaves: Mapping[str, Sequence[str]], spines: tuple[str, ...], tests: Sequence[PairTest], gbps: Sequence[float]
) -> PairSamples:
    """Return what *tests* measured between hosts whose *leaves* are all known; a leaf without a name is not known."""
    names, hosts = tuple(leaves), tuple(host for group in leaves.values() for host in group)
    return PairSamples(
        hosts=hosts,
        a=_numbers(hosts, [test.a for test in tests]),
        b=_numbers(hosts, [test.b for test in tests]),
        gbps=np.array(gbps),
        leaves=names if len(names) > 1 else (),
        leaf=np.array([n for n, group in enumerate(leaves.values()) for _ in group], dtype=np.int64),
        spines=spines,
        via=_numbers(spines, [test.via for test in tests]),
        placed=True,
        only_leaf=(names[0] or None) if len(names) == 1 else None,
    )


def _numbers(known: Sequence[str], names: Sequence[str | None]) -> Ints:
    """Return the place of each of *names* in *known*; UNKNOWN for None."""
    number: dict[str | None, int] = {None: UNKNOWN}
    number.update({name: place for place, name in enumerate(known)})
    return np.fromiter(map(number.__getitem__, names), dtype=np.int64, count=len(names))


def _leaves(hosts: Sequence[str], rail: str | None, topology: Topology | None) -> tuple[tuple[str, ...], Ints]:
    """Return the leaf of each host on a rail; for whole hosts, all its leaves as one."""
    names = [_leaf(topology.hosts.get(host), rail) if topology else None for host in hosts]
    leaves = tuple(dict.fromkeys(name for name in names if name is not None))
    if len(leaves) < 2:  # one leaf under everything cannot be told from the fleet
        return (), np.full(len(hosts), UNKNOWN, dtype=np.int64)
    return leaves, _numbers(leaves, names)


def _leaf(host: Host | None, rail: str | None) -> str | None:
    if host is None or not host.leaves:
        return None
    number = None if rail is None else _rail(host, rail)
    return fold(dict.fromkeys(host.leaves)) if number is None else host.leaves[number]


def _rail(host: Host, rail: str) -> int | None:
    """Return the number of a rail that is written ``3``, ``rail3`` or as the device; None if the host has none such."""
    known = host.platform.rnic_by_device.get(rail)
    numbered = _NUMBERED.fullmatch(rail)
    number = known.rail if known is not None else int(numbered[1]) if numbered else None
    return number if number is not None and number < len(host.leaves) else None


def rail_name(rail: str | None, hosts: Sequence[str], topology: Topology | None) -> str | None:
    """Return what a rail is called: the device, if the inventory has it; else as the file says, ``3`` as ``rail3``."""
    if rail is None:
        return None
    host = topology.hosts.get(hosts[0]) if topology else None
    number = _rail(host, rail) if host is not None else None
    device = next((r.device for r in host.platform.rnics if r.rail == number), None) if host is not None else None
    return device or (f"rail{rail}" if rail.isdigit() else rail)


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts gpu9 before gpu10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
