"""
Packets that are lost under load alone: a setting of RoCE, never the hosts between which it happens to be seen.

A lossy class is fine while nobody has to wait, and its packets are dropped when somebody has to (nccl issue 2383). So
connections that run at the same time end with retries exceeded, each of another pair, while all of their hosts did well
alone. Faults of as many parts would have been seen there, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fabric.judge.locate.suspects import evidence_lines
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, Probe, ProbeResult, Results
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect, Verdicts

KIND = "traffic_class"
"""Of a suspect: the class that RoCE packets are in, or what keeps it lossless on their way."""

LEAST = 3
"""So many suspects that only this explains (a choice: one or two may be parts that became bad just then)."""

_OF_PAIRS = ("pair", "group")
_NEXT = (
    "fabric check SCENARIO: it reads what RNICs and switches keep lossless (mlnx_qos -i INTERFACE; nv show qos roce) "
    "and says who differs; or traffic_class of the platform is not the class that they keep"
)


def lossy_class(
    suspects: Sequence[Suspect], probes: Sequence[Probe], verdicts: Verdicts, results: Results, topology: Topology
) -> list[Suspect]:
    """The suspects, those pairs as one that names the class where nothing but its setting explains them."""
    between = {one.probe_id: one for one in probes if len(one.hosts) > 1 and one.probe_id in results}
    well = {host for name, one in between.items() if verdicts[name].outcome.is_good for host in one.hosts}
    ran = [results[name] for name in between]

    def is_of_load(one: Suspect) -> bool:
        lost = [results[name] for name in one.probes if name in between]
        ethernet = all(topology.hosts[host].platform.link_layer == "ethernet" for host in one.hosts)
        return (
            one.kind in _OF_PAIRS
            and ethernet
            and well.issuperset(one.hosts)
            and bool(lost)
            and all(result.failure is FailureKind.RETRIES_EXCEEDED and _others(result, ran, between) for result in lost)
        )

    lost = [one for one in suspects if is_of_load(one)]
    if len(lost) < LEAST:
        return list(suspects)
    seen = [between[name] for one in lost for name in one.probes if name in between]
    beside = [one for one in between.values() if one.phase in {probe.phase for probe in seen}]
    hosts = tuple(sorted({host for one in lost for host in one.hosts}))
    classes = sorted({topology.hosts[host].platform.traffic_class or 0 for host in hosts})
    named = " and ".join(f"{number} (DSCP {number >> 2})" for number in classes)
    one_for_all = Suspect(
        component=fold(hosts),
        kind=KIND,
        outcome=Outcome.FAIL,
        confidence=round((len(seen) + 1) / (len(beside) + 2), 2),
        evidence=(
            f"RoCE packets are in traffic class {named}, which some port on their way drops under load: trust, DSCP "
            "map or PFC of an RNIC or a switch port; or it is the wrong class",
            f"{len(seen)} of {len(beside)} probes at the same time lost their packets (retries exceeded), each between "
            "other hosts; all of these did well with others when nobody had to wait",
            *evidence_lines([(seen[0].kind, verdicts[seen[0].probe_id])]),
        ),
        next_step=_NEXT,
        hosts=hosts,
        probes=tuple(probe.probe_id for probe in seen),
    )
    return [one_for_all, *(one for one in suspects if one not in lost)]


def _others(result: ProbeResult, ran: Iterable[ProbeResult], between: dict[str, Probe]) -> bool:
    """Whether other hosts talked to each other meanwhile."""
    hosts = set(between[result.probe_id].hosts)
    return any(
        one.started_s < result.ended_s
        and result.started_s < one.ended_s
        and hosts.isdisjoint(between[one.probe_id].hosts)
        for one in ran
    )
