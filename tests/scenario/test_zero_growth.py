"""Whole runs that judge the growth of counters, over hosts that print them."""

from __future__ import annotations

from pathlib import Path

from fabric.model.inventory import Fault, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from tests import builders
from tests.places import INVENTORY

SCENARIO = """\
name: growth
inventory: inventory.yaml
hosts: gpu[001-002]
sample: {{every: 2s, temperatures: false}}
judge: {{zero_growth: [symbol_errors, link_downed, link_recoveries, pfc, retransmits], allowed_growth: {allowed}}}
phases:
  - name: {phase}
"""
PAIRS = "rnics\n    probes: [{rnic_to_rnic: {duration: 5s, size: 8M}}]"
RING = "ring\n    probes: [{group_all_reduce: {sizes: [8G], iterations: 500}}]"
POD = (INVENTORY / "pod-64.yaml").read_text("utf-8")


def run(
    folder: Path,
    *faults: TimedFault,
    layer: str = "infiniband",
    allowed: str,
    phase: str = PAIRS,
    rate: int = 400,
) -> JudgedRun:
    """Two hosts of the pod; *rate*: 100 Gb/s (EDR) has no link-level retry, so that bit errors lose packets."""
    text = POD.replace("link_layer: infiniband", f"link_layer: {layer}")
    text = text.replace("line_rate_gbps: 400, nearest", f"line_rate_gbps: {rate}, nearest")
    assert layer in text
    (folder / "inventory.yaml").write_text(text)
    (folder / "baselines").symlink_to(INVENTORY / "baselines")
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(allowed=allowed, phase=phase))
    return builders.on_mock(builders.asked(path, timed=faults), folder / "results")


def reasons(judged: JudgedRun, text: str) -> list[str]:
    """The lines of the verdict that have this text."""
    return [line for line in judged.verdict.reasons if text in line]


STRICT = "{pfc_paused: 0, retransmits_per_hour: 0}"


def test_a_link_that_loses_packets_fails_with_its_retransmissions(tmp_path: Path) -> None:
    """On the side that misses them and on the side that sends again."""
    lossy = TimedFault(0.0, 1e6, Fault("gpu002/mlx5_3", "bit_errors", 1e-5))
    judged = run(tmp_path, lossy, allowed=STRICT, phase=RING, rate=100)
    (suspect,) = [one for one in judged.verdict.suspects if one.component == "gpu002/mlx5_3:port"]
    assert suspect.outcome is Outcome.FAIL
    assert any("zero growth: retransmits: " in text for text in suspect.evidence), suspect.evidence


def test_pauses_of_an_ethernet_rack_are_read_and_judged(tmp_path: Path) -> None:
    """A slow RNIC holds its senders up; what is allowed decides."""
    slow = TimedFault(0.0, 1e6, Fault("gpu002/mlx5_3", "slow", 0.5))
    for name, allowed, fails in (("none", 0, True), ("much", 1, False)):
        (tmp_path / name).mkdir()
        limits = f"{{pfc_paused: {allowed}, retransmits_per_hour: 0}}"
        judged = run(tmp_path / name, slow, layer="ethernet", allowed=limits, phase=RING)
        assert bool(reasons(judged, "zero growth: rx_pfc_us: it was told to wait")) is fails, judged.verdict.reasons
        assert not reasons(judged, "zero growth of pfc")
