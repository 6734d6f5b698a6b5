"""Intervals of a ratio: equal to scipy's own tests, and right as often as they say."""

from __future__ import annotations

import random
from math import exp, log

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fabric.judge.normal.recorded import half_width, of_pairs, of_sides

VALUES = st.lists(st.floats(1.0, 1000.0), min_size=2, max_size=12)


def spread_enough(*sides: list[float]) -> bool:
    """Samples that scipy's moments do not lose in rounding."""
    return all(max(side) / min(side) > 1.001 for side in sides)


@given(VALUES, VALUES)
def test_sides_are_welchs_t_of_logarithms(of: list[float], over: list[float]) -> None:
    """The interval is the one that scipy.stats.ttest_ind(equal_var=False) gives."""
    assume(spread_enough(of, over))
    from scipy import stats  # a second to import: only where it is used

    theirs = stats.ttest_ind([log(x) for x in of], [log(x) for x in over], equal_var=False).confidence_interval(0.95)
    ours = of_sides(of, over)
    assert (ours.low, ours.high) == pytest.approx((exp(theirs.low), exp(theirs.high)), rel=1e-7)


@given(st.lists(st.tuples(st.floats(1.0, 1000.0), st.floats(1.0, 1000.0)), min_size=2, max_size=12))
def test_pairs_are_the_paired_t(pairs: list[tuple[float, float]]) -> None:
    """The interval is the one that scipy.stats.ttest_1samp gives for the differences."""
    differences = [log(of / over) for of, over in pairs]
    assume(max(differences) - min(differences) > 1e-3)
    from scipy import stats  # a second to import: only where it is used

    theirs = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
    ours = of_pairs(pairs)
    assert (log(ours.low), log(ours.high)) == pytest.approx((theirs.low, theirs.high), rel=1e-7, abs=1e-9)


@given(VALUES, VALUES)
def test_the_other_way_round_is_the_inverse(of: list[float], over: list[float]) -> None:
    """1/ratio has the interval turned over: neither side is favoured."""
    there, back = of_sides(of, over), of_sides(over, of)
    assert (there.low, there.value, there.high) == pytest.approx((1 / back.high, 1 / back.value, 1 / back.low))


@given(VALUES, VALUES, st.floats(0.01, 100.0))
def test_units_do_not_matter(of: list[float], over: list[float], factor: float) -> None:
    """Gb/s or GB/s on both sides give the same ratio and interval, around the value."""
    one = of_sides(of, over)
    other = of_sides([factor * x for x in of], [factor * x for x in over])
    assert (one.low, one.value, one.high) == pytest.approx((other.low, other.value, other.high), rel=1e-6)
    assert one.low <= one.value <= one.high


@pytest.mark.parametrize(("n", "m", "cv_of", "cv_over"), [(3, 3, 0.02, 0.02), (5, 5, 0.15, 0.01), (10, 4, 0.05, 0.1)])
def test_the_true_ratio_is_inside_in_95_of_100_runs(n: int, m: int, cv_of: float, cv_over: float) -> None:
    """Simulated noise, also with unequal spread and counts; tolerance: three standard errors of 4,000 runs, and 1 %."""
    draw = random.Random(20260107)
    inside = 0
    for _ in range(4000):
        of = [60.0 * exp(draw.gauss(0.0, cv_of)) for _ in range(n)]
        over = [100.0 * exp(draw.gauss(0.0, cv_over)) for _ in range(m)]
        found = of_sides(of, over)
        inside += found.low <= 0.6 <= found.high
    assert inside / 4000 == pytest.approx(0.95, abs=0.0203)


def test_pairs_take_drift_out() -> None:
    """Drift from round to round that both sides share widens the unpaired interval only; coverage stays 95 %."""
    draw = random.Random(7)
    inside, narrower = 0, 0
    for _ in range(2000):
        drift = [exp(draw.gauss(0.0, 0.2)) for _ in range(5)]
        of = [60.0 * d * exp(draw.gauss(0.0, 0.01)) for d in drift]
        over = [100.0 * d * exp(draw.gauss(0.0, 0.01)) for d in drift]
        paired, loose = of_pairs(list(zip(of, over, strict=True))), of_sides(of, over)
        inside += paired.low <= 0.6 <= paired.high
        narrower += paired.high - paired.low < loose.high - loose.low
    assert inside / 2000 == pytest.approx(0.95, abs=0.0146)
    assert narrower == 2000


def test_equal_samples_give_a_point() -> None:
    """No spread, no width, and no division by nothing."""
    found = of_sides([50.0, 50.0], [100.0, 100.0])
    assert found.low == found.value == found.high == pytest.approx(0.5)


def test_the_number_of_samples_suggested_is_the_smallest_that_does() -> None:
    """With that many, at the same spread, the bound is outside; with one fewer it is not."""
    found = of_sides([90.0, 94.0, 91.0], [100.0, 101.0, 99.0])
    needed = found.samples_to_settle([0.9])
    assert needed is not None
    assert needed > 3
    distance = abs(log(0.9 / found.value))
    assert half_width(found.variances, [needed] * 2) < distance <= half_width(found.variances, [needed - 1] * 2)


def test_a_ratio_at_the_bound_needs_more_samples_than_anybody_takes() -> None:
    """No number is invented where none would do."""
    assert of_sides([90.0, 90.9], [100.0, 101.0]).samples_to_settle([0.9]) is None
