"""Suspects of several planes together: all rails of a host bad is the host, the same part in two tests is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect

_EVIDENCE_MOST = 8
_LEAST_RAILS = 2


def merged(suspects: Sequence[Suspect], rails: Mapping[str, int]) -> list[Suspect]:
    """FAIL first, then by confidence. *rails* says on how many rails each host was measured."""
    by_name: dict[str, Suspect] = {}
    for suspect in suspects:
        known = by_name.get(suspect.component)
        by_name[suspect.component] = suspect if known is None else _joined(known, suspect)
    found = _whole_hosts(list(by_name.values()), rails)
    return sorted(found, key=lambda one: (one.outcome is not Outcome.FAIL, -one.confidence, one.component))


def _joined(first: Suspect, second: Suspect) -> Suspect:
    """The same part in two kinds of test: the surer verdict, the evidence of both, only rivals that both allow."""
    surer, other = (first, second) if first.confidence >= second.confidence else (second, first)
    rivals = tuple(name for name in surer.ambiguous_with if name in other.ambiguous_with or not other.ambiguous_with)
    return replace(
        surer,
        outcome=Outcome.worst((first.outcome, second.outcome)),
        ambiguous_with=rivals,
        evidence=tuple(dict.fromkeys((*surer.evidence, *other.evidence)))[:_EVIDENCE_MOST],
    )


def _whole_hosts(suspects: list[Suspect], rails: Mapping[str, int]) -> list[Suspect]:
    """One suspect for a host of which every measured rail, two at least, is bad."""
    of_host: dict[str, list[Suspect]] = {}
    for suspect in suspects:
        if suspect.kind == "rnic":
            of_host.setdefault(suspect.hosts[0], []).append(suspect)
    whole = {
        host
        for host, parts in of_host.items()
        if len({_rnic(part.component) for part in parts}) >= max(rails.get(host, 0), _LEAST_RAILS)
    }
    kept = [suspect for suspect in suspects if suspect.kind != "rnic" or suspect.hosts[0] not in whole]
    return kept + [_host(host, of_host[host]) for host in whole]


def _rnic(component: str) -> str:
    return component.removesuffix(":tx").removesuffix(":rx")


def _host(host: str, parts: Sequence[Suspect]) -> Suspect:
    names = ", ".join(sorted(part.component.split("/")[-1] for part in parts))
    return Suspect(
        component=host,
        kind="host",
        outcome=Outcome.worst(part.outcome for part in parts),
        confidence=max(part.confidence for part in parts),
        evidence=(f"all measured rails of the host are slow: {names}", *parts[0].evidence[1:])[:_EVIDENCE_MOST],
        next_step="what all rails share first: power, BIOS, PCIe settings, firmware; then loopback on each RNIC",
        hosts=(host,),
    )
