"""As many samples as it takes to tell, and every answer for a reason."""

from __future__ import annotations

import random
from math import log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.judge_goals import samples_needed
from fabric.judge.normal.sequential import SequentialAnswer, above, own_noise, standing
from fabric.judge.normal.series import noise_of
from fabric.model.scenario import MOST_SAMPLES


def drawn(count: int, *, mean: float = 400.0, cv: float = 0.01, seed: int = 1) -> list[float]:
    """Normal samples."""
    draw = random.Random(seed)
    return [draw.gauss(mean, cv * mean) for _ in range(count)]


def answer(values: list[float], *, noise: float = 0.01) -> SequentialAnswer:
    """Against 400 Gb/s and a loss of 3 %."""
    return standing(values, 400.0, loss=0.03, noise=noise).answer


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([400.0, 401.0, 399.0], SequentialAnswer.HEALTHY),
        ([360.0, 361.0, 359.0], SequentialAnswer.SLOW_ONCE),
        ([360.0, 361.0, 359.0, 360.0, 361.0, 360.0], SequentialAnswer.SLOW),
        ([394.0, 394.0, 394.0], SequentialAnswer.OPEN),
    ],
)
def test_three_samples_settle_what_is_clear(values: list[float], expected: SequentialAnswer) -> None:
    assert answer(values) is expected


@pytest.mark.parametrize("values", [[400.0], [400.0, 400.0], [200.0, 200.0]])
def test_fewer_than_three_samples_settle_nothing(values: list[float]) -> None:
    assert answer(values) is SequentialAnswer.OPEN


def test_a_slow_probe_is_tested_again_with_new_samples_only() -> None:
    """Three disturbed samples and then healthy ones: not slow, though most of the six samples together are."""
    found = standing([360.0, 360.0, 360.0] + [400.0] * 6, 400.0, loss=0.03, noise=0.01)
    assert found.first == 3
    assert found.answer is not SequentialAnswer.SLOW


def test_one_dip_does_not_decide() -> None:
    """A sample at half the bandwidth weighs no more than half of an accusation."""
    assert answer([200.0, 400.0, 400.0]) in (SequentialAnswer.OPEN, SequentialAnswer.HEALTHY)
    assert answer([200.0] + [400.0] * 4) is SequentialAnswer.HEALTHY


def test_what_is_significant_and_small_is_not_slow() -> None:
    """-1.9 % in thirty samples of hardly any noise is sure, and nothing that anybody would act upon."""
    assert answer([392.4] * MOST_SAMPLES, noise=0.003) is SequentialAnswer.HEALTHY
    assert answer([391.0] * MOST_SAMPLES, noise=0.003) is SequentialAnswer.SLOW


def test_with_all_samples_used_up_only_a_lower_bound_above_the_margin_passes() -> None:
    """The same -1.5 % passes where a sample spreads by 2 %, and cannot be told where it spreads by 6 %."""
    assert answer([394.0] * MOST_SAMPLES, noise=0.02) is SequentialAnswer.HEALTHY
    assert answer([394.0] * MOST_SAMPLES, noise=0.06) is SequentialAnswer.OPEN
    assert not standing([394.0] * MOST_SAMPLES, 400.0, loss=0.03, noise=0.06).wants_more


@given(st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=40), st.sampled_from([0.003, 0.01, 0.1, 0.5]))
def test_what_is_healthy_has_enough_samples_and_what_is_slow_has_twice_as_many(
    values: list[float], noise: float
) -> None:
    found = standing(values, 400.0, loss=0.03, noise=noise)
    assert found.answer is not SequentialAnswer.HEALTHY or found.n >= 3
    assert found.answer is not SequentialAnswer.SLOW or (found.n >= 6 and found.first >= 3 and found.ratio <= 0.98)
    assert not found.wants_more or found.n < MOST_SAMPLES


@given(st.floats(0.12, 5.0), st.integers(1, MOST_SAMPLES), st.floats(0.5, 1.0))
def test_too_noisy_samples_never_pass(noise: float, count: int, share: float) -> None:
    """Where a sample spreads by 12 % and more, thirty that show no loss at all do not tell 3 %."""
    assert answer([400.0 * share] * count, noise=noise) is not SequentialAnswer.HEALTHY


def test_noise_is_that_within_series_whatever_they_differ_by() -> None:
    """Class of hosts that differ by a tenth, a CV of 2 % each, and some dips."""
    series = [drawn(3, mean=360.0 + number, cv=0.02, seed=number) for number in range(200)]
    series[7][1] = series[50][0] = 100.0
    assert noise_of(series) == pytest.approx(0.02, rel=0.15)


def test_too_few_differences_tell_no_noise() -> None:
    assert noise_of([[400.0, 401.0]] * 7) is None
    assert noise_of([[400.0, 400.0]] * 8) == 0.003


def test_a_series_much_noisier_than_its_class_is_judged_by_its_own_noise() -> None:
    assert own_noise([400.0, 300.0, 400.0, 300.0], 0.01) > 0.1
    assert own_noise([400.0, 396.0, 404.0], 0.01) == 0.01


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([390.0] * 3, SequentialAnswer.HEALTHY),
        ([385.0] * 3, SequentialAnswer.OPEN),
        ([383.0] * 3, SequentialAnswer.OPEN),
        ([370.0] * 3, SequentialAnswer.SLOW),
    ],
)
def test_a_limit_is_a_line_with_noise_around_it(values: list[float], expected: SequentialAnswer) -> None:
    assert above(values, 384.0, noise=0.01) is expected


def test_the_formula_agrees_with_counting() -> None:
    """Wald's mean number of samples at a CV of 3 %, where the bound on a sample's weight hardly matters."""
    needed = []
    for seed in range(300):
        values = drawn(200, mean=0.97 * 400.0, cv=0.03, seed=seed)
        needed.append(next(n for n in range(3, 200) if standing(values[:n], 400.0, loss=0.03, noise=0.03).first))
    assert sum(needed) / len(needed) == pytest.approx(samples_needed(0.03, 0.03), rel=0.25)
    by_hand = (0.99 * log(990) + 0.01 * log(0.01 / 0.999)) * 2 * (0.02 / log(0.97)) ** 2
    assert samples_needed(0.03, 0.02, alpha=0.001, beta=0.01) == pytest.approx(by_hand)
    assert sqrt(samples_needed(0.03, 0.02) / samples_needed(0.03, 0.01)) == pytest.approx(2.0)
