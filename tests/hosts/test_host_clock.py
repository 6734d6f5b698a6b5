"""What is known of a host's clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.hosts.clock import HostClock

WAY_S = st.floats(0, 2)


def test_a_reading_that_arrives_is_a_bound_and_the_smallest_is_kept():
    """It is late by its way, never early."""
    clock = HostClock()
    clock.heard(100.0, 1000.5)
    clock.heard(101.0, 1001.1)
    clock.heard(102.0, 1002.9)
    assert clock.here(200.0) == pytest.approx(1100.1)


@given(st.lists(st.tuples(WAY_S, WAY_S), min_size=1, max_size=9))
def test_the_error_is_no_more_than_half_the_shortest_way(ways: list[tuple[float, float]]):
    """Whatever ways questions and answers take, and whichever of both is the longer."""
    clock, ahead_s, now_s = HostClock(), 900.0, 1000.0
    for out_s, back_s in ways:
        key = clock.ask(now_s)
        arrives_s = now_s + out_s + back_s
        clock.told(key, now_s + out_s - ahead_s, arrives_s)
        now_s = arrives_s
    shortest_s = min(out_s + back_s for out_s, back_s in ways)
    assert abs(clock.here(0.0) - ahead_s) <= shortest_s / 2 + 1e-4 * (now_s - 1000.0) + 1e-6
    assert clock.there(clock.here(5.0)) == pytest.approx(5.0)


def test_an_answer_to_an_older_question_bounds_one_side_only():
    """Nobody knows when that question was asked any more."""
    clock = HostClock()
    old = clock.ask(1000.0)
    clock.ask(1001.0)
    clock.told(old, 100.6, 1001.2)
    assert clock.here(0.0) == pytest.approx(1001.2 - 100.6), "as a reading that nobody asked for"


def test_it_is_settled_for_a_while_after_four_answers():
    """Clocks part again."""
    clock = HostClock()
    for number in range(4):
        assert not clock.settled(1000.0 + number)
        key = clock.ask(1000.0 + number)
        clock.told(key, 100.0 + number, 1000.001 + number)
    assert clock.settled(1004.0)
    assert not clock.settled(1020.0)
