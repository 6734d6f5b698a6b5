"""What a track says of a part that failed."""

from __future__ import annotations

from fabric.judge.course.tracks import Point, failed_midway


def test_what_went_well_later_came_back() -> None:
    assert failed_midway([Point("a", 0, 1, 0.0, "tor_all_reduce"), Point("b", 2, 3, 1.0, "tor_all_reduce")])


def test_a_probe_of_another_kind_does_not_show_that_it_came_back() -> None:
    assert not failed_midway([Point("a", 0, 1, 0.0, "tor_all_reduce"), Point("b", 2, 3, 1.0, "all_to_all")])
