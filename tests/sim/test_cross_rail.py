"""From RNIC to RNIC of one host on leaves of their own: out to a spine and back, and so as fast as the uplinks let."""

from __future__ import annotations

import pytest

from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Uplinks
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY
from fabric.sim.world import World

LINE_GBPS = 400.0 * RNIC_EFFICIENCY


def crossing(kit, *faults: Fault, engine: str | None = None, spines: int = 2) -> list[str]:
    """What two hosts print that both send from mlx5_0 to mlx5_1 at once; their leaves have *spines* cables each."""
    bare = kit.topology_of(2, kit.platform_like())
    leaves = tuple(dict.fromkeys(bare.hosts["gpu001"].leaves))
    upper = tuple(f"spine{number}" for number in range(spines))
    switches = {**bare.switches, **{name: bare.switches[leaves[0]].__class__(name, "spine") for name in upper}}
    topology = bare.__class__(bare.hosts, switches, (Uplinks(leaves, upper, 1, 400.0),))
    world = World(topology, MockSettings(faults=faults, noise_cv=0.0, routing=engine), seed=1)
    base = "ib_write_bw --port=18600 --size=65536 --qp=2 --duration=5 --report_gbits --ib-dev="
    servers = [(0.0, host, f"{base}mlx5_1") for host in bare.hosts]
    clients = [(1.0, host, f"{base}mlx5_0 127.0.0.1") for host in bare.hosts]
    return [one.stdout + one.stderr for one in kit.played(world, servers + clients)[2:]]


@pytest.mark.parametrize(("engine", "share"), [(None, 1.0), ("ar", 0.95)])
def test_all_hosts_at_once_fill_the_uplinks(kit, engine: str | None, share: float) -> None:
    """Static routes in order collide nowhere; adaptive ones leave each flow 0.95, as `fabric simulate` says."""
    found = [kit.bandwidth_gbps(text) for text in crossing(kit, engine=engine)]
    assert found == pytest.approx([share * LINE_GBPS] * 2, rel=0.002)


def test_without_the_only_spine_retries_run_out(kit) -> None:
    """Status 12, as of a port that is down."""
    assert all("Failed status 12" in text for text in crossing(kit, Fault("spine0", "broken"), spines=1))
