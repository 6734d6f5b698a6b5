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
    baselines used; *again* is the command that gives this verdict again. *complete* is False where it ended early.
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
