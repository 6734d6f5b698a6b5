"""Phases that alter the fabric for practice run only where the scenario allows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.prepare import Given, prepare
from fabric.config import load_scenario
from fabric.errors import ConfigError
from fabric.model.inventory import Inventory
from fabric.model.scenario import DRILLS, Scenario
from fabric.plan.as_run import without_drills
from tests.places import ROOT, SCENARIOS

BURN_IN = SCENARIOS / "burn-in.yaml"
HEAD = f"name: x\ninventory: {ROOT / 'inventory' / 'pod-64.yaml'}\nhosts: gpu[001-004]\nphases:\n"
FLAP = "changes: [{port_flap: {links: gpu001/mlx5_0, down: 5s, at: 1s}}]"


def shipped(*allow: str) -> tuple[Scenario, Inventory]:
    """The burn-in, on four hosts."""
    scenario, inventory = load_scenario(BURN_IN, hosts="gpu[001-004]")
    return replace(scenario, allow=allow), inventory


def test_without_allow_drills_and_what_is_expected_of_them_are_left_out_and_that_is_said() -> None:
    scenario, _ = shipped()
    kept, lines = without_drills(scenario)
    assert {phase.name for phase in kept.phases} == {"self-check", "burn", "soak", "hall", "bisection"}
    assert not any(phase.changes for phase in kept.phases)
    assert (len(scenario.expect), kept.expect) == (2, ())
    (line,) = lines
    assert line.startswith("drills are off: flap-drill, ber-drill are left out")
    assert "allow: [drills]" in line


def test_with_allow_they_stay_and_that_is_said_too() -> None:
    scenario, _ = shipped(DRILLS)
    kept, lines = without_drills(scenario)
    assert kept == scenario
    assert lines[0].startswith("drills are on: flap-drill, ber-drill alter the fabric")


def test_the_plan_of_the_burn_in_alters_nothing_unless_drills_are_allowed() -> None:
    asked = prepare(Given(BURN_IN, hosts="gpu[001-004]", lasts_s=3600.0))
    assert any(note.startswith("drills are off") for note in asked.notes)
    assert not any(phase.changes for phase in asked.plan.phases)


@pytest.mark.parametrize(
    ("phases", "says"),
    [
        ("  - {name: a, drill: true, probes: [loopback]}\n", "it needs 'changes'"),
        (
            f"  - {{name: a, drill: true, {FLAP}, probes: [loopback]}}\n"
            "  - {name: b, needs: [a], probes: [loopback]}\n",
            "only a drill can need it",
        ),
        (f"  - {{name: a, stop_host_on: fail, {FLAP}, probes: [loopback]}}\n", "may be our doing"),
        ("  - {name: a, stop_host_on: error, probes: [loopback]}\n", "expected fail"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, phases: str, says: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + phases)
    with pytest.raises(ConfigError) as caught:
        load_scenario(path)
    assert [says in problem.text for problem in caught.value.problems] == [True], caught.value.problems
