"""Ports that went down together are their leaf, and no cables."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.judge.ports.health import PortHealth, ports_of_run
from fabric.judge.ports.verdict import SeenCounters, port_findings, went_down
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from tests.judge.course.halls import NAMES, hall

EVERY_S = 300.0
RAILS = range(4)
HOUR_S = 3600.0


def found(*counted: Mapping[tuple[str, int], float]) -> list[PortHealth]:
    """What is said of them."""
    ports = ports_of_run(sampled(*counted), hall(1), NAMES, ())
    return went_down(ports, hall(1), EVERY_S)


def sampled(down: Mapping[tuple[str, int], float], also: Mapping[tuple[str, int], float] | None = None) -> Samples:
    """Of ports (host, rail) that went down once then, and others that counted a symbol error then."""
    courses = {}
    for host in NAMES:
        for rail in RAILS:
            for name, times in (("link_downed", down), ("symbol_error", also or {})):
                at_s = times.get((host, rail))
                steps = [(0.0, 0)] if at_s is None else [(0.0, 0), (at_s, 1)]
                course = CounterCourse([when for when, _ in steps], [count for _, count in steps], 10 * HOUR_S)
                courses[CounterReading(host, f"mlx5_{rail}", name)] = course
    return Samples(EVERY_S, courses)


def all_of(rail: int, at_s: float = HOUR_S) -> dict[tuple[str, int], float]:
    return {(host, rail): at_s for host in NAMES}


def test_ports_of_a_leaf_that_went_down_together_are_the_leaf() -> None:
    (one,) = found(all_of(3))
    assert (one.component, one.hosts) == ("su0-leaf3", NAMES)
    assert one.explains == tuple(f"{host}/mlx5_3:port" for host in NAMES)


def test_ports_that_went_down_hours_apart_are_cables() -> None:
    assert found({(host, 3): HOUR_S * number for number, host in enumerate(NAMES, start=1)}) == []


def test_hosts_of_which_all_ports_went_down_are_no_leaves() -> None:
    assert found({(host, rail): HOUR_S for host in NAMES for rail in RAILS}) == []


def test_a_port_that_counted_at_another_time_too_is_not_explained() -> None:
    (one,) = found(all_of(3), {("gpu002", 3): 5 * HOUR_S})
    assert "gpu002/mlx5_3:port" not in one.explains
    assert len(one.explains) == len(NAMES) - 1


def test_the_ports_of_a_leaf_that_went_down_are_no_suspects() -> None:
    seen = SeenCounters(sampled(all_of(3)), NAMES)
    named = port_findings(seen, (), {}, (), {}, hall(1)).suspects
    assert [(one.component, one.kind, one.hosts) for one in named] == [("su0-leaf3", "leaf", NAMES)]
