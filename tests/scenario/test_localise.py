"""A run that localises finds the part that is bad by itself, through the whole product: a few seeds of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.confusion import HOSTS_A_UNIT, RAILS, ROOT, SCENARIO, TEMPLATE
from benchmarks.scoring import Silent
from fabric.app.analyze import reopened
from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from tests import builders

pytestmark = pytest.mark.slow


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """32 hosts in four units of 8, a leaf a rail and unit, 16 spines."""
    text = TEMPLATE.read_text(encoding="utf-8").replace("gpu[001-064]", "gpu[001-032]")
    text = text.replace(f"hosts_per_unit: {HOSTS_A_UNIT}", "hosts_per_unit: 8")
    text = text.replace("gpu064", "gpu032").replace("gpu063", "gpu031")
    (tmp_path / "baselines").symlink_to(TEMPLATE.parent / "baselines")
    path = tmp_path / "pod-32.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def run(pod: Path, *faults: str, scenario: Path = SCENARIO, seed: int = 1) -> JudgedRun:
    """In this process, on the simulated pod."""
    asked = builders.asked(scenario, inventory=pod, faults=faults)
    return builders.on_mock(asked, pod.parent / "results", seed=seed, observer=Silent())


def named(judged: JudgedRun) -> list[str]:
    """The suspects."""
    return sorted(suspect.component for suspect in judged.verdict.suspects)


@pytest.mark.parametrize(
    ("fault", "component"),
    [
        ("gpu005/mlx5_3:slow=0.8", "gpu005/mlx5_3"),
        ("gpu030/mlx5_7:port:slow=0.95", "gpu030/mlx5_7:port"),
        ("gpu017/gpu3:slow=0.6", "gpu017/gpu3"),
        ("gpu017/pcie1:slow=0.6", "gpu017/pcie1"),
        ("su2-leaf4:slow=0.9", "su2-leaf4"),
        ("su1-leaf6--spine03:slow=0.7", "su1-leaf6--spine03"),
        ("su1-leaf6->spine03:slow=0.25", "su1-leaf6--spine03"),
        ("spine05->su3-leaf1:slow=0.9", "su3-leaf1--spine05"),
        ("spine05:slow=0.95", "spine05"),
    ],
)
def test_the_bad_part_is_named_and_nothing_else(pod: Path, fault: str, component: str) -> None:
    judged = run(pod, fault)
    assert (named(judged), judged.verdict.outcome) == ([component], Outcome.FAIL)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_healthy_pod_passes(pod: Path, seed: int) -> None:
    judged = run(pod, seed=seed)
    assert (named(judged), judged.verdict.outcome) == ([], Outcome.PASS)


def test_a_run_is_judged_the_same_from_its_directory_alone(pod: Path) -> None:
    """Further rounds and routes are read back from its history."""
    judged = run(pod, "spine05:slow=0.9")
    again = reopened(Path(judged.path)).judged
    assert again.verdict == judged.verdict
    assert len(again.verdict.probes) > RAILS * 32


def test_with_adaptive_routing_no_host_is_blamed_for_a_spine(pod: Path, tmp_path: Path) -> None:
    """All uplinks of a leaf share the loss: nothing can be named, and the verdict says why."""
    text = SCENARIO.read_text(encoding="utf-8").replace(", paths: static}", "}")
    text = text.replace("../inventory/", f"{ROOT}/inventory/")
    scenario = tmp_path / "localise.yaml"
    scenario.write_text(text, encoding="utf-8")
    pod.write_text(pod.read_text(encoding="utf-8").replace("mock: {", "mock: {routing: ar, "), encoding="utf-8")
    judged = run(pod, "spine05:slow=0.5", scenario=scenario)
    assert not [name for name in named(judged) if name.startswith("gpu")]
    assert any("which uplinks and spine a pair crossed is not known" in reason for reason in judged.verdict.reasons)
