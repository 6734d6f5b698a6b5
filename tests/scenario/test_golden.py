"""Known runs and racks as they are built go through the shipped scenarios."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.rack_shapes import SHAPES, played
from fabric.model.outcome import Outcome
from tests import builders
from tests.places import INVENTORY, ROOT

PROGRAM = ROOT / "benchmarks" / "golden.py"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_known_runs_say_what_they_said() -> None:
    """Exit codes, console text and verdicts are those that are kept."""
    names = ("diagnose", "shipped/self-check", "two-levels/gpu002_mlx5_3", "three-level/u1-leaf0_slow", "roce/tor1")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--check", *names], capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SHAPES)
def test_a_clean_rack_passes_and_a_bad_cable_is_named(name: str, tmp_path: Path) -> None:
    """An hour of it each; what nothing joins is no reason to fail, nor what is above the leaves and not described."""
    clean, bad = (played(name, 101, 1.0, tmp_path / str(bad), bad=bad) for bad in (False, True))
    assert clean.outcome in (Outcome.PASS, Outcome.MARGINAL), clean.lines
    assert clean.score.healthy == ()
    assert (bad.outcome, bad.score.found, bad.score.healthy) == (Outcome.FAIL, ("right",), ())


ACROSS = "gpu[001-008,017-024]"
"""Two units: rings between them share uplinks."""


@pytest.mark.slow
@pytest.mark.parametrize(("traffic_class", "bad"), [(106, set()), (0, {"load"})])
def test_a_wrong_class_is_felt_only_under_load(tmp_path: Path, traffic_class: int, bad: set[str]) -> None:
    """
    As docs/roce.md says it; what takes it before anything is measured is the check.

    The class is accused, and none of the hosts, which were all well alone.
    """
    text = (INVENTORY / "roce-64.yaml").read_text().replace("traffic_class: 106 ", f"traffic_class: {traffic_class} ")
    (tmp_path / "baselines").symlink_to(INVENTORY / "baselines")
    (tmp_path / "roce.yaml").write_text(text)
    scenario = ROOT / "scenarios" / "roce-acceptance.yaml"
    judged = builders.on_mock(builders.asked(scenario, inventory=tmp_path / "roce.yaml", hosts=ACROSS), tmp_path)
    failed = {probe.probe_id.partition("/")[0] for probe in judged.verdict.probes if probe.outcome is Outcome.FAIL}
    assert failed == bad
    suspects = judged.verdict.suspects
    assert {one.kind for one in suspects} == ({"traffic_class"} if bad else set())
    assert all("traffic class 0 (DSCP 0)" in one.evidence[0] for one in suspects)
