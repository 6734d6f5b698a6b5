"""Whole runs on the mock: what is named when a part goes bad in the middle of the rounds of a soak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.model.inventory import Fault, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from tests import builders
from tests.places import INVENTORY
from tests.scenario.test_left_out import Acts, run

pytestmark = pytest.mark.slow  # tests/judge/course/test_shared_parts.py says it of measured numbers

SCENARIO = """\
name: soak
inventory: {inventory}
hosts: gpu[001-008]
sample: {{every: 10s}}
judge: {{zero_growth: [link_downed]}}
phases:
  - name: self-check
    probes: [loopback]
  - name: soak
    needs: [self-check]
    for: {lasts_s}s
    probes:
      - tor_all_reduce: {{sizes: [8G]}}
      - pairwise: {{rounds: 2, duration: 10s}}
"""
FOREVER_S = 1e9


def soaked(folder: Path, rounds: int, *faults: Fault) -> JudgedRun:
    """
    So many rounds on eight hosts under one leaf a rail; the faults come after a third of the time.

    Few rounds are judged by their limits alone; from eight on parts have a course over time as well.
    """
    path = folder / "soak.yaml"
    inventory = INVENTORY / "pod-64.yaml"
    path.write_text(SCENARIO.format(inventory=inventory, lasts_s=1))
    plan = builders.asked(path).plan
    before_s = replace(plan, phases=plan.phases[:1]).duration_s
    once_s = plan.duration_s - before_s
    path.write_text(SCENARIO.format(inventory=inventory, lasts_s=int(once_s * rounds) + rounds))
    begin_s = before_s + once_s * rounds / 3
    asked = builders.asked(path, timed=[TimedFault(begin_s, FOREVER_S, fault) for fault in faults])
    return run(folder, asked, Acts())


@pytest.mark.parametrize(
    ("rounds", "kind", "factor"),
    [
        (4, "broken", 1.0),
        (12, "broken", 1.0),
        (12, "slow", 0.6),
    ],
)
def test_a_leaf_that_goes_bad_is_one_suspect_and_its_rnics_are_none(
    tmp_path: Path, rounds: int, kind: str, factor: float
) -> None:
    verdict = soaked(tmp_path, rounds, Fault("su0-leaf3", kind, factor)).verdict
    (one,) = (suspect for suspect in verdict.suspects if suspect.outcome is Outcome.FAIL)
    assert (one.component, one.kind, one.outcome) == ("su0-leaf3", "leaf", Outcome.FAIL)
    assert one.hosts == tuple(f"gpu00{number}" for number in range(1, 9))
    assert any("before that it was good" in line for line in one.evidence)
    bad = {part.component for part in verdict.components if part.outcome is Outcome.FAIL}
    assert bad == {"su0-leaf3"}


def test_a_pcie_switch_that_becomes_slow_is_named_and_not_its_cables(tmp_path: Path) -> None:
    """In many rounds: in a few, two slow RNICs and their rings may be the host."""
    found = soaked(tmp_path, 12, Fault("gpu003/pcie1", "slow", 0.6)).verdict.suspects
    (one,) = (suspect for suspect in found if suspect.outcome is Outcome.FAIL)
    assert (one.component, one.kind, one.hosts) == ("gpu003/pcie1", "pcie_switch", ("gpu003",))
    assert "reseat the riser" in one.next_step


@pytest.mark.parametrize("rounds", [4, 12])
def test_an_rnic_that_becomes_slow_is_listed_once_and_not_cleared_by_its_old_loopback(
    tmp_path: Path, rounds: int
) -> None:
    (one,) = soaked(tmp_path, rounds, Fault("gpu003/mlx5_2", "slow", 0.5)).verdict.suspects
    assert one.component == "gpu003/mlx5_2"
    assert one.ambiguous_with == ("gpu003/mlx5_2:port",)
    assert any("before it became bad" in line or "over time" in line for line in one.evidence)
    assert not any("reaches 100%" in line for line in one.evidence)
