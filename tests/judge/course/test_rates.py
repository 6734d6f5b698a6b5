"""How often others dip, and who dips too seldom to be named."""

from __future__ import annotations

import pytest

from fabric.judge.course.gather import CourseFinding
from fabric.judge.course.rates import DipRates, few_dips
from fabric.judge.course.tracks import Point, Track, Tracks
from fabric.judge.course.verdict import ALPHA, with_over_time
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect, Verdict

PASSED = Verdict(Outcome.PASS, (), (), (), ())


def track(name: str, number: int, dips: tuple[int, ...] = (), *, pair: str = "") -> Track:
    """So many probes of an RNIC, these of them at half; *pair* is the name of the probes, which its partner shares."""
    points = [
        Point(f"{pair or name}.{n}", 100.0 * n, 100.0 * n + 10.0, 0.5 if n in dips else 1.0, "pairwise")
        for n in range(number)
    ]
    return Track(name, points, floor=0.03)


def healthy(count: int) -> list[Track]:
    """Others, without a dip."""
    return [track(f"gpu{n:03}/mlx5_0", 44) for n in range(10, 10 + count)]


def test_the_same_probe_in_the_track_of_its_partner_is_no_dip_of_others() -> None:
    one, partner = track("gpu001/mlx5_0", 44, (4, 30), pair="p"), track("gpu002/mlx5_0", 44, (4, 30), pair="p")
    rates = DipRates([one, partner, *healthy(10)], set())
    assert rates.of_others(one) == pytest.approx(0.5 / 441)


def test_a_dip_of_somebody_else_counts() -> None:
    one = track("gpu001/mlx5_0", 44, (4, 30))
    rates = DipRates([one, track("gpu002/mlx5_0", 44, (7,)), *healthy(9)], set())
    assert rates.of_others(one) == pytest.approx(1.5 / 441)


def test_who_is_slow_most_of_the_time_does_not_say_how_often_healthy_ones_dip() -> None:
    one = track("gpu001/mlx5_0", 44, (4, 30))
    slow = track("gpu002/mlx5_0", 44, tuple(range(20)))
    assert DipRates([one, slow, *healthy(10)], set()).of_others(one) == pytest.approx(0.5 / 441)


def few(*tracks: Track, named: tuple[str, ...] = ()) -> list[CourseFinding]:
    """Those that are told."""
    return few_dips(Tracks({one.component: one for one in tracks}, {}), named, set(), ALPHA)


def test_two_dips_in_a_small_fleet_are_told_and_accuse_nobody() -> None:
    (one,) = few(track("gpu001/mlx5_0", 44, (4, 30)), *healthy(20))
    assert (one.component, one.kind, one.text) == (
        "gpu001/mlx5_0",
        "few_dips",
        "low in 2 of 44 probes, to 50% of what is normal",
    )
    verdict = with_over_time(PASSED, [one])
    assert verdict.outcome is Outcome.PASS
    assert verdict.suspects == ()
    assert verdict.reasons[0].startswith("note: gpu001/mlx5_0: low in 2 of 44 probes")
    assert "too few to tell" in verdict.reasons[0]


def test_one_dip_is_not_told() -> None:
    assert few(track("gpu001/mlx5_0", 44, (4,)), *healthy(20)) == []


def test_dips_that_all_have_are_not_told() -> None:
    assert few(*(track(f"gpu{n:03}/mlx5_0", 44, (4, 30)) for n in range(20))) == []


def test_who_is_named_is_not_told_besides() -> None:
    assert few(track("gpu001/mlx5_0", 44, (4, 30)), *healthy(20), named=("gpu001/mlx5_0",)) == []


def test_a_part_of_a_suspected_host_is_not_told() -> None:
    (one,) = few(track("gpu001/mlx5_0", 44, (4, 30)), *healthy(20))
    suspect = Suspect("gpu001", "host", Outcome.FAIL, 0.9, ("slow",), hosts=("gpu001",))
    known = Verdict(Outcome.FAIL, (), (suspect,), (), ())
    assert with_over_time(known, [one]) == known
