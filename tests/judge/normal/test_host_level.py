"""A host as a whole against its peers."""

from __future__ import annotations

import random

import pytest

from benchmarks.measured_rack import judge_of, normal_gbps, probes_of, sampled
from fabric.judge.normal.peers import LEAST_PEERS, Peers, levels
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from tests.builders import suspects
from tests.conftest import rack_topology

PEERS = Peers(400.0, 2.0, 100)


def test_a_host_that_is_a_little_low_has_a_level() -> None:
    """A percent and a half is no loss that matters."""
    assert levels({"gpu001": [394.0] * LEAST_PEERS}, PEERS, excused=0.02) == {"gpu001": pytest.approx(0.985)}


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ([390.0] * LEAST_PEERS, "what matters is not excused"),
        ([401.0] * LEAST_PEERS, "who is better than others is compared with others"),
        ([394.0] * (LEAST_PEERS - 1), "too few to tell"),
        ([388.0] * 4 + [400.0] * 4, "half of it is slow, and the other half tells"),
    ],
)
def test_others_have_none(numbers: list[float], why: str) -> None:
    """They are compared with their peers as they are."""
    assert levels({"gpu001": numbers}, PEERS, excused=0.02) == {}, why


@pytest.mark.parametrize(("level", "part", "expected"), [
    (0.9855, 1.0, []),
    (0.9855, 0.95, ["gpu005/mlx5_6"]),
    (0.96, 1.0, ["gpu005"]),
])  # fmt: skip
def test_parts_of_a_slightly_slow_host_are_judged_by_their_host(level: float, part: float, expected: list[str]) -> None:
    """No part of it is accused of what all of it lacks, a slow part still is, and so is a host that lacks too much."""
    topology, draw = rack_topology(5), random.Random(2)
    probes = probes_of(topology, repeat=3)

    def one(probe: Probe) -> float:
        own = level if probe.hosts[0] == "gpu005" else 1.0
        slow = part if own < 1.0 and "mlx5_6" in (probe.params["rnic"], probe.params.get("peer_rnic")) else 1.0
        return normal_gbps(probe) * own * slow * draw.gauss(1.0, 0.01)

    got = sampled(probes, one, judge_of(topology))
    found = suspects(got.probes, got.verdicts, topology=topology, outcome=Outcome.FAIL, results=got.results)
    assert [suspect.component for suspect in found] == expected
