"""Who watches a run while it happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fabric.model.change import Change
from fabric.model.probe import ProbeResult
from fabric.plan.plan import PhasePlan


class Observer(Protocol):
    """Somebody who watches a run: the console, a test."""

    def phase_started(self, plan: PhasePlan) -> None:
        """A phase begins."""
        ...

    def phase_ended(self, plan: PhasePlan, results: Sequence[ProbeResult]) -> None:
        """A phase is over; *results* are those of all its probes."""
        ...

    def probe_finished(self, result: ProbeResult) -> None:
        """A probe ended, or was skipped."""
        ...

    def out_of_run(self, component: str, reason: str) -> None:
        """A host, or a part of one, stopped answering; its remaining probes are errors."""
        ...

    def measured_again(self, parts: Sequence[str], tests: int) -> None:
        """These parts dipped without another explanation; so many further tests of them begin now."""
        ...

    def interrupted(self, open_changes: int, again: int) -> None:
        """Somebody wants to stop (*again*: for how many times now); so many changes are being taken back first."""
        ...

    def change_state(self, change: Change, state: str, reason: str) -> None:
        """A change came into force, was taken back, was refused and so on; states as in ChangeResult and its events."""
        ...
