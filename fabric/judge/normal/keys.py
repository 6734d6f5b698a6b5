"""The keys of measurements: what two must share to be compared, within one run or across runs.

Samples of planned probes can be compared across phases: those with the same name, participants and size share one key.
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
    """Group items by *key*; keys and items keep the order in which they come."""
    return gathered((key(one), one) for one in items)


def begun(probes: Iterable[Probe], results: Results) -> list[tuple[Probe, ProbeResult]]:
    """Return the probes that were started (at least one attempt), each with its result."""
    pairs = ((probe, results.get(probe.probe_id)) for probe in probes)
    return [(probe, result) for probe, result in pairs if result is not None and result.attempt > 0]


AGAIN_SUFFIX = "-again"
"""The suffix of the name of a probe that is measured again; it is compared with the planned probes."""

_GONE = (FailureKind.RETRIES_EXCEEDED, FailureKind.PORT_DOWN)


def gave_up(result: ProbeResult) -> bool:
    """
    Return whether the transport gave up: retries exceeded or the port down (FAIL), or NCCL's "network error".

    The last is an ERROR elsewhere, because NCCL says the same when a peer's process ended. While a link is bad on
    purpose, a collective says it because its queue pairs failed.
    """
    return result.failure is FailureKind.REMOTE_ERROR or (result.outcome is Outcome.FAIL and result.failure in _GONE)


@dataclass(frozen=True, slots=True)
class SampleKey:
    """What two samples must share to be compared; *size_bytes* None: the probe has no size."""

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
    nothing was measured, and *result* says why (None: the probe was not reached). *largest*: it is the largest size of
    its probe, which limits judge.
    """

    key: SampleKey
    phase: str
    repetition: int
    value_gbps: float | None
    result: ProbeResult | None
    largest: bool = True

    @property
    def gave_up(self) -> bool:
        """Return whether the transport gave up, or the tool measured 0 Gb/s: neither has a ratio."""
        if self.value_gbps is not None:
            return self.value_gbps <= 0.0
        return self.result is not None and gave_up(self.result)


def name_of(probe: Probe) -> str:
    """Return the name that a scenario gives the probe, by which an expectation can choose it."""
    if "name" in probe.params:
        return str(probe.params["name"])
    return probe.probe_id.rpartition("/")[2].partition(f".{probe.params.get('series')}")[0]


def series_key(probe: Probe) -> Hashable:
    """Return a key that all repetitions of one probe share."""
    return probe.phase, probe.kind, name_of(probe), probe.hosts, probe.params.get("series")


def samples(probes: Iterable[Probe], results: Results) -> Iterator[Sample]:
    """Yield every size of every planned probe, in planned order."""
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
    """Return by message size the lower of out of place and in place, Gb/s; empty if no bandwidth was measured."""
    found: dict[int | None, float] = {}
    for one in result.measurements if result is not None and result.outcome is None else ():
        if one.unit == BANDWIDTH_UNIT:
            found[one.size_bytes] = min(one.value, found.get(one.size_bytes, inf))
    return found


SAME_LEAF, CROSS_LEAF = "same_leaf", "cross_leaf"

COLLECTIVES = frozenset({"all_to_all", "tor_all_reduce", "group_all_reduce", "group_all_to_all", "concurrent_rings"})
"""The kinds of probes that nccl-tests measures; perftest measures the others."""

FLOOR = 0.03
"""Nobody acts upon a smaller loss, however sure it is (a choice: the house rule for bandwidth)."""

COLLECTIVE_FLOOR = 0.05
"""The same for collectives, which vary more from run to run (a choice)."""


def floor_of(kind: str) -> float:
    """Return the smallest loss that matters for a kind of probe, as a share."""
    return COLLECTIVE_FLOOR if kind in COLLECTIVES else FLOOR


def key_of(probe: Probe, size_bytes: int | None, topology: Topology) -> Key:
    """Return the key of one message size of a probe; *size_bytes* None if the probe has none."""
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
    """Return the probe's own link class, or else whether its RNICs (or hosts) share their leaves; None: not known."""
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
    """Return the line rate of the slower of the RNICs that a probe names; None if it names none."""
    rnics = (topology.hosts[host].platform.rnic_by_device.get(device) for host, device in ends_of(probe))
    return min((rnic.line_rate_gbps for rnic in rnics if rnic is not None), default=None)


def leaf_of(host: Host, device: str) -> str | None:
    """Return the leaf of an RNIC; None if it is not known."""
    rail = host.platform.rnic_by_device[device].rail
    return host.leaves[rail] if rail < len(host.leaves) else None


def ends_of(probe: Probe) -> tuple[tuple[str, str], ...]:
    """Return host and RNIC at either end of a probe, the sender first; empty if it names no RNIC."""
    if "rnic" not in probe.params:
        return ()
    own = str(probe.params["rnic"])
    return (probe.hosts[0], own), (probe.hosts[-1], str(probe.params.get("peer_rnic", own)))


def rnics_of(probe: Probe) -> tuple[str, ...]:
    """Return the RNICs that a probe names (``gpu001/mlx5_0``), the sender first; empty if it names none."""
    own = probe.params.get("rnic")
    if own is None:
        return ()
    first, last = f"{probe.hosts[0]}/{own}", f"{probe.hosts[-1]}/{probe.params.get('peer_rnic', own)}"
    return (first,) if first == last else (first, last)


def taking_part(probe: Probe) -> tuple[str, ...]:
    """Return the hosts, RNICs, and the GPU or memory node that a probe names."""
    ends = (f"{probe.hosts[0]}/{probe.params['endpoint']}",) if "endpoint" in probe.params else ()
    return (*probe.hosts, *rnics_of(probe), *ends)


@dataclass(frozen=True, slots=True, eq=False)
class ProbeLayout:
    """
    What a probe shares with equal probes on other hosts of the same platform; it is worked out only once for them.

    *series* is a number that its repetitions share, besides their hosts; *alike* is one that all probes share that
    should reach the same.
    """

    series: int
    alike: int
    size_bytes: int | None


class ProbeLayouts:
    """The layouts of the probes of a run; *rounds* may say, by phase, what it is a round of: rounds are alike."""

    def __init__(self, topology: Topology, rounds: Mapping[str, Hashable] | None = None) -> None:
        self._topology, self._rounds = topology, rounds or {}
        self._known: dict[Hashable, ProbeLayout] = {}
        self._numbers: dict[Hashable, int] = {}
        self._alike = {name: self._number((id(one.platform), one.leaves)) for name, one in topology.hosts.items()}

    def of(self, probe: Probe, size_bytes: int | None = None) -> ProbeLayout:
        """Return the layout of a probe, or of its message size *size_bytes*."""
        if len(probe.hosts) > 1:
            return self._worked_out(probe, size_bytes)
        # Hosts of one platform share one params object, which lives as long as its probes: so its id is a stable key.
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
            *(self._rounds.get(probe.phase, probe.phase), probe.kind, name.removesuffix(AGAIN_SUFFIX), size_bytes),
            *(self._topology.hosts[probe.hosts[0]].platform.name, link_class(probe, self._topology)),
            *(line_rate_gbps(probe, self._topology), get("size_bytes"), get("ranks"), get("algorithm")),
        )
        series = probe.phase, probe.kind, name, get("series")
        return ProbeLayout(self._number(series), self._number(alike), size_bytes)


BANDWIDTH_UNIT = "Gb/s"
"""The unit of the measurements that limits judge."""
