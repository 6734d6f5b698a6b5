"""A bit error rate is read exactly as the register holds it, or refused with its neighbours."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from fabric.changes.ber import BitErrorRate, BitErrorText

read = BitErrorText().parse


@pytest.mark.parametrize(
    ("text", "mantissa", "exponent"),
    [
        ("1e-6", 1, 6),
        ("0.000001", 1, 6),
        ("10e-7", 1, 6),
        ("3E-4", 3, 4),
        ("1.5e-5", 15, 6),
        ("12e-9", 12, 9),
        ("0.5", 5, 1),
        ("1e-255", 1, 255),
    ],
)
def test_a_rate_is_a_small_number_and_an_exponent(text: str, mantissa: int, exponent: int) -> None:
    """However it is written, the smallest mantissa is taken."""
    assert read(text) == BitErrorRate(mantissa, exponent)


@pytest.mark.parametrize(
    ("text", "below", "above"),
    [
        ("2.5e-6", "2e-6", "3e-6"),
        ("1.55e-5", "15e-6", "2e-5"),
        ("9.99e-7", "9e-7", "1e-6"),
        ("16e-5", "15e-5", "2e-4"),
        ("1.5e-255", "1e-255", "2e-255"),
    ],
)
def test_what_the_register_cannot_hold_is_refused_with_its_neighbours(text: str, below: str, above: str) -> None:
    """Nobody is left to work out what can be written."""
    with pytest.raises(PydanticCustomError, match=f"got '{text}'; write {below} or {above}$"):
        read(text)


@pytest.mark.parametrize(
    "value", ["0", "1", "0.51", "1e-256", "-1e-6", "1e", "e-6", "1e-6 ", "nan", "", "1e-9999", [], {}]
)
def test_what_is_no_rate_is_refused(value: object) -> None:
    """Certainty, nothing and what is no number."""
    with pytest.raises(PydanticCustomError, match=r"expected a bit error rate from 1e-255 to 0\.5"):
        read(value)


RATES = [BitErrorRate(m, e).value for m in range(1, 16) for e in range(1, 256)]


@given(digits=st.integers(1, 10**6), exponent=st.integers(7, 200))
def test_a_neighbour_is_never_beyond_what_was_asked(digits: int, exponent: int) -> None:
    """Read exactly, or refused between two rates that can be written, with nothing between them."""
    wanted = Fraction(digits, 10**exponent)
    try:
        assert read(f"{digits}e-{exponent}").value == wanted
    except PydanticCustomError as exc:
        below, above = (read(word) for word in exc.message().rpartition("write ")[2].split(" or "))
        assert below.value < wanted < above.value
        assert not any(below.value < other < above.value for other in RATES)
