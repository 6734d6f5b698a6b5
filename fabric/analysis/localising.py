"""Whether a scenario localises, and who then wants further rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario

if TYPE_CHECKING:
    from fabric.analysis.pairs.further_rounds import FurtherRounds


def localising(scenario: Scenario, inventory: Inventory) -> tuple[FurtherRounds, ...]:
    """The follow-up of phases that localise; none where no phase does."""
    if not any(phase.localise for phase in scenario.phases):
        return ()
    from fabric.analysis.pairs.further_rounds import FurtherRounds  # numpy: only where it is asked for

    settings = inventory.changes
    return (FurtherRounds(inventory.topology, settings.via, settings.sudo),)
