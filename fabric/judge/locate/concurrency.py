"""Congestion: probes that are slow only beside others on ways that may share a cable, so that no part is bad.

A switch that chooses a way by a hash (ECMP) may lay two connections on one cable while other cables are idle. Each then
gets its share, as long as both send, and every part on their ways is well. Unlike a bad part, this takes two: the
slowest of those who share a cable is never the only one so slow. A bad cable or spine is slow with whoever crosses it,
also when nobody else does.

The same holds for packets that are lost (RoCE): a lossy class is fine while nobody has to wait, and its packets are
dropped when somebody has to (nccl issue 2383). If as many parts were faulty, they would be seen alone, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise, permutations
from math import exp, inf

import numpy as np

from fabric.judge.locate.cells import NOTHING
from fabric.judge.locate.structure import Floats
from fabric.judge.normal.keys import ends_of, leaf_of
from fabric.judge.normal.series import number_of
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, Probe, ProbeResult, Results
from fabric.model.text import change_text, fold, gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Recurrence, Suspect, Verdicts

LOSSY = "traffic_class"
"""The kind of a suspect: the traffic class of RoCE packets, or what keeps it lossless on their way."""

_NEXT = (
    "fabric check SCENARIO: it reads what RNICs and switches keep lossless (mlnx_qos -i INTERFACE; nv show qos roce) "
    "and says who differs; or traffic_class of the platform is not the class that they keep"
)

_Links = frozenset[tuple[str, Hashable]]


def slowest_beside(
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    topology: Topology,
    ways: Mapping[str, Sequence[str]] | None = None,
) -> Floats:
    """
    Return by probe the Gb/s of the slowest that ran meanwhile and may have shared a cable with it; 0: it was lost.

    *ways*, by the id of a probe: the switches on its way, where tables say them; then it shares only those cables.

    Probes that stayed under their leaf, or that were alone all the time, have infinity. A collective is no single flow:
    it counts only if it was lost, and only on Ethernet. Where switches do not draw ways by chance, and nobody knows the
    ways, only lost probes count: pair tests are planned so that they share none.
    """
    links, sharing = _links_of(topology, ways or {}), dict[Hashable, list[int]]()
    drawn = topology.paths_are_random or topology.routing is None or bool(ways)
    if not drawn and not any(host.platform.link_layer == "ethernet" for host in topology.hosts.values()):
        return np.full(len(probes), inf)
    began, ended, gbps, found = np.full((4, len(probes)), inf)
    for number, probe in enumerate(probes):
        result = results.get(probe.probe_id)
        for link in links(probe) if result is not None else ():
            sharing.setdefault(link, []).append(number)
        if result is not None:
            ethernet = topology.hosts[probe.hosts[0]].platform.link_layer == "ethernet"
            began[number], ended[number] = result.started_s, result.ended_s
            gbps[number] = _gbps(probe, result, lossy=ethernet, drawn=drawn)
    for members in sharing.values():
        who = np.array(members)
        found[who] = np.minimum(found[who], _least_of_others(began[who], ended[who], gbps[who]))
    return found


def as_shares(gbps: Floats, level_gbps: Floats | float) -> Floats:
    """Return natural logarithms of the shares of a level; infinity stays."""
    return np.log(np.maximum(gbps / level_gbps, exp(NOTHING)))


def _least_of_others(began: Floats, ended: Floats, value: Floats) -> Floats:
    """Return for each the least value of the others that overlap with it in time; infinity where nobody does."""
    order = np.argsort(began, kind="stable")
    began, ended, value = began[order], ended[order], np.append(value[order], inf)
    place = np.arange(len(began))
    first = np.searchsorted(np.maximum.accumulate(ended), began, side="right")
    beyond = np.searchsorted(began, ended, side="left")
    least = np.full(len(began), inf)
    for start, stop in ((first, place), (place + 1, beyond)):
        some = start < stop
        bounds = np.stack([start[some], stop[some]], axis=1).ravel()
        if len(bounds):
            least[some] = np.minimum(least[some], np.minimum.reduceat(value, bounds)[::2])
    found = np.empty(len(least))
    found[order] = least
    return found


def _gbps(probe: Probe, result: ProbeResult, *, lossy: bool, drawn: bool) -> float:
    """Return what a flow reached, Gb/s; 0 where its packets were lost, infinity where that says nothing of others."""
    if lossy and result.failure is FailureKind.RETRIES_EXCEEDED:
        return 0.0
    number = number_of(result) if drawn and "rnic" in probe.params else None
    return number[0] if number is not None else inf


def _links_of(topology: Topology, ways: Mapping[str, Sequence[str]]) -> Callable[[Probe], _Links]:
    """Return a function that gives the groups of cables, with direction, that a probe crosses; none under a leaf."""

    @cache
    def between(up: str, down: str) -> _Links:
        if up == down:
            return frozenset({("between", "")} if not up else ())
        above, below = (frozenset(topology.above.get(leaf, ())) for leaf in (up, down))
        found: set[tuple[str, Hashable]] = {("up", up), ("down", down)}
        return frozenset(found | {("up", above), ("down", below)} if above != below else found)

    def links(probe: Probe) -> _Links:
        if probe.probe_id in ways:
            return frozenset(pairwise(ways[probe.probe_id]))
        if "peer_rnic" in probe.params:
            (a, rnic), (b, peer) = ends_of(probe)
            return between(leaf_of(topology.hosts[a], rnic) or "", leaf_of(topology.hosts[b], peer) or "")
        if len(probe.hosts) < 2:
            return frozenset()
        leaves = [topology.hosts[host].leaves for host in probe.hosts]
        if not all(leaves):
            return between("", "")
        pairs = (pair for of_rail in zip(*leaves, strict=False) for pair in permutations(dict.fromkeys(of_rail), 2))
        return frozenset().union(*(between(*pair) for pair in pairs))

    return links


def as_congested(verdict: ProbeVerdict, normal_gbps: float) -> ProbeVerdict:
    """Return the verdict of a probe slowed by others on the same cable: no fault. A lost one stays as it is."""
    found = replace(verdict, recurrence=Recurrence.CONGESTED)
    if verdict.value_gbps is None:
        return found
    change = change_text(verdict.value_gbps / normal_gbps)
    reason = f"{gbps_text(verdict.value_gbps)} Gb/s, {change} against the {gbps_text(normal_gbps)} of its like"
    return replace(found, outcome=Outcome.MARGINAL, reason=reason, expected_gbps=normal_gbps)


def sharing_lines(beside: Sequence[Probe], probes: Sequence[Probe], verdicts: Verdicts) -> list[str]:
    """Return a line that says how many probes bad *beside* others were slow because of these; else nothing."""
    slow = Counter(probe.kind for probe in beside if verdicts[probe.probe_id].value_gbps is not None)
    if not slow:
        return []
    every = Counter(probe.kind for probe in probes)
    counts = " and ".join(f"{count} of {every[kind]} {kind}" for kind, count in slow.items())
    return [
        f"congestion: {counts} were slow, all of them while others that may share a cable with them were as slow: "
        "routes collide above the leaves (ECMP), and there is no part to swap. Adaptive routing or more queue pairs a "
        "connection spread them; measured one at a time they show what the cables carry"
    ]


def lossy_class(
    beside: Sequence[Probe], probes: Sequence[Probe], verdicts: Verdicts, results: Results, topology: Topology
) -> list[Suspect]:
    """Return the RoCE class as a suspect if some of the probes bad *beside* others lost packets; else nothing."""
    lost = [probe for probe in beside if verdicts[probe.probe_id].value_gbps is None]
    if not lost:
        return []
    phases = {probe.phase for probe in lost}
    meanwhile = [p for p in probes if p.phase in phases and len(p.hosts) > 1 and p.probe_id in results]
    hosts = tuple(sorted({host for probe in lost for host in probe.hosts}))
    classes = sorted({topology.hosts[host].platform.traffic_class or 0 for host in hosts})
    named = " and ".join(f"{number} (DSCP {number >> 2})" for number in classes)
    return [
        Suspect(
            component=fold(hosts),
            kind=LOSSY,
            outcome=Outcome.FAIL,
            confidence=round((len(lost) + 1) / (len(meanwhile) + 2), 2),
            evidence=(
                f"RoCE packets are in traffic class {named}, which some port on their way drops under load: trust, "
                "DSCP map or PFC of an RNIC or a switch port; or it is the wrong class",
                f"{len(lost)} of {len(meanwhile)} probes at the same time lost their packets (retries exceeded), each "
                "between other hosts; all of these did well with others when nobody had to wait",
                *(f"1 {lost[0].kind}: {verdicts[lost[0].probe_id].reason}",),
            ),
            next_step=_NEXT,
            hosts=hosts,
            probes=tuple(probe.probe_id for probe in lost),
        )
    ]
