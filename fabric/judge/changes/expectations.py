"""Judging expectations of a fabric that is changed on purpose, and how the probes of altered phases count.

``ratio.py`` judges ratios. This file judges whether bandwidth came back in time after each change of a phase, and
whether a phase completed.

A fault that we made is not the fabric's. While one was in force no limit applies, no part is blamed, and a transport
that gave up is an observation. Only an expectation can judge such a probe:

- If an expectation covers it: PASS, "judged by what is expected". The expectation has its own outcome, which counts
  for the run, so nothing bad is lost, and a run whose expectations all hold ends PASS.
- If none covers it: INCONCLUSIVE, "altered on purpose, and nothing says what to expect".
- If a change of its phase was refused, failed or lost: ERROR, "not measured as asked", whatever it measured.

A result that no transport explains (wrong results, a dead GPU, a silent host) keeps its outcome, but names no suspect:
with the fabric altered its cause cannot be told. Probes of healthy phases that are compared and have no limit in any
baseline are covered too; if they have a limit, it counts as always.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from fabric.judge.changes.effects import PhaseCourse, WindowCourse, phase_course, recoveries
from fabric.judge.changes.ratio import judge_ratio, selected, words
from fabric.judge.normal.keys import Sample, gave_up, name_of, samples
from fabric.model import gathered
from fabric.model.change import ChangeResult, Changes
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult, Results
from fabric.model.scenario import Expectation, ExpectedEnd, ExpectedRatio, ExpectedRecovery, Phase
from fabric.model.text import fold
from fabric.model.verdict import ExpectationVerdict, ProbeVerdict, Verdicts

NOT_AS_ASKED = ("refused", "failed", "lost")
"""States of a change after which its phase was not what was asked for."""


def state_text(result: ChangeResult) -> str:
    """Return a text such as ``degraded/ber.x refused: its host runs a job``."""
    return f"{result.change.change_id} {result.state}{f': {result.reason}' if result.reason else ''}"


def not_in_force(phase: Phase, changes: Changes) -> str:
    """Return why a phase was perhaps not as asked for; empty if all its changes were made and taken back."""
    own = [result for result in changes if result.change.phase == phase.name]
    for result in own:
        if result.state != "reverted":
            return state_text(result)
    # Adaptive routing for one job alone is an environment variable: it alters nothing, so it has no result.
    altering = [spec for spec in phase.changes if spec.alters]
    return f"{phase.name} was not reached" if altering and not own else ""


BY_EXPECTATION = "judged by what is expected"
UNEXPECTED = "altered on purpose, and nothing says what to expect"


@dataclass(frozen=True, slots=True)
class Alterations:
    """
    The phases that were altered.

    *faulty*: a fault was in force. *troubled*: a change did not end as asked, or may still be live. *not_as_asked*: the
    phases whose measurements are worth nothing because of that, each with the reason.
    """

    faulty: frozenset[str]
    troubled: frozenset[str]
    not_as_asked: Mapping[str, str]


def alterations(changes: Changes) -> Alterations:
    """Sort the phases by what the changes did to them."""
    bad = [result for result in changes if result.state in NOT_AS_ASKED]
    return Alterations(
        # The fault was seen in force, or nobody knows that it was not.
        faulty=frozenset(
            result.change.phase
            for result in changes
            if result.change.is_fault and (result.windows or result.state in ("reverted", "open"))
        ),
        troubled=frozenset(result.change.phase for result in changes if result.state != "reverted"),
        not_as_asked={result.change.phase: f"not measured as asked: {state_text(result)}" for result in reversed(bad)},
    )


def unblamed(probes: Sequence[Probe], verdicts: Verdicts, altered: Alterations) -> set[str]:
    """
    Return the ids of the probes from which no suspect is made.

    If only a toggle went wrong, a FAIL is still the fabric's.
    """
    return {
        probe.probe_id
        for probe in (probes if altered.troubled or altered.faulty else ())
        if probe.phase in altered.faulty
        or (probe.phase in altered.troubled and verdicts[probe.probe_id].outcome is not Outcome.FAIL)
    }


def as_altered(
    probes: Sequence[Probe], verdicts: Verdicts, results: Results, altered: Alterations, covered: AbstractSet[str]
) -> dict[str, ProbeVerdict]:
    """Return the verdicts, with those of altered phases and of *covered* probes as they count for the run."""
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


_Found = tuple[Outcome, str, WindowCourse | None]


def judge_time(
    expected: ExpectedRecovery, phases: Sequence[Phase], samples: Sequence[Sample], changes: Changes
) -> ExpectationVerdict:
    """
    Judge whether bandwidth came back in time: the worst of all windows of all changes of the phase, in every round.

    PASS if a sample that began after the window, and reached the share, ended in time. FAIL if a sample that began
    after that time had still not reached it (or the transport gave up after it). INCONCLUSIVE if the samples are too
    far apart to tell, or there are none before or after.
    """
    text = words(expected)
    names = [phase.name for phase in selected(expected.phase, phases)]
    courses = {name: phase_course(name, phases, samples, changes) for name in names}
    count = sum(len(course.levels) for course in courses.values())
    faults = gathered((one.change.phase, one) for one in changes if one.change.is_fault)
    made = [(course, one) for name, course in courses.items() for one in faults.get(name, ())]
    found = [window for course, one in made for window in _judged(expected, course, one)]
    if not found:
        return ExpectationVerdict(text, Outcome.INCONCLUSIVE, "no change was seen in force", n=count)
    outcome, reason, seen = max(
        found, key=lambda one: (one[0].rank, max(one[2].seen_s or 0.0, one[2].not_before_s) if one[2] else -1.0)
    )
    if len(found) > 1:
        reason += f" (the worst of {len(found)} times in force)"
    return ExpectationVerdict(text, outcome, reason, None if seen is None else seen.seen_s, n=count)


def _judged(expected: ExpectedRecovery, course: PhaseCourse, result: ChangeResult) -> Iterator[_Found]:
    """Yield a verdict for each window in which one change was in force."""
    who, fraction = result.change.change_id, expected.fraction
    if not result.windows or course.before == 0:
        late = "no sample before it: let it begin later (at:)"
        yield Outcome.INCONCLUSIVE, f"{who}: {late if result.windows else 'it was never in force'}", None
        return
    apart = "" if course.spacing_s is None else f", samples {course.spacing_s:.1f} s apart"
    since = expected.since
    each = recoveries(course, result.windows, fraction, holds=since == "begin")
    for window, seen in zip(result.windows, each, strict=True):
        recovery = _back(seen, since)
        if since == "end" and window.ended_s is None:
            yield Outcome.INCONCLUSIVE, f"{who}: it was not seen ended", None
        elif seen.after == 0:
            yield Outcome.INCONCLUSIVE, f"{who}: no sample after it: let it end earlier, or repeat more", None
        elif seen.seen_s is not None and seen.seen_s <= expected.within_s:
            yield Outcome.PASS, f"{who}: {recovery}{apart}", seen
        elif seen.not_before_s > expected.within_s:
            yield Outcome.FAIL, f"{who}: {recovery}{apart}", seen
        else:
            few = "too far apart to tell, take shorter or more samples"
            yield Outcome.INCONCLUSIVE, f"{who}: {recovery}{apart}: {few}", seen


def _back(seen: WindowCourse, since: str) -> str:
    loss = "no loss seen" if seen.lost_s is None else f"loss seen after {seen.lost_s:.1f} s"
    if seen.seen_s is None:
        return f"{loss}, still not back {seen.not_before_s:.1f} s after its {since}"
    return f"{loss}, back {seen.seen_s:.1f} s after its {since}"


def judge_expectations(
    expect: Sequence[Expectation], phases: Sequence[Phase], probes: Sequence[Probe], results: Results, changes: Changes
) -> tuple[ExpectationVerdict, ...]:
    """
    Return one verdict per expectation, in the order of *expect*.

    If a change of a phase was not made as asked, or may still be live, nothing is concluded from that phase:
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
    """Return the ids of the probes that some expectation judges, on both sides of a comparison."""
    names = gathered(
        (phase.name, expected.probe if isinstance(expected, ExpectedRatio) else None)
        for expected in expect
        for ref in expected.refs
        for phase in selected(ref, phases)
    )
    judged = ((probe, names[probe.phase]) for probe in probes if probe.phase in names)
    return {probe.probe_id for probe, only in judged if None in only or name_of(probe) in only}


