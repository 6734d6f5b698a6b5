"""
Probes of phases in which the fabric was changed on purpose.

A fault that we made is not the fabric's: while one was in force no limit applies, nobody is blamed, and a transport
that gave up is an observation. What such a probe is worth only an expectation can say:

- covered by an expectation: PASS, "judged by what is expected"; the expectation has its own outcome, which counts for
  the whole, so nothing bad is lost, and a run whose expectations all hold ends PASS;
- covered by none: INCONCLUSIVE, "altered on purpose, and nothing says what to expect";
- of a phase whose change was refused, failed or lost: ERROR, "not measured as asked", whatever it measured.

What a transport cannot explain (wrong results, a dead GPU, a host that is silent) stays what it is, without a suspect:
with the fabric altered its cause cannot be told. Probes of healthy phases that are compared, and have no limit in any
baseline, are covered too; where there is a limit it counts as always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from fabric.judge.normal.samples import gave_up
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.verdict import ProbeVerdict

NOT_AS_ASKED = ("refused", "failed", "lost")
"""States of a change after which its phase was not what was asked for."""


def said(result: ChangeResult) -> str:
    """``degraded/ber.x refused: its host runs a job``."""
    return f"{result.change.change_id} {result.state}{f': {result.reason}' if result.reason else ''}"


def not_in_force(phase: Phase, changes: Sequence[ChangeResult]) -> str:
    """Why a phase was not, or not surely, what was asked for; empty when all its changes were made and taken back."""
    own = [result for result in changes if result.change.phase == phase.name]
    for result in own:
        if result.state != "reverted":
            return said(result)
    # Adaptive routing for the job alone is an environment variable: nothing is altered, and nothing written.
    altering = [spec for spec in phase.changes if spec.alters]
    return f"{phase.name} was not reached" if altering and not own else ""


BY_EXPECTATION = "judged by what is expected"
UNEXPECTED = "altered on purpose, and nothing says what to expect"


@dataclass(frozen=True, slots=True)
class Alterations:
    """
    Phases by what was done to them.

    *faulty*: a fault was in force; *troubled*: a change did not end as asked, or may still be live; *not_as_asked*:
    those whose measurements are therefore worth nothing, and why.
    """

    faulty: frozenset[str]
    troubled: frozenset[str]
    not_as_asked: Mapping[str, str]


def alterations(changes: Sequence[ChangeResult]) -> Alterations:
    """What was changed in which phase."""
    bad = [result for result in changes if result.state in NOT_AS_ASKED]
    return Alterations(
        # Seen in force, or nobody knows that it was not.
        faulty=frozenset(
            result.change.phase
            for result in changes
            if result.change.is_fault and (result.windows or result.state in ("reverted", "open"))
        ),
        troubled=frozenset(result.change.phase for result in changes if result.state != "reverted"),
        not_as_asked={result.change.phase: f"not measured as asked: {said(result)}" for result in reversed(bad)},
    )


def unblamed(probes: Sequence[Probe], verdicts: Mapping[str, ProbeVerdict], altered: Alterations) -> set[str]:
    """
    The ids of the probes from which no suspect is made.

    Where only a toggle went wrong, what a tool itself calls bad is still the fabric's.
    """
    return {
        probe.probe_id
        for probe in probes
        if probe.phase in altered.faulty
        or (probe.phase in altered.troubled and verdicts[probe.probe_id].outcome is not Outcome.FAIL)
    }


def as_altered(
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    results: Mapping[str, ProbeResult],
    altered: Alterations,
    covered: AbstractSet[str],
) -> dict[str, ProbeVerdict]:
    """The verdicts, each as it counts when some phases were altered; the others unchanged."""
    found = dict(verdicts)
    if not (altered.faulty or altered.not_as_asked or covered):
        return found
    for probe in probes:
        verdict, result = verdicts[probe.probe_id], results.get(probe.probe_id)
        if result is not None:
            found[probe.probe_id] = _one(probe, verdict, result, altered, is_covered=probe.probe_id in covered)
    return found


def _one(
    probe: Probe, verdict: ProbeVerdict, result: ProbeResult, altered: Alterations, *, is_covered: bool
) -> ProbeVerdict:
    measured = result.outcome is None and bool(result.measurements)
    faulty = probe.phase in altered.faulty
    if not measured and not (faulty and gave_up(result)):
        return verdict
    if probe.phase in altered.not_as_asked:
        return replace(verdict, outcome=Outcome.ERROR, reason=altered.not_as_asked[probe.phase], limit_gbps=None)
    if not faulty:
        healthy_without_limit = verdict.outcome is Outcome.INCONCLUSIVE and verdict.limit_gbps is None
        return _covered(verdict, BY_EXPECTATION) if is_covered and healthy_without_limit else verdict
    what = f"{verdict.value_gbps:.1f} Gb/s, " if verdict.value_gbps is not None else "given up under the change, "
    if is_covered:
        return _covered(verdict, f"{what}{BY_EXPECTATION}")
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=f"{what}{UNEXPECTED}", limit_gbps=None, named=None)


def _covered(verdict: ProbeVerdict, reason: str) -> ProbeVerdict:
    return replace(verdict, outcome=Outcome.PASS, reason=reason, limit_gbps=None, named=None)
