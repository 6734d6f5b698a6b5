"""What an engineer does next about a change or an expectation that did not go as asked."""

from __future__ import annotations

from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.verdict import ExpectationVerdict

_STATES = {
    "open": "fabric restore takes it back where the host answers; what to do by hand is said above",
    "refused": "nothing was altered: mend what is said above, or allow it in the scenario, and run it again",
    "failed": "nothing is altered any more: fabric report RUN shows what the tools answered; mend it and run it again",
    "lost": "its guard took it back when it was not heard of: see why the host was lost, then run it again",
}

_OUTCOMES = {
    Outcome.FAIL: "look at these phases in time (fabric report RUN --open), then run them again with a larger repeat",
    Outcome.INCONCLUSIVE: "more samples tell: a larger repeat, or rounds",
    Outcome.ERROR: "mend what could not be measured, then run it again",
}


def after_change(result: ChangeResult) -> str:
    """One sentence for a change that did not end as asked; empty for one that was taken back in order."""
    return _STATES.get(result.state, "")


def after_expectation(found: ExpectationVerdict) -> str:
    """One sentence for an expectation that was not met or could not be judged; empty for one that was met."""
    return _OUTCOMES.get(found.outcome, "")
