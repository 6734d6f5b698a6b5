"""Intervals of ratios and spreads: equal to scipy's own tests, and right as often as they say."""

from __future__ import annotations

import random
from itertools import product
from math import exp, log, sqrt
from statistics import variance

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fabric.judge.normal.interval import (
    BETWEEN_ROUNDS,
    LEAST_CV,
    Interval,
    half_width,
    of_cv,
    of_few_rounds,
    of_median,
    of_pairs,
    ratio_of_spreads,
    spread_of,
)

VALUES = st.lists(st.floats(1.0, 1000.0), min_size=2, max_size=12)


def one_round(of: list[float], reference: list[float]) -> Interval:
    """Both sides measured in one round."""
    return of_few_rounds({1: of}, {1: reference})


@pytest.mark.slow
@given(VALUES, VALUES)
def test_the_half_width_is_welchs_t(of: list[float], reference: list[float]) -> None:
    """The interval is the one that scipy.stats.ttest_ind(equal_var=False) gives."""
    assume(all(max(side) / min(side) > 1.001 for side in (of, reference)))  # scipy's moments lose less in rounding
    from scipy import stats  # a second to import: only where it is used

    logs = [[log(x) for x in side] for side in (of, reference)]
    theirs = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    ours = half_width([variance(side) for side in logs], [len(side) for side in logs])
    assert ours == pytest.approx((theirs.high - theirs.low) / 2, rel=1e-7)


@given(st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=12))
def test_pairs_are_the_paired_t(logs: list[float]) -> None:
    """The interval is the one that scipy.stats.ttest_1samp gives for the differences."""
    assume(max(logs) - min(logs) > 1e-3)
    from scipy import stats  # a second to import: only where it is used

    theirs = stats.ttest_1samp(logs, 0.0).confidence_interval(0.95)
    ours = of_pairs(logs)
    assert (log(ours.low), log(ours.high)) == pytest.approx((theirs.low, theirs.high), rel=1e-7, abs=1e-9)


@given(VALUES, VALUES)
def test_the_other_way_round_is_the_inverse(of: list[float], reference: list[float]) -> None:
    """1/ratio has the interval turned over: neither side is favoured."""
    there, back = one_round(of, reference), one_round(reference, of)
    assert (there.low, there.value, there.high) == pytest.approx((1 / back.high, 1 / back.value, 1 / back.low))


@given(VALUES, VALUES, st.floats(0.01, 100.0))
def test_units_do_not_matter(of: list[float], reference: list[float], factor: float) -> None:
    """Gb/s or GB/s on both sides give the same ratio and interval, around the value."""
    one = one_round(of, reference)
    other = one_round([factor * x for x in of], [factor * x for x in reference])
    assert (one.low, one.value, one.high) == pytest.approx((other.low, other.value, other.high), rel=1e-6)
    assert one.low <= one.value <= one.high


