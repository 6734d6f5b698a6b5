"""The shipped RoCE acceptance: what is in the wrong class passes every phase until all hosts wait for each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.model.outcome import Outcome
from tests import builders
from tests.places import INVENTORY, ROOT

ACROSS = "gpu[001-008,017-024]"
"""Two units: rings between them share uplinks."""


@pytest.mark.slow
@pytest.mark.parametrize(("traffic_class", "bad"), [(106, set()), (0, {"load"})])
def test_a_wrong_class_is_felt_only_under_load(tmp_path: Path, traffic_class: int, bad: set[str]) -> None:
    """As docs/roce.md says it; what takes it before anything is measured is the check."""
    text = (INVENTORY / "roce-64.yaml").read_text().replace("traffic_class: 106 ", f"traffic_class: {traffic_class} ")
    (tmp_path / "baselines").symlink_to(INVENTORY / "baselines")
    (tmp_path / "roce.yaml").write_text(text)
    scenario = ROOT / "scenarios" / "roce-acceptance.yaml"
    judged = builders.on_mock(builders.asked(scenario, inventory=tmp_path / "roce.yaml", hosts=ACROSS), tmp_path)
    failed = {probe.probe_id.partition("/")[0] for probe in judged.verdict.probes if probe.outcome is Outcome.FAIL}
    assert failed == bad
