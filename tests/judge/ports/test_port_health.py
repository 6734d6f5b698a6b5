"""A port by what it counted, and ports that went down together."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import pdtr, pdtrc

from fabric.judge.ports.health import (
    BER,
    FALSE_FAILS,
    FALSE_PASSES,
    PortHealth,
    clean_s,
    judge_ber,
    port_health,
    ports_of_run,
    watched_s,
)
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


TWO_DAYS_S = 48 * 3600.0


@pytest.mark.parametrize(("line_rate_gbps", "minutes"), [(800, 62.5), (400, 125), (200, 250), (100, 500)])
def test_a_link_without_errors_takes_three_expected_ones(line_rate_gbps: float, minutes: float) -> None:
    """3 / (BER x rate): NVIDIA's 125 minutes at 400 Gb/s."""
    assert clean_s(line_rate_gbps) == pytest.approx(60 * minutes)
    assert judge_ber(0, 60 * minutes, line_rate_gbps).outcome is Outcome.PASS
    assert judge_ber(0, 60 * minutes - 1, line_rate_gbps).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("count", "of_time_s", "outcome"),
    [
        (1, 7500.0, Outcome.INCONCLUSIVE),
        (3, 7500.0, Outcome.INCONCLUSIVE),  # as many as are allowed say nothing
        (20, 7500.0, Outcome.FAIL),
        (3, 60.0, Outcome.FAIL),  # far more than the 0.024 that are allowed, at once
        (35, TWO_DAYS_S, Outcome.PASS),  # half of the 69 that are allowed
        (69, TWO_DAYS_S, Outcome.INCONCLUSIVE),
        (138, TWO_DAYS_S, Outcome.FAIL),
        (0, 0.0, Outcome.INCONCLUSIVE),
    ],
)
def test_the_count_decides(count: int, of_time_s: float, outcome: Outcome) -> None:
    assert judge_ber(count, of_time_s, 400, ports=64).outcome is outcome


def test_one_of_many_ports_needs_more_errors_to_fail() -> None:
    """Of 16,384 ports some count ten by chance."""
    assert judge_ber(10, 7500.0, 400, ports=8).outcome is Outcome.FAIL
    assert judge_ber(10, 7500.0, 400, ports=16_384).outcome is Outcome.INCONCLUSIVE


def test_what_is_left_to_watch_is_said_and_is_enough() -> None:
    found = judge_ber(1, 720.0, 400)
    assert found.reason == "1 symbol error in 12 min 00 s, 0.288 allowed (BER 1e-15)"
    assert judge_ber(1, 720.0 + found.left_s, 400).outcome is Outcome.PASS
    assert judge_ber(1, 719.0 + found.left_s, 400).outcome is Outcome.INCONCLUSIVE


@given(st.integers(0, 300), st.floats(60.0, 1e6), st.integers(1, 20_000))
def test_the_levels_are_those_of_the_poisson_distribution(count: int, of_time_s: float, ports: int) -> None:
    """A port at the limit FAILs and PASSes no more often than is said."""
    allowed = BER * 400e9 * of_time_s
    outcome = judge_ber(count, of_time_s, 400, ports=ports).outcome
    if outcome is Outcome.FAIL:
        assert pdtrc(count - 1, allowed) < FALSE_FAILS / ports * (1 + 1e-6)
    if outcome is Outcome.PASS:
        assert pdtr(count, allowed) <= FALSE_PASSES * (1 + 1e-6)


@pytest.mark.parametrize(
    ("course", "own", "seconds"),
    [
        (CounterCourse([0.0, 500.0], [0, 1], 1000.0), [], 1000.0),
        (CounterCourse([0.0, 300.0, 400.0], [0, None, 7], 1000.0), [], 900.0),  # the host was away
        (CounterCourse([0.0, 600.0], [0, 65_535], 1000.0), [], 600.0),  # it stands at its highest value
        (CounterCourse([0.0], [65_535], 1000.0), [], 0.0),
        (CounterCourse([0.0], [0], 1000.0), [(100.0, 200.0)], 890.0),  # and a sample's time after it
        (CounterCourse([0.0], [0], 1000.0), [(150.0, 300.0), (100.0, 200.0)], 790.0),
        (CounterCourse([0.0], [0], 1000.0), [(900.0, float("inf"))], 900.0),
        (CounterCourse([0.0, 150.0, 250.0], [0, 1, 2], 1000.0), [(100.0, 200.0)], 890.0),
        (CounterCourse(), [], 0.0),
    ],
)
def test_only_the_time_in_which_it_tells_of_the_link_counts(
    course: CounterCourse, own: list[tuple[float, float]], seconds: float
) -> None:
    assert watched_s("symbol_error", course, own, 10.0) == pytest.approx(seconds)


def test_what_is_missing_is_a_second_at_least() -> None:
    """A window that ended a moment early was told as "takes 0 s more"."""
    assert judge_ber(0, 7499.7, 400.0).left_s == 1.0
    assert judge_ber(0, 7500.0, 400.0).left_s == 0.0
