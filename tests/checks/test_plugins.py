"""Another package adds checks by its entry points; one that is broken is told, and breaks nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.checks.needs import HostNeeds
from fabric.checks.pre_flight import pre_flight
from fabric.config import load_inventory
from fabric.model.finding import Finding, Severity
from fabric.wiring import BACKENDS

HEALTHY = Path(__file__).resolve().parents[2] / "inventory" / "demo-rack-healthy.yaml"
PACKAGE = Path(__file__).with_name("another_package")


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """The pre-flight of two hosts with the other package installed."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    inventory = load_inventory(HEALTHY, extra_faults=("gpu001/mlx5_0:absent",))
    needs = {name: HostNeeds() for name in ("gpu001", "gpu002")}
    return list(pre_flight(BACKENDS["mock"](inventory, 0), inventory.topology.hosts, needs))


def test_a_check_of_another_package_is_looked_at(findings: list[Finding]) -> None:
    found = [one for one in findings if one.check == "kernel"]
    assert [(one.severity, one.what) for one in found] == [(Severity.PROBLEM, "its kernel is Linux")] * 2
    assert [one.hosts for one in found] == [("gpu001",), ("gpu002",)]


def test_what_is_broken_is_told_and_the_rest_is_looked_at(findings: list[Finding]) -> None:
    """Each in one finding, which names it and says what was raised; it is not known then, so never a PASS."""
    told = {one.what for one in findings if "of another package" in one.what}
    assert told == {
        "the check absent (another_package:NOT_THERE) of another package cannot be loaded: "
        "AttributeError: module 'another_package' has no attribute 'NOT_THERE'",
        "the check no-check (another_package:NO_CHECK) of another package cannot be loaded: "
        "TypeError: expected a fabric.checks.kind.HostCheck, got int",
        "the check taken (another_package:TAKEN) of another package cannot be loaded: "
        "ValueError: there is a check 'rnics' already",
        "the check breaks of another package broke: KeyError: 'gpu001'",
        "the check string of another package broke: TypeError: expected commands as tuples of words, got 'uname -r'",
    }
    assert {one.severity for one in findings if one.what in told} == {Severity.UNKNOWN}
    assert "rnics" in {one.check for one in findings}  # ours are looked at all the same
