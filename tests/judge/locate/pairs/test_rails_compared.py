"""A rail on which nobody stands out is compared with the other rails of the same hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.judge.locate.pairs.diagnose import diagnose
from fabric.model.diagnosis import Diagnosis
from fabric.model.outcome import Outcome
from fabric.model.topology import Topology
from tests.judge.locate.pairs.made import all_pairs, hosts


def rails(levels: list[float], *, count: int = 6, topology: Topology | None = None) -> Diagnosis:
    """Every rail with a level of its own, the same for all hosts."""
    rows = []
    for rail, level in enumerate(levels):
        name = f"mlx5_{rail}" if topology else str(rail)
        rows += all_pairs(hosts(count), rail=name, seed=rail, level=lambda a, b, of=level: of)  # type: ignore[misc]
    return diagnose(rows, topology=topology)


def test_a_rail_that_is_slow_as_a_whole_is_no_pass() -> None:
    found = rails([1.0, 1.0, 0.6, 1.0])
    assert found.outcome is Outcome.INCONCLUSIVE
    assert [reason.split(" as a whole")[0] for reason in found.reasons] == ["rail2"]
    assert "60% of the usual" in found.reasons[0]


def test_of_two_rails_the_slower_one_is_said() -> None:
    assert [reason.split(" as a whole")[0] for reason in rails([0.8, 1.0]).reasons] == ["rail0"]


@pytest.mark.parametrize("levels", [[1.0, 1.0, 0.97, 1.0], [1.0], [1.0, 1.0]])
def test_rails_that_differ_by_little_pass(levels: list[float]) -> None:
    assert rails(levels).outcome is Outcome.PASS


def test_with_a_limit_that_it_meets_a_slower_rail_is_good() -> None:
    rows = [*all_pairs(hosts(6), rail="0"), *all_pairs(hosts(6), rail="1", level=lambda a, b: 0.5)]
    assert diagnose(rows, limit_gbps=150.0).outcome is Outcome.PASS


def test_rails_of_other_line_rates_are_not_compared() -> None:
    """A storage RNIC of 200 Gb/s beside seven of 400."""
    rack = rack_topology(6)
    slower = [replace(r, line_rate_gbps=200.0) if r.rail == 2 else r for r in rack.hosts["gpu001"].platform.rnics]
    platform = replace(rack.hosts["gpu001"].platform, rnics=tuple(slower))
    rack = Topology({name: replace(host, platform=platform) for name, host in rack.hosts.items()}, rack.switches)
    assert rails([1.0, 1.0, 0.5], topology=rack).outcome is Outcome.PASS
    assert rails([1.0, 1.0, 0.5], topology=rack_topology(6)).outcome is Outcome.INCONCLUSIVE


def test_too_few_hosts_say_nothing_of_a_rail() -> None:
    """One disturbed number would be a whole rail."""
    assert not [reason for reason in rails([1.0, 0.6], count=2).reasons if "as a whole" in reason]
