"""Noise as real clusters show it: levels by placement, contention, dips, heavy tails, and tests without a number."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from statistics import median

import pytest

from fabric.model.inventory import MockSettings
from fabric.sim.hashing import MISSING, MOST, RealNoise, mix64, real_noise
from fabric.sim.world import World

HOSTS = [f"gpu{number:03d}" for number in range(1, 25)]
QUIET = RealNoise(spread=0.002, drop=0.05, crowd=0.0, dips=0.0, lower=frozenset(HOSTS[:6]))


def measured(noise: RealNoise, hosts: Collection[str], count: int = 4_000) -> list[float]:
    return [noise.factor(mix64(bits), 0, hosts) for bits in range(count)]


def test_each_seed_is_another_cluster_and_always_the_same() -> None:
    """In the bounds that real clusters showed; some have one level, in others up to half of the hosts are lower."""
    drawn = [real_noise(HOSTS, seed=seed) for seed in range(100)]
    assert drawn == [real_noise(HOSTS, seed=seed) for seed in range(100)]
    assert all(0.001 <= one.spread <= 0.005 and 0.04 <= one.drop <= 0.06 for one in drawn)
    assert all(0.05 <= one.crowd <= 0.2 and 0.05 <= one.dips <= 0.25 for one in drawn)
    assert {len(one.lower) for one in drawn} == {0, *range(8, 12)}


def test_hosts_that_are_placed_otherwise_have_a_level_of_their_own() -> None:
    """Between two of them, and between one and another host; inside a host nothing of it is seen."""
    low, high = HOSTS[0], HOSTS[-1]
    assert median(measured(QUIET, (high, HOSTS[-2]))) == pytest.approx(1.0, abs=1e-3)
    assert median(measured(QUIET, (low, HOSTS[1]))) == pytest.approx(0.95, abs=1e-3)
    assert median(measured(QUIET, (low, high))) == pytest.approx(0.95, abs=1e-3)
    assert median(measured(QUIET, (low, low))) == pytest.approx(1.0, abs=1e-3)


def test_dips_have_no_part_in_common() -> None:
    """So many of all tests, whoever takes part; none of a collective inside one host, and all sizes of one alike."""
    noise = replace(QUIET, dips=0.2)
    for hosts in (HOSTS[-2:], HOSTS[7:9]):
        values = measured(noise, hosts)
        low = [value for value in values if value < 0.7]
        assert len(low) / len(values) == pytest.approx(0.2, abs=0.02)
        assert min(low) > 0.24
        assert max(low) < 0.61
    assert min(measured(noise, HOSTS[:1])) > 0.9
    dipped = next(mix64(bits) for bits in range(100) if noise.factor(mix64(bits), 0, HOSTS[-2:]) < 0.7)
    assert noise.factor(dipped, 7, HOSTS[-2:]) == pytest.approx(noise.factor(dipped, 0, HOSTS[-2:]), rel=0.05)


def test_tails_are_heavy_below_and_end_at_the_line_above() -> None:
    """One of 300 lies more than six spreads away, which a normal distribution has once in 500 million."""
    values = measured(QUIET, HOSTS[:1], 20_000)
    far = sum(value < 1.0 - 6 * QUIET.spread for value in values) / len(values)
    assert 0.001 < far < 0.004
    assert max(values) == MOST


def test_a_few_tests_end_without_a_number(kit) -> None:
    """ib_write_bw says that it could not connect; the next one of the same two works."""
    assert sum(QUIET.is_lost(mix64(bits)) for bits in range(50_000)) / 50_000 == pytest.approx(MISSING, rel=0.2)
    world = World(kit.topology_of(2, kit.platform_like()), MockSettings(noise="real"), seed=1)
    lines = [line for nth in range(1_500) for line in kit.pair(10.0 * nth, "gpu001", "mlx5_0", port=18_600 + nth)]
    clients = kit.played(world, lines)[1::2]
    lost = [client for client in clients if client.exit_status]
    assert 0 < len(lost) < 15
    assert all("Couldn't connect to localhost" in client.stderr for client in lost)
