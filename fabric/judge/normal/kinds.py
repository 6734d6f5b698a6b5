"""Judging kinds of probes with rules of their own: incasts and their victims, all hosts at once, and latencies.

**Incasts**: slow because congested, or slow because bad? The sum at the receiver is judged against its line rate
(``at_least``). If it is reached, each sender still has only a share, and that is no fault: the fabric told senders to
slow down (packets marked, CNPs, pauses), and nothing was lost. If it is not, the counters of the ports tell why. Faults
are: lost packets, a receiver that pauses its switch, and senders that are slow though nothing told them to slow down.
Senders that were told to slow down, without loss, mean congestion on the way: narrow uplinks or poor congestion
control, which this test cannot tell apart.

The sum of permutations, bisections and entropy probes is judged in the same way, against the line rates of all
receivers; for entropy probes the hashes are judged as well (``entropy.py``).

A victim is judged against its own bandwidth without the incast. A counter that was not read decides nothing.

**Latency**: lower is better, and only this file turns the comparison round. A latency above the limit that the scenario
gives is a FAIL. Compared with peers (probes of one phase with the same name, size, line rate and kind of path), its
inverse, messages per second, is an outlier by their MAD or not. An outlier is a FAIL if every latency of one of its
RNICs, of two at least, is one: a bad RNIC is slow with every partner, a good partner is not. Else it is MARGINAL:
measure it again. Without a limit a latency is never PASS. Latencies have no recorded baselines, and no course over
rounds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from statistics import median

from fabric.judge.normal.entropy import collision_lines, hash_verdicts
from fabric.judge.normal.interval import LEAST_PEERS, LEAST_SPREAD, Z_SLOW, robust
from fabric.judge.normal.keys import ProbeLayouts, grouped, rnics_of
from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult, Results
from fabric.model.text import gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict
from fabric.probes.at_once import COUNT, FLOWS, RAIL, SHARE_OF_SUM, AtOnceSpec
from fabric.probes.entropy import EntropySpec
from fabric.probes.incast import IncastSpec
from fabric.probes.latency import P99, TYPICAL, LatencySpec
from fabric.probes.permutation import BisectionSpec, CircleSpec, PermutationSpec
from fabric.probes.shapes import int_param
from fabric.probes.victim import VictimSpec

_SPEC_OF_KIND: Mapping[str, type[AtOnceSpec]] = {
    one.kind: one for one in (IncastSpec, VictimSpec, PermutationSpec, BisectionSpec, EntropySpec)
}
KINDS = frozenset(_SPEC_OF_KIND)
"""The kinds that are judged here by what each probe itself counted."""


def accusing_nobody(probes: Iterable[Probe], results: Results) -> frozenset[str]:
    """Return the ids of the measured probes of ``KINDS``: they accuse no part and no host, whatever their outcome."""
    ids = (probe.probe_id for probe in probes if probe.kind in KINDS)
    return frozenset(one for one in ids if one in results and results[one].outcome is None)


_ECN = ("receivers np_ecn_marked_roce_packets", "receivers np_cnp_sent", "senders rp_cnp_handled")
_PAUSED = "senders rx_prio_pause_duration"
_PAUSING = "receivers tx_prio_pause_duration"
_LOST = ("receivers out_of_sequence", "senders packet_seq_err", "senders roce_adp_retrans", "receivers rx_discards_phy")
_SHOWN = (
    ("packets marked", _ECN[:1]),
    ("CNPs", _ECN[1:2]),
    ("us of pauses", (_PAUSED,)),
    ("packets lost or out of order", _LOST),
)


@dataclass(frozen=True, slots=True)
class CongestionCounts:
    """What ports counted while a probe ran; None: not known, which is not 0. *text* has the counts in words."""

    held_back: bool | None
    lost: bool | None
    pausing: bool | None
    text: str


def counts_of(result: ProbeResult) -> CongestionCounts:
    """Return what the counters of a probe say about congestion."""
    counts = {one.metric: one.value for one in result.measurements if one.unit == COUNT}

    def most(names: Sequence[str]) -> float | None:
        return max((counts[name] for name in names if name in counts), default=None)

    held_back, lost, pausing = (
        None if (count := most(names)) is None else count > 0 for names in ((*_ECN, _PAUSED), _LOST, (_PAUSING,))
    )
    known = [(what, most(names)) for what, names in _SHOWN]
    text = ", ".join(f"{what} not counted" if count is None else f"{count:,.0f} {what}" for what, count in known)
    return CongestionCounts(held_back, lost, pausing, text)


def congestion_verdicts(listed: Sequence[tuple[Probe, ProbeResult]], topology: Topology) -> dict[str, ProbeVerdict]:
    """Return the verdict of every measured probe of ``KINDS``, by id."""
    found = [(probe, result) for probe, result in listed if probe.kind in KINDS and result.outcome is None]
    single = (one for one in found if one[0].kind == VictimSpec.kind and one[0].params[FLOWS] == 1)
    alone = gathered((_victim(probe), result.measurements[0].value) for probe, result in single)
    hashes = hash_verdicts(found, topology)
    verdicts = {}
    for probe, result in found:
        if probe.kind == VictimSpec.kind:
            verdicts[probe.probe_id] = _beside(probe, result, topology, alone.get(_victim(probe), ()))
            continue
        one = _sum(probe, result, topology)
        outcome, why = hashes.get(probe.probe_id, (Outcome.PASS, ""))
        if why and outcome.rank >= one.outcome.rank:
            one = replace(one, outcome=outcome, reason="; ".join(text for text in (why, one.reason) if text))
        verdicts[probe.probe_id] = one
    return verdicts


def _victim(probe: Probe) -> Hashable:
    return probe.phase, probe.params["name"], probe.hosts[:2], probe.params[RAIL]


def _line_gbps(probe: Probe, receiver: str, topology: Topology) -> float:
    return topology.hosts[receiver].rnic(int_param(probe, RAIL)).line_rate_gbps


def _lines_gbps(probe: Probe, topology: Topology) -> float:
    """Return the sum of the line rates of all receivers."""
    receivers = {receiver for _, receiver in _SPEC_OF_KIND[probe.kind].flows(probe)}
    return sum(_line_gbps(probe, receiver, topology) for receiver in receivers)


def _sum(probe: Probe, result: ProbeResult, topology: Topology) -> ProbeVerdict:
    value, counts = result.measurements[0].value, counts_of(result)
    least = float(str(probe.params["at_least"])) * _lines_gbps(probe, topology)
    text = f"{gbps_text(value)} Gb/s from {probe.params[FLOWS]} senders"
    if value >= least:
        outcome, why = _at_line_rate(probe, result.measurements, counts)
        return ProbeVerdict(probe.probe_id, outcome, f"{text} {why}" if why else "", value, least)
    outcome, why = _why_slow(counts)
    return ProbeVerdict(probe.probe_id, outcome, f"{text}, at least {least:g} required: {why}", value, least)


def _at_line_rate(probe: Probe, measured: Sequence[Measurement], counts: CongestionCounts) -> tuple[Outcome, str]:
    """Judge a probe whose sum is good: packets may have been lost, or the shares may be uneven."""
    shares = _shares(measured)
    even = _evenness(shares)
    if counts.lost:
        return Outcome.MARGINAL, f"at line rate, but not lossless: {counts.text}"
    if even < float(str(probe.params["even"])):
        last, first = (pick(shares, key=shares.__getitem__) for pick in (min, max))
        unlike = f"{last} has {shares[last]:.1%} of it, {first} {shares[first]:.1%}"
        return Outcome.MARGINAL, f"at line rate, but unevenly (Jain's index {even:.2f}): {unlike}"
    return Outcome.PASS, ""


def _shares(measured: Sequence[Measurement]) -> dict[str, float]:
    return {one.metric: one.value for one in measured if one.unit == SHARE_OF_SUM}


def _evenness(shares: Mapping[str, float]) -> float:
    """Return Jain's index of shares that add up to 1."""
    return 1 / (len(shares) * sum(share**2 for share in shares.values()))


