"""The transport's patience: timeouts, quantised stalls, and what outlives an outage."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.sim.tools.nccl_tests.model import abort_window_s, rc_timeout_s, stall_s

exponents = st.integers(1, 31)


@pytest.mark.parametrize(
    ("t", "timeout", "window"), [(14, 0.067, 0.54), (18, 1.07, 8.6), (20, 4.295, 34.4), (22, 17.2, 137)]
)
def test_timeouts(t, timeout, window):
    """4.096 us * 2^t for one try, and with 7 retries eight times that."""
    assert rc_timeout_s(t) == pytest.approx(timeout, rel=0.006)
    assert abort_window_s(t, 7) == pytest.approx(window, rel=0.006)


def test_nccl_default():
    """The ack timeout of NCCL's default, 20, is 4.29497 s."""
    assert rc_timeout_s(20) == pytest.approx(4.29497, abs=1e-5)


def test_zero_is_for_ever():
    """Exponent 0 switches the timer off: nothing aborts, and what was lost never comes."""
    assert rc_timeout_s(0) == abort_window_s(0, 7) == stall_s(0.1, 0) == inf


@pytest.mark.parametrize(("down", "stall"), [(0.0, 0.0), (0.1, 4.3), (4.2, 4.3), (5.0, 8.6), (9.0, 12.9)])
def test_stall_is_quantised(down, stall):
    """A flap costs whole timeouts: 0.1 s costs 4.3 s by NCCL's defaults."""
    assert stall_s(down) == pytest.approx(stall, abs=0.05)


def test_flap_halts_for_more_than_nine_seconds():
    """A flap of more than two timeouts halts training for more than nine seconds (HPN)."""
    assert stall_s(8.6) > 9


@given(st.floats(0, 1e6), st.floats(0, 1e6), exponents)
def test_stall_covers_the_outage(one, other, t):
    """A stall is never shorter than its outage, at most one timeout longer, and longer for longer outages."""
    short, long = sorted((one, other))
    stall = stall_s(long, t)
    assert stall >= long * (1 - 1e-12)
    assert stall >= stall_s(short, t)
    assert stall <= long + rc_timeout_s(t) * (1 + 1e-9)


@given(st.floats(0, 1e3), exponents, st.integers(0, 7))
def test_survivors_stall_within_the_window(down, t, retry):
    """What survives goes on by its last retry."""
    if down < abort_window_s(t, retry):
        assert stall_s(down, t) <= abort_window_s(t, retry) * (1 + 1e-12)


def test_nonsense_is_refused():
    """Exponents have 5 bits, retries 3, and outages are not negative."""
    with pytest.raises(ValueError, match="exponent"):
        rc_timeout_s(32)
    with pytest.raises(ValueError, match="retry count"):
        abort_window_s(20, 8)
    with pytest.raises(ValueError, match="outage"):
        stall_s(-1.0)
    with pytest.raises(ValueError, match="outage"):
        stall_s(float("nan"))
