"""
From bad probes to the parts that explain them: one slow RNIC seen by ten probes is one suspect, not ten.

Greedy cover: among the components of which (nearly) every telling probe is bad, take the one that explains most of
what is still unexplained; of equals the one that fewest probes pass through; until nothing is left. Components that
explain exactly the same probes cannot be told apart and are named together.

A good probe tells against a component only if it carried more than the component's bad probes did: an RNIC that is
held to 240 Gb/s shows nothing on a path that never carries more than 200.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric.analysis.candidates import NETWORK_KINDS, Component, components_of
from fabric.analysis.evidence import evidence_lines
from fabric.analysis.next_steps import next_step
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect

ENOUGH = 0.9
"""A component is a candidate when at least this share of its measured probes is bad (a choice: one lucky probe in
ten may pass by chance without clearing it)."""

TOLERANCE = 0.05
"""How much more than the bad probes a good one must have carried to tell against their component (a choice: wider than
the noise, narrower than any fault worth naming)."""

_SPECIFIC_FIRST = ("path", "gpu_pcie", "nvlink", "numa", "link", "gpu", "rnic", "pcie_switch", "pair")


@dataclass(frozen=True, slots=True)
class _Candidate:
    component: Component
    bad: frozenset[str]  # probe ids
    measured: int

    @property
    def share(self) -> float:
        return len(self.bad) / self.measured


def suspects(
    probes: Sequence[Probe], verdicts: Mapping[str, ProbeVerdict], *, topology: Topology, outcome: Outcome
) -> list[Suspect]:
    """
    The components that explain every probe whose outcome is *outcome* (FAIL, or ERROR), most telling first.

    Probes that were skipped, or that ended in the other kind of trouble, count neither for nor against.
    """
    bad_hosts = {host for probe in probes if verdicts[probe.probe_id].outcome is outcome for host in probe.hosts}
    if not bad_hosts:
        return []
    relevant = _relevant(probes, bad_hosts, topology)
    candidates = _candidates(relevant, verdicts, topology=topology, outcome=outcome)
    kinds = {probe.probe_id: probe.kind for probe in relevant}
    unexplained = {probe.probe_id for probe in relevant if verdicts[probe.probe_id].outcome is outcome}
    found: list[Suspect] = []
    while unexplained:
        best = max(candidates, key=lambda candidate: _rank(candidate, unexplained), default=None)
        if best is None or not best.bad & unexplained:
            break
        explained = best.bad & unexplained
        same = [c.component for c in candidates if c is not best and c.bad & unexplained == explained]
        evidence = evidence_lines([(kinds[probe_id], verdicts[probe_id]) for probe_id in sorted(best.bad)])
        found.append(_suspect(best, same, evidence, outcome))
        unexplained -= explained
        candidates = [candidate for candidate in candidates if candidate.bad & unexplained]
    return found


def _relevant(probes: Sequence[Probe], bad_hosts: set[str], topology: Topology) -> list[Probe]:
    """Every probe of the hosts in trouble, and what their neighbours under the same leaves sent over the network."""
    leaves = {topology.hosts[host].leaves for host in bad_hosts} - {()}
    neighbours = {host.name for host in topology.hosts.values() if host.leaves in leaves}
    return [
        probe
        for probe in probes
        if bad_hosts.intersection(probe.hosts) or (probe.kind in NETWORK_KINDS and neighbours.intersection(probe.hosts))
    ]


def _candidates(
    probes: Sequence[Probe], verdicts: Mapping[str, ProbeVerdict], *, topology: Topology, outcome: Outcome
) -> list[_Candidate]:
    tallies: dict[Component, _Tally] = {}
    uncounted = {Outcome.SKIPPED, Outcome.INCONCLUSIVE, Outcome.ERROR, Outcome.FAIL} - {outcome}
    for probe in probes:
        verdict = verdicts[probe.probe_id]
        if verdict.outcome in uncounted:
            continue
        for component in components_of(probe, topology):
            tallies.setdefault(component, _Tally()).take(probe.kind, verdict, is_bad=verdict.outcome is outcome)
    found = [
        _Candidate(component, frozenset(tally.bad), len(tally.bad) + tally.against())
        for component, tally in tallies.items()
        if tally.bad
    ]
    return [candidate for candidate in found if candidate.share >= ENOUGH]


class _Tally:
    """What speaks for and against one component; numbers are compared within one kind of probe only."""

    def __init__(self) -> None:
        self.bad: set[str] = set()
        self._most_bad_gbps: dict[str, float] = {}
        self._good_gbps: list[tuple[str, float]] = []

    def take(self, kind: str, verdict: ProbeVerdict, *, is_bad: bool) -> None:
        value_gbps = verdict.value_gbps or 0.0
        if is_bad:
            self.bad.add(verdict.probe_id)
            self._most_bad_gbps[kind] = max(self._most_bad_gbps.get(kind, 0.0), value_gbps)
        else:
            self._good_gbps.append((kind, value_gbps))

    def against(self) -> int:
        """How many good probes carried more than a component as bad as this could let through."""
        least = {kind: value * (1 + TOLERANCE) for kind, value in self._most_bad_gbps.items()}
        return sum(value > least.get(kind, -1.0) for kind, value in self._good_gbps)


def _rank(candidate: _Candidate, unexplained: set[str]) -> tuple[int, float, int, int]:
    kind = candidate.component.kind
    specific = _SPECIFIC_FIRST.index(kind) if kind in _SPECIFIC_FIRST else len(_SPECIFIC_FIRST)
    return len(candidate.bad & unexplained), candidate.share, -candidate.measured, -specific


def _suspect(best: _Candidate, same: Sequence[Component], evidence: Sequence[str], outcome: Outcome) -> Suspect:
    said = "failed" if outcome is Outcome.FAIL else "had errors"
    lines = [f"{len(best.bad)} of {best.measured} probes that tell of it {said}", *evidence]
    component = best.component
    return Suspect(
        component=component.name,
        kind=component.kind,
        outcome=outcome,
        confidence=round(best.share / (1 + len(_rivals(component, same))), 3),
        evidence=(component.text, *lines),
        ambiguous_with=tuple(rival.name for rival in _rivals(component, same)),
        next_step=next_step(component, outcome),
    )


def _rivals(best: Component, same: Sequence[Component]) -> list[Component]:
    """Components that cannot be told apart from the best one, less those that merely contain or restate it."""
    return [rival for rival in same if not _restates(best.name, rival.name)]


def _restates(best: str, other: str) -> bool:
    """A wider name for the same evidence (host for one of its parts) adds nothing; nor does a pair for its host."""
    host = best.split("/")[0].split(":")[0].split("+")[0]
    return other == host or "+" in other or best.startswith(other) or other.startswith(best)
