"""
Probes inside hosts that (nearly) all hosts fail alike: one suspect, all of them, and not every leaf and every host.

A firmware, a power cap, ACS switched on, or a limit that is meant for other hardware holds all hosts to the same
number. A cover of the failed probes would name whatever most of them pass through, each leaf switch for a start. What
is slower than the others of its class is left to the cover: somebody stands out there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fabric.analysis.cover import TOLERANCE
from fabric.analysis.evidence import evidence_lines
from fabric.analysis.low_hosts import low_hosts
from fabric.analysis.peer_share import Classes
from fabric.model.names import fold
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect

LEAST_HOSTS = 4
"""Of fewer hosts each is named by itself (a choice, as for pairs: with fewer nobody has peers)."""

LEAST_LEAVES = 3
"""Pairs of RNICs that all cross one leaf or two are slow because of those (a choice)."""

NEARLY_ALL = 0.9
"""Share of a class that is bad (a choice, as for pairs)."""

_MOST_PROBES = 20

_Judged = tuple[Probe, ProbeVerdict]


@dataclass(frozen=True, slots=True)
class Whole:
    """The probes that this explains, by id, and the suspects: one for each set of hosts."""

    explains: frozenset[str]
    suspects: tuple[Suspect, ...]


def inside_as_a_whole(classes: Classes, topology: Topology, bad: set[str]) -> Whole:
    """
    The classes of which nearly all are *bad*: below their limit, or below what good runs recorded.

    Then hosts that are a little low as a whole beside a part that is worse (``low_hosts.py``).
    """
    found: dict[tuple[str, ...], list[_Judged]] = {}
    for members in classes.values():
        alike = _alike(members, bad, topology)
        if alike:
            hosts = tuple(dict.fromkeys(probe.hosts[0] for probe, _ in members))
            found.setdefault(hosts, []).extend(alike)
    explained = frozenset(probe.probe_id for alike in found.values() for probe, _ in alike)
    suspects = [_suspect(hosts, alike) for hosts, alike in found.items()]
    for suspect, explains in low_hosts(classes, bad - explained):
        suspects.append(suspect)
        explained |= explains
    return Whole(explained, tuple(suspects))


def _alike(members: Sequence[_Judged], bad: set[str], topology: Topology) -> list[_Judged]:
    """Those that are bad like all the others; none where it is not nearly all of several hosts."""
    below = [pair for pair in members if pair[0].probe_id in bad]
    hosts = {probe.hosts[0] for probe, _ in below}
    if len(below) < NEARLY_ALL * len(members) or len(hosts) < LEAST_HOSTS:
        return []
    if below[0][0].kind == "rnic_to_rnic" and len(_leaves(below, topology)) < LEAST_LEAVES:
        return []
    usual = median(verdict.value_gbps or 0.0 for _, verdict in members)
    return [pair for pair in below if (pair[1].value_gbps or 0.0) >= usual * (1 - TOLERANCE)]


def _leaves(pairs: Sequence[_Judged], topology: Topology) -> set[str]:
    """The leaf switches of the hosts of these probes; hosts whose leaves are not known count as one each."""
    names: set[str] = set()
    for probe, _ in pairs:
        names.update(topology.hosts[probe.hosts[0]].leaves or probe.hosts)
    return names


def _suspect(hosts: tuple[str, ...], alike: Sequence[_Judged]) -> Suspect:
    worst = sorted(alike, key=lambda pair: (pair[1].value_gbps or 0.0) / (pair[1].required_gbps or 1.0))
    return Suspect(
        component=fold(hosts),
        kind="group",
        outcome=Outcome.FAIL,
        # That all of it is slow is certain; as elsewhere it is never said to be more.
        confidence=0.99,
        evidence=(
            "nobody stands out: these hosts are slow as a whole",
            *evidence_lines([(probe.kind, verdict) for probe, verdict in alike]),
        ),
        next_step="what they share first: firmware, BIOS and PCIe settings (ACS, IOMMU), a power cap, switch "
        "configuration, or a limit that is meant for other hardware",
        hosts=hosts,
        probes=tuple(probe.probe_id for probe, _ in worst[:_MOST_PROBES]),
    )
