"""PASS against a record is a proof of health, not the absence of a proof of the contrary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.judge.normal.baseline import against_recorded
from fabric.model.outcome import Outcome
from fabric.model.recorded import Recorded

RECORDED = Recorded("loopback", "perftest", median_gbps=400.0, mad_gbps=1.0, n=100, cv=0.0037, runs=("self-check/1",))


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([400.0, 399.0, 401.0], Outcome.PASS),
        ([420.0, 421.0, 419.0], Outcome.PASS),
        ([395.0, 396.0, 394.0], Outcome.PASS),  # -1.3 % is within the margin, and surely so
        ([360.0, 361.0, 359.0], Outcome.FAIL),
        ([388.0, 389.0, 390.0], Outcome.INCONCLUSIVE),  # at the very margin
        ([400.0, 380.0, 420.0], Outcome.INCONCLUSIVE),  # the median is perfect, the noise tells nothing
        ([400.0], Outcome.INCONCLUSIVE),
        ([400.0, 400.0], Outcome.INCONCLUSIVE),
        ([360.0], Outcome.FAIL),  # one sample may accuse
        ([0.0, 400.0, 400.0], Outcome.FAIL),
    ],
)
def test_the_whole_interval_decides(values: list[float], outcome: Outcome) -> None:
    """Above the margin PASS, below FAIL, across it INCONCLUSIVE."""
    assert against_recorded(values, RECORDED, margin=0.03).outcome is outcome


@given(st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=2))
def test_fewer_than_three_samples_never_pass(values: list[float]) -> None:
    """However fast they are."""
    assert against_recorded(values, RECORDED, margin=0.03).outcome is not Outcome.PASS


@given(st.lists(st.floats(100.0, 500.0), min_size=3, max_size=10))
def test_what_passes_is_not_slow(values: list[float]) -> None:
    """No set of samples passes whose geometric mean is below the margin."""
    found = against_recorded(values, RECORDED, margin=0.03)
    assert found.outcome is not Outcome.PASS or found.ratio > 0.97


def test_the_reason_has_the_numbers() -> None:
    """What was compared with what, and how surely."""
    reason = against_recorded([388.0, 389.0, 390.0], RECORDED, margin=0.03).reason
    assert reason.startswith("-2.8% against the recorded 400.0 Gb/s of 100 samples (95 % interval -3.3% to -2.2%)")
    assert reason.endswith("repeat it more often to tell")
