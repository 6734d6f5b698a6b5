"""
Hosts that are a little low as a whole and have a part that is much worse: two troubles, and each its own probes.

A host that lacks two percent misses some of its limits by a hair. Alone it is found by what its probes share; beside a
part that lost a third, the good probes of the host look well, and each path that missed its limit would be named by
itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import median, median_high

from fabric.judge.locate.cover import TOLERANCE, evidence_lines
from fabric.judge.normal.keys import line_rate_gbps, link_class
from fabric.judge.normal.peers import LEAST_NUMBERS, LEAST_PEERS, peers_of
from fabric.judge.normal.samples import name_of
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect

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


LEAST_LACK = 0.015
"""Share that a host must lack as a whole (a choice: three times the half percent by which healthy hosts differ)."""

NEAR = 0.02
"""Share by which a number may lie below its host's level and still be as low as the host (two thirds of the floor)."""

WORSE = 0.06
"""Share by which the numbers of the part lie below it (a choice: six times the noise of one sample; else two numbers of
a healthy host that miss a near limit by chance would look like a host and its part)."""

_MOST_PROBES = 20

_Judged = tuple[Probe, ProbeVerdict]
_Share = tuple[Probe, ProbeVerdict, float]


def low_hosts(classes: Classes, bad: AbstractSet[str]) -> list[tuple[Suspect, frozenset[str]]]:
    """Each such host as a suspect, with the ids of the *bad* probes that it explains; *classes* are its peers."""
    found = []
    for host, numbers in _shares(classes, bad).items():
        level = median_high(share for _, _, share in numbers) if len(numbers) >= LEAST_NUMBERS else 1.0
        if level > 1 - LEAST_LACK:
            continue
        near = [one for one in numbers if one[2] >= level * (1 - NEAR)]
        missed = [(probe, verdict) for probe, verdict, _ in near if probe.probe_id in bad]
        worse = [one for one in numbers if one[2] < level * (1 - WORSE) and one[0].probe_id in bad]
        if missed and worse:
            explains = frozenset(probe.probe_id for probe, _ in missed)
            found.append((_suspect(host, level, near, missed), explains))
    return found


def _shares(classes: Classes, bad: AbstractSet[str]) -> dict[str, list[_Share]]:
    """The numbers of every host that may be one, each with its share of what is normal for its class."""
    hosts = _candidates(classes, bad)
    found: dict[str, list[_Share]] = {}
    for members in classes.values() if hosts else ():
        _add(found, members, [pair for pair in members if pair[0].hosts[0] in hosts])
    return found


def _candidates(classes: Classes, bad: AbstractSet[str]) -> set[str]:
    """Hosts of which one bad number is so much worse than another as the two troubles are; seldom is there any."""
    found: dict[str, list[_Share]] = {}
    for members in classes.values():
        _add(found, members, [pair for pair in members if pair[0].probe_id in bad])
    apart = (1 - WORSE) / (1 - NEAR)
    worst_and_best = {host: (min(s for _, _, s in own), max(s for _, _, s in own)) for host, own in found.items()}
    return {host for host, (worst, best) in worst_and_best.items() if worst < apart * best}


def _add(found: dict[str, list[_Share]], members: Sequence[_Judged], some: Sequence[_Judged]) -> None:
    """By host *some* members of a class, where it has enough to say what is normal."""
    normal = (
        median(verdict.value_gbps or 0.0 for _, verdict in members) if some and len(members) >= LEAST_PEERS else 0.0
    )
    for probe, verdict in some if normal > 0.0 else ():
        found.setdefault(probe.hosts[0], []).append((probe, verdict, (verdict.value_gbps or 0.0) / normal))


def _suspect(host: str, level: float, near: Sequence[_Share], missed: Sequence[_Judged]) -> Suspect:
    low = sum(share < (1 + level) / 2 for _, _, share in near)
    worst = sorted(missed, key=lambda pair: (pair[1].value_gbps or 0.0) / (pair[1].required_gbps or 1.0))
    return Suspect(
        component=host,
        kind="host",
        outcome=Outcome.FAIL,
        # Laplace; what is held down by the worse part tells nothing of the host.
        confidence=min(0.99, round((low + 1) / (len(near) + 2), 2)),
        evidence=(
            f"the host as a whole reaches {level:.1%} of what its peers do, beside a part of it that is worse",
            f"{low} of {len(near)} other numbers of it are low alike",
            *evidence_lines([(probe.kind, verdict) for probe, verdict in missed]),
        ),
        next_step="what all its parts share: power cap, clocks, BIOS and PCIe settings, firmware; mend the worse part "
        "first, then run it again",
        hosts=(host,),
        probes=tuple(probe.probe_id for probe, _ in worst[:_MOST_PROBES]),
    )


LEAST_HOSTS = 4
"""Of fewer hosts each is named by itself (a choice, as for pairs: with fewer nobody has peers)."""

LEAST_LEAVES = 3
"""Pairs of RNICs that all cross one leaf or two are slow because of those (a choice)."""

NEARLY_ALL = 0.9
"""Share of a class that is bad (a choice, as for pairs)."""


@dataclass(frozen=True, slots=True)
class AllAlike:
    """The probes that this explains, by id, and the suspects: one for each set of hosts."""

    explains: frozenset[str]
    suspects: tuple[Suspect, ...]


def inside_as_a_whole(classes: Classes, topology: Topology, bad: set[str]) -> AllAlike:
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
    suspects = [_all_alike(hosts, alike) for hosts, alike in found.items()]
    for suspect, explains in low_hosts(classes, bad - explained):
        suspects.append(suspect)
        explained |= explains
    return AllAlike(explained, tuple(suspects))


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


def _all_alike(hosts: tuple[str, ...], alike: Sequence[_Judged]) -> Suspect:
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
