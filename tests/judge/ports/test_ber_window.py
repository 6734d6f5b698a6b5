"""NVIDIA's windows, and no verdict before the time it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.judge.ports.steps import RETURN_TO_SERVICE, BerWindow, SymbolErrors, judge_ber, observation_s
from fabric.model.outcome import Outcome


@pytest.mark.parametrize(
    ("line_rate_gbps", "in_12_min", "in_125_min"), [(400, 2.88, 3.0), (200, 1.44, 1.5), (800, 5.76, 6.0)]
)
def test_errors_allowed_are_nvidias(line_rate_gbps: float, in_12_min: float, in_125_min: float) -> None:
    """NDR, HDR and XDR as in the README of the UFM PDR plugin."""
    allowed = [window.errors_allowed(line_rate_gbps) for window in RETURN_TO_SERVICE]
    assert allowed == pytest.approx([in_12_min, in_125_min])


@pytest.mark.parametrize(("ber", "seconds"), [(1e-12, 15), (1e-13, 150), (1e-14, 1500), (1e-16, 150_000)])
def test_observation_takes_three_expected_errors(ber: float, seconds: float) -> None:
    """3 / (BER x rate): three times NVIDIA's table for HDR, which is 1 / (BER x rate)."""
    assert observation_s(ber, 200) == pytest.approx(seconds)


def readings(*rows: tuple[float, int]) -> list[SymbolErrors]:
    """Seconds and counts."""
    return [SymbolErrors(at_s, count) for at_s, count in rows]


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ([(0, 0), (7500, 0)], Outcome.PASS),
        ([(0, 7), (7500, 10)], Outcome.PASS),  # three in 125 minutes are allowed; what was there before is not counted
        ([(0, 0), (700, 2), (7500, 2)], Outcome.PASS),
        ([(0, 0), (700, 3)], Outcome.FAIL),  # at once: waiting cannot take them back
        ([(0, 0), (3600, 1), (4000, 4), (9000, 4)], Outcome.FAIL),  # three in a window that began later
        ([(0, 0), (1000, 2), (3000, 3), (7500, 4)], Outcome.FAIL),  # never three in 12 minutes, four in 125
        ([(0, 0), (7499, 0)], Outcome.INCONCLUSIVE),
        ([(0, 0)], Outcome.INCONCLUSIVE),
        ([], Outcome.INCONCLUSIVE),
        ([(0, 5), (7500, 0)], Outcome.INCONCLUSIVE),  # reset while it was watched
    ],
)
def test_the_windows_decide(rows: list[tuple[float, int]], outcome: Outcome) -> None:
    """FAIL when there are too many, PASS after the whole time, INCONCLUSIVE before."""
    assert judge_ber(readings(*rows), 400).outcome is outcome


def test_what_is_left_to_watch_is_said() -> None:
    """An INCONCLUSIVE says how long it still takes."""
    found = judge_ber(readings((100, 0), (820, 1)), 400)
    assert (found.left_s, found.reason) == (6780, "1 symbol errors in 720 s: 7500 s are needed")


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30))
def test_nothing_passes_early_and_nothing_bad_passes(steps: list[int]) -> None:
    """Whatever the counts: PASS needs 7,500 s and at most three errors in all of the last window."""
    count, rows = 0, []
    for number, step in enumerate(steps):
        count += step
        rows.append((300.0 * number, count))
    found = judge_ber(readings(*rows), 400)
    if found.outcome is Outcome.PASS:
        assert rows[-1][0] >= 7500.0
        assert all(late - early <= 3 for at, early in rows for later, late in rows if 0 <= later - at <= 7500.0)


def test_bad_calls_are_refused() -> None:
    """Readings out of order and impossible rates are mistakes of the caller."""
    with pytest.raises(ValueError, match="not in order"):
        judge_ber(readings((10, 0), (10, 0)), 400)
    with pytest.raises(ValueError, match="BER between 0 and 1"):
        observation_s(0.0, 400)


def test_other_windows_can_be_asked_for() -> None:
    """A short one for a quick look."""
    quick = (BerWindow(60.0, 1e-12),)
    assert judge_ber(readings((0, 0), (60, 24)), 400, quick).outcome is Outcome.PASS
    assert judge_ber(readings((0, 0), (60, 25)), 400, quick).outcome is Outcome.FAIL
