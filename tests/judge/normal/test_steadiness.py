"""Repetitions that lie far apart are seen, whatever their median."""

from __future__ import annotations

import pytest

from fabric.judge.normal.series import steadiness


def test_a_link_that_gives_half_once_in_ten_is_unstable() -> None:
    """The median is fine, and one dip is one too many."""
    found = steadiness([400.0] * 9 + [200.0], floor=0.03, noise=0.01)
    assert (found.unstable, found.dips, found.least_gbps, found.median_gbps) == (True, 1, 200.0, 400.0)
    assert found.text == "median of 10, least 200.0 Gb/s, CV 0.166, 1 dip"


def test_a_wide_spread_without_dips_is_unstable() -> None:
    """CV over 5 %."""
    values = [400.0, 380.0, 420.0, 360.0, 440.0]
    assert steadiness(values, floor=0.03, noise=0.05).unstable
    assert steadiness(values, floor=0.03, noise=0.05).dips == 0


@pytest.mark.parametrize("values", [[400.0, 401.0, 399.0], [400.0, 100.0]])
def test_steady_and_too_few_are_not_unstable(values: list[float]) -> None:
    """Two samples tell of no spread."""
    assert not steadiness(values, floor=0.03, noise=0.01).unstable


def test_what_is_a_dip_depends_on_what_is_normal() -> None:
    """-8 % is a dip where healthy samples spread by 1 %, and none where they spread by 2 %."""
    values = [400.0, 401.0, 399.0, 400.0, 368.0]
    assert steadiness(values, floor=0.03, noise=0.01).dips == 1
    assert steadiness(values, floor=0.03, noise=0.02).dips == 0


@pytest.mark.parametrize(
    ("values", "torn"), [([400.0, 100.0], True), ([400.0, 398.0], False), ([400.0, 100.0, 400.0], False)]
)
def test_two_samples_far_apart_are_torn(values: list[float], torn: bool) -> None:
    """Of three the one in the middle was measured."""
    assert steadiness(values, floor=0.03, noise=0.01).torn == torn
