"""What is recorded is one class, without its outliers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.judge.normal.baseline import RecordedNumber, Split, record, trimmed, two_classes
from fabric.model.recorded import Key, Recorded

KEY = Key("loopback", "perftest", "pix", 8 << 20)


def sampled(values: list[float], *, host: str = "gpu001", part: str = "mlx5_0") -> list[RecordedNumber]:
    """Samples of one host and part."""
    return [RecordedNumber(value, (host,), (part,), "self-check/1") for value in values]


def normal(count: int, middle: float, *, cv: float = 0.004, seed: int = 1) -> list[float]:
    """Healthy numbers."""
    draw = random.Random(seed)
    return [draw.gauss(middle, cv * middle) for _ in range(count)]


def test_median_and_spread_are_recorded_and_outliers_are_not() -> None:
    """Two of 66 samples are far out: trimmed, counted, and without effect."""
    found = record(KEY, sampled([*normal(64, 397.0), 300.0, 350.0]))
    assert isinstance(found, Recorded)
    assert (found.n, found.trimmed, found.runs) == (64, 2, ("self-check/1",))
    assert found.median_gbps == pytest.approx(397.0, rel=0.002)
    assert found.cv == pytest.approx(0.004, rel=0.4)


def test_trimming_goes_on_until_nothing_is_dropped() -> None:
    """An outlier that hides behind a larger one goes in the next pass."""
    values = [400.0 + number / 10 for number in range(20)] + [380.0, 200.0]
    assert trimmed(values) == values[:20]


@given(st.lists(st.floats(1.0, 1000.0), min_size=8, max_size=60))
def test_trimming_ends_and_what_is_recorded_is_most_of_it(values: list[float]) -> None:
    """Whatever the numbers: what is kept was there, and nothing is recorded of which a tenth was left out."""
    assert set(trimmed(values)) <= set(values)
    found = record(KEY, sampled(values))
    assert not isinstance(found, Recorded) or found.trimmed <= 0.1 * len(values)


def test_two_classes_are_refused_and_named() -> None:
    """Half of the hosts are of another make: each side with its number and its hosts."""
    samples = sampled(normal(30, 397.0), host="gpu001") + sampled(normal(20, 372.0, seed=2), host="gpu002")
    found = record(KEY, samples)
    assert isinstance(found, Split)
    assert found.text.startswith("these look like two classes: 30 samples around 39")
    assert "(gpu001) and 20 samples around 37" in found.text


def test_two_classes_inside_each_host_are_named_by_their_parts() -> None:
    """Every host has both: the devices tell them apart."""
    samples = sampled(normal(30, 397.0), part="mlx5_0") + sampled(normal(30, 199.0, seed=2), part="mlx5_8")
    found = record(KEY, samples)
    assert isinstance(found, Split)
    assert "(mlx5_0)" in found.text
    assert "(mlx5_8)" in found.text


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("cv", [0.003, 0.01, 0.03])
def test_one_class_is_not_split(cv: float, seed: int) -> None:
    """Neither a normal nor a uniform distribution is two, however wide."""
    draw = random.Random(seed)
    assert two_classes(sorted(normal(60, 397.0, cv=cv, seed=seed)), floor=0.03) is None
    assert two_classes(sorted(draw.uniform(300, 400) for _ in range(60)), floor=0.03) is None


def test_classes_closer_than_what_matters_are_one() -> None:
    """Two modes 1 % apart are no two classes to anybody."""
    assert two_classes([396.0] * 20 + [400.0] * 20, floor=0.03) is None
    assert two_classes([380.0] * 20 + [400.0] * 20, floor=0.03) == 20


def test_seven_samples_are_not_recorded() -> None:
    """Their spread is not known."""
    assert record(KEY, sampled(normal(7, 397.0))) is None
    assert isinstance(record(KEY, sampled(normal(8, 397.0))), Recorded)
