"""Whole runs that accept links: both ends of every cable, or no PASS."""

from __future__ import annotations

from pathlib import Path

import pytest

import fabric
from fabric.model.inventory import Fault, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from tests import builders
from tests.places import INVENTORY

SCENARIO = """\
name: links
inventory: inventory.yaml
hosts: gpu[001-002]
sample: {every: 10s, links: 10s, temperatures: false}
judge: {zero_growth: [symbol_errors, link_downed, link_recoveries]}
phases:
  - name: rnics
    probes: [{rnic_to_rnic: {duration: 30s, size: 8M}}]
"""
POD = (INVENTORY / "pod-64.yaml").read_text("utf-8")
CABLE = "su0-leaf3--spine02"


def run(folder: Path, *timed: TimedFault, given: str = "", layer: str = "infiniband") -> JudgedRun:
    """Two hosts of the pod, some minutes long."""
    text = POD.replace("link_layer: infiniband", f"link_layer: {layer}")
    if given:
        text = text.replace("mock: {", f'mock: {{faults: [{{component: "{CABLE}", kind: {given}}}], ')
    (folder / "inventory.yaml").write_text(text)
    (folder / "baselines").symlink_to(INVENTORY / "baselines")
    path = folder / "s.yaml"
    path.write_text(SCENARIO)
    return builders.on_mock(builders.asked(path, timed=timed), folder / "results")


def test_links_that_are_well_pass_and_how_much_was_seen_is_said(tmp_path: Path) -> None:
    """The cables of both hosts and all that lead up from their leaves; each end is a row."""
    judged = run(tmp_path)
    assert judged.verdict.outcome is Outcome.PASS, judged.verdict.reasons
    covered = judged.verdict.links
    assert covered is not None
    assert (covered.whole, covered.cables, covered.lit) == (144, 144, 288)
    assert any(line.startswith("links: both ends of 144 of 144 cables") for line in judged.verdict.reasons)
    links = fabric.load(judged.path).links
    assert len(links) == 288
    assert set(links.state) == {"up"}
    assert links.rx0_dbm.between(0, 4).all()
    assert set(links[links.node == "spine02"].peer_node) == {f"su0-leaf{number}" for number in range(8)}


@pytest.mark.parametrize(
    ("timed", "given"),
    [
        (TimedFault(20.0, 4.0, Fault(CABLE, "broken")), ""),
        *(pytest.param(None, kind, marks=pytest.mark.slow) for kind in ("dark_lane", "half_width")),
    ],
)
def test_a_bad_cable_between_switches_is_named_and_no_port_of_a_host(
    tmp_path: Path, timed: TimedFault | None, given: str
) -> None:
    judged = run(tmp_path, *([timed] if timed else []), given=given)
    assert judged.verdict.outcome is Outcome.FAIL
    named = [one.component for one in judged.verdict.suspects if one.outcome is Outcome.FAIL]
    assert named == [CABLE], judged.verdict.reasons


def test_links_that_nobody_looked_at_are_inconclusive(tmp_path: Path) -> None:
    """No source of ours reads Ethernet switches; nothing else is wrong."""
    judged = run(tmp_path, layer="ethernet")
    assert judged.verdict.outcome is Outcome.INCONCLUSIVE
    assert any("on 144 of 144 cables" in line for line in judged.verdict.reasons), judged.verdict.reasons
