"""Whole runs that watch: links at both ends, counters that grow, faults that bandwidth does not show."""

from pathlib import Path

import pytest

import fabric
from fabric import load
from fabric.app.analyze import analyze, reopened
from fabric.model.inventory import Fault, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from fabric.report.page import page
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
POD = (INVENTORY / "pod-64.yaml").read_text("utf-8").replace("gpu[001-064]", "gpu[001-016]").replace("gpu06", "gpu01")
POD = POD.replace("su[0-3]", "su0").replace("spine[00-15]", "spine[00-03]")
"""One unit of the pod under four of its spines: what is said of two hosts is the same, and said sooner."""


def run(
    folder: Path,
    *faults: TimedFault,
    every: str = "10s",
    duration: str = "30s",
    rate: int = 400,
    changes: str = "",
) -> JudgedRun:
    """Two hosts of the pod; *rate*: 100 Gb/s (EDR) has no link-level retry that hides symbol errors."""
    text = POD.replace("line_rate_gbps: 400, nearest", f"line_rate_gbps: {rate}, nearest")
    (folder / "inventory.yaml").write_text(text)
    if not (folder / "baselines").exists():
        (folder / "baselines").symlink_to(INVENTORY / "baselines")
    sample = f"sample: {{every: {every}}}" if every else ""
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(sample=sample, duration=duration, changes=changes))
    return builders.on_mock(builders.asked(path, timed=faults), folder / "results")


def component(judged: JudgedRun, name: str) -> Outcome | None:
    """What became of one."""
    return next((one.outcome for one in judged.verdict.components if one.component == name), None)


def test_a_healthy_rack_passes_and_says_for_how_long_bit_errors_must_be_watched(tmp_path: Path) -> None:
    judged = run(tmp_path)
    assert judged.verdict.outcome is Outcome.PASS
    assert any("bit errors: INCONCLUSIVE for 16 of 16 ports" in reason for reason in judged.verdict.lines)
    folder = Path(judged.path)
    assert (folder / FILE).exists()
    assert len(load(folder).counters) > 0


APART = """\
name: apart
backend: mock
platforms:
  two-rails:
    baseline: h100-ndr
    link_layer: infiniband
    numa_nodes: 1
    rnics:
      - {device: mlx5_0, rail: 0, numa: 0, line_rate_gbps: 400}
      - {device: mlx5_1, rail: 1, numa: 0, line_rate_gbps: 400}
hosts:
  - {names: "gpu[001-002]", platform: two-rails, leaves: "leaf{rail}"}
switches: [{names: "leaf[0-1]", tier: leaf}]
"""


def test_ports_that_count_nothing_are_no_pass_where_nothing_was_measured(tmp_path: Path) -> None:
    """No cable joins the two rails, so that no pair of RNICs is planned."""
    (tmp_path / "inventory.yaml").write_text(APART)
    (tmp_path / "baselines").symlink_to(INVENTORY / "baselines")
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.format(sample="sample: {every: 1s}", duration="5s", changes=""))
    verdict = builders.on_mock(builders.asked(path), tmp_path / "results").verdict
    assert (verdict.outcome, verdict.probes) == (Outcome.INCONCLUSIVE, ())


@pytest.mark.slow
def test_a_cable_that_flaps_between_two_probes_is_a_suspect(tmp_path: Path) -> None:
    """No probe of that RNIC runs at that time; only the counter knows."""
    flap = TimedFault(3.0, 1.0, Fault("gpu002/mlx5_3", "broken"))
    judged = run(tmp_path, flap)
    assert judged.verdict.outcome is Outcome.FAIL
    assert "gpu002/mlx5_3:port" in [suspect.component for suspect in judged.verdict.suspects]
    assert "gpu002/mlx5_3 link_downed" in page(reopened(Path(judged.path)))
    again = analyze(Path(judged.path)).judged
    assert again.verdict == judged.verdict


@pytest.mark.slow
@pytest.mark.parametrize(("ber", "outcome"), [(1e-11, Outcome.FAIL), (1e-18, None)])
def test_symbol_errors_are_judged_over_the_whole_run(tmp_path: Path, ber: float, outcome: Outcome | None) -> None:
    """Far above 1e-15 the link fails; far below nothing is said of it after two hours."""
    fault = TimedFault(1.0, 1e6, Fault("gpu001/mlx5_2", "symbol_errors", ber))
    judged = run(tmp_path, fault, every="60s, links: 10m", duration="20m")
    assert component(judged, "gpu001/mlx5_2:port") is outcome
    assert not any("INCONCLUSIVE for" in reason for reason in judged.verdict.lines)