def congestion_lines(probes: Iterable[Probe], results: Results, topology: Topology) -> Iterator[str]:
    """Yield lines on what these probes reached, by kind and number of flows, whatever their verdicts."""
    pairs = ((probe, results.get(probe.probe_id)) for probe in probes if probe.kind in KINDS)
    found = [(probe, result) for probe, result in pairs if result is not None and result.outcome is None]
    for (kind, flows), those in sorted(grouped(found, lambda one: (one[0].kind, int_param(one[0], FLOWS))).items()):
        gbps = [result.measurements[0].value for _, result in those]
        if kind == VictimSpec.kind:
            where = "alone" if flows == 1 else f"beside an incast of {flows - 1}"
            yield f"victim {where}: median {gbps_text(median(gbps))}, least {gbps_text(min(gbps))} Gb/s"
            continue
        even = f"Jain's index {min(_evenness(_shares(result.measurements)) for _, result in those):.2f} at least"
        if issubclass(_SPEC_OF_KIND[kind], CircleSpec):
            shares = [value / _lines_gbps(probe, topology) for value, (probe, _) in zip(gbps, those, strict=True)]
            yield f"{kind} of {flows} hosts: {min(shares):.0%} to {max(shares):.0%} of their lines, {even}"
        else:
            yield f"{kind} of {flows} senders: sum {gbps_text(min(gbps))} Gb/s, {even}"
    yield from collision_lines(found, topology)


