"""A run that was judged: what people and pipelines are shown."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.model.scenario import Scenario
from fabric.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """
    What was asked, the verdict, and what it rests on.

    *path* is the run's directory; *elapsed_s* is by the run's own clock (simulated on the mock); *judged_by* names the
    baselines used; *again* is the command that gives this verdict again. *complete* is False where not
    all was reached: it ended early, or it *goes_on*, judged by what was measured until now. *history_bytes* is how much
    of its history the verdict rests on. *go_on* is the command that measures what is left, empty where nothing is.
    """

    scenario: Scenario
    verdict: Verdict
    path: str
    run_id: str
    elapsed_s: float
    backend: str
    judged_by: tuple[str, ...]
    again: str
    complete: bool = True
    goes_on: bool = False
    history_bytes: int = 0
    go_on: str = ""
