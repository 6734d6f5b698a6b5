"""Telling congestion from a bad part by what RNICs and switches counted while a pair of hosts was slow (RoCE).

Switches mark packets where a queue fills, the receiver answers marks with CNPs, and CNPs slow the sender down; or the
sender is paused. A slow flow that was not told to slow down is slow because of a part. A flow that was *held back* may
be slow because others use a cable, or because a bad cable filled the queue before it: both look alike at the ends of
the flow. What the leaf's cables carried meanwhile tells them apart: only the probes of this run, or other tenants'
traffic as well. So a suspect is dropped only if its slow flows were held back and others' traffic was seen on the
cables of their leaves; if these were not read, it is INCONCLUSIVE. An RNIC that is slow with every partner, as sender
or as receiver, is bad whoever else sends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import NamedTuple

from fabric.judge.normal.keys import ends_of, grouped, leaf_of
from fabric.judge.ports.health import by_port
from fabric.judge.ports.waiting import SENT, WORD_BYTES
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, Results
from fabric.model.sampling import HELD_BACK, CounterCourse, Samples, growth
from fabric.model.text import fold, gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect, Verdicts
from fabric.probes.shapes import int_param
from fabric.runs.samples import LinkSamples

CNPS = 100.0
"""From so many CNPs a second on a sender is held back (a choice: it has 10 ms between two of them to recover)."""

PAUSED = 0.05
"""A sender paused for this share of the time is held back, too (a choice)."""

MISSED = 0.3
"""Others' traffic explains a slow flow if it is this share of what the flow missed (a choice: others take from several
flows)."""

UNKNOWN = 0.1
"""Others' traffic must be at least this share of our own (a choice): less may be headers, or bytes of a probe at the
edge of a look."""

MOST = 0.7
"""A suspect is dropped if this share of its slow samples is excused (a choice)."""

ALWAYS = 0.9
"""An RNIC is bad if this share of its pairs in one direction, of two at least, is slow (a choice)."""

FLOWS = frozenset({"pairwise", "rnic_to_rnic", "link_burn"})
"""The kinds of probes that are a single flow, whose bytes are known."""


class Held(Enum):
    """The reasons why a flow that was held back was slow, as far as counters tell."""

    BY_OTHERS = "others send over the cables of its leaves"
    UNREAD = "what the cables of its leaves carried was not read"


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What was counted while a probe ran: packets *marked* and *cnps* per second, and the share of time *paused*."""

    marked: float
    cnps: float
    paused: float
    at: str

    def __str__(self) -> str:
        paused = f", paused {self.paused:.0%} of the time" if self.paused >= 0.01 else ""
        return f"{self.marked:,.0f} marks and {self.cnps:,.0f} CNPs a second on {self.at}{paused}"


class _Slow(NamedTuple):
    """A slow flow, its excuse *why* (None: it has none), and what was counted (*back*)."""

    probe: Probe
    why: Held | None
    back: HeldBack


class Excused(NamedTuple):
    """The verdicts, the suspects without those that are only congested, and lines about congestion."""

    verdicts: dict[str, ProbeVerdict]
    suspects: list[Suspect]
    lines: list[str]


