"""Merge the same trouble on many hosts into one suspect, and tell missing devices from inventory mistakes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect

_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")


def merged(found: Sequence[Suspect]) -> list[Suspect]:
    """Merge ERROR suspects of one host each that tell the same story into one, hosts folded; the others stay."""
    groups: dict[object, list[Suspect]] = {}
    for number, suspect in enumerate(found):
        alike = suspect.outcome is Outcome.ERROR and len(suspect.hosts) == 1
        groups.setdefault(_story(suspect) if alike else number, []).append(suspect)
    return [_one(group) if len(group) > 1 else group[0] for group in groups.values()]


def names(suspect: Suspect) -> tuple[str, ...]:
    """Return the components that a suspect stands for: itself or, if it is merged, each host's own."""
    folded = fold(suspect.hosts)
    if len(suspect.hosts) < 2 or folded not in suspect.component:
        return (suspect.component,)
    return tuple(suspect.component.replace(folded, host) for host in suspect.hosts)


def _story(suspect: Suspect) -> tuple[object, ...]:
    """Return what a suspect says, without its host's name and address."""
    host = suspect.hosts[0]
    texts = (suspect.component, *suspect.evidence)
    return suspect.kind, tuple(_ADDRESS.sub("ADDRESS", text.replace(host, "HOST")) for text in texts)


def _one(group: Sequence[Suspect]) -> Suspect:
    first = group[0]
    hosts = tuple(suspect.hosts[0] for suspect in group)
    return replace(
        first,
        component=first.component.replace(first.hosts[0], fold(hosts)),
        evidence=(first.evidence[0], f"the same on {len(group)} hosts, here {first.hosts[0]}:", *first.evidence[1:]),
        hosts=hosts,
        probes=tuple(probe for suspect in group for probe in suspect.probes[:1]),
    )


def without_mistakes(
    probes: Sequence[Probe], verdicts: Mapping[str, ProbeVerdict], topology: Topology
) -> dict[str, ProbeVerdict]:
    """
    Return the verdicts; a device that no host of a platform has is an ERROR (correct the inventory), no missing part.

    On a single host the two cannot be told apart, and it stays a missing part.
    """
    if not any(verdict.named is not None and verdict.named.condition == "absent" for verdict in verdicts.values()):
        return dict(verdicts)
    hosts: dict[str, set[str]] = {}
    lacking: dict[tuple[str, str], set[str]] = {}
    for probe in probes:
        platform = topology.hosts[probe.hosts[0]].platform.name
        hosts.setdefault(platform, set()).update(probe.hosts)
        named = verdicts[probe.probe_id].named
        if named is not None and named.condition == "absent":
            host, device = Part.of(named.component).place
            lacking.setdefault((platform, device), set()).add(host)
    wrong = {key for key, where in lacking.items() if len(where) > 1 and where == hosts[key[0]]}
    if not wrong:
        return dict(verdicts)
    return {
        probe.probe_id: _corrected(verdicts[probe.probe_id], topology.hosts[probe.hosts[0]].platform.name, wrong)
        for probe in probes
    }


def _corrected(verdict: ProbeVerdict, platform: str, wrong: set[tuple[str, str]]) -> ProbeVerdict:
    named = verdict.named
    device = Part.of(named.component).item if named is not None and named.condition == "absent" else ""
    if (platform, device) not in wrong:
        return verdict
    reason = f"no host of platform {platform} has an RNIC {device}: is its name right in the inventory?"
    return replace(verdict, outcome=Outcome.ERROR, reason=reason)
