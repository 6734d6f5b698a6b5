"""What a scenario expects of a fabric that is changed on purpose, against what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.analysis.as_asked import not_in_force
from fabric.analysis.compared import selected
from fabric.analysis.expected_words import words
from fabric.analysis.gave_up import gave_up
from fabric.analysis.ratio import judge_ratio
from fabric.analysis.recovery import judge_recovery
from fabric.analysis.samples import Sample, name_of, samples
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Expectation, ExpectedEnd, ExpectedRatio, Phase, PhaseRef
from fabric.model.verdict import ExpectationVerdict


def judge_expectations(
    expect: Sequence[Expectation],
    phases: Sequence[Phase],
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    changes: Sequence[ChangeResult],
) -> tuple[ExpectationVerdict, ...]:
    """
    One verdict each, in the order of *expect*.

    Where a change of a phase was not made as asked, or may still be live, nothing is concluded from that phase:
    INCONCLUSIVE, never PASS or FAIL.
    """
    if not expect:
        return ()
    listed = list(samples(probes, results))
    return tuple(_judge(expected, phases, probes, results, changes, listed) for expected in expect)


def covered(expect: Sequence[Expectation], phases: Sequence[Phase], probes: Sequence[Probe]) -> set[str]:
    """The ids of the probes that some expectation judges, both sides of a comparison."""
    if not expect:
        return set()
    names: dict[str, set[str | None]] = {}
    for expected in expect:
        only = expected.probe if isinstance(expected, ExpectedRatio) else None
        for ref in _refs(expected):
            for phase in selected(ref, phases):
                names.setdefault(phase.name, set()).add(only)
    return {
        probe.probe_id
        for probe in probes
        if (wanted := names.get(probe.phase)) is not None and (None in wanted or name_of(probe) in wanted)
    }


def _judge(
    expected: Expectation,
    phases: Sequence[Phase],
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    changes: Sequence[ChangeResult],
    listed: Sequence[Sample],
) -> ExpectationVerdict:
    meant = [phase for ref in _refs(expected) for phase in selected(ref, phases)]
    trouble = next(filter(None, (not_in_force(phase, changes) for phase in meant)), "")
    if trouble:
        return ExpectationVerdict(words(expected), Outcome.INCONCLUSIVE, f"the change was not in force: {trouble}")
    if isinstance(expected, ExpectedRatio):
        return judge_ratio(expected, phases, listed, [result.change for result in changes])
    if isinstance(expected, ExpectedEnd):
        here = {phase.name for phase in meant}
        return _judge_end(expected, [probe for probe in probes if probe.phase in here], results)
    return judge_recovery(expected, phases, listed, changes)


def _refs(expected: Expectation) -> tuple[PhaseRef, ...]:
    return (expected.of, expected.over) if isinstance(expected, ExpectedRatio) else (expected.phase,)


def _judge_end(
    expected: ExpectedEnd, probes: Sequence[Probe], results: Mapping[str, ProbeResult]
) -> ExpectationVerdict:
    """Of what was not measured for another reason than the transport, nothing is concluded."""
    text, n = words(expected), len(probes)
    found = [results.get(probe.probe_id) for probe in probes]
    given_up = [result for result in found if result is not None and gave_up(result)]
    measured = [result for result in found if result is not None and result.outcome is None and result.measurements]
    first = f", first {given_up[0].probe_id}: {given_up[0].reason}" if given_up else ""
    counted = f"{len(measured)} of {n} completed, {len(given_up)} given up by the transport{first}"
    if measured and not expected.completes:
        return ExpectationVerdict(text, Outcome.FAIL, counted, n=n)
    if given_up and expected.completes:
        return ExpectationVerdict(text, Outcome.FAIL, counted, n=n)
    if n and n in (len(measured), len(given_up)):
        return ExpectationVerdict(text, Outcome.PASS, counted, n=n)
    others = [result for result in found if result is not None and result.outcome and not gave_up(result)]
    worst = Outcome.worst(result.outcome for result in others if result.outcome is not None)
    if worst in (Outcome.ERROR, Outcome.FAIL):
        reason = next(result.reason for result in others if result.outcome is worst)
        return ExpectationVerdict(text, worst, f"{counted}; {reason}", n=n)
    return ExpectationVerdict(text, Outcome.INCONCLUSIVE, f"{counted}; the rest was not measured", n=n)
