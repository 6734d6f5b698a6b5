"""Ports that went down together are their leaf, and no cables."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.judge.course.findings import CourseFinding
from fabric.judge.course.over_time import with_over_time
from fabric.judge.course.ports import down_together
from fabric.model.outcome import Outcome
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.verdict import ComponentVerdict, Suspect, Verdict
from tests.judge.course.halls import NAMES, hall

EVERY_S = 300.0
RAILS = range(4)
HOUR_S = 3600.0


def found(
    down: Mapping[tuple[str, int], float], also: Mapping[tuple[str, int], float] | None = None
) -> list[CourseFinding]:
    """Of ports (host, rail) that went down once then, and others that counted a symbol error then."""
    courses = {}
    for host in NAMES:
        for rail in RAILS:
            for name, times in (("link_downed", down), ("symbol_error", also or {})):
                at_s = times.get((host, rail))
                steps = [(0.0, 0)] if at_s is None else [(0.0, 0), (at_s, 1)]
                course = CounterCourse([when for when, _ in steps], [count for _, count in steps], 10 * HOUR_S)
                courses[CounterReading(host, f"mlx5_{rail}", name)] = course
    return down_together(Samples(EVERY_S, courses), hall(1))


def all_of(rail: int, at_s: float = HOUR_S) -> dict[tuple[str, int], float]:
    return {(host, rail): at_s for host in NAMES}


def test_ports_of_a_leaf_that_went_down_together_are_the_leaf() -> None:
    (one,) = found(all_of(3))
    assert (one.component, one.part, one.hosts) == ("su0-leaf3", "leaf", NAMES)
    assert one.ports == tuple(f"{host}/mlx5_3:port" for host in NAMES)


def test_ports_that_went_down_hours_apart_are_cables() -> None:
    assert found({(host, 3): HOUR_S * number for number, host in enumerate(NAMES, start=1)}) == []


def test_hosts_of_which_all_ports_went_down_are_no_leaves() -> None:
    assert found({(host, rail): HOUR_S for host in NAMES for rail in RAILS}) == []


def test_a_port_that_counted_at_another_time_too_is_not_explained() -> None:
    (one,) = found(all_of(3), {("gpu002", 3): 5 * HOUR_S})
    assert "gpu002/mlx5_3:port" not in one.ports
    assert len(one.ports) == len(NAMES) - 1


def judged(*evidence: str) -> Verdict:
    """What becomes of ports that are suspected for this, when their leaf went down."""
    ports = [f"{host}/mlx5_3:port" for host in NAMES]
    verdict = Verdict(
        Outcome.FAIL,
        (*(f"FAIL: {port}: 1 time down" for port in ports[:4]), f"and {len(ports) - 4} more ports, in verdict.json"),
        tuple(Suspect(port, "link", Outcome.FAIL, 0.67, evidence, hosts=(port.partition("/")[0],)) for port in ports),
        tuple(ComponentVerdict(port, Outcome.FAIL, "1 time down") for port in ports),
        (),
    )
    return with_over_time(verdict, found(all_of(3)))


def test_the_ports_of_a_leaf_that_went_down_are_suspects_no_more() -> None:
    verdict = judged("counters: 1 time down")
    assert [(one.component, one.kind) for one in verdict.suspects] == [("su0-leaf3", "leaf")]
    assert verdict.reasons == (f"FAIL: su0-leaf3: {found(all_of(3))[0].text}",)
    of_ports = [one for one in verdict.components if one.component != "su0-leaf3"]
    assert {one.outcome for one in of_ports} == {Outcome.PASS}
    assert all(one.reason.startswith("because of su0-leaf3") for one in of_ports)


def test_a_port_that_was_slow_too_stays_a_suspect() -> None:
    assert len(judged("counters: 1 time down", "2 of 2 samples are slow").suspects) == len(NAMES) + 1
