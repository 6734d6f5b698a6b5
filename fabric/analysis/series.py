"""Measured probes as series of repetitions, each with what it shares with its peers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from math import sqrt
from statistics import median

from fabric.analysis.counters import bandwidths
from fabric.analysis.keys import floor_of, line_rate_gbps, link_class
from fabric.analysis.peers import Group, Peers, Slow, peers_of, slow_among
from fabric.analysis.samples import name_of
from fabric.analysis.steadiness import Steadiness, steadiness
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology

PEER_KINDS = frozenset({"loopback", "rnic_to_rnic", "all_to_all", "tor_all_reduce"})
"""Kinds whose probes have what they use to themselves. Rings that run at once share the network: what one gains another
loses, and a slow one among them may be bad luck of routing."""

USUAL_CV = 0.01
"""The spread of one sample where nothing better is known (healthy links have less; a choice)."""

MEDIAN_EFFICIENCY = 1.2533
"""Standard error of a median over that of a mean, normal numbers: sqrt(pi / 2)."""

SeriesName = tuple[object, ...]
"""What repetitions of one probe have in common."""


class Series:
    """The repetitions of one probe that were measured; *group*: what peers share with it, None where it has none."""

    def __init__(self, probe: Probe, size_bytes: int | None, group: Hashable | None) -> None:
        self.probe, self.size_bytes, self.group = probe, size_bytes, group
        self.values: list[float] = []
        self.peers: Peers | None = None  # of a repeated series: what is normal
        self.noise: float | None = None  # of one sample of its class, where that is known, as a share

    @property
    def value(self) -> float:
        """The median of its repetitions, Gb/s."""
        return median(self.values) if len(self.values) > 1 else self.values[0]

    @cached_property
    def steadiness(self) -> Steadiness | None:
        """How its repetitions lie; None for a single one."""
        count = len(self.values)
        if count < 2:
            return None
        floor = floor_of(self.probe.kind)
        if self.noise is not None:
            return steadiness(self.values, normal_spread=self.noise, floor=floor, noise=self.noise)
        spread = USUAL_CV
        if self.peers is not None:
            # Peers are medians of as many repetitions: a single one spreads more.
            spread = self.peers.spread_gbps / self.peers.median_gbps * sqrt(count) / MEDIAN_EFFICIENCY
        return steadiness(self.values, normal_spread=spread, floor=floor)


def series_of(
    listed: Sequence[tuple[Probe, ProbeResult]], topology: Topology
) -> tuple[dict[SeriesName, Series], list[SeriesName | None]]:
    """Every series by name, and for each of *listed* the name of its series, None where it measured nothing."""
    by_name: dict[SeriesName, Series] = {}
    names: list[SeriesName | None] = []
    groups = _Groups(topology)
    for probe, result in listed:
        if result.outcome is not None or not bandwidths(result):
            names.append(None)
            continue
        value, size_bytes = representative(result)
        name = (probe.phase, probe.kind, name_of(probe), probe.hosts, probe.params.get("series"))
        if name not in by_name:
            by_name[name] = Series(probe, size_bytes, groups.of(probe, size_bytes))
        by_name[name].values.append(value)
        names.append(name)
    return by_name, names


def slow_series(by_name: Mapping[SeriesName, Series]) -> Slow:
    """The series that are slower than their peers; a family is a phase, for the gate judges a phase as the end does."""
    groups: dict[Hashable, dict[Hashable, float]] = {}
    phases: dict[Hashable, tuple[str, str]] = {}
    repeated: dict[Hashable, list[Series]] = {}
    for name, one in by_name.items():
        if one.group is not None:
            groups.setdefault(one.group, {})[name] = one.value
            phases[one.group] = (one.probe.phase, one.probe.kind)
            if len(one.values) > 1:
                repeated.setdefault(one.group, []).append(one)
    for group, members in repeated.items():
        peers = peers_of(list(groups[group].values()))
        for one in members:
            one.peers = peers
    families: dict[str, list[Group]] = {}
    for group, values in groups.items():
        phase, kind = phases[group]
        families.setdefault(phase, []).append(Group(values, floor_of(kind)))
    found = [slow_among(family) for family in families.values()]
    return Slow(
        {name: peers for one in found for name, peers in one.sure.items()},
        {name: peers for one in found for name, peers in one.low.items()},
    )


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
        self._known: dict[tuple[object, ...], Hashable] = {}

    def of(self, probe: Probe, size_bytes: int | None) -> Hashable | None:
        """What a probe shares with its peers; None when it has none."""
        if probe.kind not in PEER_KINDS:
            return None
        host = self._topology.hosts[probe.hosts[0]]
        # The parameters live as long as their probes, so their identity is theirs alone meanwhile.
        layout = (id(probe.params), probe.phase, host.leaves, len(probe.hosts), size_bytes)
        if len(probe.hosts) > 1 or layout not in self._known:
            self._known[layout] = self._group(probe, size_bytes, host.platform.name)
        return self._known[layout]

    def _group(self, probe: Probe, size_bytes: int | None, platform: str) -> Hashable:
        topology, params = self._topology, probe.params
        return (
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
