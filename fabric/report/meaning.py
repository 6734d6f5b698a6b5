"""What a verdict means in one line, and what to type first about a run that ended early or left a change behind."""

from __future__ import annotations

from fabric.model.judged_run import JudgedRun
from fabric.model.outcome import Outcome

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

    A missed expectation alone is no bad part; a change that may be live is said first, then that the run ended early.
    """
    verdict = judged.verdict
    failed = verdict.outcome is Outcome.FAIL
    said = []
    open_ = sum(result.state == "open" for result in verdict.changes)
    if open_:
        said.append(f"{open_} change{'s' if open_ > 1 else ''} may still be live on the fabric")
    if not judged.complete:
        said.append("the run ended before everything was measured")
    missed = sum(found.outcome is Outcome.FAIL for found in verdict.expectations)
    if missed and not any(probe.outcome is Outcome.FAIL for probe in verdict.probes):
        said.append(f"{missed} of {len(verdict.expectations)} expectations not met")
    elif failed or not said:
        said.append(_MEANING[verdict.outcome])
    return "; ".join(said)


def commands(judged: JudgedRun) -> tuple[tuple[str, str], ...]:
    """What to type first, (what it does, command), in order: take back what is open, then measure what is left."""
    found = []
    if any(result.state == "open" for result in judged.verdict.changes):
        found.append(("Take back", f"fabric restore {judged.path}"))
    if not judged.complete:
        found.append(("Go on", f"fabric resume {judged.path}"))
    return tuple(found)
