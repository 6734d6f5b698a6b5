"""
Who goes on to a phase that needs an earlier one, and whose own probes are bad in a round of a soak.

- A host is left out for what accuses it: a probe that stays inside it, one that no part elsewhere explains, an error.
  What a leaf, its uplinks or another host explain does not speak against the hosts that were measured through them.
- The probes of ``again`` were chosen because of the repaired hosts: what is bad there again says nothing of a
  neighbour that was only their partner.
- Where no host at all could be judged, nobody goes on, and the reason says what to do about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric.judge.locate.candidates import SPINES
from fabric.judge.normal.congestion import of_nobody
from fabric.judge.normal.keys import CROSS_LEAF, link_class
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict
from fabric.probes.again import AgainSpec

if TYPE_CHECKING:
    from fabric.judge.locate.suspects import Located

_WHAT_TO_DO = (
    "no host could be judged: give its numbers a limit (judge: {baseline: NAME}, docs/baselines.md) or more "
    "repetitions, or take this phase out of needs"
)


def out_after(
    phase: Phase, probes: Sequence[Probe], results: Mapping[str, ProbeResult], *, judge: Judge
) -> dict[str, str]:
    """Hosts that did not pass *phase* and why in a few words; *probes*: the planned ones and those that were added."""
    failed = failed_hosts(probes, results, judge=judge)
    because = [spec.because for spec in phase.probes if isinstance(spec, AgainSpec) and spec.because is not None]
    if because:
        repaired = {host for one in because for host in one.hosts}
        lost = {result.error_host for result in results.values()}
        failed = {host: why for host, why in failed.items() if host in repaired or host in lost}
    everybody = {host for probe in probes for host in probe.hosts}
    undecided = f" {Outcome.INCONCLUSIVE.value}"
    said = [part for why in failed.values() for part in why.split(", ")]
    if said and everybody == failed.keys() and all(part.endswith(undecided) for part in said):
        return {host: f"{why}; {_WHAT_TO_DO}" for host, why in failed.items()}
    return failed


def failed_hosts(probes: Sequence[Probe], results: Mapping[str, ProbeResult], *, judge: Judge) -> dict[str, str]:
    """
    Hosts that did not pass, and why in a few words.

    Who failed only together with hosts, and did well with others, is cleared: the neighbour of a bad host is not bad.
    """
    verdicts, located = judge.confirmed(probes, results)
    elsewhere = _explained_elsewhere(probes, verdicts, located, judge.topology)
    pairs = [probe for probe in probes if len(probe.hosts) > 1 and verdicts[probe.probe_id].outcome.is_good]
    well = {(host, probe.kind, probe.hosts) for probe in pairs for host in probe.hosts}
    partners = Counter((host, kind) for host, kind, _ in well)
    bad, accuses_nobody = [], of_nobody(probes, results)
    for probe in probes:
        if probe.probe_id in accuses_nobody:
            continue
        outcome, lost = verdicts[probe.probe_id].outcome, results[probe.probe_id].error_host
        for host in probe.hosts if not outcome.is_good else ():
            cleared = partners[host, probe.kind] > ((host, probe.kind, probe.hosts) in well)
            if lost == host or not (cleared or (host, probe.probe_id) in elsewhere):
                bad.append((host, probe.kind, outcome.value))
    return _counted(bad)


def _explained_elsewhere(
    probes: Iterable[Probe], verdicts: Mapping[str, ProbeVerdict], located: Located, topology: Topology
) -> set[tuple[str, str]]:
    """
    Hosts with slow probes (their ids) over switches which parts explain that are not, or need not be, the host's own.

    A port that is slow in all cross-rail probes may as well be the cable above its leaf: later phases can tell.
    """
    blamed = {
        host
        for one in located.suspects
        if not any(_is_above(name, topology) for name in (one.component, *one.ambiguous_with))
        for host in one.hosts
    }
    return {
        (host, probe.probe_id)
        for probe in probes
        if probe.probe_id in located.explained and verdicts[probe.probe_id].value_gbps is not None
        if len(probe.hosts) > 1 or link_class(probe, topology) == CROSS_LEAF
        for host in probe.hosts
        if host not in blamed
    }


def _is_above(name: str, topology: Topology) -> bool:
    """Whether it is a switch, or above one."""
    part = Part.of(name)
    known = part.host in topology.switches or part.host == SPINES
    return known or part.aspect == "above" or part.link_ends is not None


def _counted(bad: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """``2 loopback fail, 1 all_to_all error``, by host."""
    found: dict[str, list[str]] = {}
    for (host, kind, outcome), count in sorted(Counter(bad).items()):
        found.setdefault(host, []).append(f"{count} {kind} {outcome}")
    return {host: ", ".join(said) for host, said in found.items()}


@dataclass(frozen=True, slots=True)
class OwnFails:
    """*failed*: hosts with a probe of their own that was bad, and which; *well*: those whose own all did well."""

    failed: Mapping[str, str]
    well: frozenset[str]


def own_fails(probes: Sequence[Probe], results: Mapping[str, ProbeResult], *, judge: Judge) -> OwnFails:
    """Judge the probes that stay inside one host. Who was not measured is in neither."""
    ran = [probe for probe in probes if probe.probe_id in results]
    verdicts, located = judge.confirmed(ran, results)
    elsewhere = _explained_elsewhere(ran, verdicts, located, judge.topology)
    own = [(probe, verdicts[probe.probe_id].outcome) for probe in ran if len(probe.hosts) == 1]
    own = [(probe, outcome) for probe, outcome in own if (probe.hosts[0], probe.probe_id) not in elsewhere]
    measured = {probe.kind for probe, outcome in own if outcome.is_good}
    bad = [
        (probe.hosts[0], probe.kind, outcome.value)
        for probe, outcome in own
        if outcome is Outcome.FAIL
        or (outcome is Outcome.ERROR and results[probe.probe_id].attempt > 0 and probe.kind in measured)
    ]
    unwell = {probe.hosts[0] for probe, outcome in own if not outcome.is_good}
    return OwnFails(_counted(bad), frozenset(probe.hosts[0] for probe, _ in own) - unwell)
