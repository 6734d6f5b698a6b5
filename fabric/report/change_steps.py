"""What an engineer does next about a change or an expectation that did not go as asked."""

from __future__ import annotations

from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.verdict import ExpectationVerdict

RUN = "RUN"
"""Stands for the run's directory in a command where that is not known."""

_STATES = {
    "open": "fabric restore RUN takes it back where the host answers",
    "refused": "nothing was altered: mend what is said above, or allow it in the scenario, and run it again",
    "failed": "nothing is altered any more: fabric report RUN shows what the tools answered; mend it and run it again",
    "lost": "its guard took it back when it was not heard of: see why the host was lost, then run it again",
}

_OUTCOMES = {
    Outcome.FAIL: "look at these phases in time (fabric report RUN --open), then run them again with a larger repeat",
    Outcome.INCONCLUSIVE: "more samples tell: a larger repeat, or rounds",
    Outcome.ERROR: "mend what could not be measured, then run it again",
}

_TOO_EARLY = ("the phase ended before its time came", "cut off after")
"""As ``changes/hold.py`` and ``changes/cycles.py`` say that there was no time for a change, or for all of it."""

_RUN_ENDED_FIRST = (
    "nothing is altered any more: where the run ended before, fabric resume RUN makes it anew and measures what is "
    "left; where it did not, the probes of the phase ended first: let them last longer, or the change begin earlier"
)
_PROBES_ENDED_FIRST = (
    "nothing is altered any more: the probes of the phase ended first; where they were not meant to be given up, let "
    "them last longer, or let the change begin earlier"
)

_NOT_MEASURED = "the run ended before this was measured: fabric resume RUN measures what is left"
_NOT_YET = "the run goes on and has not measured all of this yet: fabric status RUN says how far it is"
_TAKES_BACK = "the run goes on, and takes it back when its time comes"
_NOT_IN_FORCE = "more samples do not tell: see below what became of the change, then run it again"


def after_change(result: ChangeResult, run: str = RUN, *, complete: bool = True, goes_on: bool = False) -> str:
    """
    One sentence for a change that did not end as asked; empty for one that was taken back in order, when due.

    *complete* is False for a run that ended early, and for one that *goes_on*.
    """
    if goes_on and result.state == "open":
        return _TAKES_BACK
    step = _STATES.get(result.state, "")
    if result.state in ("failed", "reverted") and any(words in result.reason for words in _TOO_EARLY):
        step = _PROBES_ENDED_FIRST if complete or goes_on else _RUN_ENDED_FIRST
    step = step.replace(RUN, run)
    by_hand = result.state == "open" and "by hand" in result.reason
    return f"{step}; what to do by hand is said above" if by_hand else step


def after_expectation(
    found: ExpectationVerdict, run: str = RUN, *, complete: bool = True, goes_on: bool = False
) -> str:
    """
    One sentence for an expectation that was not met or could not be judged; empty for one that was met.

    *complete* is False for a run that ended early, and for one that *goes_on*.
    """
    step = _OUTCOMES.get(found.outcome, "")
    if found.outcome is Outcome.INCONCLUSIVE and not complete:
        step = _NOT_YET if goes_on else _NOT_MEASURED
    elif found.outcome is Outcome.INCONCLUSIVE and found.reason.startswith("the change was not in force"):
        step = _NOT_IN_FORCE
    return step.replace(RUN, run)
