"""RNICs and cables that are well most of the time."""

from __future__ import annotations

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.model.inventory import Fault
from fabric.sim.hashing import mix64
from fabric.sim.hosts import Hosts
from fabric.sim.hosts.site import SWING_S, Site
from fabric.sim.life import DAY_S, ONE_IN, Whims

PART = ("gpu001", "mlx5_0")


@pytest.fixture
def site() -> Site:
    return Hosts(rack_topology(2, parts=2), (), seed=1).site("gpu001")


def having(site: Site, kind: str, factor: float, component: str = "gpu001/mlx5_0") -> Whims:
    whims = Whims()
    whims.set(site, Fault(component, kind, factor), 0.0, comes=True)
    return whims


def test_one_transfer_in_fifty_dips(site: Site) -> None:
    whims = having(site, "dipping", 0.5)
    left = [whims.left([PART], bits, 0.0) for bits in range(50_000)]
    assert set(left) == {0.5, 1.0}
    assert left.count(0.5) / len(left) == pytest.approx(1 / ONE_IN, rel=0.1)


def test_an_erratic_part_is_slow_in_half_to_three_quarters_of_its_transfers(site: Site) -> None:
    """How often is its own: another part has another number. A host's is felt by all of its RNICs, inside it, too."""
    rates = []
    for component in ("gpu001/mlx5_0", "gpu001/mlx5_0:port", "gpu001"):
        whims = having(site, "erratic", 0.8, component)
        inside = not component.endswith(":port")
        left = [whims.left([PART], mix64(number), 0.0, inside=inside) for number in range(5_000)]
        assert set(left) == {0.8, 1.0}
        rates.append(left.count(0.8) / len(left))
    assert all(0.48 < rate < 0.77 for rate in rates)
    assert len({round(rate, 1) for rate in rates}) > 1


def test_a_fading_part_has_lost_its_share_after_a_day(site: Site) -> None:
    whims = having(site, "fading", 0.7)
    assert [whims.left([PART], 1, at_s) for at_s in (0.0, DAY_S / 2, DAY_S)] == pytest.approx([1.0, 0.85, 0.7])


def test_what_cannot_bear_warmth_is_slowest_at_its_warmest(site: Site) -> None:
    whims = having(site, "heat_sick", 0.8)
    assert whims.left([PART], 1, SWING_S / 2) == pytest.approx(0.8)
    assert site.swings["mlx5_0"].at(SWING_S / 2) == pytest.approx(15.0)
    assert whims.left([PART], 1, SWING_S) == pytest.approx(1.0)
