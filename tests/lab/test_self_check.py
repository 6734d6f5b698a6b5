"""The main job over real SSH: the same scenario, seed and faults give the verdict and the bytes of the mock."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.lab.rack import Rack
from fabric import load
from fabric.model.inventory import Fault
from tests.places import SCENARIOS

pytestmark = pytest.mark.lab

SCENARIO = SCENARIOS / "self-check.yaml"
FAULTS = (
    Fault("gpu002/mlx5_1->numa1-gpus", "slow", 0.4),
    Fault("gpu003/gpu2:nvlink", "slow", 0.5),
    Fault("gpu004", "broken"),
    Fault("gpu005", "hanging"),
    Fault("gpu006", "garbage"),
)
SILENT = ("gpu004", "gpu005", "gpu006")
SEED = 11


def run(rack: Rack, backend: str, *more: str) -> dict[str, Any]:
    """The self-check on this rack; its results land in a folder of the backend's name."""
    done = rack.fabric(
        "run",
        str(SCENARIO),
        f"--inventory={rack.inventory_file}",
        f"--backend={backend}",
        f"--results={rack.folder / backend}",
        f"--seed={SEED}",
        "--json",
        *more,
    )
    document: dict[str, Any] = json.loads(done.stdout or done.stderr)
    assert done.returncode == document["exit_code"]
    return document


def same(document: dict[str, Any]) -> object:
    """What must not depend on how hosts are reached: all but the words in which we could not reach or read one."""
    alive = [row for row in document["not_passed"] if not any(host in row["probe_id"] for host in SILENT)]
    # How many probes of a silent host began before it was given up depends on real time, and so does how sure we are.
    sure = [s["confidence"] if s["outcome"] == "fail" else None for s in document["suspects"]]
    blamed = [(s["component"], s["kind"], s["outcome"], c) for s, c in zip(document["suspects"], sure, strict=True)]
    return document["outcome"], document["counts"], sorted(map(str, blamed)), alive


def test_ssh_equals_mock(rack: Callable[..., Rack]) -> None:
    """Verdict and suspects are equal, and all that was measured; dead, hung and lying hosts are ERROR."""
    made = rack(hosts=7, parts=4, faults=FAULTS, seed=SEED)
    over_ssh = run(made, "ssh")
    mock_faults = [f"--fault={f.component}:{f.kind}" + (f"={f.factor}" if f.kind == "slow" else "") for f in FAULTS]
    on_mock = run(made, "mock", *mock_faults)
    assert same(over_ssh) == same(on_mock)
    assert sorted(suspect["component"] for suspect in over_ssh["suspects"]) == [
        "gpu002/mlx5_1->numa1-gpus",
        "gpu003/gpu2:nvlink",
        *SILENT,
    ]
    numbers = ["probe", "op", "size_bytes", "gbps", "outcome"]
    ssh_samples, mock_samples = (
        load(made.folder / backend / "self-check").samples[numbers] for backend in ("ssh", "mock")
    )
    assert ssh_samples.equals(mock_samples)
