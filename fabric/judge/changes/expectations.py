"""
What a scenario expects of a fabric that is changed on purpose, against what was measured.

Ratios are judged in ``ratio.py``; here whether bandwidth came back in time after each change of a phase, or fell, and
how a phase ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from fabric.judge.changes.altered import not_in_force
from fabric.judge.changes.effects import PhaseCourse, WindowCourse, backs, felt, phase_course
from fabric.judge.changes.ratio import judge_ratio, selected, words
from fabric.judge.normal.samples import Sample, gave_up, name_of, samples
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Expectation, ExpectedEnd, ExpectedFall, ExpectedRatio, ExpectedRecovery, Phase
from fabric.model.text import fold
from fabric.model.verdict import ExpectationVerdict

_Found = tuple[Outcome, str, WindowCourse | None]


def judge_time(
    expected: ExpectedRecovery | ExpectedFall,
    phases: Sequence[Phase],
    samples: Sequence[Sample],
    changes: Sequence[ChangeResult],
) -> ExpectationVerdict:
    """
    The worst of all windows of all changes of the phase, in every round.

    Of a recovery: PASS when a sample that began after the window, and reached the share, had ended in time. FAIL when
    one that began later than that still had not reached it (or the transport gave up later than that). Of a fall: PASS
    when a sample below the share had ended in time, FAIL when one that began later was not below it yet. INCONCLUSIVE
    when the samples are too far apart to tell, or there are none before or after.
    """
    text = words(expected)
    names = [phase.name for phase in selected(expected.phase, phases)]
    found: list[_Found] = []
    count = 0
    for name in names:
        course = phase_course(name, phases, samples, changes)
        count += len(course.levels)
        for result in changes:
            if result.change.phase == name and result.change.is_fault:
                found += _judged(expected, course, result)
    if not found:
        return ExpectationVerdict(text, Outcome.INCONCLUSIVE, "no change was seen in force", n=count)
    outcome, reason, seen = max(found, key=lambda one: (one[0].rank, _longest_s(one[2])))
    if len(found) > 1:
        reason += f" (the worst of {len(found)} times in force)"
    return ExpectationVerdict(text, outcome, reason, None if seen is None else seen.seen_s, n=count)


def _longest_s(seen: WindowCourse | None) -> float:
    return -1.0 if seen is None else max(seen.seen_s or 0.0, seen.not_before_s)


def _judged(expected: ExpectedRecovery | ExpectedFall, course: PhaseCourse, result: ChangeResult) -> Iterator[_Found]:
    """Each time that one change was in force."""
    who, falls = result.change.change_id, isinstance(expected, ExpectedFall)
    unknown = "it was never in force" if not result.windows else ""
    if result.windows and course.before == 0:
        unknown = "no sample before it: let it begin later (at:)"
    if unknown:
        yield Outcome.INCONCLUSIVE, f"{who}: {unknown}", None
        return
    apart = "" if course.spacing_s is None else f", samples {course.spacing_s:.1f} s apart"
    holds = not isinstance(expected, ExpectedFall) and expected.since == "begin"
    each = (
        [felt(course, window, expected.fraction) for window in result.windows]
        if falls
        else backs(course, result.windows, expected.fraction, holds=holds)
    )
    for window, seen in zip(result.windows, each, strict=True):
        said = _fall(seen) if isinstance(expected, ExpectedFall) else _back(seen, expected.since)
        if not falls and window.ended_s is None and not holds:
            yield Outcome.INCONCLUSIVE, f"{who}: it was not seen ended", None
        elif not falls and seen.after == 0:
            yield Outcome.INCONCLUSIVE, f"{who}: no sample after it: let it end earlier, or repeat more", None
        elif seen.seen_s is not None and seen.seen_s <= expected.within_s:
            yield Outcome.PASS, f"{who}: {said}{apart}", seen
        elif seen.not_before_s > expected.within_s:
            yield Outcome.FAIL, f"{who}: {said}{apart}", seen
        else:
            few = "too far apart to tell, take shorter or more samples"
            yield Outcome.INCONCLUSIVE, f"{who}: {said}{apart}: {few}", seen


def _back(seen: WindowCourse, since: str) -> str:
    loss = "no loss seen" if seen.lost_s is None else f"loss seen after {seen.lost_s:.1f} s"
    if seen.seen_s is None:
        return f"{loss}, still not back {seen.not_before_s:.1f} s after its {since}"
    return f"{loss}, back {seen.seen_s:.1f} s after its {since}"


def _fall(seen: WindowCourse) -> str:
    if seen.seen_s is None:
        return f"not below it {seen.not_before_s:.1f} s after its begin"
    return f"below it {seen.seen_s:.1f} s after its begin"


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
    listed = list(samples(probes, results)) if expect else []
    found = []
    for expected in expect:
        meant = [phase for ref in expected.refs for phase in selected(ref, phases)]
        trouble = next(filter(None, (not_in_force(phase, changes) for phase in meant)), "")
        if trouble:
            reason = f"the change was not in force: {trouble}"
            found.append(ExpectationVerdict(words(expected), Outcome.INCONCLUSIVE, reason, in_force=False))
        elif isinstance(expected, ExpectedRatio):
            found.append(judge_ratio(expected, phases, listed, [result.change for result in changes]))
        elif isinstance(expected, ExpectedEnd):
            here = {phase.name for phase in meant}
            altered = {host for one in changes if one.change.phase in here for host in one.change.hosts}
            asked = [probe for probe in probes if probe.phase in here]
            found.append(_judge_end(expected, asked, results, altered))
        else:
            found.append(judge_time(expected, phases, listed, changes))
    return tuple(found)


def covered(expect: Sequence[Expectation], phases: Sequence[Phase], probes: Sequence[Probe]) -> set[str]:
    """The ids of the probes that some expectation judges, both sides of a comparison."""
    names: dict[str, set[str | None]] = defaultdict(set)
    for expected in expect:
        only = expected.probe if isinstance(expected, ExpectedRatio) else None
        for phase in (phase for ref in expected.refs for phase in selected(ref, phases)):
            names[phase.name].add(only)
    return {
        probe.probe_id
        for probe in (probes if names else ())
        if not names[probe.phase].isdisjoint((None, name_of(probe)))
    }


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
    rest = f"{missing} not reached" if missing else "the rest was not measured"
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
