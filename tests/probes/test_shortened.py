"""A probe measured for a shorter time."""

from __future__ import annotations

from fabric.model.probe import Probe
from fabric.probes.again import shortened
from fabric.probes.collective import START_S


def collective(iterations: int, expected_s: float) -> Probe:
    """Of one host."""
    return Probe("soak/a/all_to_all", "all_to_all", "soak", ("a",), (), expected_s, {"iterations": iterations})


def test_fewer_iterations_take_less_time_but_for_the_start() -> None:
    found = shortened(collective(3995, START_S + 400.0), iterations=20, duration_s=5)
    assert found.params["iterations"] == 20
    assert START_S < found.duration_s < START_S + 5.0
    assert found.probe_id == "soak/a/all_to_all"


def test_traffic_by_the_second_is_cut_as_well() -> None:
    probe = Probe("p", "pairwise", "soak", ("a", "b"), (), 62.0, {"duration_s": 60, "size_bytes": 8})
    found = shortened(probe, iterations=20, duration_s=5)
    assert (found.params, found.duration_s) == ({"duration_s": 5, "size_bytes": 8}, 7.0)