class Congestion:
    """What ports of hosts and switches counted in a run, to be asked probe by probe."""

    def __init__(
        self, probes: Sequence[Probe], results: Results, samples: Samples, links: LinkSamples, topology: Topology
    ) -> None:
        self._results, self._topology = results, topology
        self._ports, self._ends = by_port(samples), by_port(links.samples)
        between = sorted(ends for ends in links.both_ways if all(node in topology.switches for node, _ in ends))
        self._cables = grouped(between, lambda ends: ends[0][0])
        sent = [probe for probe in probes if len(probe.hosts) > 1 and probe.probe_id in results]
        self._sent = sorted(sent, key=lambda probe: results[probe.probe_id].started_s)
        times = [results[probe.probe_id] for probe in self._sent]
        self._began_s = [one.started_s for one in times]
        self._longest_s = max((one.ended_s - one.started_s for one in times), default=0.0)
        self._others = cache(self._others_gbps)

    def held_back(self, probe: Probe) -> HeldBack | None:
        """Return what held a probe back; None if neither CNPs nor pauses were counted."""
        result = self._results[probe.probe_id]
        seconds = result.ended_s - result.started_s
        most: dict[str, float] = {}
        ends = ends_of(probe)
        for end in ends:
            for name in HELD_BACK:
                course = self._ports.get(end, {}).get(name, CounterCourse())
                grown = _grown(name, course, result.started_s, result.ended_s)
                if grown is not None and seconds > 0:
                    most[name] = max(grown / seconds, most.get(name, 0.0))
        marks, cnps, pauses = HELD_BACK
        if cnps not in most and pauses not in most:
            return None
        at = "/".join(ends[-1])
        return HeldBack(most.get(marks, 0.0), most.get(cnps, 0.0), most.get(pauses, 0.0) * 1e-6, at)

    def why(self, probe: Probe, back: HeldBack, missed_gbps: float) -> Held | None:
        """
        Return the excuse of a flow that missed *missed_gbps* and was held *back*.

        Return None if it was not told to slow down, or if nobody else sends there: then a bad part fills the queue.
        """
        if back.cnps < CNPS and back.paused < PAUSED:
            return None
        result = self._results[probe.probe_id]
        seen = [self._others(leaf, up, result.started_s, result.ended_s) for leaf, up in self._ways(probe)]
        if any(theirs >= max(MISSED * missed_gbps, UNKNOWN * ours) for theirs, ours in filter(None, seen)):
            return Held.BY_OTHERS
        return Held.UNREAD if None in seen else None

    def _ways(self, probe: Probe) -> list[tuple[str, bool]]:
        """Return the leaves whose cables a flow crosses: up (True) at the sender's, down (False) at the receiver's."""
        if probe.kind not in FLOWS:
            return []
        leaves = [leaf_of(self._topology.hosts[host], rnic) or "" for host, rnic in ends_of(probe)]
        return [] if leaves[0] == leaves[1] else [(leaves[0], True), (leaves[1], False)]

    def _others_gbps(self, leaf: str, up: bool, began_s: float, ended_s: float) -> tuple[float, float] | None:
        """
        Return what others and what our probes sent over a leaf's cables, Gb/s, between the looks around a time.

        Return None if it is not known. All cables of a leaf are summed: a flow between leaves crosses some one of them.
        """
        cables = self._cables.get(leaf, ())
        courses = [self._ends.get(near if up else far, {}).get(SENT, CounterCourse()) for near, far in cables]
        if not cables or not all(one.at_s for one in courses):
            return None
        looks = sorted({at_s for one in courses for at_s in one.at_s})
        first, last = bisect_right(looks, began_s) - 1, bisect_left(looks, ended_s)
        if first < 0 or last >= len(looks):
            return None
        from_s, until_s = looks[first], looks[last]
        read = (_grown(SENT, one, from_s, until_s) for one in courses)
        words = [grown for grown in read if grown is not None]
        ours, lasted_s = self._own_gbit(leaf, up, from_s, until_s), until_s - from_s
        if len(words) < len(courses) or ours is None or lasted_s <= 0:
            return None
        return sum(words) * WORD_BYTES * 8e-9 / lasted_s - ours / lasted_s, ours / lasted_s

    def _own_gbit(self, leaf: str, up: bool, from_s: float, until_s: float) -> float | None:
        """Return what this run's flows sent there in this time, Gbit; None if a probe of unknown bytes ran as well."""
        total = 0.0
        first, last = bisect_left(self._began_s, from_s - self._longest_s), bisect_left(self._began_s, until_s)
        for probe in self._sent[first:last]:
            result = self._results[probe.probe_id]
            if result.ended_s <= from_s:
                continue
            if probe.kind not in FLOWS or not result.measurements:
                return None
            if (leaf, up) in self._ways(probe):
                began_s = max(result.started_s, result.ended_s - int_param(probe, "duration_s"))
                total += result.measurements[0].value * max(0.0, min(until_s, result.ended_s) - max(from_s, began_s))
        return total


def _grown(name: str, course: CounterCourse, from_s: float, until_s: float) -> int | None:
    """Return how much a counter grew; None if it was not read, or was cleared."""
    before, after = course.value_at(from_s), course.value_at(until_s)
    if before is None and course.at_s and from_s < course.at_s[0] < until_s:
        before = course.values[0]
    if before is None or after is None:
        return None
    found = growth(name, int(before), int(after))
    return None if found.reset else found.by