def _why_slow(counts: CongestionCounts) -> tuple[Outcome, str]:
    if counts.lost:
        return Outcome.FAIL, f"bad, not only congested: packets are lost ({counts.text})"
    if counts.pausing:
        return Outcome.FAIL, f"bad, not congested: the receiver pauses its switch, it takes no more ({counts.text})"
    if counts.held_back is None or counts.lost is None:
        return Outcome.FAIL, f"congested or bad is not known ({counts.text})"
    if counts.held_back:
        return Outcome.INCONCLUSIVE, f"congested on the way: nothing is lost, and senders are held back ({counts.text})"
    return Outcome.FAIL, f"bad, not congested: nobody was told to slow down ({counts.text})"


def _beside(probe: Probe, result: ProbeResult, topology: Topology, alone: Sequence[float]) -> ProbeVerdict:
    value, counts, share = result.measurements[0].value, counts_of(result), float(str(probe.params["at_least"]))
    if probe.params[FLOWS] == 1:
        least = share * _line_gbps(probe, probe.hosts[1], topology)
        text = f"{gbps_text(value)} Gb/s alone, at least {least:g} required"
    elif not alone:
        text = f"{gbps_text(value)} Gb/s beside an incast: it was not measured alone"
        return ProbeVerdict(probe.probe_id, Outcome.INCONCLUSIVE, text, value)
    else:
        least = share * median(alone)
        slowed = "it waits with the incast" if counts.held_back else "nobody told it to slow down"
        why = f"{'packets are lost' if counts.lost else slowed} ({counts.text})"
        text = f"{gbps_text(value)} Gb/s beside an incast to another host, {gbps_text(median(alone))} alone: {why}"
    if value >= least:
        return ProbeVerdict(probe.probe_id, Outcome.PASS, "", value, least)
    return ProbeVerdict(probe.probe_id, Outcome.FAIL, text, value, least)


FLOOR = 0.1
"""Nobody acts upon a smaller loss of messages per second (a choice: a tenth of 2 us is one more short cable)."""

_LIMITS = ((TYPICAL, "at_most_us", "typical"), (P99, "p99_at_most_us", "of 99 of 100"))


def latency_verdicts(listed: Sequence[tuple[Probe, ProbeResult]], topology: Topology) -> dict[str, ProbeVerdict]:
    """Return the verdict of every probe that measured a latency, by its id."""
    measured = (
        (probe, result) for probe, result in listed if probe.kind == LatencySpec.kind and result.outcome is None
    )
    pairs = ((probe, {one.metric: one.value for one in result.measurements}) for probe, result in measured)
    found = [(probe, numbers) for probe, numbers in pairs if numbers.get(TYPICAL, 0.0) > 0.0]
    layouts = ProbeLayouts(topology)
    slow: dict[str, str] = {}
    for peers in grouped(found, lambda one: layouts.of(one[0]).alike).values():
        rates = {probe.probe_id: 1.0 / numbers[TYPICAL] for probe, numbers in peers}
        if len(rates) >= LEAST_PEERS:
            middle, sigma = robust(list(rates.values()))
            least = min((1 - FLOOR) * middle, middle + Z_SLOW * max(sigma, LEAST_SPREAD * middle))
            text = f"times the median of {len(rates)} peers, {1.0 / middle:.2f} us"
            slow |= {name: f"{middle / rate:.1f} {text}" for name, rate in rates.items() if rate < least}
    ends = gathered((end, probe.probe_id in slow) for probe, _ in found for end in rnics_of(probe))
    sure = {end for end, are_slow in ends.items() if len(are_slow) > 1 and all(are_slow)}
    return {
        probe.probe_id: ProbeVerdict(probe.probe_id, *_latency(probe, numbers, slow.get(probe.probe_id, ""), sure))
        for probe, numbers in found
    }


def _latency(
    probe: Probe, numbers: Mapping[str, float], slow: str, sure: AbstractSet[str]
) -> tuple[Outcome, str]:  # fmt: skip
    """Judge one probe; *slow*: by how much, in words; *sure*: RNICs slow with every partner, and with two at least."""
    text = f"{numbers[TYPICAL]:.2f} us typical, {slow}"
    if above := list(_above(probe, numbers)):
        return Outcome.FAIL, "; ".join(above)
    if slow and (ends := [end for end in rnics_of(probe) if end in sure]):
        return Outcome.FAIL, f"{text}; so is every latency of {' and '.join(ends)}"
    if slow:
        return Outcome.MARGINAL, f"{text}: measure it again"
    if not any(key in probe.params for _, key, _ in _LIMITS):
        return Outcome.INCONCLUSIVE, f"{text}no limit: 'at_most_us' of the probe says what is too much"
    return Outcome.PASS, ""


def _above(probe: Probe, numbers: Mapping[str, float]) -> Iterator[str]:
    for metric, key, words in _LIMITS:
        limit = probe.params.get(key)
        if limit is not None and numbers.get(metric, 0.0) > float(str(limit)):
            yield f"{numbers[metric]:.2f} us {words}, at most {limit} allowed"
