"""``zero_growth`` and ``allowed_growth`` of a scenario's ``judge:``."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.config import from_resolved, load_scenario, resolved_document
from fabric.errors import ConfigError
from fabric.model.sampling import ZeroGrowth
from tests.places import INVENTORY

TEXT = """\
name: burn
inventory: {inventory}
{sample}
judge: {judge}
phases:
  - name: soak
    probes: [loopback]
"""


def written(folder: Path, judge: str, sample: str = "sample: {every: 5m}") -> Path:
    """A scenario on the demonstration rack."""
    path = folder / "s.yaml"
    path.write_text(TEXT.format(inventory=INVENTORY / "demo-rack.yaml", judge=judge, sample=sample))
    return path


def test_it_is_decoded_and_kept_in_the_run(tmp_path: Path) -> None:
    judge = "{zero_growth: [link_downed, pfc], allowed_growth: {pfc_paused: 0.05}}"
    scenario, inventory = load_scenario(written(tmp_path, judge))
    assert scenario.judge.zero_growth == ZeroGrowth(("link_downed", "pfc"), pfc_paused=0.05)
    assert scenario.sample is not None
    assert scenario.sample.pfc
    assert from_resolved(resolved_document(scenario, inventory))[0] == scenario


@pytest.mark.parametrize(
    ("judge", "sample", "says"),
    [
        ("{zero_growth: [link_downs]}", "sample: {}", "did you mean 'link_downed'"),
        ("{zero_growth: [pfc]}", "sample: {}", "allowed_growth: {pfc_paused: ...}"),
        ("{zero_growth: [retransmits]}", "sample: {}", "allowed_growth: {retransmits_per_hour: ...}"),
        ("{zero_growth: [link_downed, link_downed]}", "sample: {}", "is there twice"),
        ("{allowed_growth: {pfc_paused: 0.1}}", "sample: {}", "'zero_growth' does not have pfc"),
        ("{zero_growth: [link_downed]}", "", "must be read for it"),
        ("{zero_growth: [link_downed]}", "sample: {counters: false}", "it needs the counters of 'sample:'"),
        ("{zero_growth: [pfc], allowed_growth: {pfc_paused: 2}}", "sample: {}", "0 to 1"),
        ("{zero_growth: [link_downed], allowed_growth: {pfc: 1}}", "sample: {}", "unknown key 'pfc'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, judge: str, sample: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_scenario(written(tmp_path, judge, sample))
    found = [problem for problem in caught.value.problems if says in problem.text]
    assert len(found) == 1, caught.value.problems
    assert found[0].line in (3, 4)
