"""The same course on most parts of a host, or on most hosts of a rack, is one finding of the larger thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fabric.analysis.over_time_tracks import Tracks
from fabric.model.names import fold
from fabric.model.topology import Topology

MOST_OF = 0.5
"""Of its parts that were measured more than this share must be bad (a choice)."""

LEAST_PARTS = 3
"""Two alike may be chance (a choice)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """
    A part and its course: ``drift``, ``step``, ``heat``, ``low``, ``dips`` or ``came_back``; *text* says it in words.

    *chance*: of such a course without a fault. *weight*: how much was lost in all, and who lost most is named first.
    *rivals* were measured by the very same probes.
    """

    component: str
    kind: str
    text: str
    chance: float
    weight: float
    probes: tuple[str, ...]
    rivals: tuple[str, ...] = ()


def gathered(findings: Sequence[Finding], found: Tracks, topology: Topology) -> list[Finding]:
    """First RNICs to their host, then hosts to their rack, or to their first leaf where racks are unknown."""
    members: dict[str, list[str]] = {}
    for name in found.rnics:
        members.setdefault(name.partition("/")[0], []).append(name)
    by_host = _larger(findings, members, "RNICs")
    racks: dict[str, list[str]] = {}
    for name in {*found.hosts, *members}:
        host = topology.hosts[name]
        if host.rack is not None or host.leaves:
            racks.setdefault(host.leaves[0] if host.rack is None else f"rack {host.rack}", []).append(name)
    alike = _larger(by_host, racks, "hosts")
    known = {one.component for one in alike}
    inside = {host for name, hosts in racks.items() if name in known for host in hosts}
    return [one for one in alike if one.component.partition("/")[0] not in inside]


def _larger(findings: Sequence[Finding], members: dict[str, list[str]], what: str) -> list[Finding]:
    whose = {part: name for name, parts in members.items() for part in parts}
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.component in whose:
            alike.setdefault((whose[finding.component], finding.kind), []).append(finding)
    into: dict[int, Finding] = {}
    for (name, _), group in alike.items():
        parts = members[name]
        if len(group) < LEAST_PARTS or len(group) <= MOST_OF * len(parts):
            continue
        names = fold(sorted(finding.component for finding in group))
        text = f"{len(group)} of its {len(parts)} {what} alike ({names}): the first {group[0].text}"
        made = replace(group[0], component=name, text=text, weight=sum(one.weight for one in group), rivals=())
        into.update({id(finding): made for finding in group})
    kept = [into.get(id(finding), finding) for finding in findings]
    return list({(one.component, one.kind): one for one in kept}.values())
