"""Numbers for people."""

from __future__ import annotations

import pytest

from fabric.model.text import change_text, gbps_text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.62, "-38%"),
        (0.996, "-0.4%"),
        (0.9951, "-0.5%"),
        (0.9996, "-0.04%"),
        (0.999999, "-0.01% or less"),
        (1.0, "+0%"),
        (1.004, "+0.4%"),
        (0.0, "-100%"),
    ],
)
def test_what_is_below_is_never_said_to_be_below_by_nothing(ratio: float, text: str) -> None:
    assert change_text(ratio) == text


@pytest.mark.parametrize(
    ("gbps", "text"), [(391.27, "391.3"), (1638.2, "1638.2"), (1.0, "1.0"), (0.095638, "0.0956"), (0.0, "0.0")]
)
def test_a_bandwidth_is_never_rounded_away(gbps: float, text: str) -> None:
    """Also that of a slow port or of a box."""
    assert gbps_text(gbps) == text
