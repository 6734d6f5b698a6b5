"""What was sampled, below the time line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.report.html.samples import MOST_POINTS, bounded, held, rate_text

POINT = st.tuples(st.floats(0, 1e6), st.floats(0, 1e6))


@given(st.lists(POINT, max_size=3000, unique_by=lambda point: point[0]).map(sorted))
def test_a_series_is_bounded_and_keeps_its_highest_point(points: list[tuple[float, float]]) -> None:
    """In order of time."""
    found = bounded(points)
    assert len(found) <= MOST_POINTS
    assert sorted(found) == list(found)
    assert max((value for _, value in found), default=None) == max((value for _, value in points), default=None)


@pytest.mark.parametrize("count", [1, MOST_POINTS])
def test_few_points_are_left_as_they_are(count: int) -> None:
    """Nothing is brought together."""
    points = [(float(number), 1.0) for number in range(count)]
    assert list(bounded(points)) == points


def test_what_stood_still_and_then_rose_is_level_until_it_rose() -> None:
    """A course keeps only what changed: between 0 and 3600 s every sample was 50."""
    assert held([(0.0, 50.0), (3600.0, 60.0), (3900.0, 61.0)], 300.0) == [
        (0.0, 50.0),
        (3300.0, 50.0),
        (3600.0, 60.0),
        (3900.0, 61.0),
    ]


def test_what_grows_less_than_once_a_second_is_said_by_the_hour() -> None:
    """Two flaps in five minutes are no 0.00667 of anything."""
    assert rate_text(2 / 300) == "24/h"
    assert rate_text(150.0) == "150/s"
