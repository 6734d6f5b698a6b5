"""Whether the changes of a phase were made as asked."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.model.change import ChangeResult
from fabric.model.scenario import Phase

NOT_AS_ASKED = ("refused", "failed", "lost")
"""States of a change after which its phase was not what was asked for."""


def said(result: ChangeResult) -> str:
    """``degraded/ber.x refused: its host runs a job``."""
    return f"{result.change.change_id} {result.state}{f': {result.reason}' if result.reason else ''}"


def not_in_force(phase: Phase, changes: Sequence[ChangeResult]) -> str:
    """Why a phase was not, or not surely, what was asked for; empty when all its changes were made and taken back."""
    own = [result for result in changes if result.change.phase == phase.name]
    for result in own:
        if result.state != "reverted":
            return said(result)
    # Adaptive routing for the job alone is an environment variable: nothing is altered, and nothing written.
    altering = [spec for spec in phase.changes if spec.alters]
    return f"{phase.name} was not reached" if altering and not own else ""
