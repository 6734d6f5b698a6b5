"""Merge the same trouble on many hosts into one suspect, and tell missing devices from inventory mistakes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from fabric.judge.normal.keys import grouped
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect

_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_COUNT = re.compile(r"\d+ of \d+ |^(\d+ times, first )?[^ /]+/\S+: ")
"""How many probes say it, and which is the first: hosts of several kinds have not as many."""

_GIVEN_UP = re.compile(r"^HOST: given up: (?:\d+ errors in a row, the last: )?")
"""What became of probes that ran when their host went out of the run; the reason follows, as others of it had it."""


def merged(found: Sequence[Suspect]) -> list[Suspect]:
    """Merge ERROR suspects of one host each that tell the same story into one, hosts folded; the others stay."""
    return [_one(group) if len(group) > 1 else group[0] for group in grouped(found, _story).values()]


def names(suspect: Suspect) -> tuple[str, ...]:
    """Return the components that a suspect stands for: itself or, if it is merged, each host's own."""
    folded = fold(suspect.hosts)
    if len(suspect.hosts) < 2 or folded not in suspect.component:
        return (suspect.component,)
    return tuple(suspect.component.replace(folded, host) for host in suspect.hosts)


def names_of(suspects: Iterable[Suspect]) -> set[str]:
    """Return the names of the suspects and of the parts that they cannot be told apart from."""
    return {name for one in suspects for name in (one.component, *one.ambiguous_with)}


def _story(suspect: Suspect) -> Hashable:
    """
    Return what an ERROR suspect of one host says, without the host's name, address and counts, and whether probes were
    given up because of it; others are each alone.
    """
    if suspect.outcome is not Outcome.ERROR or len(suspect.hosts) != 1:
        return id(suspect)
    host = suspect.hosts[0]
    texts = (suspect.component, *(_COUNT.sub("", text) for text in suspect.evidence))
    plain = (_ADDRESS.sub("ADDRESS", text.replace(host, "HOST")) for text in texts)
    return suspect.kind, frozenset(_GIVEN_UP.sub("HOST: ", text) for text in plain)


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
    named = {name: one.named for name, one in verdicts.items() if one.named and one.named.condition == "absent"}

    def lacked(probe: Probe) -> tuple[str, str]:
        """Return the platform of a probe, and the device that its host lacks."""
        return topology.hosts[probe.hosts[0]].platform.name, Part.of(named[probe.probe_id].component).item

    found = dict(verdicts)
    for (platform, device), lacking in grouped((one for one in probes if one.probe_id in named), lacked).items():
        alike = (one for one in probes if topology.hosts[one.hosts[0]].platform.name == platform)
        hosts = {host for probe in alike for host in probe.hosts}
        without = {Part.of(named[probe.probe_id].component).host for probe in lacking}
        if len(without) > 1 and without == hosts:
            reason = f"no host of platform {platform} has an RNIC {device}: is its name right in the inventory?"
            for name in (probe.probe_id for probe in lacking):
                found[name] = replace(verdicts[name], outcome=Outcome.ERROR, reason=reason)
    return found
