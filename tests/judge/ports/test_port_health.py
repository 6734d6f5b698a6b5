"""A port by what it counted, and ports that went down together."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.judge.ports.health import PortHealth, port_health, ports_of_run
from fabric.judge.ports.verdict import SeenCounters, port_findings, went_down
from fabric.model.change import Change, ChangeResult, Window
from fabric.model.outcome import Outcome
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from tests.changes.asked import ber
from tests.judge.course.halls import NAMES, hall

EVERY_S = 60.0
TWO_HOURS_S = 7800.0


def course(*steps: tuple[float, float | None], until_s: float = TWO_HOURS_S) -> CounterCourse:
    """0 from the beginning, and then what it became when."""
    return CounterCourse([0.0, *(at_s for at_s, _ in steps)], [0, *(value for _, value in steps)], until_s)


def change(began_s: float, ended_s: float, component: str = "gpu001/mlx5_0") -> ChangeResult:
    """Bit errors on a cable, made by us."""
    one = Change("p/ber.x", "p", component, "port", ber(component, raw="1e-6"))
    return ChangeResult(one, "reverted", windows=(Window(began_s, ended_s),))


def health(courses: dict[str, CounterCourse], *changes: ChangeResult, ethernet: bool = False) -> PortHealth:
    """Of a port of 400 Gb/s."""
    found = port_health("gpu001", "mlx5_0", courses, changes, every_s=EVERY_S, line_rate_gbps=400.0, ethernet=ethernet)
    assert found is not None
    return found


def test_a_port_that_counted_nothing_for_two_hours_passes() -> None:
    """Its bit errors are no more than 1e-15."""
    found = health({"symbol_error": course(), "link_downed": course()})
    assert found.outcome is Outcome.PASS
    assert found.ber is not None
    assert found.ber.outcome is Outcome.PASS


def test_bit_errors_are_inconclusive_until_they_were_watched_long_enough() -> None:
    """And how long it still takes is said; that alone makes no port bad."""
    found = health({"symbol_error": course(until_s=600.0)})
    assert found.ber is not None
    assert (found.ber.outcome, found.ber.left_s) == (Outcome.INCONCLUSIVE, 6900.0)
    assert found.outcome is Outcome.PASS


def test_errors_count_over_all_of_the_time() -> None:
    """Three in two hours are what is allowed, however close together; forty are not."""
    for steps in ([(600.0, 3)], [(1500.0 * number, number) for number in range(1, 4)]):
        found = health({"symbol_error": course(*steps)})
        assert found.ber is not None
        assert (found.outcome, found.ber.outcome) == (Outcome.PASS, Outcome.INCONCLUSIVE)
    burst = health({"symbol_error": course((600.0, 40))})
    assert (burst.outcome, burst.words) == (
        Outcome.FAIL,
        ("40 symbol errors in 2 h 10 min, 3.12 allowed (BER 1e-15)",),
    )


def test_the_time_in_which_our_own_change_was_in_force_does_not_count() -> None:
    """An hour of it makes two hours one."""
    found = health({"symbol_error": course()}, change(600.0, 4200.0))
    assert found.ber is not None
    assert (found.ber.outcome, found.ber.watched_s) == (Outcome.INCONCLUSIVE, 7800.0 - 3600.0 - 30.0 - EVERY_S)


def test_frames_with_a_bad_crc_are_judged_alike_on_ethernet() -> None:
    found = health({"rx_crc_errors": course((600.0, 40))}, ethernet=True)
    assert found.words == ("40 frames with a bad CRC in 2 h 10 min, 3.12 allowed (BER 1e-15)",)


def test_link_recoveries_are_marginal_and_a_link_that_went_down_fails() -> None:
    """On Ethernet it is a warning."""
    assert health({"link_error_recovery": course((100.0, 3))}).words == ("3 link recoveries after 1 min 40 s",)
    assert health({"link_error_recovery": course((100.0, 3))}).outcome is Outcome.MARGINAL
    assert health({"link_downed": course((100.0, 1))}).outcome is Outcome.FAIL
    assert health({"link_downed": course((100.0, 1))}, ethernet=True).outcome is Outcome.MARGINAL


def test_a_hot_module_is_marginal() -> None:
    """Above what NVIDIA isolates at."""
    found = health({"link_downed": course(), "module_c": course((100.0, 78.0))})
    assert (found.outcome, "78 C" in found.words[0]) == (Outcome.MARGINAL, True)
    assert health({"link_downed": course(), "module_c": course((100.0, 69.0))}).outcome is Outcome.PASS


def test_what_a_change_of_ours_made_is_not_the_links() -> None:
    """While it was in force there, and a little after."""
    errors = {"symbol_error": course((500.0, 1000)), "link_downed": course((520.0, 2))}
    ours = health(errors, change(440.0, 480.0))
    assert ours.outcome is Outcome.PASS
    assert [step.ours for step in ours.steps] == [True, True]
    assert health(errors, change(440.0, 480.0, "gpu001/mlx5_1")).outcome is Outcome.FAIL
    assert health(errors, change(1000.0, 1100.0)).outcome is Outcome.FAIL


def test_a_cleared_counter_is_seen_and_not_negative() -> None:
    """What it counted since then counts."""
    found = health({"link_downed": CounterCourse([0.0, 60.0, 120.0], [100, 0, 1], TWO_HOURS_S)})
    assert (found.resets, found.words) == (1, ("1 time down after 2 min 00 s",))


def test_nothing_is_said_over_a_time_that_nobody_saw() -> None:
    """A host that was away comes back with other numbers."""
    found = health({"link_downed": CounterCourse([0.0, 60.0, 500.0], [0, None, 7], TWO_HOURS_S)})
    assert found.outcome is Outcome.PASS


def test_a_port_without_readable_counters_has_no_health() -> None:
    """Not a good one."""
    none = {"link_downed": CounterCourse([0.0], [None], 100.0)}
    assert port_health("h", "d", none, (), every_s=1.0, line_rate_gbps=1.0, ethernet=False) is None


LEAVES_EVERY_S = 300.0
RAILS = range(4)
HOUR_S = 3600.0


def found(*counted: Mapping[tuple[str, int], float]) -> list[PortHealth]:
    """What is said of them."""
    ports = ports_of_run(sampled(*counted), hall(1), NAMES, ())
    return went_down(ports, hall(1), LEAVES_EVERY_S)


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
    return Samples(LEAVES_EVERY_S, courses)


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
