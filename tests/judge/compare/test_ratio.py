"""The interval of a component's ratio is right as often as it says, and no single ratio decides it."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

from fabric.judge.compare.runs import interval, spread_of


@pytest.mark.parametrize("count", [3, 5, 8, 11, 12, 40])
def test_the_true_ratio_is_inside_in_99_of_100_components(count: int) -> None:
    """Heavy tails (t of four degrees), 1,000 components; tolerance: three standard errors, and 0.5 %."""
    logs = (np.random.default_rng(3).standard_t(4, (1000, count)) * 0.005).tolist()
    spread = spread_of([value for part in logs for value in part])
    found = [interval(part, spread) for part in logs]
    assert np.mean([one is not None and one[0] <= 1.0 <= one[1] for one in found]) >= 0.99 - 0.0095 - 0.005


def test_one_ratio_that_is_far_off_does_not_decide() -> None:
    """One path of eight became slow: the component did not."""
    found = interval([0.001, -0.001, 0.002, -0.002, 0.0, 0.001, -0.001, -0.5], 0.003)
    assert found is not None
    assert found[0] > 0.99


def test_half_of_the_ratios_decide() -> None:
    """Five of ten are slow: the middle may be either."""
    found = interval([0.0, 0.001, -0.001, 0.002, 0.0, *[-0.1, -0.101, -0.1, -0.099, -0.1]], 0.003)
    assert found is not None
    assert found[0] < exp(-0.07)
    assert found[1] > 1.0


def test_few_ratios_of_a_kind_that_has_few_have_none() -> None:
    assert interval([0.0, 0.001], None) is None
    assert spread_of([0.0] * 7) is None