def excuse_congested(
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    suspects: Sequence[Suspect],
    results: Results,
    samples: Samples,
    links: LinkSamples | None,
    topology: Topology,
) -> Excused:
    """Drop suspects and excuse probes that were slow because others sent; change nothing if no CNPs were read."""
    if not any(reading.name == HELD_BACK[1] for reading in samples.courses):
        return Excused(dict(verdicts), list(suspects), [])
    seen = Congestion(probes, results, samples, links or LinkSamples(), topology)
    flows = [probe for probe in probes if probe.kind in FLOWS]
    every = [_slow(seen, probe, verdicts[probe.probe_id]) for probe in flows]
    slow = {flow.probe.probe_id: flow for flow in every if flow is not None}
    kept, gone = list[Suspect](), list[Suspect]()
    for one in suspects:
        whys = [slow[name].why for name in one.probes if name in slow]
        excused = sum(why is not None for why in whys)
        if one.outcome is not Outcome.FAIL or not whys or excused < MOST * len(whys) or _always(one, flows, verdicts):
            kept.append(one)
        elif sum(why is Held.UNREAD for why in whys) * 2 > len(whys):
            kept.append(_unread(one))
        else:
            gone.append(one)
    accused = {host for one in kept if one.outcome is Outcome.FAIL for host in one.hosts}
    found, lines = dict(verdicts), list[str]()
    held_back = [flow for flow in slow.values() if flow.why is not None and accused.isdisjoint(flow.probe.hosts)]
    found |= {flow.probe.probe_id: _congested(verdicts[flow.probe.probe_id], flow) for flow in held_back}
    if held_back:
        worst = max(held_back, key=lambda flow: flow.back.marked)
        hosts = fold(sorted({host for flow in held_back for host in flow.probe.hosts}))
        let_go = f"; not accused because of it: {', '.join(one.component for one in gone)}" if gone else ""
        lines.append(
            f"congestion: {len(held_back)} pairs on {hosts} were slow because they were held back, the most "
            f"{worst.back}{let_go}"
        )
    return Excused(found, kept, lines)


def _slow(seen: Congestion, probe: Probe, verdict: ProbeVerdict) -> _Slow | None:
    """Return the flow of a probe if it is slow; None if it is not, or if its ends were not read."""
    value, normal = verdict.value_gbps, verdict.expected_gbps or verdict.limit_gbps
    if verdict.outcome not in (Outcome.FAIL, Outcome.INCONCLUSIVE) or value is None or normal is None:
        return None
    back = seen.held_back(probe)
    return None if back is None else _Slow(probe, seen.why(probe, back, normal - value), back)


def _always(suspect: Suspect, flows: Sequence[Probe], verdicts: Verdicts) -> bool:
    """Return whether an RNIC (or a host) is slow with nearly all partners, as sender or as receiver."""
    part = Part.of(suspect.component)
    if not part.host:
        return False
    for role in (0, 1):
        bad = [
            verdicts[probe.probe_id].outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)
            for probe in flows
            for host, rnic in ends_of(probe)[role : role + 1]
            if verdicts[probe.probe_id].value_gbps is not None and host == part.host and part.item in ("", rnic)
        ]
        if len(bad) >= 2 and sum(bad) >= ALWAYS * len(bad):
            return True
    return False


def _unread(suspect: Suspect) -> Suspect:
    text = "its slow pairs were held back by marks or pauses: it is congested, or it fills the queue before it"
    step = "have switches tell what their ports carry (`management: nvue`), or measure when others are quiet"
    return replace(suspect, outcome=Outcome.INCONCLUSIVE, evidence=(*suspect.evidence, text), next_step=step)


def _congested(verdict: ProbeVerdict, slow: _Slow) -> ProbeVerdict:
    outcome = Outcome.MARGINAL if slow.why is Held.BY_OTHERS else Outcome.INCONCLUSIVE
    because = slow.why.value if slow.why else ""
    reason = f"{gbps_text(verdict.value_gbps or 0.0)} Gb/s, slow because congested: {slow.back}; {because}"
    return replace(verdict, outcome=outcome, reason=reason, recurrence=None)
