"""Planned probes as samples that can be compared across phases: the same name, participants and size have one key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, Probe, ProbeResult, Results

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
    nothing was measured, and then *result* says why (None: it was not reached).
    """

    key: SampleKey
    phase: str
    repetition: int
    value_gbps: float | None
    result: ProbeResult | None

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
        for size_bytes in _sizes(probe):
            key = SampleKey(probe.kind, name_of(probe), probe.hosts, str(probe.params.get("series")), size_bytes)
            seen[probe.phase, key] += 1
            value_gbps = _value(result, size_bytes)
            yield Sample(key, probe.phase, seen[probe.phase, key], value_gbps, result)


def largest_only(found: Iterable[Sample]) -> list[Sample]:
    """One sample a probe: of its largest size, as limits are judged."""
    listed = list(found)
    largest: dict[tuple[str, str], int] = {}
    for sample in listed:
        group = (sample.key.name, sample.key.series)
        largest[group] = max(largest.get(group, 0), sample.key.size_bytes or 0)
    return [sample for sample in listed if (sample.key.size_bytes or 0) == largest[sample.key.name, sample.key.series]]


def _sizes(probe: Probe) -> tuple[int | None, ...]:
    several, one = probe.params.get("sizes_bytes"), probe.params.get("size_bytes")
    if isinstance(several, tuple):
        return several
    return (one,) if isinstance(one, int) else (None,)


def _value(result: ProbeResult | None, size_bytes: int | None) -> float | None:
    """The lower of its numbers, as ``series.representative`` takes it; None when it was not measured."""
    if result is None or result.outcome is not None:
        return None
    found = [m.value for m in result.measurements if size_bytes is None or m.size_bytes == size_bytes]
    return min(found) if found else None
