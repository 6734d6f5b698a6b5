"""
From bad probes to the parts that explain them: one slow RNIC seen by ten probes is one suspect, not ten.

Greedy cover: among the components of which (nearly) every telling probe is bad, take the one that explains most of
what is still unexplained; of equals the one that fewest probes pass through; until nothing is left. Components that
explain exactly the same probes cannot be told apart and are named together.

A good probe tells against a component only if it carried more than the component's bad probes did: an RNIC that is
held to 240 Gb/s shows nothing on a path that never carries more than 200.

Where a tool itself named the part (port down, no such device), that counts first and alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.analysis.candidates import NETWORK_KINDS, Component, components_of, named_components_of
from fabric.analysis.evidence import evidence_lines
from fabric.analysis.next_steps import next_step
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect

ENOUGH = 0.9
"""A component is a candidate when at least this share of its telling probes is bad (a choice: one lucky probe in
ten may pass by chance without clearing it)."""

TOLERANCE = 0.05
"""How much more than the bad probes a good one must have carried to tell against their component (a choice: wider than
the noise, narrower than any fault worth naming)."""

_MOST_PROBES = 20

_SPECIFIC_FIRST = ("path", "gpu_pcie", "nvlink", "numa", "link", "gpu", "rnic", "pcie_switch", "pair")

_Judged = tuple[Probe, ProbeVerdict]
_Components = Callable[[Probe, ProbeVerdict], Iterator[Component]]


@dataclass(frozen=True, slots=True)
class _Candidate:
    component: Component
    bad: frozenset[str]  # probe ids
    telling: int

    @property
    def share(self) -> float:
        return len(self.bad) / self.telling


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
    uncounted = {Outcome.SKIPPED, Outcome.INCONCLUSIVE, Outcome.ERROR, Outcome.FAIL} - {outcome}
    judged = [
        (probe, verdicts[probe.probe_id])
        for probe in _relevant(probes, bad_hosts, topology)
        if verdicts[probe.probe_id].outcome not in uncounted
    ]
    named = {probe.probe_id for probe, verdict in judged if verdict.outcome is outcome and verdict.named}
    found = _cover(judged, named, lambda probe, verdict: named_components_of(probe, verdict, topology), outcome)
    rest = [pair for pair in judged if pair[0].probe_id not in named]
    bad = {probe.probe_id for probe, verdict in rest if verdict.outcome is outcome}
    return found + _cover(rest, bad, lambda probe, _: components_of(probe, topology), outcome)


def _relevant(probes: Sequence[Probe], bad_hosts: set[str], topology: Topology) -> list[Probe]:
    """Every probe of the hosts in trouble, and what their neighbours under the same leaves sent over the network."""
    leaves = {topology.hosts[host].leaves for host in bad_hosts} - {()}
    neighbours = {host.name for host in topology.hosts.values() if host.leaves in leaves}
    return [
        probe
        for probe in probes
        if bad_hosts.intersection(probe.hosts) or (probe.kind in NETWORK_KINDS and neighbours.intersection(probe.hosts))
    ]


def _cover(judged: Sequence[_Judged], bad: set[str], components: _Components, outcome: Outcome) -> list[Suspect]:
    """Suspects until every *bad* probe is explained."""
    if not bad:
        return []
    candidates = _candidates(judged, bad, components)
    by_id = {probe.probe_id: (probe, verdict) for probe, verdict in judged}
    unexplained = set(bad)
    found: list[Suspect] = []
    while unexplained:
        best = max(candidates, key=lambda candidate: _rank(candidate, unexplained), default=None)
        if best is None or not best.bad & unexplained:
            break
        explained = best.bad & unexplained
        same = [c.component for c in candidates if c is not best and c.bad & unexplained == explained]
        found.append(_suspect(best, _rivals(best.component, same), [by_id[i] for i in sorted(best.bad)], outcome))
        unexplained -= explained
        candidates = [candidate for candidate in candidates if candidate.bad & unexplained]
    return found


def _candidates(judged: Iterable[_Judged], bad: set[str], components: _Components) -> list[_Candidate]:
    tallies: dict[Component, _Tally] = {}
    for probe, verdict in judged:
        for component in components(probe, verdict):
            tallies.setdefault(component, _Tally()).take(probe.kind, verdict, is_bad=probe.probe_id in bad)
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
    return len(candidate.bad & unexplained), candidate.share, -candidate.telling, -specific


def _suspect(best: _Candidate, rivals: Sequence[Component], bad: Sequence[_Judged], outcome: Outcome) -> Suspect:
    component = best.component
    said = "failed" if outcome is Outcome.FAIL else "had errors"
    worst_first = sorted(bad, key=lambda pair: (pair[1].value_gbps or 0.0) / (pair[1].limit_gbps or 1.0))
    return Suspect(
        component=component.name,
        kind=component.kind,
        outcome=outcome,
        confidence=round(best.share / (1 + len(rivals)), 3),
        evidence=(
            component.text,
            f"{len(best.bad)} of {best.telling} probes that could show it {said}",
            *evidence_lines([(probe.kind, verdict) for probe, verdict in bad]),
        ),
        ambiguous_with=tuple(rival.name for rival in rivals),
        next_step=next_step(component.kind, outcome, bad[0][1].named.condition if bad[0][1].named else None),
        hosts=tuple(dict.fromkeys(host for probe, _ in bad for host in probe.hosts)),
        probes=tuple(probe.probe_id for probe, _ in worst_first[:_MOST_PROBES]),
    )


def _rivals(best: Component, same: Sequence[Component]) -> list[Component]:
    """Components that cannot be told apart from the best one, less those that merely contain or restate it."""
    return [rival for rival in same if not _restates(best.name, rival.name)]


def _restates(best: str, other: str) -> bool:
    """A wider name for the same evidence (host for one of its parts) adds nothing; nor does a pair for its host."""
    host = best.split("/")[0].split(":")[0].split("+")[0]
    return other == host or "+" in other or best.startswith(other) or other.startswith(best)
