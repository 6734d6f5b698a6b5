"""What recorded clusters show and no formula says: copper's code, small messages, dips with adaptive routing."""

from __future__ import annotations

import pytest

from fabric.model.inventory import MockSettings
from fabric.sim.hashing import CleanNoise, real_noise
from fabric.sim.phy.quality import line_kind, link_quality
from fabric.sim.tools.nccl_tests.model import PLATFORMS, AllReduce, all_reduce_us
from fabric.sim.world import World


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
