"""What a verdict means in one line, and what to type first about a run that did not end in order."""

from __future__ import annotations

import re

from fabric.model.outcome import Outcome
from fabric.model.text import duration_text
from fabric.model.verdict import JudgedRun, Suspect, TrainingImpact, Verdict
from fabric.report.output import counted, some

_NAMED = 2

_MEANING = {
    Outcome.PASS: "everything measured and good",
    Outcome.SKIPPED: "nothing failed, but not everything that was asked for was measured",
    Outcome.MARGINAL: "good, but near a limit",
    Outcome.INCONCLUSIVE: "not enough was measured, or there is no limit to judge by",
    Outcome.ERROR: "the testbench could not measure everything",
    Outcome.FAIL: "the fabric is bad",
}


def meaning(judged: JudgedRun) -> str:
    """
    The outcome in words.

    A missed expectation alone is no bad part; a change that may be live is said first, then that the run goes on, or
    ended early.
    """
    verdict = judged.verdict
    failed = verdict.outcome is Outcome.FAIL
    said = []
    open_ = sum(result.state == "open" for result in verdict.changes)
    if open_:
        live = "may be live while it goes on" if judged.goes_on else "may still be live on the fabric"
        said.append(f"{counted(open_, 'change')} {live}")
    if judged.goes_on:
        said.append("the run goes on, and this is what was measured until now")
    elif not judged.complete:
        said.append("the run ended before everything was measured")
    missed = sum(found.outcome is Outcome.FAIL for found in verdict.expectations)
    if missed and not any(probe.outcome is Outcome.FAIL for probe in verdict.probes):
        said.append(f"{missed} of {len(verdict.expectations)} expectations not met")
    elif failed or not said:
        said.append(_MEANING[verdict.outcome])
    return "; ".join(said)


def headline(verdict: Verdict) -> str:
    """
    The suspects that made the outcome, the surest first: what to look at, before anything is read.

    Where something failed, also who could not be measured: an ERROR is easily missed behind a FAIL.
    """
    said = [some([one.component for one in verdict.suspects if one.outcome is verdict.outcome], _NAMED)]
    if verdict.outcome is Outcome.FAIL:
        unknown = some([one.component for one in verdict.suspects if one.outcome is Outcome.ERROR], _NAMED)
        said.append(f"not measured: {unknown}" if unknown else "")
    return "; ".join(filter(None, said))


def evidence(suspect: Suspect) -> tuple[str, ...]:
    """Its lines for people: the odds are said in words, and their logarithm only in JSON."""
    return tuple(_MARGIN.sub("", line) for line in suspect.evidence)


_MARGIN = re.compile(r" \(margin -?\d+\.\d nats\)")


def how_sure(suspect: Suspect) -> str:
    """``49%, one of 2 alike``: a low number may only say that several parts share the blame."""
    alike = f", one of {len(suspect.ambiguous_with) + 1} alike" if suspect.ambiguous_with else ""
    return f"{suspect.confidence:.0%}{alike}"


def commands(judged: JudgedRun) -> tuple[tuple[str, str], ...]:
    """
    What to type first, (what it does, command), in order: take back what is open, then measure what is left.

    A run that goes on does both itself: of that how to look, and how to end it.
    """
    if judged.goes_on:
        return ("How far", f"fabric status {judged.path}"), ("End it", f"fabric stop {judged.path}")
    found = []
    if any(result.state == "open" for result in judged.verdict.changes):
        found.append(("Take back", f"fabric restore {judged.path}"))
    if judged.go_on:
        found.append(("Go on", judged.go_on))
    return tuple(found)


_DAY_S = 86_400.0
_LEAST = 0.005


def impact_line(impact: TrainingImpact) -> str:
    """``a 1,024-GPU job on this fleet: MTTF 7.9 h, expected ETTR 0.93``, then what it rests on or why it is unknown."""
    return "; ".join((f"a {impact.gpus:,}-GPU job on this fleet: {_numbers(impact)}", *impact.notes))


def is_known(impact: TrainingImpact | None) -> bool:
    """Whether there is a number to tell, or a bandwidth to speak of."""
    return impact is not None and (impact.mttf_s is not None or impact.step_stretch is not None)


def _numbers(impact: TrainingImpact) -> str:
    least = "at least " if impact.bound else ""
    said = []
    if impact.mttf_s is not None:
        said.append(f"MTTF {least}{_time(impact.mttf_s)}")
    if impact.ettr is not None and not (impact.bound and impact.ettr < _LEAST):  # "at least 0.00" says nothing
        said.append(f"expected ETTR {least}{impact.ettr:.2f}")
    if impact.step_stretch is not None:
        said.append(f"steps take {impact.step_stretch:.2f} times as long")
    return ", ".join(said) if said else "nothing can be said"


def _time(seconds: float) -> str:
    if seconds < 3600:
        return duration_text(seconds)
    return f"{seconds / 3600:.1f} h" if seconds < 2 * _DAY_S else f"{seconds / _DAY_S:.1f} days"
