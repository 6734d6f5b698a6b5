"""
Incasts and their victims: slow because congested, or slow because bad?

Of an incast the sum at the receiver is judged against its line rate (``at_least``). Each sender then has a share only,
and that is no fault: the fabric told them to slow down (packets marked, CNPs, pauses), and nothing was lost. Below it,
what the ports counted meanwhile tells why. Packets that are lost, a receiver that pauses its switch, and senders who
are slow though nobody told them to be are faults. Senders that are told to, and nothing lost, is congestion on the way
there: narrow uplinks or how congestion is controlled, which this test cannot tell apart.

A victim is judged against itself alone. What is not counted, or could not be read, says neither the one nor the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.text import gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict
from fabric.probes.incast import COUNT, FLOWS, RAIL, SHARE_OF_SUM, IncastSpec
from fabric.probes.perftest_pair import int_param
from fabric.probes.victim import VictimSpec

KINDS = frozenset({IncastSpec.kind, VictimSpec.kind})
"""What is judged here: by what each probe itself counted."""


def of_nobody(probes: Iterable[Probe], results: Mapping[str, ProbeResult]) -> frozenset[str]:
    """The measured ones of these probes, which accuse no part and no host however they end; ids."""
    ids = (probe.probe_id for probe in probes if probe.kind in KINDS)
    return frozenset(one for one in ids if one in results and results[one].outcome is None)


_TOLD = ("receivers np_ecn_marked_roce_packets", "receivers np_cnp_sent", "senders rp_cnp_handled")
_PAUSED = "senders rx_prio_pause_duration"
_PAUSING = "receivers tx_prio_pause_duration"
_LOST = ("receivers out_of_sequence", "senders packet_seq_err", "senders roce_adp_retrans", "receivers rx_discards_phy")


@dataclass(frozen=True, slots=True)
class CongestionCounts:
    """What ports counted while a probe ran; None: not known, which is not 0. *text* says it in words."""

    told: bool | None
    lost: bool | None
    pausing: bool | None
    text: str


def counts_of(result: ProbeResult) -> CongestionCounts:
    """What the counters of a probe say."""
    counts = {one.metric: one.value for one in result.measurements if one.unit == COUNT}
    words = [
        _words("packets marked", counts, _TOLD[:1]),
        _words("CNPs", counts, _TOLD[1:2]),
        _words("us of pauses", counts, (_PAUSED,)),
        _words("packets lost or out of order", counts, _LOST),
    ]
    return CongestionCounts(
        told=_any(counts, (*_TOLD, _PAUSED)),
        lost=_any(counts, _LOST),
        pausing=_any(counts, (_PAUSING,)),
        text=", ".join(words),
    )


def _any(counts: Mapping[str, float], names: Sequence[str]) -> bool | None:
    known = [counts[name] for name in names if name in counts]
    return any(value > 0 for value in known) if known else None


def _words(what: str, counts: Mapping[str, float], names: Sequence[str]) -> str:
    known = [counts[name] for name in names if name in counts]
    return f"{max(known):,.0f} {what}" if known else f"{what} not counted"


def congestion_verdicts(listed: Sequence[tuple[Probe, ProbeResult]], topology: Topology) -> dict[str, ProbeVerdict]:
    """The verdict of every incast and victim that was measured, by its id."""
    found = [(probe, result) for probe, result in listed if probe.kind in KINDS and result.outcome is None]
    alone: dict[object, list[float]] = {}
    for probe, result in found:
        if probe.kind == VictimSpec.kind and probe.params[FLOWS] == 1:
            alone.setdefault(_victim(probe), []).append(result.measurements[0].value)
    return {
        probe.probe_id: _incast(probe, result, topology)
        if probe.kind == IncastSpec.kind
        else _beside(probe, result, topology, alone.get(_victim(probe), []))
        for probe, result in found
    }


def _victim(probe: Probe) -> object:
    return probe.phase, probe.params["name"], probe.hosts[:2], probe.params[RAIL]


def _line_gbps(probe: Probe, receiver: str, topology: Topology) -> float:
    return topology.hosts[receiver].platform.rnic_by_rail[int_param(probe, RAIL)].line_rate_gbps


def _incast(probe: Probe, result: ProbeResult, topology: Topology) -> ProbeVerdict:
    value, said = result.measurements[0].value, counts_of(result)
    least = float(str(probe.params["at_least"])) * _line_gbps(probe, probe.hosts[-1], topology)
    text = f"{gbps_text(value)} Gb/s from {probe.params[FLOWS]} senders"
    if value >= least:
        outcome, why = _at_line_rate(probe, result.measurements, said)
        return ProbeVerdict(probe.probe_id, outcome, f"{text} {why}" if why else "", value, least)
    outcome, why = _why_slow(said)
    return ProbeVerdict(probe.probe_id, outcome, f"{text}, at least {least:g} required: {why}", value, least)


def _at_line_rate(probe: Probe, measured: Sequence[Measurement], said: CongestionCounts) -> tuple[Outcome, str]:
    """The sum is as it must be; how it came about may not."""
    shares = _shares(measured)
    even = _evenness(shares)
    if said.lost:
        return Outcome.MARGINAL, f"at line rate, but not lossless: {said.text}"
    if even < float(str(probe.params["even"])):
        last, first = (pick(shares, key=shares.__getitem__) for pick in (min, max))
        unlike = f"{last} has {shares[last]:.1%} of it, {first} {shares[first]:.1%}"
        return Outcome.MARGINAL, f"at line rate, but unevenly (Jain's index {even:.2f}): {unlike}"
    return Outcome.PASS, ""


def _shares(measured: Sequence[Measurement]) -> dict[str, float]:
    return {one.metric: one.value for one in measured if one.unit == SHARE_OF_SUM}


def _evenness(shares: Mapping[str, float]) -> float:
    """Jain's index, as the shares add up to 1."""
    return 1 / (len(shares) * sum(share**2 for share in shares.values()))


