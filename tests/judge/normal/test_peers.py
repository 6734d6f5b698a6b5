"""A number is slow among its peers only when all three say so: robust z, the effect's size, and Holm."""

from __future__ import annotations

import random

import pytest

from fabric.judge.normal.peers import LEAST_PEERS, PeerGroup, peers_of, slow_among


def noisy(count: int, *, cv: float, seed: int) -> dict[object, float]:
    """Healthy numbers around 400."""
    draw = random.Random(seed)
    return {number: draw.gauss(400.0, 400.0 * cv) for number in range(count)}


def test_one_that_lost_a_tenth_is_named() -> None:
    """Of 64 with a CV of 1 % the one at -10 %, with what it was compared with."""
    values = noisy(64, cv=0.01, seed=1) | {"slow": 360.0}
    found = slow_among([PeerGroup(values, 0.03)]).sure
    assert list(found) == ["slow"]
    assert found["slow"].n == 65
    assert found["slow"].median_gbps == pytest.approx(400.0, rel=0.01)


def test_a_loss_below_the_floor_is_not_named() -> None:
    """However far out: 2 % is nothing that anybody would act upon."""
    values = dict.fromkeys(range(100), 400.0) | {"slow": 392.0}
    assert slow_among([PeerGroup(values, 0.03)]).sure == {}
    assert list(slow_among([PeerGroup(values, 0.015)]).sure) == ["slow"]


def test_a_loss_within_the_noise_is_not_named() -> None:
    """-5 % where healthy ones spread by 3 % is no evidence."""
    assert slow_among([PeerGroup(noisy(200, cv=0.03, seed=5) | {"slow": 380.0}, 0.03)]).sure == {}


def test_what_is_low_and_not_sure_is_kept_apart() -> None:
    """-8 % where healthy ones spread by 3 %: no finding, and no proof of health."""
    found = slow_among([PeerGroup(noisy(200, cv=0.03, seed=5) | {"low": 368.0}, 0.03)])
    assert "low" in found.low
    assert "low" not in found.sure


def test_seven_peers_name_nobody() -> None:
    """Fewer than eight say nothing about each other."""
    values: dict[object, float] = dict.fromkeys(range(LEAST_PEERS - 2), 400.0) | {"slow": 200.0}
    assert slow_among([PeerGroup(values, 0.03)]).sure == {}
    assert list(slow_among([PeerGroup(values | {"eighth": 400.0}, 0.03)]).sure) == ["slow"]


def test_slow_ones_do_not_hide_each_other() -> None:
    """A quarter of all at -10 % does not widen the spread they are measured by."""
    values = noisy(96, cv=0.005, seed=3) | {f"slow{number}": 360.0 + number / 10 for number in range(32)}
    found = slow_among([PeerGroup(values, 0.03)]).sure
    assert set(found) == {f"slow{number}" for number in range(32)}


def test_equal_numbers_have_a_spread() -> None:
    """Tools print few digits: a MAD of 0 does not make every other number infinitely far out."""
    peers = peers_of([400.0] * 20)
    assert peers is not None
    assert peers.z(398.8) == pytest.approx(-1.0)


def test_nothing_carried_is_no_norm() -> None:
    """Of nothing but zeros nobody is slow."""
    assert peers_of([0.0] * 20) is None
    assert slow_among([PeerGroup(dict.fromkeys(range(20), 0.0), 0.03)]).sure == {}


@pytest.mark.parametrize("cv", [0.01, 0.02, 0.03])
def test_healthy_families_are_left_alone(cv: float) -> None:
    """At most one in twenty families of 8 to 512 numbers has any named, and here of 60 none or few (alpha 0.05)."""
    named = 0
    for seed in range(60):
        groups = [PeerGroup(noisy(size, cv=cv, seed=100 * seed + size), 0.03) for size in (8, 64, 128, 512)]
        named += bool(slow_among(groups).sure)
    assert named <= 6
