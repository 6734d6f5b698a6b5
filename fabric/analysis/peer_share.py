"""
What share of the normal bandwidth each probe inside a host reached: normal is the median of its like in this run.

A host that is slow as a whole by a little misses some limits and meets others; a number that meets its limit and is
as low as the rest of its host is no proof that the host is well.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from fabric.analysis.keys import line_rate_gbps, link_class
from fabric.analysis.peers import peers_of
from fabric.analysis.samples import name_of
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict

INSIDE_KINDS = frozenset({"loopback", "rnic_to_rnic", "all_to_all"})
"""Kinds of probes that one host measures alone, with what they use to themselves."""

Classes = Mapping[Hashable, Sequence[tuple[Probe, ProbeVerdict]]]
"""Probes that measured a number, by what they share with their like."""


def class_of(probe: Probe, topology: Topology) -> Hashable:
    """What probes inside hosts share when they should reach the same number."""
    return (
        probe.phase,
        probe.kind,
        name_of(probe),
        topology.hosts[probe.hosts[0]].platform.name,
        link_class(probe, topology),
        line_rate_gbps(probe, topology),
        probe.params.get("ranks"),
    )


def by_class(probes: Sequence[Probe], verdicts: Mapping[str, ProbeVerdict], topology: Topology) -> Classes:
    """The probes inside hosts that measured a number, by class."""
    groups: dict[Hashable, list[tuple[Probe, ProbeVerdict]]] = {}
    known: dict[Hashable, list[tuple[Probe, ProbeVerdict]]] = {}
    for probe in probes:
        if probe.kind not in INSIDE_KINDS:
            continue
        verdict = verdicts[probe.probe_id]
        if verdict.value_gbps is None:
            continue
        host = topology.hosts[probe.hosts[0]]
        # Hosts of a layout share the parameters; those live as long as their probes, so their identity is theirs.
        layout = (id(probe.params), probe.phase, host.platform.name, host.leaves)
        members = known.get(layout)
        if members is None:
            members = known[layout] = groups.setdefault(class_of(probe, topology), [])
        members.append((probe, verdict))
    return groups


def peer_shares(classes: Classes, hosts: AbstractSet[str]) -> dict[str, float]:
    """By probe id, for probes inside *hosts*; left out are classes with too few numbers to say what is normal."""
    found: dict[str, float] = {}
    for members in classes.values():
        normal = peers_of([verdict.value_gbps or 0.0 for _, verdict in members])
        if normal is not None:
            for probe, verdict in members:
                if probe.hosts[0] in hosts:
                    found[probe.probe_id] = (verdict.value_gbps or 0.0) / normal.median_gbps
    return found
