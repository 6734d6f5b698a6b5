"""
The key of a measurement: what it must share with another to be compared with it, in one run or in several.

Planned probes are samples that can be compared across phases: the same name, participants and size have one key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from fabric.model import Shared, Value, gathered
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, Probe, ProbeResult, Results
from fabric.model.recorded import Key
from fabric.model.topology import Host, Topology


def grouped(items: Iterable[Value], key: Callable[[Value], Shared]) -> dict[Shared, list[Value]]:
    """What shares a key, in the order in which it comes."""
    return gathered((key(one), one) for one in items)


def begun(probes: Iterable[Probe], results: Results) -> list[tuple[Probe, ProbeResult]]:
    """The probes of which something was started, each with what came of it."""
    pairs = ((probe, results.get(probe.probe_id)) for probe in probes)
    return [(probe, result) for probe, result in pairs if result is not None and result.attempt > 0]


OF_AGAIN = "-again"
"""Behind the name of what is measured again: it is compared with what was planned."""

_GONE = (FailureKind.RETRIES_EXCEEDED, FailureKind.PORT_DOWN)


def gave_up(result: ProbeResult) -> bool:
    """
    True when a tool says so: retries exceeded, or the port down (FAIL), or NCCL's "network error".

    The last is an ERROR elsewhere, because NCCL says the same when a peer's process ended; while a link is bad on
    purpose it is what a collective says when its queue pairs failed.
    """
    return result.failure is FailureKind.REMOTE_ERROR or (result.outcome is Outcome.FAIL and result.failure in _GONE)


@dataclass(frozen=True, slots=True)
class SampleKey:
    """What two samples must share to be compared; *size_bytes* None: the probe knows no size."""

    kind: str
    name: str
    hosts: tuple[str, ...]
    series: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    """
    One message size of one planned probe.

    *repetition* counts from 1 within a phase and key. *value_gbps* is the lower of out of place and in place; None:
    nothing was measured, and then *result* says why (None: it was not reached). *largest*: of its probe's sizes, as
    limits are judged.
    """

    key: SampleKey
    phase: str
    repetition: int
    value_gbps: float | None
    result: ProbeResult | None
    largest: bool = True

    @property
    def gave_up(self) -> bool:
        """The transport gave up, or the tool measured 0 Gb/s: neither has a ratio."""
        if self.value_gbps is not None:
            return self.value_gbps <= 0.0
        return self.result is not None and gave_up(self.result)


def name_of(probe: Probe) -> str:
    """The name that a scenario gives the probe, by which an expectation can choose it."""
    if "name" in probe.params:
        return str(probe.params["name"])
    return probe.probe_id.rpartition("/")[2].partition(f".{probe.params.get('series')}")[0]


def series_key(probe: Probe) -> Hashable:
    """What repetitions of one probe share."""
    return probe.phase, probe.kind, name_of(probe), probe.hosts, probe.params.get("series")


def samples(probes: Iterable[Probe], results: Results) -> Iterator[Sample]:
    """Every size of every planned probe, in planned order."""
    seen: Counter[tuple[str, SampleKey]] = Counter()
    for probe in probes:
        result = results.get(probe.probe_id)
        sizes, found = _sizes(probe), bandwidths(result)
        for size_bytes in sizes:
            key = SampleKey(probe.kind, name_of(probe), probe.hosts, str(probe.params.get("series")), size_bytes)
            seen[probe.phase, key] += 1
            value_gbps = min(found.values(), default=None) if size_bytes is None else found.get(size_bytes)
            yield Sample(key, probe.phase, seen[probe.phase, key], value_gbps, result, size_bytes == sizes[-1])


def _sizes(probe: Probe) -> tuple[int | None, ...]:
    several, one = probe.params.get("sizes_bytes"), probe.params.get("size_bytes")
    if isinstance(several, tuple):
        return several
    return (one,) if isinstance(one, int) else (None,)


def bandwidths(result: ProbeResult | None) -> dict[int | None, float]:
    """By message size the lower of out of place and in place, Gb/s; empty where no bandwidth was measured."""
    found: dict[int | None, float] = {}
    for one in result.measurements if result is not None and result.outcome is None else ():
        if one.unit == BANDWIDTH_UNIT:
            found[one.size_bytes] = min(one.value, found.get(one.size_bytes, inf))
    return found


SAME_LEAF, CROSS_LEAF = "same_leaf", "cross_leaf"

COLLECTIVES = frozenset({"all_to_all", "tor_all_reduce", "group_all_reduce", "group_all_to_all", "concurrent_rings"})
"""Kinds that nccl-tests measures; the others are perftest's."""

FLOOR = 0.03
"""A loss smaller than this is not acted upon, however sure it is (a choice: the house rule for bandwidth)."""

COLLECTIVE_FLOOR = 0.05
"""The same for collectives, which vary more from run to run (a choice)."""


def floor_of(kind: str) -> float:
    """The smallest loss that matters for a kind of probe, as a share."""
    return COLLECTIVE_FLOOR if kind in COLLECTIVES else FLOOR


