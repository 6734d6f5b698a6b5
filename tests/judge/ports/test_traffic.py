"""Traffic that declines or stops: what is told of a port, of many, and of what is not known."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

import numpy as np

from fabric.judge.ports.traffic import FLOWS, KEPT, LESS, NONE, WINDOW_S, PortTraffic, Shift

WORDS = WINDOW_S * 1e9 / 32
"""What a window at 1 Gb/s counts."""


def told(gbps: Callable[[int, int], float | None], *, rows: int = 4, windows: int = 40) -> list[tuple[int, Shift]]:
    """The shifts of some ports of 400 Gb/s, each with its window; *gbps* of a row in a window, None: not read."""
    traffic, found, words = PortTraffic([400.0] * rows), list[tuple[int, Shift]](), [0.0] * rows
    at_s = [nan] * rows
    for window in range(windows):
        for row in range(rows):
            now = gbps(row, window)
            if now is not None:
                words[row] += now * WORDS
                traffic.read(row, words[row])
                at_s[row] = window * WINDOW_S
        found += [(window, shift) for shift in traffic.window(np.asarray(at_s))]
    return found


def test_a_port_that_stops_is_told_after_half_a_minute_and_when_it_is_back() -> None:
    """And nothing of the others, whose traffic goes on."""
    (stopped, first), (back, second) = told(lambda row, window: 0.0 if row == 1 and 20 <= window < 30 else 390.0)
    assert (stopped, first.state, first.rows, first.job) == (22, NONE, (1,), False)
    assert (back, second.state, second.rows) == (30, FLOWS, (1,))
    assert first.text == "traffic has stopped: 0.0 Gb/s, usually 390.0"


def test_a_port_that_declines_is_told_after_a_minute() -> None:
    """And that it has stopped then, too, but not that what has stopped declines."""

    def gbps(row: int, window: int) -> float:
        return 390.0 if row or window < 20 else 150.0 if window < 30 else 0.0

    assert [(window, one.state, one.rows) for window, one in told(gbps)] == [(25, LESS, (0,)), (32, NONE, (0,))]


def test_a_job_that_ends_is_one_line_for_all_its_ports() -> None:
    """It accuses no port."""
    ((_, shift),) = told(lambda _, window: 390.0 if window < 20 else 0.0)
    assert (shift.state, shift.rows, shift.job) == (NONE, (0, 1, 2, 3), True)


def test_after_five_minutes_without_traffic_nothing_is_usual_any_more() -> None:
    """Another job that takes less is no decline, nor is anything said when it begins."""

    def gbps(_: int, window: int) -> float:
        return 390.0 if window < 20 else 0.0 if window < 24 + KEPT else 50.0

    assert [one.state for _, one in told(gbps, windows=120)] == [NONE]


def test_steps_that_go_up_and_down_are_usual() -> None:
    """A training job sends in some windows more than in others."""
    assert told(lambda _, window: (390.0, 40.0, 200.0, 0.0)[window % 4], windows=100) == []


def test_what_is_not_read_has_not_stopped() -> None:
    """Nor has a counter that somebody cleared."""
    assert told(lambda row, window: None if row == 2 and window > 20 else 390.0) == []
    traffic = PortTraffic([400.0])
    for window in range(30):
        traffic.read(0, (window % 20) * 390.0 * WORDS)
        assert traffic.window(np.asarray([window * WINDOW_S])) == []


def test_an_idle_port_says_nothing() -> None:
    """Some management traffic is no job."""
    assert told(lambda _, window: 0.5 if window < 20 else 0.0) == []
