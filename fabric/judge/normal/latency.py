"""
Latency, where lower is better: the one place that turns the comparison round.

Each probe is judged by itself: above a limit that the scenario gives it is FAIL. Against peers (probes of one phase
with the same name, size, line rate and kind of path) the rules for bandwidth hold for its inverse, messages a second
(``peers.py``). Slower than peers is FAIL where every latency of one of its RNICs, of two at least, is so: a bad RNIC
is slow with every partner, and a partner of it is not. Else it is MARGINAL: measure it again. Without a limit a latency
is never PASS. There are no recorded baselines of latencies, and nothing follows its course over rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from fabric.judge.normal.keys import Alike, rnics_of
from fabric.judge.normal.peers import LEAST_PEERS, LEAST_SPREAD, Z_SLOW, robust
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict
from fabric.probes.latency import P99, TYPICAL

FLOOR = 0.1
"""A loss of messages a second smaller than this is not acted upon (a choice: a tenth of 2 us is a short cable more)."""

_LIMITS = ((TYPICAL, "at_most_us", "typical"), (P99, "p99_at_most_us", "of 99 of 100"))

Measured = tuple[Probe, dict[str, Measurement]]


def latency_verdicts(listed: Sequence[tuple[Probe, ProbeResult]], topology: Topology) -> dict[str, ProbeVerdict]:
    """The verdict of every probe that measured a latency, by its id."""
    found = [(probe, {one.metric: one for one in result.measurements}) for probe, result in listed if _has(result)]
    if not found:
        return {}
    alike = Alike(topology)
    groups: dict[int, dict[str, float]] = {}
    for probe, numbers in found:
        groups.setdefault(alike.of(probe, probe.phase), {})[probe.probe_id] = 1.0 / numbers[TYPICAL].value
    slow = {name: normal for values in groups.values() for name, normal in _slow(values)}
    sure = _sure(found, slow.keys())
    return {probe.probe_id: _verdict(probe, numbers, slow.get(probe.probe_id), sure) for probe, numbers in found}


def _slow(values: Mapping[str, float]) -> Iterator[tuple[str, tuple[float, int]]]:
    """Those far below their peers by the size of the loss and by their spread, with the median of so many peers."""
    if len(values) < LEAST_PEERS:
        return
    middle, sigma = robust(list(values.values()))
    least = min((1 - FLOOR) * middle, middle + Z_SLOW * max(sigma, LEAST_SPREAD * middle))
    yield from ((name, (middle, len(values))) for name, value in values.items() if value < least)


def _has(result: ProbeResult) -> bool:
    return result.outcome is None and any(one.metric == TYPICAL and one.value > 0.0 for one in result.measurements)


def _sure(found: Sequence[Measured], slow: AbstractSet[str]) -> frozenset[str]:
    """The RNICs that were slow with every partner, and with two at least."""
    by_end: dict[str, list[bool]] = {}
    for probe, _ in found:
        for end in rnics_of(probe):
            by_end.setdefault(end, []).append(probe.probe_id in slow)
    return frozenset(end for end, all_of_it in by_end.items() if len(all_of_it) > 1 and all(all_of_it))


def _verdict(
    probe: Probe, numbers: dict[str, Measurement], slow: tuple[float, int] | None, sure: frozenset[str]
) -> ProbeVerdict:
    typical_us = numbers[TYPICAL].value
    said = f"{typical_us:.2f} us typical"
    above = list(_above(probe, numbers))
    if above:
        return ProbeVerdict(probe.probe_id, Outcome.FAIL, "; ".join(above))
    if slow is not None:
        normal_us, peers = 1.0 / slow[0], slow[1]
        text = f"{said}, {typical_us / normal_us:.1f} times the median of {peers} peers, {normal_us:.2f} us"
        ends = [end for end in rnics_of(probe) if end in sure]
        if ends:
            return ProbeVerdict(probe.probe_id, Outcome.FAIL, f"{text}; so is every latency of {' and '.join(ends)}")
        return ProbeVerdict(probe.probe_id, Outcome.MARGINAL, f"{text}: measure it again")
    if not any(key in probe.params for _, key, _ in _LIMITS):
        text = f"{said}, no limit: 'at_most_us' of the probe says what is too much"
        return ProbeVerdict(probe.probe_id, Outcome.INCONCLUSIVE, text)
    return ProbeVerdict(probe.probe_id, Outcome.PASS, "")


def _above(probe: Probe, numbers: dict[str, Measurement]) -> Iterator[str]:
    for metric, key, words in _LIMITS:
        limit = probe.params.get(key)
        if limit is not None and metric in numbers and numbers[metric].value > float(str(limit)):
            yield f"{numbers[metric].value:.2f} us {words}, at most {limit} allowed"
