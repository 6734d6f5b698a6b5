"""Which parts probes pass through, and what none of them went through."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.config.inventory import load_inventory
from fabric.judge.locate.candidates import not_above
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult

POD = load_inventory(Path(__file__).parents[3] / "inventory" / "pod-64.yaml").topology
NEAR, FAR = ("gpu001", "gpu002"), ("gpu001", "gpu064")
"""Two hosts under the same leaves, and two that are not."""


def said(kind: str, hosts: tuple[str, ...], *devices: str, outcome: Outcome | None = None) -> list[str]:
    """What is said of the leaves after a test between these RNICs, if they are named, or of whole hosts."""
    params = dict(zip(("rnic", "peer_rnic"), devices, strict=False))
    probe = Probe("p", kind, "f", hosts, (), 1.0, params)
    measured = () if outcome else (Measurement("p", "bandwidth", 390.0, "Gb/s"),)
    return not_above([probe], {"p": ProbeResult("p", 1, measured, outcome, "", 0.0, 1.0)}, POD)


def test_uplinks_of_a_leaf_that_no_pair_left_are_said() -> None:
    text = "no test went above su0-leaf0: 16 uplinks there were not measured"
    assert said("pairwise", NEAR, "mlx5_0", "mlx5_0") == [text]


def test_rings_of_hosts_under_the_same_leaves_leave_none_of_them() -> None:
    assert said("tor_all_reduce", NEAR) == ["no test went above su0-leaf[0-7]: 128 uplinks there were not measured"]


@pytest.mark.parametrize(
    ("kind", "hosts", "devices"),
    [
        ("pairwise", FAR, ("mlx5_0", "mlx5_0")),
        ("rnic_to_rnic", ("gpu001",), ("mlx5_0", "mlx5_1")),  # of two rails, each with leaves of its own
        ("tor_all_reduce", FAR, ()),
        ("loopback", ("gpu001",), ("mlx5_0",)),  # reaches no leaf
    ],
)
def test_what_crosses_the_leaves_or_reaches_none_says_nothing(
    kind: str, hosts: tuple[str, ...], devices: tuple[str, ...]
) -> None:
    assert said(kind, hosts, *devices) == []


def test_what_measured_nothing_reached_nothing() -> None:
    assert said("pairwise", NEAR, "mlx5_0", "mlx5_0", outcome=Outcome.ERROR) == []
