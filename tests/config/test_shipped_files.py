"""The example files decode to what their comments say."""

from __future__ import annotations

import pytest

from fabric import config
from fabric.changes.link_down import PortFlap
from fabric.model.scenario import ExpectedEnd, Scenario
from tests.places import ROOT, SCENARIOS


@pytest.mark.parametrize("name", ["scenario", "inventory"])
def test_every_key_is_documented(name: str) -> None:
    """docs/*.md names each key of the schema."""
    schema = config.scenario_schema() if name == "scenario" else config.inventory_schema()
    text = (ROOT / "docs" / f"{name}.md").read_text()
    parts = [schema, *schema["$defs"].values()]
    keys = {key for part in parts for key in part.get("properties", {})}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []


def shipped(name: str) -> Scenario:
    """A scenario that we ship, on the inventory that it names."""
    return config.load_scenario(SCENARIOS / f"{name}.yaml")[0]


def test_flaps_are_expected_to_end_as_nccl_s_timeout_says() -> None:
    """Completed when the outage is shorter than eight timeouts of 4.096 us x 2^t, aborted when it is longer."""
    scenario = shipped("flap-tolerance")
    ends = [expected for expected in scenario.expect if isinstance(expected, ExpectedEnd)]
    for phase in scenario.phases:
        (change,) = phase.changes
        assert isinstance(change, PortFlap)
        window_s = 8 * 4.096e-6 * 2 ** int(dict(phase.env)["NCCL_IB_TIMEOUT"])
        said = {end.completes for end in ends if set(end.phase.where) <= set(phase.where)}
        assert said == {change.down_s < window_s}, phase.name


def test_a_run_that_may_fail_a_host_notes_who_is_who() -> None:
    """Else a validation after the repair cannot tell what was replaced."""
    for name in ("self-check.yaml", "post-repair.yaml"):
        scenario, _ = config.load_scenario(SCENARIOS / name)
        assert scenario.identity, name
