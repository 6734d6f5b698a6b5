"""Measured probes as series of repetitions, each with what it shares with its peers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median

from fabric.analysis.counters import BANDWIDTH_UNIT, bandwidths
from fabric.analysis.keys import floor_of, line_rate_gbps, link_class
from fabric.analysis.peers import Group, Peers, Slow, peers_of, slow_among
from fabric.analysis.samples import name_of
from fabric.analysis.steadiness import Steadiness, steadiness
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes.kinds import PEER_KINDS

USUAL_CV = 0.01
"""The spread of one sample where nothing better is known (healthy links have less; a choice)."""

MEDIAN_EFFICIENCY = 1.2533
"""Standard error of a median over that of a mean, normal numbers: sqrt(pi / 2)."""


@dataclass(frozen=True, slots=True, eq=False)
class PeerGroup:
    """What peers share, *key*; one object a key, so that hundreds of thousands of them cost no comparing of keys."""

    phase: str
    kind: str
    key: Hashable


class Series:
    """
    The repetitions of one probe that were measured; *group*: what peers share with it, None where it has none.

    A series is equal to itself alone, and so it can be looked up by.
    """

    __slots__ = ("_steadiness", "group", "noise", "peers", "probe", "size_bytes", "values")

    def __init__(self, probe: Probe, size_bytes: int | None, group: PeerGroup | None) -> None:
        self.probe, self.size_bytes, self.group = probe, size_bytes, group
        self.values: list[float] = []
        self.peers: Peers | None = None  # of a repeated series: what is normal
        self.noise: float | None = None  # of one sample of its class, where that is known, as a share
        self._steadiness: Steadiness | None = None

    @property
    def value(self) -> float:
        """The median of its repetitions, Gb/s."""
        return median(self.values) if len(self.values) > 1 else self.values[0]

    @property
    def steadiness(self) -> Steadiness | None:
        """How its repetitions lie; None for a single one. Worked out once, when all of them are there."""
        if self._steadiness is None and len(self.values) > 1:
            self._steadiness = self._spread()
        return self._steadiness

    def _spread(self) -> Steadiness:
        floor = floor_of(self.probe.kind)
        if self.noise is not None:
            return steadiness(self.values, normal_spread=self.noise, floor=floor, noise=self.noise)
        spread = USUAL_CV
        if self.peers is not None:
            # Peers are medians of as many repetitions: a single one spreads more.
            spread = self.peers.spread_gbps / self.peers.median_gbps * sqrt(len(self.values)) / MEDIAN_EFFICIENCY
        return steadiness(self.values, normal_spread=spread, floor=floor)


def series_of(
    listed: Sequence[tuple[Probe, ProbeResult]], topology: Topology
) -> tuple[list[Series], list[Series | None]]:
    """Every series, and for each of *listed* the one it belongs to, None where it measured nothing."""
    by_name: dict[Hashable, Series] = {}
    belongs: list[Series | None] = []
    groups = _Groups(topology)
    for probe, result in listed:
        number = _number(result)
        if number is None:
            belongs.append(None)
            continue
        name = (probe.phase, probe.kind, name_of(probe), probe.hosts, probe.params.get("series"))
        one = by_name.get(name)
        if one is None:
            one = by_name[name] = Series(probe, number[1], groups.of(probe, number[1]))
        one.values.append(number[0])
        belongs.append(one)
    return list(by_name.values()), belongs


def slow_series(series: Sequence[Series]) -> Slow:
    """The series that are slower than their peers; a family is a phase, for the gate judges a phase as the end does."""
    groups: dict[PeerGroup, dict[Hashable, float]] = {}
    repeated: dict[PeerGroup, list[Series]] = {}
    for one in series:
        if one.group is not None:
            groups.setdefault(one.group, {})[one] = one.value
            if len(one.values) > 1:
                repeated.setdefault(one.group, []).append(one)
    for group, members in repeated.items():
        peers = peers_of(list(groups[group].values()))
        for one in members:
            one.peers = peers
    families: dict[str, list[Group]] = {}
    for group, values in groups.items():
        families.setdefault(group.phase, []).append(Group(values, floor_of(group.kind)))
    found = [slow_among(family) for family in families.values()]
    return Slow(
        {one: peers for family in found for one, peers in family.sure.items()},
        {one: peers for family in found for one, peers in family.low.items()},
    )


def _number(result: ProbeResult) -> tuple[float, int | None] | None:
    """The number that stands for a result, and its size; None where no bandwidth was measured."""
    if result.outcome is not None:
        return None
    if len(result.measurements) == 1:  # nearly all of them, and they need no looking for the largest size
        measured = result.measurements[0]
        return (measured.value, measured.size_bytes or None) if measured.unit == BANDWIDTH_UNIT else None
    return representative(result) if bandwidths(result) else None


def representative(result: ProbeResult) -> tuple[float, int | None]:
    """
    The one number that is compared with a limit, and its message size.

    The largest size, because limits are given for large messages; of its out-of-place and in-place numbers the
    lower. Never the average over sizes that nccl-tests prints.
    """
    if len(result.measurements) == 1:
        return result.measurements[0].value, result.measurements[0].size_bytes or None
    measured = bandwidths(result)
    largest = max(m.size_bytes or 0 for m in measured)
    value = min(m.value for m in measured if (m.size_bytes or 0) == largest)
    return value, largest or None


class _Groups:
    """Which probes are peers: worked out once for each probe of a host layout, whose parameters all hosts share."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._known: dict[Hashable, PeerGroup] = {}
        self._by_key: dict[Hashable, PeerGroup] = {}

    def of(self, probe: Probe, size_bytes: int | None) -> PeerGroup | None:
        """What a probe shares with its peers; None when it has none."""
        if probe.kind not in PEER_KINDS:
            return None
        host = self._topology.hosts[probe.hosts[0]]
        # The parameters live as long as their probes, so their identity is theirs alone meanwhile.
        layout = (id(probe.params), probe.phase, host.leaves, len(probe.hosts), size_bytes)
        known = self._known.get(layout) if len(probe.hosts) == 1 else None
        if known is None:
            known = self._known[layout] = self._group(probe, size_bytes, host.platform.name)
        return known

    def _group(self, probe: Probe, size_bytes: int | None, platform: str) -> PeerGroup:
        topology, params = self._topology, probe.params
        key = (
            probe.phase,
            probe.kind,
            name_of(probe),
            platform,
            link_class(probe, topology),
            line_rate_gbps(probe, topology),
            size_bytes,
            params.get("ranks"),
            params.get("algorithm"),
        )
        return self._by_key.setdefault(key, PeerGroup(probe.phase, probe.kind, key))
