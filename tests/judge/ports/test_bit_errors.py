"""All errors of all the time against what is allowed, and no verdict before the time it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from fabric.judge.ports.health import BER, FALSE_FAILS, FALSE_PASSES, clean_s, judge_ber, watched_s
from fabric.model.outcome import Outcome
from fabric.model.sampling import CounterCourse

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
        assert poisson.sf(count - 1, allowed) < FALSE_FAILS / ports * (1 + 1e-6)
    if outcome is Outcome.PASS:
        assert poisson.cdf(count, allowed) <= FALSE_PASSES * (1 + 1e-6)


def test_bad_calls_are_refused() -> None:
    with pytest.raises(ValueError, match="positive line rate"):
        judge_ber(0, 1.0, 0.0)
    with pytest.raises(ValueError, match="at least one port"):
        judge_ber(0, 1.0, 400, ports=0)


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
