"""
Who goes on to a phase that needs an earlier one: ``conclude.failed_hosts``, and what else is known of these hosts.

- The probes of ``again`` were chosen because of the repaired hosts: what is bad there again says nothing of a
  neighbour that was only their partner.
- Where no host at all could be judged, nobody goes on, and the reason says what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.analysis.conclude import failed_hosts
from fabric.analysis.judge import Judge
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
