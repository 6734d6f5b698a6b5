"""What a scenario expects of a fabric that is changed on purpose, against what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from fabric.judge.changes.altered import not_in_force
from fabric.judge.changes.ratio import judge_ratio, words
from fabric.judge.changes.recovery import judge_time
from fabric.judge.changes.sides import selected
from fabric.judge.normal.samples import Sample, gave_up, name_of, samples
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Expectation, ExpectedEnd, ExpectedRatio, Phase
from fabric.model.text import fold
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
        for ref in expected.refs:
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
    meant = [phase for ref in expected.refs for phase in selected(ref, phases)]
    trouble = next(filter(None, (not_in_force(phase, changes) for phase in meant)), "")
    if trouble:
        return ExpectationVerdict(words(expected), Outcome.INCONCLUSIVE, f"the change was not in force: {trouble}")
    if isinstance(expected, ExpectedRatio):
        return judge_ratio(expected, phases, listed, [result.change for result in changes])
    if isinstance(expected, ExpectedEnd):
        here = {phase.name for phase in meant}
        altered = {host for one in changes if one.change.phase in here for host in one.change.hosts}
        return _judge_end(expected, [probe for probe in probes if probe.phase in here], results, altered)
    return judge_time(expected, phases, listed, changes)


def _judge_end(
    expected: ExpectedEnd, probes: Sequence[Probe], results: Mapping[str, ProbeResult], altered: AbstractSet[str]
) -> ExpectationVerdict:
    """
    Of what was not measured for another reason than the transport, nothing is concluded.

    Probes of hosts that were left out do not count, where everybody else and the *altered* hosts were measured.
    """
    probes, without = _asked_of(probes, results, altered)
    text, n = words(expected), len(probes)
    found = [results.get(probe.probe_id) for probe in probes]
    given_up = [result for result in found if result is not None and gave_up(result)]
    measured = [result for result in found if result is not None and result.outcome is None and result.measurements]
    first = f", first {given_up[0].probe_id}: {given_up[0].reason}" if given_up else ""
    counted = f"{len(measured)} of {n} completed, {len(given_up)} given up by the transport{first}{without}"
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
    missing = sum(result is None for result in found)
    rest = (
        f"{missing} not reached: the run ended before (fabric resume RUN)" if missing else "the rest was not measured"
    )
    return ExpectationVerdict(text, Outcome.INCONCLUSIVE, f"{counted}; {rest}", n=n)


def _asked_of(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], altered: AbstractSet[str]
) -> tuple[Sequence[Probe], str]:
    """
    The probes without those that were SKIPPED because a host was left out, and what is said of that.

    All of them, where somebody who could have been measured with another was not, or a host that was altered.
    """
    kept = [p for p in probes if p.probe_id not in results or results[p.probe_id].outcome is not Outcome.SKIPPED]
    asked, taking_part = ({host for probe in some for host in probe.hosts} for some in (probes, kept))
    left_out = {results[p.probe_id].reason.partition(":")[0] for p in probes if p not in kept}
    if not kept or not left_out or not (asked - taking_part).issubset(left_out - altered):
        return probes, ""
    return kept, f" ({len(probes) - len(kept)} left out with {fold(sorted(left_out))})"
