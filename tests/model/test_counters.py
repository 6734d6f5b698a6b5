"""How much a counter grew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.model.sampling import Growth, growth


@pytest.mark.parametrize(
    ("name", "before", "after", "found"),
    [
        ("link_downed", 3, 5, Growth(2)),
        ("link_downed", 250, 4, Growth(10)),
        ("link_downed", 100, 4, Growth(4, reset=True)),
        ("link_downed", 254, 255, Growth(1, full=True)),
        ("link_downed", 4000, 4002, Growth(2)),
        ("out_of_sequence", 2**32 - 10, 5, Growth(15)),
        ("out_of_sequence", 1000, 0, Growth(0, reset=True)),
        ("symbol_error", 65535, 65535, Growth(0, full=True)),
    ],
)
def test_growth_knows_wraps_resets_and_full_counters(name: str, before: int, after: int, found: Growth) -> None:
    """A wrap is from the last quarter into the first; what else goes down was cleared."""
    assert growth(name, before, after) == found


@given(st.sampled_from(["link_downed", "symbol_error", "x"]), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_growth_is_never_negative(name: str, before: int, after: int) -> None:
    """Whatever is read."""
    assert growth(name, before, after).by >= 0
