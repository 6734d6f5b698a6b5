"""What was measured in the lab's box of network namespaces is so in the simulated Ethernet fabric, too."""

from __future__ import annotations

import pytest

from fabric.model.inventory import Fault, TimedFault

LINE = "ib_write_bw --ib-dev=mlx5_0 --duration=1 --size=65536 --report_gbits"


def connections(pod, kit, *faults, engine: str = "ecmp", sender: str = "gpu002", count: int = 16) -> list[str]:
    """What each of many connections from one host to another ends with: its Gb/s, or why it has none."""
    made = pod(engine, link_layer="ethernet", faults=faults)
    lines = []
    for n in range(count):
        lines += [(4.0 * n, "gpu000", f"{LINE} --port={18600 + n}")]
        lines += [(4.0 * n + 1.0, sender, f"{LINE} --port={18600 + n} 10.0.0.0")]
    ended = kit.played(made.world, lines)[1::2]
    return [
        "status 12" if "status 12" in one.stderr else f"{kit.bandwidth_gbps(one.stdout) / 400:.1f}" for one in ended
    ]


@pytest.mark.parametrize(
    ("engine", "fault", "seen"),
    [
        ("ecmp", Fault("spine0", "slow", 0.2), {"0.2", "1.0"}),
        ("ecmp", Fault("u1-leaf0->spine0", "slow", 0.2), {"0.2", "1.0"}),
        ("ecmp", Fault("spine0->u1-leaf0", "slow", 0.2), {"1.0"}),
        ("ecmp", Fault("spine0", "grey"), {"status 12", "1.0"}),
        ("ecmp", Fault("u0-leaf0--spine1", "grey"), {"status 12", "1.0"}),
        ("ecmp", Fault("spine0", "broken"), {"1.0"}),
        ("ftree", Fault("spine0", "slow", 0.2), {"0.2"}),
        ("ar", Fault("spine0", "grey"), {"status 12"}),
    ],
)
def test_each_connection_draws_its_way(pod, kit, engine: str, fault: Fault, seen: set[str]) -> None:
    """
    A hash takes the ports of a connection, so some meet what is bad above the leaves and others do not; tables never
    draw. What is grey is routed to, what is broken is routed around.
    """
    assert set(connections(pod, kit, fault, engine=engine)) == seen


@pytest.mark.parametrize(("way", "share"), [("tx", "1.0"), ("rx", "0.3")])
def test_one_direction_of_a_hosts_cable(pod, kit, way: str, share: str) -> None:
    """Who writes to a host meets what it receives by, not what it sends by; a loopback inside it meets neither."""
    assert connections(pod, kit, Fault(f"gpu000/mlx5_0:{way}", "slow", 0.3), sender="gpu001", count=1) == [share]
    assert kit.loopback_gbps("mlx5_0", "numa0", Fault(f"gpu001/mlx5_0:{way}", "slow", 0.3)) == kit.alone_gbps


def test_routing_converges_as_bgp_does(pod) -> None:
    """A link that lost its carrier is routed around 14 ms later, and used again 1.2 s after it is back."""
    fault = TimedFault(10.0, 5.0, Fault("u0-leaf0--spine0", "broken"))
    made = pod("ecmp", link_layer="ethernet", timed_faults=(fault,))
    made.run("gpu000", "gpu002")
    routed = []
    for at_s in (10.010, 10.020, 17.0, 19.0):  # it trains for 2.5 s when it comes back
        made.to(at_s)
        routed.append(bool(made.world.rack.above.network().known.routed))
    assert routed == [False, True, True, False]
