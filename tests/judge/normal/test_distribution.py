"""What is normal among like numbers, what a PASS against it proves, and transports that gave up."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.judge.normal.baseline import RecordedNumber, against_recorded, record, trimmed, two_classes
from fabric.judge.normal.interval import robust
from fabric.judge.normal.keys import gave_up
from fabric.judge.normal.series import steadiness
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, ProbeResult
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
    assert isinstance(found, str)
    assert found.startswith("these look like two classes: 30 samples around 39")
    assert "(gpu001) and 20 samples around 37" in found


def test_two_classes_inside_each_host_are_named_by_their_parts() -> None:
    """Every host has both: the devices tell them apart."""
    samples = sampled(normal(30, 397.0), part="mlx5_0") + sampled(normal(30, 199.0, seed=2), part="mlx5_8")
    found = record(KEY, samples)
    assert isinstance(found, str)
    assert "(mlx5_0)" in found
    assert "(mlx5_8)" in found


@pytest.mark.parametrize("cv", [0.003, 0.01, 0.03])
def test_one_class_is_not_split(cv: float) -> None:
    """Neither a normal nor a uniform distribution is two, however wide."""
    for seed in range(20):
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


RECORDED = Recorded("loopback", "perftest", median_gbps=400.0, mad_gbps=1.0, n=100, cv=0.0037, runs=("self-check/1",))


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([400.0, 399.0, 401.0], Outcome.PASS),
        ([420.0, 421.0, 419.0], Outcome.PASS),
        ([395.0, 396.0, 394.0], Outcome.PASS),  # -1.3 % is within the margin, and surely so
        ([360.0, 361.0, 359.0], Outcome.FAIL),
        ([388.0, 389.0, 390.0], Outcome.INCONCLUSIVE),  # at the very margin
        ([400.0, 380.0, 420.0], Outcome.INCONCLUSIVE),  # the median is perfect, the noise tells nothing
        ([400.0], Outcome.INCONCLUSIVE),
        ([400.0, 400.0], Outcome.INCONCLUSIVE),
        ([360.0], Outcome.FAIL),  # one sample may accuse
        ([0.0, 400.0, 400.0], Outcome.FAIL),
    ],
)
def test_the_whole_interval_decides(values: list[float], outcome: Outcome) -> None:
    """Above the margin PASS, below FAIL, across it INCONCLUSIVE."""
    assert against_recorded(values, RECORDED).outcome is outcome


@given(st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=2))
def test_fewer_than_three_samples_never_pass(values: list[float]) -> None:
    """However fast they are."""
    assert against_recorded(values, RECORDED).outcome is not Outcome.PASS


@given(st.lists(st.floats(100.0, 500.0), min_size=3, max_size=10))
def test_what_passes_is_not_slow(values: list[float]) -> None:
    """No set of samples passes whose geometric mean is below the margin."""
    found = against_recorded(values, RECORDED)
    assert found.outcome is not Outcome.PASS or found.ratio > 0.97


def test_the_reason_has_the_numbers() -> None:
    """What was compared with what, and how surely."""
    reason = against_recorded([388.0, 389.0, 390.0], RECORDED).reason
    assert reason.startswith("-2.8% against the recorded 400.0 Gb/s of 100 samples (95 % interval -3.3% to -2.2%)")
    assert reason.endswith("repeat it more often to tell")


def test_a_link_that_gives_half_once_in_ten_is_unstable() -> None:
    """The median is fine, and one dip is one too many."""
    found = steadiness([400.0] * 9 + [200.0], floor=0.03, noise=0.01)
    assert (found.unstable, found.dips, found.least_gbps) == (True, 1, 200.0)
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
    ("values", "two_far_apart"), [([400.0, 100.0], True), ([400.0, 398.0], False), ([400.0, 100.0, 400.0], False)]
)
def test_two_samples_are_too_far_apart(values: list[float], two_far_apart: bool) -> None:
    """Of three the one in the middle was measured."""
    assert steadiness(values, floor=0.03, noise=0.01).two_far_apart == two_far_apart


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


@pytest.mark.parametrize(
    ("outcome", "failure", "expected"),
    [
        (Outcome.FAIL, FailureKind.RETRIES_EXCEEDED, True),
        (Outcome.FAIL, FailureKind.PORT_DOWN, True),
        (Outcome.ERROR, FailureKind.REMOTE_ERROR, True),
        (Outcome.FAIL, None, False),
        (Outcome.ERROR, FailureKind.RETRIES_EXCEEDED, False),
        (Outcome.ERROR, FailureKind.TOO_FEW_GPUS, False),
        (None, None, False),
    ],
)
def test_gave_up(outcome: Outcome | None, failure: FailureKind | None, expected: bool) -> None:
    """Only what the tool itself calls so counts, whatever the words are."""
    result = ProbeResult("p", 1, (), outcome, "status=12", 0.0, 1.0, failure=failure)
    assert gave_up(result) is expected
