"""Bit errors: the chain from the wire to bandwidth, against the published and tabulated values."""

from __future__ import annotations

from math import isfinite, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.sim.phy.quality import (
    CODES,
    NO_FEC,
    ber_text,
    frame_loss,
    link_quality,
    post_fec,
    uncorrectable,
)

# raw BER -> codeword error, effective BER, packet loss, bandwidth with PLR, goodput without (400 Gb/s, 12 us, 4 KiB);
# each to the digits it was computed with independently.
TABLE = [
    (1e-4, "1.4e-18", "4.0e-21", "1e-17", "1", "1"),
    (2.4e-4, "8.15e-13", "2.4e-15", "6.1e-12", "1", "1"),
    (5e-4, "2.8e-8", "8.3e-11", "2.1e-7", "1", "1.000"),
    (7e-4, "2.3e-6", "6.7e-9", "1.7e-5", "1.000", "0.998"),
    (1e-3, "1.5e-4", "4.6e-7", "1.1e-3", "0.996", "0.856"),
    (1.2e-3, "1.1e-3", "3.2e-6", "7.9e-3", "0.975", "0.46"),
    (1.5e-3, "8.7e-3", "2.7e-5", "6.3e-2", "0.82", "0.09"),
    (2e-3, "7.9e-2", "2.5e-4", "0.46", "0.32", "0.008"),
    (3e-3, "0.55", "1.9e-3", "1.0", "0.03", "0"),
]

bers = st.one_of(
    st.sampled_from([0.0, 5e-324, 1e-300, 1e-15, 2.4e-4, 1e-3, 0.5]),
    st.floats(0.0, 0.5),
    st.floats(-300.0, -0.31).map(lambda power: 10.0**power),
)
rates = st.floats(1.0, 1e5)
fecs = st.sampled_from((*CODES, NO_FEC))


def unit(text):
    """Half of the last printed digit, and a little: two of the values were rounded twice (2.2456 to 2.25 to 2.3)."""
    mantissa, _, power = text.partition("e")
    digits = len(mantissa.partition(".")[2])
    return 0.55 * 10.0 ** (int(power or 0) - digits)


def quality(raw_ber, *, fec="kp4", plr=False, rate=400.0):
    """A link with raw bit errors only."""
    return link_quality(raw_ber=raw_ber, fec=fec, plr=plr, line_rate_gbps=rate)


def where(left, *, fec, plr):
    """The raw BER that leaves *left* of the bandwidth, by halving."""
    low, high = 1e-12, 1e-2
    for _ in range(60):
        middle = sqrt(low * high)
        low, high = (middle, high) if quality(middle, fec=fec, plr=plr).goodput_factor > left else (low, middle)
    return low


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]:g}")
def test_table(row):
    """Every step of the chain agrees with the table within the last digit printed there."""
    raw_ber, *expected = row
    after = post_fec(raw_ber, fec="kp4")
    found = (
        after.codeword_error,
        after.effective_ber,
        after.packet_loss,
        quality(raw_ber, plr=True).goodput_factor,
        quality(raw_ber).goodput_factor,
    )
    for value, text in zip(found, expected, strict=True):
        assert value == pytest.approx(float(text), rel=0, abs=unit(text))


def test_ieee_frame_loss():
    """RS(544,514), two-way interleaved, at BER 2.4e-4 loses 1.7e-12 of 64-octet frames (IEEE 802.3cm 138.1.1)."""
    beyond = post_fec(2.4e-4, fec="kp4").codeword_error
    assert frame_loss(beyond, frame_bits=84 * 8, fec="kp4", interleave=2) == pytest.approx(1.7e-12, rel=0.05)


@pytest.mark.parametrize(
    ("fec", "plr", "cliff"),
    [
        ("kp4", True, ("1.39e-3", "1.58e-3", "1.81e-3", "2.10e-3")),
        ("kp4", False, ("9.6e-4", "1.06e-3", "1.18e-3", "1.32e-3")),
        ("none", False, ("2.3e-8", "6.8e-8", "2.0e-7", "6.1e-7")),
    ],
)
def test_cliff(fec, plr, cliff):
    """Bandwidth is 0.9, 0.75, 0.5 and 0.25 where the cliff was found: within 2 % or the last digit printed."""
    for left, text in zip((0.9, 0.75, 0.5, 0.25), cliff, strict=True):
        allowed = max(0.02 * float(text), unit(text))
        assert where(left, fec=fec, plr=plr) == pytest.approx(float(text), rel=0, abs=allowed)


@pytest.mark.parametrize(
    ("ber", "beyond", "effective_ber"),
    [
        (1e-4, 1.359811064764e-18, 4.009234899925e-21),
        (2.4e-4, 8.151573399330e-13, 2.412093889556e-15),
        (1e-3, 1.530258592806e-4, 4.641191599832e-7),
        (2e-3, 7.939087369613e-2, 2.541103374867e-4),
        (3e-3, 5.449212504492e-1, 1.926005676351e-3),
    ],
)
def test_tail_is_the_binomials(ber, beyond, effective_ber):
    """P[Bin(544, p) > 15] and the bits left wrong are exact to eleven digits (summed with 60-digit decimals)."""
    assert uncorrectable(ber, "kp4") == pytest.approx((beyond, effective_ber), rel=1e-11, abs=0.0)


@pytest.mark.parametrize(
    ("ber", "text"),
    [
        (0.0, "15E-255"),
        (1e-260, "15E-255"),
        (2e-9, "2E-9"),
        (9.7e-10, "1E-9"),
        (3e-12, "3E-12"),
        (1e-4, "1E-4"),
        (0.5, "5E-1"),
    ],
)
def test_ber_text(ber, text):
    """A BER is printed as mlxlink does, 15E-255 for none."""
    assert ber_text(ber) == text


@given(bers, fecs, st.booleans(), rates)
def test_every_link_has_a_quality(ber, fec, plr, rate):
    """No BER and no rate gives anything but ratios between 0 and 1."""
    for kind in ("raw_ber", "effective_ber"):
        seen = link_quality(**{kind: ber}, fec=fec, plr=plr, line_rate_gbps=rate)
        ratios = (seen.capacity_factor, seen.loss, seen.goodput_factor)
        assert all(isfinite(ratio) and 0.0 <= ratio <= 1.0 for ratio in ratios)
        assert all(0.0 <= value <= 0.5 for value in (seen.raw_ber, seen.effective_ber, seen.symbol_ber))


@given(bers, bers, fecs, st.booleans(), st.sampled_from([25.0, 100.0, 400.0, 1600.0]))
def test_more_errors_are_never_better(one, other, fec, plr, rate):
    """A higher BER never carries more, and never has fewer errors after the FEC."""
    low, high = (quality(ber, fec=fec, plr=plr, rate=rate) for ber in sorted((one, other)))
    assert high.goodput_factor <= low.goodput_factor + 1e-12
    assert high.loss >= low.loss * (1 - 1e-9)
    assert high.effective_ber >= low.effective_ber * (1 - 1e-9)


@pytest.mark.parametrize("ber", [-1e-9, 0.51, float("nan"), float("inf")])
def test_what_is_no_ber_is_refused(ber):
    """A BER outside 0 to 0.5 is an error, never a number."""
    with pytest.raises(ValueError, match="not between"):
        link_quality(effective_ber=ber, fec="kp4", plr=True, line_rate_gbps=400.0)
    with pytest.raises(ValueError, match="not between"):
        quality(ber)
