"""From a scenario as it is written to the phases that run: drills or none, stages, and rounds that fill a time."""

from __future__ import annotations

from dataclasses import replace

from fabric.model.inventory import Inventory
from fabric.model.scenario import DRILLS, Expectation, ExpectedRatio, Scenario
from fabric.plan.burn_stages import staged
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


def without_drills(scenario: Scenario) -> tuple[Scenario, tuple[str, ...]]:
    """
    The scenario with its drills if it allows them, else without them and what it expects of them.

    And a line that says which drills are on or off; none where it has no drills.
    """
    names = list(dict.fromkeys(phase.written for phase in scenario.phases if phase.drill))
    if not names:
        return scenario, ()
    listed = ", ".join(names)
    if DRILLS in scenario.allow:
        return scenario, (f"drills are on: {listed} alter the fabric, because 'allow' has {DRILLS}",)
    kept = tuple(phase for phase in scenario.phases if not phase.drill)
    expect = tuple(one for one in scenario.expect if _labels(one).isdisjoint(names))
    line = f"drills are off: {listed} are left out, nothing is altered for them; 'allow: [{DRILLS}]' runs them"
    return replace(scenario, phases=kept, expect=expect), (line,)


def _labels(expected: Expectation) -> set[str]:
    """The written names of the phases that an expectation is about."""
    if isinstance(expected, ExpectedRatio):
        return {expected.of.label, expected.over.label}
    return {expected.phase.label}
