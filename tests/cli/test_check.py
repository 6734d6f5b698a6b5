"""``fabric check`` from the command line, on the simulated rack."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fabric.cli.main import main
from tests.places import INVENTORY, SCENARIOS

SCENARIO = str(SCENARIOS / "self-check.yaml")
HEALTHY = str(INVENTORY / "demo-rack-healthy.yaml")
KEYS = {
    "format", "scenario", "inventory", "backend", "hosts", "host_count", "elapsed_s", "exit_code", "counts", "findings",
}  # fmt: skip
FINDING_KEYS = {"check", "severity", "hosts", "host_count", "what", "why", "advice"}


def _run(*words: str) -> tuple[int, str]:
    result: Result = CliRunner().invoke(main, ["check", *words], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value), result.output


def _document(*words: str) -> dict[str, Any]:
    code, output = _run(*words, "--json")
    document: dict[str, Any] = json.loads(output)
    assert document["exit_code"] == code
    return document


def _faulty(*faults: str) -> dict[str, Any]:
    return _document(SCENARIO, "--inventory", HEALTHY, *(f"--fault={fault}" for fault in faults))


def test_a_healthy_rack_is_ready() -> None:
    """Nothing is found, and that is exit code 0."""
    code, output = _run(SCENARIO, "--inventory", HEALTHY)
    assert code == 0
    assert output.startswith("READY  self-check on 8 hosts (gpu[001-008])")
    assert _document(SCENARIO, "--inventory", HEALTHY)["findings"] == []


@pytest.mark.parametrize(
    ("fault", "severity", "check", "words"),
    [
        ("gpu002/mlx5_3:broken", "problem", "rnics", "mlx5_3 is DOWN"),
        ("gpu002/mlx5_3:absent", "problem", "rnics", "no RNIC mlx5_3"),
        ("gpu002/gpu5:absent", "problem", "gpus", "7 GPUs, the inventory has 8"),
        ("gpu002/gpu5:broken", "problem", "gpus", "GPU is lost"),
        ("gpu002/gpu5:hanging", "unknown", "gpus", "no answer within 15 s"),
        ("gpu002:broken", "unknown", "reach", "No route to host"),
        ("gpu002:absent", "unknown", "reach", "Name or service not known"),
        ("gpu002:hanging", "unknown", "reach", "no answer within 15 s"),
        ("gpu002:garbage", "problem", "reach", "'true' printed"),
    ],
)
def test_a_fault_is_found_on_its_host(fault: str, severity: str, check: str, words: str) -> None:
    """The first finding says it, no other host is named, and the exit code fits."""
    document = _faulty(fault)
    first = document["findings"][0]
    assert (first["severity"], first["check"], first["hosts"]) == (severity, check, "gpu002")
    assert words in first["what"]
    assert {one["hosts"] for one in document["findings"]} == {"gpu002"}
    assert document["exit_code"] == {"problem": 1, "unknown": 3}[severity]


def test_the_same_fault_on_many_hosts_is_one_finding() -> None:
    """Hosts are folded, and a problem beats what is unknown."""
    document = _faulty("gpu002/mlx5_3:broken", "gpu003/mlx5_3:broken", "gpu004:broken")
    assert [one["hosts"] for one in document["findings"]] == ["gpu[002-003]", "gpu004"]
    assert document["counts"] == {"problem": 1, "unknown": 1}
    assert document["exit_code"] == 1


def test_the_document_has_these_keys() -> None:
    """Pipelines rely on them."""
    document = _faulty("gpu002/mlx5_3:broken")
    assert set(document) == KEYS
    assert set(document["findings"][0]) == FINDING_KEYS


def test_an_inventory_alone_can_be_checked() -> None:
    """Hosts, GPUs and links; ``--hosts`` chooses."""
    document = _document("--inventory", HEALTHY, "--hosts", "gpu[001-002]", "--fault=gpu001/mlx5_0:broken")
    assert (document["scenario"], document["host_count"], document["exit_code"]) == (None, 2, 1)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--inventory", HEALTHY, "--hosts", "gpu999"),
        ("--inventory", HEALTHY, "--backend", "carrier-pigeon"),
        ("--inventory", HEALTHY, "--hosts", "gpu[", "--json"),
        ("--inventory", HEALTHY, "--backend", "process", "--fault=gpu001:broken"),
        ("no-such-scenario.yaml",),
    ],
)
def test_bad_input_is_told_before_anything_is_asked(words: tuple[str, ...]) -> None:
    """ConfigError is exit code 2."""
    from fabric.errors import ConfigError

    with pytest.raises(ConfigError):
        _run(*words)
