"""Whole runs with ``sample:``: faults that bandwidth does not show, and what is explained by our own changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric import load
from fabric.app.analyze import analyze
from fabric.model.inventory import Fault, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from fabric.runs.samples import SAMPLES as FILE
from tests import builders
from tests.places import INVENTORY

SCENARIO = """\
name: sampled
inventory: inventory.yaml
hosts: gpu[001-002]
{sample}
phases:
  - name: rnics
    {changes}
    probes: [{{rnic_to_rnic: {{duration: {duration}, size: 8M}}}}]
"""
POD = (INVENTORY / "pod-64.yaml").read_text("utf-8")


def run(
    folder: Path,
    *faults: TimedFault,
    every: str = "10s",
    duration: str = "30s",
    rate: int = 400,
    changes: str = "",
    reports: bool = False,
) -> JudgedRun:
    """Two hosts of the pod; *rate*: 100 Gb/s (EDR) has no link-level retry that hides symbol errors."""
    text = POD.replace("line_rate_gbps: 400, nearest", f"line_rate_gbps: {rate}, nearest")
    (folder / "inventory.yaml").write_text(text)
    if not (folder / "baselines").exists():
        (folder / "baselines").symlink_to(INVENTORY / "baselines")
    sample = f"sample: {{every: {every}}}" if every else ""
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(sample=sample, duration=duration, changes=changes))
    return builders.on_mock(builders.asked(path, timed=faults), folder / "results", reports=reports)


def component(judged: JudgedRun, name: str) -> Outcome | None:
    """What became of one."""
    return next((one.outcome for one in judged.verdict.components if one.component == name), None)


def test_a_healthy_rack_passes_and_says_for_how_long_bit_errors_must_be_watched(tmp_path: Path) -> None:
    judged = run(tmp_path, reports=True)
    assert judged.verdict.outcome is Outcome.PASS
    assert any("bit errors: INCONCLUSIVE for 16 of 16 ports" in reason for reason in judged.verdict.reasons)
    folder = Path(judged.path)
    assert (folder / FILE).exists()
    assert len(load(folder).counters) > 0


def test_a_cable_that_flaps_between_two_probes_is_a_suspect(tmp_path: Path) -> None:
    """No probe of that RNIC runs at that time; only the counter knows."""
    flap = TimedFault(3.0, 1.0, Fault("gpu002/mlx5_3", "broken"))
    judged = run(tmp_path, flap, reports=True)
    assert judged.verdict.outcome is Outcome.FAIL
    assert "gpu002/mlx5_3:port" in [suspect.component for suspect in judged.verdict.suspects]
    assert "gpu002/mlx5_3 link_downed" in (Path(judged.path) / "report.html").read_text("utf-8")
    again = analyze(Path(judged.path), baseline_path=None, rewrite=False)
    assert again.verdict == judged.verdict


@pytest.mark.slow
@pytest.mark.parametrize(("ber", "outcome"), [(1e-11, Outcome.FAIL), (1e-18, None)])
def test_symbol_errors_are_judged_over_the_whole_run(tmp_path: Path, ber: float, outcome: Outcome | None) -> None:
    """Far above 1e-15 the link fails; far below nothing is said of it after two hours."""
    fault = TimedFault(1.0, 1e6, Fault("gpu001/mlx5_2", "symbol_errors", ber))
    judged = run(tmp_path, fault, every="60s, links: 10m", duration="20m")
    assert component(judged, "gpu001/mlx5_2:port") is outcome
    assert not any("INCONCLUSIVE for" in reason for reason in judged.verdict.reasons)


def test_what_our_own_change_counts_is_explained_by_it(tmp_path: Path) -> None:
    """The link goes down because we closed it."""
    changes = "changes: [{link_down: {links: gpu001/mlx5_0, at: 5s, for: 20s}}]"
    judged = run(tmp_path, changes=changes)
    assert [result.state for result in judged.verdict.changes] == ["reverted"]
    assert "gpu001/mlx5_0:port" not in [suspect.component for suspect in judged.verdict.suspects]
    assert any("explained by it" in reason for reason in judged.verdict.reasons)
