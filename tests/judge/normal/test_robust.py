"""What is normal among like numbers."""

from __future__ import annotations

import pytest

from fabric.judge.normal.interval import robust


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([400.0, 402.0, 398.0, 404.0, 396.0], (400.0, 2.9652)),
        ([400.0, 402.0, 398.0, 404.0, 396.0, 200.0, 400.0], (400.0, 2.9652)),  # one slow number moves nothing
        ([400.0] * 20, (400.0, 0.0)),
    ],
)
def test_what_is_normal_is_the_middle_and_its_spread(values: list[float], expected: tuple[float, float]) -> None:
    assert robust(values) == pytest.approx(expected)
