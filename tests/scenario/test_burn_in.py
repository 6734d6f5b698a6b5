"""The burn-in that comes with fabric, on the simulated rack."""

from __future__ import annotations

from pathlib import Path

from fabric.app.prepare import Given, prepare
from fabric.model.outcome import Outcome
from tests.places import INVENTORY, SCENARIOS
from tests.scenario.test_left_out import Acts, run

HOURS_S = 7200.0


def test_a_healthy_rack_passes_the_shipped_burn_in(tmp_path: Path) -> None:
    """Every flow, soak and pair has a limit, every counter of its criteria can be read, and nobody is blamed."""
    asked = prepare(Given(SCENARIOS / "burn-in.yaml", inventory=INVENTORY / "demo-rack-healthy.yaml", lasts_s=HOURS_S))
    judged = run(tmp_path, asked, Acts())
    assert judged.verdict.outcome is Outcome.PASS, judged.verdict.reasons
    assert not judged.verdict.suspects
    told = [one for one in judged.verdict.probes if one.probe_id.startswith(("hall/", "bisection/"))]
    assert {one.outcome for one in judged.verdict.probes if one not in told} == {Outcome.PASS}
    assert judged.verdict.hall is not None
    assert all(point.gbps is not None for point in judged.verdict.hall.points)
