"""What lines cannot carry is no limit for them."""

from __future__ import annotations

import pytest

from fabric.model.verdict import bound_by_lines, out_of_reach


@pytest.mark.parametrize(
    ("least", "lines", "said"),
    [
        (360.0, [200.0], "limit 360 Gb/s is above the line rate of 200 Gb/s"),
        (200.0, [200.0], "limit 200 Gb/s is all of the line rate of 200 Gb/s"),
        (199.9, [200.0], ""),
        (2944.0, [200.0] * 8, "limit 2944 Gb/s is above the line rate of 8 RNICs together, 1600 Gb/s"),
        (1599.0, [200.0] * 8, ""),
        (360.0, [], ""),
    ],
)
def test_headers_leave_less_than_the_line(least: float, lines: list[float], said: str) -> None:
    """As much as the line is too much; without a line nothing is."""
    assert out_of_reach(least, lines) == said


@pytest.mark.parametrize(
    ("kind", "algorithm", "bound"),
    [
        ("loopback", None, True),
        ("link_burn", None, True),
        ("tor_all_reduce", "RING", True),
        ("tor_all_reduce", "NVLSTREE", False),
        ("all_to_all", None, False),
    ],
)
def test_only_what_all_bytes_pass_is_a_bound(kind: str, algorithm: str | None, bound: bool) -> None:
    """A tree's bus bandwidth may exceed the lines, and NVLink is none of them."""
    assert bound_by_lines(kind, algorithm) is bound
