"""A host that is a little low and has a bad part: the host and the part, and no path."""

from __future__ import annotations

import pytest

from benchmarks.measured_rack import judged, measured, probes_of, rack_topology, slow_rnic
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.verdict import Limit, Suspect
from tests.builders import suspects

LIMITS = (
    Limit("loopback", 380.0, "a limit", min_size_bytes=1, link_class="pix"),
    Limit("loopback", 390.0, "a limit", min_size_bytes=1, link_class="mem_local"),
    Limit("loopback", 200.0, "a limit", min_size_bytes=1),
    Limit("rnic_to_rnic", 384.0, "a limit", min_size_bytes=1),
)
RACK = rack_topology(8)


def named(level: float, part: float) -> tuple[Suspect, ...]:
    """Suspects where gpu003 has this level, and one RNIC of it lets through this share."""
    rnic = slow_rnic("gpu003/mlx5_2", part)

    def factor(probe: Probe) -> float:
        return (level if probe.hosts == ("gpu003",) else 1.0) * rnic(probe)

    probes = probes_of(RACK)
    verdicts = judged(measured(probes, cv=0.003, seed=2, factor=factor, host_spread=0.0), RACK, limits=LIMITS)
    return suspects(probes, verdicts, topology=RACK, outcome=Outcome.FAIL)


@pytest.mark.slow
def test_a_low_host_with_a_bad_rnic_is_two_suspects_and_no_path() -> None:
    found = named(0.98, 0.67)
    assert sorted(one.component for one in found) == ["gpu003", "gpu003/mlx5_2"]


def test_a_bad_rnic_of_a_good_host_is_that_rnic_alone() -> None:
    assert [one.component for one in named(1.0, 0.67)] == ["gpu003/mlx5_2"]


@pytest.mark.slow
def test_a_part_that_is_a_little_worse_than_a_low_host_is_no_second_trouble() -> None:
    assert [one.component for one in named(0.965, 0.985)] == ["gpu003"]