def key_of(probe: Probe, size_bytes: int | None, topology: Topology) -> Key:
    """The key of one message size of a probe; *size_bytes* None where the probe has none."""
    ranks, algorithm = probe.params.get("ranks"), probe.params.get("algorithm")
    collective = probe.kind in COLLECTIVES
    return Key(
        kind=probe.kind,
        tool="nccl-tests" if collective else "perftest",
        link_class=link_class(probe, topology),
        size_bytes=size_bytes,
        ranks=ranks if isinstance(ranks, int) else None,
        algorithm=str(algorithm) if algorithm is not None else None,
        direction=None if collective else str(probe.params.get("direction", "one_way")),
        line_rate_gbps=line_rate_gbps(probe, topology),
    )


def link_class(probe: Probe, topology: Topology) -> str | None:
    """As the probe says it; of RNICs and of hosts whether they share their leaves, None where that is not known."""
    given = probe.params.get("link_class")
    if given is not None:
        return str(given)
    if "peer_rnic" in probe.params:
        leaves = {leaf_of(topology.hosts[host], device) for host, device in ends_of(probe)}
        return None if None in leaves else (SAME_LEAF if len(leaves) == 1 else CROSS_LEAF)
    hosts = [topology.hosts[name] for name in probe.hosts]
    if len(hosts) < 2 or not all(host.leaves for host in hosts):
        return None
    return SAME_LEAF if len({host.leaves for host in hosts}) == 1 else CROSS_LEAF


def line_rate_gbps(probe: Probe, topology: Topology) -> float | None:
    """The line rate of the slower of the RNICs that a probe names; None when it names none."""
    rnics = (topology.hosts[host].platform.rnic_by_device.get(device) for host, device in ends_of(probe))
    return min((rnic.line_rate_gbps for rnic in rnics if rnic is not None), default=None)


def leaf_of(host: Host, device: str) -> str | None:
    """The leaf of an RNIC; None where it is not known."""
    rail = host.platform.rnic_by_device[device].rail
    return host.leaves[rail] if rail < len(host.leaves) else None


def ends_of(probe: Probe) -> tuple[tuple[str, str], ...]:
    """Host and RNIC at either end of a probe, the one that sends first; none where it names none."""
    if "rnic" not in probe.params:
        return ()
    own = str(probe.params["rnic"])
    return (probe.hosts[0], own), (probe.hosts[-1], str(probe.params.get("peer_rnic", own)))


def rnics_of(probe: Probe) -> tuple[str, ...]:
    """The RNICs that a probe names (``gpu001/mlx5_0``), the one that sends first; none where it names none."""
    return tuple(dict.fromkeys(f"{host}/{device}" for host, device in ends_of(probe)))


def taking_part(probe: Probe) -> tuple[str, ...]:
    """The hosts, RNICs, and the GPU or memory node that a probe names."""
    ends = (f"{probe.hosts[0]}/{probe.params['endpoint']}",) if "endpoint" in probe.params else ()
    return (*probe.hosts, *rnics_of(probe), *ends)


@dataclass(frozen=True, slots=True, eq=False)
class ProbeLayout:
    """
    What a probe shares with its like on other hosts of the same make, and needs to be worked out but once.

    *series* numbers what its repetitions share beside their hosts, *alike* all probes that should reach the same.
    """

    series: int
    alike: int
    size_bytes: int | None


class ProbeLayouts:
    """The layouts of the probes of a run, or of its rounds where *rounds* say by phase what it is a round of."""

    def __init__(self, topology: Topology, rounds: Mapping[str, Hashable] | None = None) -> None:
        self._topology, self._rounds = topology, rounds or {}
        self._known: dict[Hashable, ProbeLayout] = {}
        self._numbers: dict[Hashable, int] = {}
        self._alike = {name: self._number((id(one.platform), one.leaves)) for name, one in topology.hosts.items()}

    def of(self, probe: Probe, size_bytes: int | None = None) -> ProbeLayout:
        """Of a probe; *size_bytes*: of that message size alone."""
        if len(probe.hosts) > 1:
            return self._worked_out(probe, size_bytes)
        # Hosts of a make share the parameters; those live as long as their probes, so their identity is theirs.
        key = id(probe.params), probe.phase, probe.kind, size_bytes, self._alike[probe.hosts[0]]
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._worked_out(probe, size_bytes)
        return known

    def _number(self, of: Hashable) -> int:
        return self._numbers.setdefault(of, len(self._numbers))

    def _worked_out(self, probe: Probe, size_bytes: int | None) -> ProbeLayout:
        name, get = name_of(probe), probe.params.get
        alike = (
            *(self._rounds.get(probe.phase, probe.phase), probe.kind, name.removesuffix(OF_AGAIN), size_bytes),
            *(self._topology.hosts[probe.hosts[0]].platform.name, link_class(probe, self._topology)),
            *(line_rate_gbps(probe, self._topology), get("size_bytes"), get("ranks"), get("algorithm")),
        )
        series = probe.phase, probe.kind, name, get("series")
        return ProbeLayout(self._number(series), self._number(alike), size_bytes)


BANDWIDTH_UNIT = "Gb/s"
"""Of the measurements that limits are about."""
