"""What failures mean for training: the numbers that Meta's paper prints, and what is said where nothing is known."""

from __future__ import annotations

import pytest

from fabric.judge.training import (
    Observed,
    best_interval_s,
    expected_ettr,
    mttf_s,
    training_impact,
)

RSC1, RSC2 = 6.50e-3, 2.34e-3  # failures per node-day (arXiv 2410.21680)
MINUTE, HOUR = 60.0, 3600.0


def ettr(hosts: float, rate: float, *, restart: float, every: float, write: float = 0.0) -> float:
    """The formula with minutes, as the paper writes it."""
    times = {"restart_s": restart * MINUTE, "every_s": every * MINUTE, "write_s": write * MINUTE}
    return expected_ettr(mttf_s(hosts, rate), **times)


@pytest.mark.parametrize(("gpus", "printed", "digits"), [(16_384, 1.8, 1), (131_072, 0.23, 2)])
def test_the_papers_mean_times_to_failure(gpus: int, printed: float, digits: int) -> None:
    assert round(mttf_s(gpus / 8, RSC1) / HOUR, digits) == printed


def test_the_mean_times_to_failure_to_four_places() -> None:
    assert mttf_s(2048, RSC1) / HOUR == pytest.approx(1.8029, abs=5e-5)
    assert mttf_s(16_384, RSC1) / HOUR == pytest.approx(0.2254, abs=5e-5)


@pytest.mark.parametrize(
    ("hosts", "rate", "restart", "every", "printed", "off"),
    [
        (2000, RSC1, 5, 60, 0.7, 0.03),
        (2000, RSC1, 5, 5, 0.93, 0.005),
        (12_500, RSC1, 5, 7, 0.5, 0.03),
        (1000, RSC1, 6, 30, 0.9, 0.015),
    ],
)
def test_the_papers_ratios(hosts: float, rate: float, restart: float, every: float, printed: float, off: float) -> None:
    assert ettr(hosts, rate, restart=restart, every=every) == pytest.approx(printed, abs=off)


def test_the_ratios_to_four_places() -> None:
    assert ettr(2000, RSC1, restart=5, every=60) == pytest.approx(0.6840, abs=5e-5)
    assert ettr(2000, RSC1, restart=5, every=5) == pytest.approx(0.9323, abs=5e-5)
    assert ettr(12_500, RSC2, restart=2, every=2) == pytest.approx(0.939, abs=5e-4)


@pytest.mark.parametrize(
    ("rate", "write_min", "interval_min", "ratio"),
    [(RSC1, 5, 38.431, 0.7398), (RSC1, 1 / 6, 7.016, 0.9205), (1e-3, 5, 97.98, 0.8979)],
)
def test_the_best_checkpoint_interval(rate: float, write_min: float, interval_min: float, ratio: float) -> None:
    """12,000 GPUs, 5 minutes to restart."""
    interval = best_interval_s(mttf_s(1500, rate), write_min * MINUTE) / MINUTE
    assert interval == pytest.approx(interval_min, abs=0.01)
    assert ettr(1500, rate, restart=5, every=interval, write=write_min) == pytest.approx(ratio, abs=1e-4)


def test_half_and_twice_the_best_interval_are_worse() -> None:
    mttf = mttf_s(1500, RSC1)
    best = best_interval_s(mttf, 300)
    shorter, same, longer = (expected_ettr(mttf, restart_s=300, every_s=best * f, write_s=300) for f in (0.5, 1, 2))
    assert same > max(shorter, longer)


def test_without_a_failure_the_rate_is_a_bound() -> None:
    """Rule of three: none in T is 5 % likely at 3 / T."""
    seen = Observed(0, 1000.0)
    assert seen.is_bound
    assert seen.per_host_day == pytest.approx(3 / 1000, rel=2e-3)
    impact = training_impact(1024, 128, seen)
    assert impact.bound
    assert (impact.failures, impact.host_days) == (0, 1000.0)
    assert impact.notes == ("no failure in 1,000.0 host-days: rate at most 0.003 per host-day (95 %)",)


def test_without_a_measured_rate_nothing_is_said() -> None:
    impact = training_impact(1024, 128, None)
    assert (impact.mttf_s, impact.ettr) == (None, None)
    assert impact.notes == ("no failure rate was measured: mean time to failure and ETTR are not known",)
    assert training_impact(1024, 128, Observed(0, 0.0)).mttf_s is None


@pytest.mark.parametrize(("retained", "words"), [(0.5, "steps take up to 2.0 times as long"), (0.0, "stand still")])
def test_what_a_fault_left_is_said_as_a_bound(retained: float, words: str) -> None:
    """How much of a step waits for the network was not measured."""
    impact = training_impact(1024, 128, Observed(4, 100.0), retained=retained)
    assert any(words in note for note in impact.notes)
