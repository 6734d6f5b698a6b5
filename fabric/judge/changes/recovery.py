"""Whether bandwidth came back in time after each change of a phase."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.judge.changes.course import Back, PhaseCourse
from fabric.judge.changes.effects import backs, phase_course
from fabric.judge.changes.ratio import selected, words
from fabric.judge.normal.samples import Sample
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.scenario import ExpectedRecovery, Phase
from fabric.model.verdict import ExpectationVerdict


def judge_recovery(
    expected: ExpectedRecovery,
    phases: Sequence[Phase],
    samples: Sequence[Sample],
    changes: Sequence[ChangeResult],
) -> ExpectationVerdict:
    """
    The worst of all windows of all changes of the phase, in every round.

    PASS when a sample that began after the window, and reached the share, had ended in time. FAIL when one that began
    later than that still had not reached it (or the transport gave up later than that). INCONCLUSIVE when the samples
    are too far apart to tell, or there are none before or after.
    """
    text = words(expected)
    names = [phase.name for phase in selected(expected.phase, phases)]
    found: list[tuple[Outcome, str, Back | None]] = []
    count = 0
    for name in names:
        course = phase_course(name, phases, samples, changes)
        count += len(course.levels)
        for result in changes:
            if result.change.phase == name:
                found += _judged(expected, course, result)
    if not found:
        return ExpectationVerdict(text, Outcome.INCONCLUSIVE, "no change was seen in force", n=count)
    outcome, reason, back = max(found, key=_badness)
    if len(found) > 1:
        reason += f" (the worst of {len(found)} times in force)"
    if back is None:
        return ExpectationVerdict(text, outcome, reason, n=count)
    return ExpectationVerdict(text, outcome, reason, back.recover_s, n=count)


def _badness(found: tuple[Outcome, str, Back | None]) -> tuple[int, float]:
    outcome, _, back = found
    return outcome.rank, -1.0 if back is None else max(back.recover_s or 0.0, back.not_before_s)


def _judged(
    expected: ExpectedRecovery, course: PhaseCourse, result: ChangeResult
) -> list[tuple[Outcome, str, Back | None]]:
    who = result.change.change_id
    if not result.windows:
        return [(Outcome.INCONCLUSIVE, f"{who}: it was never in force", None)]
    if course.before == 0:
        return [(Outcome.INCONCLUSIVE, f"{who}: no sample before it: let it begin later (at:)", None)]
    found: list[tuple[Outcome, str, Back | None]] = []
    for window, back in zip(result.windows, backs(course, result.windows, expected.fraction), strict=True):
        if window.ended_s is None:
            found.append((Outcome.INCONCLUSIVE, f"{who}: it was not seen ended", None))
        elif back.after == 0:
            found.append((Outcome.INCONCLUSIVE, f"{who}: no sample after it: let it end earlier, or repeat more", None))
        else:
            found.append((*_in_time(expected, back, f"{who}: {_seen(back)}{_spacing(course)}"), back))
    return found


def _in_time(expected: ExpectedRecovery, back: Back, said: str) -> tuple[Outcome, str]:
    if back.recover_s is not None and back.recover_s <= expected.within_s:
        return Outcome.PASS, said
    if back.not_before_s > expected.within_s:
        return Outcome.FAIL, said
    return Outcome.INCONCLUSIVE, f"{said}: too far apart to tell, take shorter or more samples"


def _seen(back: Back) -> str:
    loss = "no loss seen" if back.detect_s is None else f"loss seen after {back.detect_s:.1f} s"
    if back.recover_s is None:
        return f"{loss}, still not back {back.not_before_s:.1f} s after its end"
    return f"{loss}, back {back.recover_s:.1f} s after its end"


def _spacing(course: PhaseCourse) -> str:
    return "" if course.spacing_s is None else f", samples {course.spacing_s:.1f} s apart"
