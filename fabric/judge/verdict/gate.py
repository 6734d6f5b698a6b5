"""
Who goes on to a phase that needs an earlier one: ``conclude.failed_hosts``, and what else is known of these hosts.

- The probes of ``again`` were chosen because of the repaired hosts: what is bad there again says nothing of a
  neighbour that was only their partner.
- Where no host at all could be judged, nobody goes on, and the reason says what to do about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric.judge.verdict.conclude import failed_hosts
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.probes.again import AgainSpec

_WHAT_TO_DO = (
    "no host could be judged: give its numbers a limit (judge: {baseline: NAME}, docs/baselines.md) or more "
    "repetitions, or take this phase out of needs"
)


def out_after(
    phase: Phase, probes: Sequence[Probe], results: Mapping[str, ProbeResult], *, judge: Judge
) -> dict[str, str]:
    """Hosts that did not pass *phase* and why in a few words; *probes*: the planned ones and those that were added."""
    failed = failed_hosts(probes, results, judge=judge)
    only = _repaired(phase)
    if only is not None:
        lost = {result.error_host for result in results.values()}
        failed = {host: why for host, why in failed.items() if host in only or host in lost}
    everybody = {host for probe in probes for host in probe.hosts}
    if failed and everybody == failed.keys() and all(_undecided(why) for why in failed.values()):
        return {host: f"{why}; {_WHAT_TO_DO}" for host, why in failed.items()}
    return failed


def _repaired(phase: Phase) -> frozenset[str] | None:
    """The hosts whose repair a phase looks at; None of any other phase."""
    found = [spec.because for spec in phase.probes if isinstance(spec, AgainSpec) and spec.because is not None]
    return frozenset(host for because in found for host in because.hosts) if found else None


def _undecided(why: str) -> bool:
    return all(part.endswith(f" {Outcome.INCONCLUSIVE.value}") for part in why.split(", "))


_WELL = (Outcome.PASS, Outcome.MARGINAL)


@dataclass(frozen=True, slots=True)
class OwnFails:
    """*failed*: hosts with a probe of their own that was bad, and which; *well*: those whose own all did well."""

    failed: Mapping[str, str]
    well: frozenset[str]


def own_fails(probes: Sequence[Probe], results: Mapping[str, ProbeResult], *, judge: Judge) -> OwnFails:
    """Judge the probes that stay inside one host. Who was not measured is in neither."""
    own = [probe for probe in probes if len(probe.hosts) == 1 and probe.probe_id in results]
    whole = judge.confirmed([probe for probe in probes if probe.probe_id in results], results)
    verdicts = [whole[probe.probe_id] for probe in own]
    measured = {probe.kind for probe, verdict in zip(own, verdicts, strict=True) if verdict.outcome in _WELL}
    failed: dict[str, Counter[tuple[str, str]]] = {}
    outcomes: dict[str, set[Outcome]] = {}
    for probe, verdict in zip(own, verdicts, strict=True):
        host = probe.hosts[0]
        outcomes.setdefault(host, set()).add(verdict.outcome)
        tried = results[probe.probe_id].attempt > 0
        if verdict.outcome is Outcome.FAIL or (verdict.outcome is Outcome.ERROR and tried and probe.kind in measured):
            failed.setdefault(host, Counter())[probe.kind, verdict.outcome.value] += 1
    words = {
        host: ", ".join(f"{number} {kind} {outcome}" for (kind, outcome), number in sorted(counts.items()))
        for host, counts in failed.items()
    }
    return OwnFails(words, frozenset(host for host, found in outcomes.items() if found.issubset(_WELL)))
