"""Whether bandwidth came back in time after each change of a phase, or fell."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.judge.changes.course import Back, Felt, PhaseCourse, felt
from fabric.judge.changes.effects import backs, phase_course
from fabric.judge.changes.ratio import words
from fabric.judge.changes.sides import selected
from fabric.judge.normal.samples import Sample
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.scenario import ExpectedFall, ExpectedRecovery, Phase
from fabric.model.verdict import ExpectationVerdict

_Found = tuple[Outcome, str, float | None, float]
"""Outcome, what was found, when it was seen, and how long it certainly was not; seconds."""


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
            if result.change.phase == name:
                found += _judged(expected, course, result)
    if not found:
        return ExpectationVerdict(text, Outcome.INCONCLUSIVE, "no change was seen in force", n=count)
    outcome, reason, seen_s, _ = max(found, key=_badness)
    if len(found) > 1:
        reason += f" (the worst of {len(found)} times in force)"
    return ExpectationVerdict(text, outcome, reason, seen_s, n=count)


def _badness(found: _Found) -> tuple[int, float]:
    outcome, _, seen_s, not_before_s = found
    return outcome.rank, max(seen_s or 0.0, not_before_s)


def _judged(expected: ExpectedRecovery | ExpectedFall, course: PhaseCourse, result: ChangeResult) -> list[_Found]:
    who = result.change.change_id

    def unknown(why: str) -> _Found:
        return Outcome.INCONCLUSIVE, f"{who}: {why}", None, -1.0

    if not result.windows:
        return [unknown("it was never in force")]
    if course.before == 0:
        return [unknown("no sample before it: let it begin later (at:)")]
    apart = "" if course.spacing_s is None else f", samples {course.spacing_s:.1f} s apart"
    if isinstance(expected, ExpectedFall):
        falls = [felt(course, window, expected.fraction) for window in result.windows]
        return [_in_time(expected, f"{who}: {_fall(one)}{apart}", one.seen_s, one.not_before_s) for one in falls]
    holds = expected.since == "begin"
    found: list[_Found] = []
    for window, back in zip(result.windows, backs(course, result.windows, expected.fraction, holds=holds), strict=True):
        if window.ended_s is None and not holds:
            found.append(unknown("it was not seen ended"))
        elif back.after == 0:
            found.append(unknown("no sample after it: let it end earlier, or repeat more"))
        else:
            said = f"{who}: {_back(back, expected.since)}{apart}"
            found.append(_in_time(expected, said, back.recover_s, back.not_before_s))
    return found


def _in_time(expected: ExpectedRecovery | ExpectedFall, said: str, seen_s: float | None, not_before_s: float) -> _Found:
    if seen_s is not None and seen_s <= expected.within_s:
        return Outcome.PASS, said, seen_s, not_before_s
    if not_before_s > expected.within_s:
        return Outcome.FAIL, said, seen_s, not_before_s
    return Outcome.INCONCLUSIVE, f"{said}: too far apart to tell, take shorter or more samples", seen_s, not_before_s


def _back(back: Back, since: str) -> str:
    loss = "no loss seen" if back.detect_s is None else f"loss seen after {back.detect_s:.1f} s"
    if back.recover_s is None:
        return f"{loss}, still not back {back.not_before_s:.1f} s after its {since}"
    return f"{loss}, back {back.recover_s:.1f} s after its {since}"


def _fall(felt: Felt) -> str:
    if felt.seen_s is None:
        return f"not below it {felt.not_before_s:.1f} s after its begin"
    return f"below it {felt.seen_s:.1f} s after its begin"
