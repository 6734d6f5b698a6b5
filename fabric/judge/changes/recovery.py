"""Whether bandwidth came back in time after each change of a phase, or fell."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.judge.changes.course import PhaseCourse, WindowCourse, felt
from fabric.judge.changes.effects import backs, phase_course
from fabric.judge.changes.ratio import words
from fabric.judge.changes.sides import selected
from fabric.judge.normal.samples import Sample
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.scenario import ExpectedFall, ExpectedRecovery, Phase
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
    outcome, reason, seen = max(found, key=_badness)
    if len(found) > 1:
        reason += f" (the worst of {len(found)} times in force)"
    return ExpectationVerdict(text, outcome, reason, None if seen is None else seen.seen_s, n=count)


def _badness(found: _Found) -> tuple[int, float]:
    outcome, _, seen = found
    return outcome.rank, -1.0 if seen is None else max(seen.seen_s or 0.0, seen.not_before_s)


def _judged(expected: ExpectedRecovery | ExpectedFall, course: PhaseCourse, result: ChangeResult) -> list[_Found]:
    who = result.change.change_id
    if not result.windows:
        return [_unknown(f"{who}: it was never in force")]
    if course.before == 0:
        return [_unknown(f"{who}: no sample before it: let it begin later (at:)")]
    apart = "" if course.spacing_s is None else f", samples {course.spacing_s:.1f} s apart"
    if isinstance(expected, ExpectedFall):
        falls = [felt(course, window, expected.fraction) for window in result.windows]
        return [_in_time(expected, f"{who}: {_fall(one)}{apart}", one) for one in falls]
    holds = expected.since == "begin"
    found: list[_Found] = []
    for window, one in zip(result.windows, backs(course, result.windows, expected.fraction, holds=holds), strict=True):
        if window.ended_s is None and not holds:
            found.append(_unknown(f"{who}: it was not seen ended"))
        elif one.after == 0:
            found.append(_unknown(f"{who}: no sample after it: let it end earlier, or repeat more"))
        else:
            found.append(_in_time(expected, f"{who}: {_back(one, expected.since)}{apart}", one))
    return found


def _unknown(reason: str) -> _Found:
    return Outcome.INCONCLUSIVE, reason, None


def _in_time(expected: ExpectedRecovery | ExpectedFall, said: str, seen: WindowCourse) -> _Found:
    if seen.seen_s is not None and seen.seen_s <= expected.within_s:
        return Outcome.PASS, said, seen
    if seen.not_before_s > expected.within_s:
        return Outcome.FAIL, said, seen
    return Outcome.INCONCLUSIVE, f"{said}: too far apart to tell, take shorter or more samples", seen


def _back(seen: WindowCourse, since: str) -> str:
    loss = "no loss seen" if seen.lost_s is None else f"loss seen after {seen.lost_s:.1f} s"
    if seen.seen_s is None:
        return f"{loss}, still not back {seen.not_before_s:.1f} s after its {since}"
    return f"{loss}, back {seen.seen_s:.1f} s after its {since}"


def _fall(seen: WindowCourse) -> str:
    if seen.seen_s is None:
        return f"not below it {seen.not_before_s:.1f} s after its begin"
    return f"below it {seen.seen_s:.1f} s after its begin"
