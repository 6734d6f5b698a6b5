"""Noise and dips as real clusters show them, and what no formula says."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from statistics import median

import pytest

from fabric.model.inventory import MockSettings
from fabric.sim.hashing import MISSING, MOST, CleanNoise, RealNoise, mix64, real_noise
from fabric.sim.phy.quality import line_kind, link_quality
from fabric.sim.tools.nccl_tests.model import PLATFORMS, AllReduce, all_reduce_us
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


@pytest.mark.parametrize(
    ("raw", "optics", "copper"), [(5e-4, 1.0, 0.998), (1e-3, 0.996, 0.864), (1.39e-3, 0.903, 0.517)]
)
def test_copper_falls_off_its_cliff_earlier(raw: float, optics: float, copper: float) -> None:
    """Checked with scipy's binomial distribution: P[more than 15 of 544], P[more than 7 of 272] symbols bad."""
    for is_copper, kept in ((False, optics), (True, copper)):
        line = line_kind(400.0, ethernet=False, copper=is_copper)
        found = link_quality(raw_ber=raw, fec=line.fec, plr=line.retries, line_rate_gbps=400.0)
        assert found.capacity_factor == pytest.approx(kept, abs=0.004)


def test_small_messages_take_what_low_latency_protocols_take(kit) -> None:
    """64 KiB over 16 GPUs: 50 us on MI350, 107 to 113 us on PCIe boxes were recorded; by Simple alone it is 184 us."""
    world = World(kit.topology_of(2, kit.platform_like()), MockSettings(noise_cv=0.0), seed=1)
    line = "mpirun -np 16 -H gpu001:8,gpu002:8 -x NCCL_ALGO=RING all_reduce_perf -b 64K -e 1G -f 2 -g 1"
    (done,) = kit.played(world, [(0.0, "gpu001", line)])
    rows = [text.split() for text in done.stdout.splitlines() if text.strip()[:1].isdigit()]
    times = {int(cells[0]): float(cells[5]) for cells in rows}
    assert 30.0 < times[65536] < 120.0
    assert sorted(times.values()) == list(times.values())
    job = AllReduce(16, 2, 3000.0, PLATFORMS["h100"])
    assert all_reduce_us(1 << 33, job, ("ring",), ("ll", "ll128")) > all_reduce_us(1 << 33, job, ("ring",), ("simple",))


def test_adaptive_routing_dips_rarely_and_deeply() -> None:
    """One cell in 32, and only in a rack with real noise."""
    noise = real_noise(["a", "b"], seed=1)
    left = [noise.reordered(bits, number) for bits in range(100) for number in range(48)]
    dips = [one for one in left if one < 1.0]
    assert 0.02 < len(dips) / len(left) < 0.045
    assert 0.16 <= min(dips) < 0.2
    assert {CleanNoise(0.01).reordered(7, number) for number in range(100)} == {1.0}
