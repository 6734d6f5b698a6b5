"""From a scenario as it is written to the phases that run: drills or none, stages, and rounds that fill a time."""

from __future__ import annotations

from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario
from fabric.plan.drills import without_drills
from fabric.plan.link_coverage_phases import staged
from fabric.plan.plan import PhasePlan
from fabric.plan.rounds import timed


def as_run(
    scenario: Scenario,
    inventory: Inventory,
    *,
    lasts_s: float | None = None,
    known: dict[str, PhasePlan] | None = None,
) -> tuple[Scenario, tuple[str, ...]]:
    """The scenario with all its phases, and lines that say what became of it. *known* and ConfigError as ``timed``."""
    scenario, drills = without_drills(scenario)
    scenario, covered = staged(scenario, inventory.topology)
    scenario, rounds = timed(scenario, inventory, lasts_s=lasts_s, known=known)
    return scenario, (*drills, *covered, *rounds)
