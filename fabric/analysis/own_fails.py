"""
Which hosts do badly by their own probes: what was measured with another host accuses both, and so it does not count.

A probe that ended in an ERROR is as bad a sign, where other hosts did the same probe well: what hangs says nothing. Of
what ended so on all hosts nothing is concluded: then the fault is ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric.analysis.judge import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult

_WELL = (Outcome.PASS, Outcome.MARGINAL)


@dataclass(frozen=True, slots=True)
class OwnFails:
    """*failed*: hosts with a probe of their own that was bad, and which; *well*: those whose own all did well."""

    failed: Mapping[str, str]
    well: frozenset[str]


def own_fails(probes: Sequence[Probe], results: Mapping[str, ProbeResult], *, judge: Judge) -> OwnFails:
    """Judge the probes that stay inside one host. Who was not measured is in neither."""
    own = [probe for probe in probes if len(probe.hosts) == 1 and probe.probe_id in results]
    verdicts = judge.judge((probe, results[probe.probe_id]) for probe in own)
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
