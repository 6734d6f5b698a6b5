"""Numbers for people."""

from __future__ import annotations

import pytest

from fabric.model.text import change_text


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