EXTREMES = ((1, 2, BETWEEN_ROUNDS), (2, 2, BETWEEN_ROUNDS), (2, 5, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rounds", "repeats", "between"),
    [
        pytest.param(*row, marks=() if row in EXTREMES else pytest.mark.slow)
        for row in product((1, 2), (2, 5), (0.0, 0.005, BETWEEN_ROUNDS))
    ],
)
def test_few_rounds_that_differ_by_one_percent_are_believed(rounds: int, repeats: int, between: float) -> None:
    """The true ratio is inside in 95 of 100 runs or more; tolerance: three standard errors of 2,000 runs, and 1 %."""
    draw = random.Random(20260107)
    inside = 0
    for _ in range(2000):
        sides = []
        for level in (60.0, 100.0):
            offs = [draw.gauss(0.0, between) for _ in range(rounds)]
            sides.append(
                {n: [level * exp(off + draw.gauss(0.0, 0.005)) for _ in range(repeats)] for n, off in enumerate(offs)}
            )
        found = of_few_rounds(*sides)
        inside += found.low <= 0.6 <= found.high
    assert inside / 2000 >= 0.95 - 0.0146 - 0.01


def test_two_rounds_that_differ_more_widen_the_interval() -> None:
    """What is seen counts where it is more than what is supposed."""
    found = of_few_rounds({1: [60.0, 60.1], 2: [66.0, 66.1]}, {1: [100.0, 100.1], 2: [100.0, 100.1]})
    assert found.between == pytest.approx(sqrt(log(66.05 / 60.05) ** 2 / 2 / 2), rel=1e-3)
    assert found.high / found.low > 1.2


def test_pairs_take_drift_out() -> None:
    """Drift from round to round that both sides share is in no pair; coverage stays 95 %."""
    draw = random.Random(7)
    inside = 0
    for _ in range(2000):
        found = of_pairs([log(0.6) + draw.gauss(0.0, 0.01) - draw.gauss(0.0, 0.01) for _ in range(5)])
        inside += found.low <= 0.6 <= found.high
    assert inside / 2000 == pytest.approx(0.95, abs=0.0146)


def test_equal_rounds_give_a_point() -> None:
    """No spread, no width, and no division by nothing."""
    found = of_pairs([log(0.5)] * 3)
    assert found.low == found.value == found.high == pytest.approx(0.5)


@pytest.mark.parametrize(("members", "rounds", "noise"), [(32, 3, 0.005), (32, 10, 0.02), (8, 3, 0.01), (4, 5, 0.02)])
def test_the_true_cv_of_the_kind_is_inside_in_95_of_100_runs(members: int, rounds: int, noise: float) -> None:
    """Members 2 % apart, drawn anew each time; the rounds' noise is not counted as their spread."""
    draw = np.random.default_rng(5)
    inside = 0
    for _ in range(1000):
        levels = draw.normal(1.0, 0.02, members)
        found = of_cv(100.0 * levels * draw.normal(1.0, noise, (rounds, members)))
        inside += found.low <= 0.02 <= found.high
    assert inside / 1000 == pytest.approx(0.955, abs=0.026)


def test_what_every_round_is_slower_by_as_a_whole_is_no_spread() -> None:
    found = of_cv(np.outer([100.0, 80.0, 120.0], [1.0, 1.0, 1.0, 1.0]))
    assert (found.low, found.value, found.high) == (0.0, 0.0, 0.0)


def test_a_spread_over_none_at_all_is_still_a_number() -> None:
    """Simulated without noise: compared as one in 10,000."""
    none = of_cv(np.full((3, 4), 100.0))
    some = Interval(0.2, 0.1, 0.4, 3)
    assert ratio_of_spreads(some, none).value == pytest.approx(0.2 / LEAST_CV)
    assert ratio_of_spreads(none, none).value == pytest.approx(1.0)


def test_a_ratio_of_spreads_is_wider_than_either() -> None:
    """Both know little, and nothing of each other."""
    one = Interval(0.2, 0.1, 0.4, 3)
    found = ratio_of_spreads(one, one)
    assert (found.low, found.value, found.high) == pytest.approx((exp(-sqrt(2) * log(2)), 1.0, exp(sqrt(2) * log(2))))


@pytest.mark.parametrize(("count", "left_out"), [(12, 1), (20, 3), (500, 220)])
def test_a_median_lies_between_two_of_its_values(count: int, left_out: int) -> None:
    """As many are left out at either end as the binomial distribution allows at 99 %."""
    logs = [number / 1000 for number in range(count)]
    assert of_median(logs, None) == (exp(logs[left_out]), exp(logs[-1 - left_out]))


@pytest.mark.parametrize("count", [3, 5, 8, 11, 12, 40])
def test_the_true_ratio_is_inside_in_99_of_100_components(count: int) -> None:
    """Heavy tails (t of four degrees), 1,000 components; tolerance: three standard errors, and 0.5 %."""
    logs = (np.random.default_rng(3).standard_t(4, (1000, count)) * 0.005).tolist()
    spread = spread_of([value for part in logs for value in part])
    found = [of_median(part, spread) for part in logs]
    assert np.mean([one is not None and one[0] <= 1.0 <= one[1] for one in found]) >= 0.99 - 0.0095 - 0.005


def test_one_ratio_that_is_far_off_does_not_decide() -> None:
    """One path of eight became slow: the component did not."""
    found = of_median([0.001, -0.001, 0.002, -0.002, 0.0, 0.001, -0.001, -0.5], 0.003)
    assert found is not None
    assert found[0] > 0.99


def test_half_of_the_ratios_decide() -> None:
    """Five of ten are slow: the middle may be either."""
    found = of_median([0.0, 0.001, -0.001, 0.002, 0.0, *[-0.1, -0.101, -0.1, -0.099, -0.1]], 0.003)
    assert found is not None
    assert found[0] < exp(-0.07)
    assert found[1] > 1.0


def test_few_ratios_of_a_kind_that_has_few_have_none() -> None:
    assert of_median([0.0, 0.001], None) is None
    assert spread_of([0.0] * 7) is None