def congestion_told(listed: Iterable[tuple[Probe, ProbeResult]]) -> list[str]:
    """In words what incasts and victims reached, by the number of flows, however they were judged."""
    sums: dict[int, list[float]] = {}
    evenness: dict[int, list[float]] = {}
    victims: dict[int, list[float]] = {}
    for probe, result in listed:
        if probe.kind not in KINDS or result.outcome is not None:
            continue
        flows, gbps = int_param(probe, FLOWS), result.measurements[0].value
        if probe.kind == VictimSpec.kind:
            victims.setdefault(flows, []).append(gbps)
        else:
            sums.setdefault(flows, []).append(gbps)
            evenness.setdefault(flows, []).append(_evenness(_shares(result.measurements)))
    said = [
        f"incast of {flows} senders: sum {gbps_text(min(found))} Gb/s, Jain's index {min(evenness[flows]):.2f} at least"
        for flows, found in sorted(sums.items())
    ]
    return said + [
        f"victim {'alone' if flows == 1 else f'beside an incast of {flows - 1}'}: "
        f"median {gbps_text(median(found))}, least {gbps_text(min(found))} Gb/s"
        for flows, found in sorted(victims.items())
    ]


def _why_slow(said: CongestionCounts) -> tuple[Outcome, str]:
    if said.lost:
        return Outcome.FAIL, f"bad, not only congested: packets are lost ({said.text})"
    if said.pausing:
        return Outcome.FAIL, f"bad, not congested: the receiver pauses its switch, it takes no more ({said.text})"
    if said.told is None or said.lost is None:
        return Outcome.FAIL, f"congested or bad is not known ({said.text})"
    if said.told:
        return Outcome.INCONCLUSIVE, f"congested on the way: nothing is lost, and senders are held back ({said.text})"
    return Outcome.FAIL, f"bad, not congested: nobody was told to slow down ({said.text})"


def _beside(probe: Probe, result: ProbeResult, topology: Topology, alone: Sequence[float]) -> ProbeVerdict:
    value, said, share = result.measurements[0].value, counts_of(result), float(str(probe.params["at_least"]))
    if probe.params[FLOWS] == 1:
        least = share * _line_gbps(probe, probe.hosts[1], topology)
        text = f"{gbps_text(value)} Gb/s alone, at least {least:g} required"
        outcome = Outcome.PASS if value >= least else Outcome.FAIL
        return ProbeVerdict(probe.probe_id, outcome, "" if value >= least else text, value, least)
    if not alone:
        text = f"{gbps_text(value)} Gb/s beside an incast: it was not measured alone"
        return ProbeVerdict(probe.probe_id, Outcome.INCONCLUSIVE, text, value)
    least = share * median(alone)
    if value >= least:
        return ProbeVerdict(probe.probe_id, Outcome.PASS, "", value, least)
    text = f"{gbps_text(value)} Gb/s beside an incast to another host, {gbps_text(median(alone))} alone"
    why = (
        "packets are lost" if said.lost else "it waits with the incast" if said.told else "nobody told it to slow down"
    )
    return ProbeVerdict(probe.probe_id, Outcome.FAIL, f"{text}: {why} ({said.text})", value, least)