def _judge_end(
    expected: ExpectedEnd, probes: Sequence[Probe], results: Results, altered: AbstractSet[str]
) -> ExpectationVerdict:
    """
    Judge whether a phase completed, or was given up by the transport.

    No PASS is concluded if a probe was not measured for another reason. Probes of hosts that were left out do not
    count, if all other hosts and the *altered* ones were measured.
    """
    probes, without = _asked_of(probes, results, altered)
    text, n = words(expected), len(probes)
    found = [results.get(probe.probe_id) for probe in probes]
    given_up = [result for result in found if result is not None and gave_up(result)]
    measured = [result for result in found if result is not None and result.outcome is None and result.measurements]
    first = f", first {given_up[0].probe_id}: {given_up[0].reason}" if given_up else ""
    counted = f"{len(measured)} of {n} completed, {len(given_up)} given up by the transport{first}{without}"
    against = given_up if expected.completes else measured
    if against:
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


def _asked_of(probes: Sequence[Probe], results: Results, altered: AbstractSet[str]) -> tuple[Sequence[Probe], str]:
    """
    Return the probes without those SKIPPED because a host was left out, and a text about them.

    Return all probes if a host that was not left out took part in none of the others, or if an *altered* host did not.
    """
    kept = [p for p in probes if p.probe_id not in results or results[p.probe_id].outcome is not Outcome.SKIPPED]
    asked, taking_part = ({host for probe in some for host in probe.hosts} for some in (probes, kept))
    skipped = (results[p.probe_id].left_out for p in probes if p not in kept)
    left_out = {one.host for one in skipped if one is not None}
    if not kept or not left_out or not (asked - taking_part).issubset(left_out - altered):
        return probes, ""
    return kept, f" ({len(probes) - len(kept)} left out with {fold(sorted(left_out))})"