def test_what_our_own_change_counts_is_explained_by_it(tmp_path: Path) -> None:
    """The link goes down because we closed it."""
    changes = "changes: [{link_down: {links: gpu001/mlx5_0, at: 5s, for: 20s}}]"
    judged = run(tmp_path, changes=changes)
    assert [result.state for result in judged.verdict.changes] == ["reverted"]
    assert "gpu001/mlx5_0:port" not in [suspect.component for suspect in judged.verdict.suspects]
    assert any("explained by it" in reason for reason in judged.verdict.lines)


LINKS = """\
name: links
inventory: inventory.yaml
hosts: gpu[001-002]
sample: {every: 10s, links: 10s, temperatures: false}
judge: {zero_growth: [symbol_errors, link_downed, link_recoveries]}
phases:
  - name: rnics
    probes: [{rnic_to_rnic: {duration: 30s, size: 8M}}]
"""
CABLE = "su0-leaf3--spine02"


def linked(folder: Path, *timed: TimedFault, given: str = "", layer: str = "infiniband") -> JudgedRun:
    """Two hosts of the pod, some minutes long."""
    text = POD.replace("link_layer: infiniband", f"link_layer: {layer}")
    if given:
        text = text.replace("mock: {", f'mock: {{faults: [{{component: "{CABLE}", kind: {given}}}], ')
    (folder / "inventory.yaml").write_text(text)
    (folder / "baselines").symlink_to(INVENTORY / "baselines")
    path = folder / "s.yaml"
    path.write_text(LINKS)
    return builders.on_mock(builders.asked(path, timed=timed), folder / "results")


@pytest.mark.slow
def test_links_that_are_well_pass_and_how_much_was_seen_is_said(tmp_path: Path) -> None:
    """The cables of both hosts and all that lead up from their leaves; each end is a row."""
    judged = linked(tmp_path)
    assert judged.verdict.outcome is Outcome.PASS, judged.verdict.lines
    covered = judged.verdict.links
    assert covered is not None
    assert (covered.whole, covered.cables, covered.lit) == (48, 48, 96)
    assert any(line.startswith("links: both ends of 48 of 48 cables") for line in judged.verdict.lines)
    links = fabric.load(judged.path).links
    assert len(links) == 96
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
    judged = linked(tmp_path, *([timed] if timed else []), given=given)
    assert judged.verdict.outcome is Outcome.FAIL
    named = [one.component for one in judged.verdict.suspects if one.outcome is Outcome.FAIL]
    assert named == [CABLE], judged.verdict.lines


def test_links_that_nobody_looked_at_are_inconclusive(tmp_path: Path) -> None:
    """No source of ours reads Ethernet switches; nothing else is wrong."""
    judged = linked(tmp_path, layer="ethernet")
    assert judged.verdict.outcome is Outcome.INCONCLUSIVE
    assert any("on 48 of 48 cables" in line for line in judged.verdict.lines), judged.verdict.lines


GROWTH = """\
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


def growing(
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
    path.write_text(GROWTH.format(allowed=allowed, phase=phase))
    return builders.on_mock(builders.asked(path, timed=faults), folder / "results")


def reasons(judged: JudgedRun, text: str) -> list[str]:
    """The lines of the verdict that have this text."""
    return [line for line in judged.verdict.lines if text in line]


STRICT = "{pfc_paused: 0, retransmits_per_hour: 0}"


def test_a_link_that_loses_packets_fails_with_its_retransmissions(tmp_path: Path) -> None:
    """On the side that misses them and on the side that sends again."""
    lossy = TimedFault(0.0, 1e6, Fault("gpu002/mlx5_3", "bit_errors", 1e-5))
    judged = growing(tmp_path, lossy, allowed=STRICT, phase=RING, rate=100)
    (suspect,) = [one for one in judged.verdict.suspects if one.component == "gpu002/mlx5_3:port"]
    assert suspect.outcome is Outcome.FAIL
    assert any("zero growth: retransmits: " in text for text in suspect.evidence), suspect.evidence


def test_pauses_of_an_ethernet_rack_are_read_and_judged(tmp_path: Path) -> None:
    """A slow RNIC holds its senders up; what is allowed decides."""
    slow = TimedFault(0.0, 1e6, Fault("gpu002/mlx5_3", "slow", 0.5))
    for name, allowed, fails in (("none", 0, True), ("much", 1, False)):
        (tmp_path / name).mkdir()
        limits = f"{{pfc_paused: {allowed}, retransmits_per_hour: 0}}"
        judged = growing(tmp_path / name, slow, layer="ethernet", allowed=limits, phase=RING)
        assert bool(reasons(judged, "zero growth: rx_pfc_us: it was told to wait")) is fails, judged.verdict.lines
        assert not reasons(judged, "zero growth of pfc")
