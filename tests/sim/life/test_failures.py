"""The failure generator: exact on average, in bursts, on few hosts, and the same for whoever asks."""

from __future__ import annotations

from collections import Counter

import pytest

from fabric.model.topology import Host, Topology
from fabric.sim.life.failures import failures


def fleet(kit, count):
    """Hosts without switches."""
    platform = kit.platform_like()
    return Topology({f"h{n:04d}": Host(f"h{n:04d}", platform, f"h{n:04d}", None, ()) for n in range(count)}, {})


def host_of(one):
    """The host that a fault is in."""
    return one.fault.component.partition("/")[0]


def test_the_rate_is_the_one_asked_for_over_many_seeds(kit):
    """200 hosts, 30 days, 40 seeds; the tolerance is three standard errors of clustered counts."""
    topology, rate = fleet(kit, 200), 6.50e-3
    counts = [sum(not one.companion for one in failures(topology, seed, rate, 720.0)) for seed in range(40)]
    mean, expected = sum(counts) / len(counts), 200 * 30 * rate
    variance = sum((count - mean) ** 2 for count in counts) / (len(counts) - 1)
    assert mean == pytest.approx(expected, abs=3 * (variance / len(counts)) ** 0.5)
    assert (variance / len(counts)) ** 0.5 < 0.2 * expected


def test_failures_come_in_bursts(kit):
    """The Fano factor of counts is far above the 1 of a Poisson process; with bursts of 3 its limit is 2 * 3 - 1."""
    topology = fleet(kit, 50)
    counts: Counter[tuple[str, int, int]] = Counter()
    for seed in range(20):
        for one in failures(topology, seed, 0.5, 240.0):
            counts[host_of(one), seed, int(one.at_s // 7200.0)] += not one.companion
    cells = 50 * 20 * 120
    mean = sum(counts.values()) / cells
    fano = (sum(count**2 for count in counts.values()) / cells - mean**2) / mean
    assert 2.5 < fano < 7.0


def test_few_hosts_fail_most(kit):
    """The worst 1.2 % of hosts have more than half of all failures."""
    topology, shares = fleet(kit, 500), []
    for seed in range(5):
        by_host = Counter(host_of(one) for one in failures(topology, seed, 6.5e-3, 2160.0))
        shares.append(sum(count for _, count in by_host.most_common(6)) / by_host.total())
    assert 0.5 < sum(shares) / len(shares) < 0.85


def test_a_day_is_the_same_whoever_asks_for_it(kit):
    """Three days at once are the three days one by one: bursts reach over midnight."""
    topology = fleet(kit, 100)
    whole = failures(topology, 7, 0.3, 72.0)
    assert len(whole) > 30
    assert whole == sum((failures(topology, 7, 0.3, 24.0, start_h=24.0 * day) for day in range(3)), ())
    assert whole != failures(topology, 8, 0.3, 72.0)


def test_gpus_fail_with_pcie_as_often_as_published(kit):
    """43 % of RSC-1's PCIe errors came with a lost GPU, 2 % of its link failures."""
    found = [one for seed in range(10) for one in failures(fleet(kit, 200), seed, 1.0, 240.0)]
    with_gpu = Counter(one.cause for one in found if one.companion)
    alone = Counter(one.cause for one in found if not one.companion)
    assert with_gpu["PCIe"] / alone["PCIe"] == pytest.approx(0.43, abs=0.03)
    assert with_gpu["IB link down"] / alone["IB link down"] == pytest.approx(0.02, abs=0.01)


@pytest.mark.parametrize("bad", [(-1.0, 1.0), (1.0, -1.0)])
def test_a_rate_below_zero_is_refused(kit, bad):
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="none may be below 0"):
        failures(fleet(kit, 1), 1, *bad)


def test_no_rate_no_failures(kit):
    """Nothing happens in a world where nobody asked for it."""
    assert failures(fleet(kit, 10), 1, 0.0, 1e6) == ()
