"""The network's own state as tools show it, and as it was measured in the lab's box."""

import re

import pytest

from fabric.model.inventory import Fault, TimedFault


def routes(one, lid, at_s):
    """LID to port, as ibroute prints it."""
    said = one.ask("gpu001", f"ibroute -n {lid}", at_s)
    assert said.exit_status == 0
    return {int(a, 16): int(b) for a, b in re.findall(r"^(0x\w{4}) (\d{3})$", said.stdout, re.MULTILINE)}


def counter(one, lid, port, name, at_s):
    """One counter of a switch port."""
    said = one.ask("gpu001", f"perfquery -x {lid} {port}", at_s).stdout
    return int(re.search(rf"^{name}:\.+(\d+)$", said, re.MULTILINE)[1])


def test_a_leafs_table_is_that_of_the_routes_in_force(pod):
    """D-mod-K: the first host of the other unit by port 3, the second by 4; all by 4 when the manager has rerouted."""
    one = pod()
    rnic = {name: 19 + 8 * number for number, name in enumerate(("gpu000", "gpu001", "gpu002", "gpu003"))}
    before = routes(one, 1, 1.0)
    assert (before[1], before[rnic["gpu000"]], before[rnic["gpu001"]]) == (0, 1, 2)
    assert (before[rnic["gpu002"]], before[rnic["gpu003"]]) == (3, 4)
    assert set(before) == set(range(1, 51))
    one.ask("gpu001", "ibportstate 1 3 disable", 10.0)
    assert routes(one, 1, 24.0)[rnic["gpu002"]] == 3  # into the dead port
    after = routes(one, 1, 26.0)
    assert (after[rnic["gpu002"]], after[rnic["gpu003"]]) == (4, 4)
    assert routes(one, 17, 27.0)[rnic["gpu002"]] == 9  # a spine: down to that leaf


def test_shield_changes_the_table_at_once(pod):
    """Three milliseconds are less than it takes to ask."""
    one = pod(shield=True)
    one.ask("gpu001", "ibportstate 1 3 disable", 10.0)
    assert routes(one, 1, 11.0)[35] == 4


@pytest.mark.parametrize(("engine", "parts", "uneven"), [(None, (1.0, 0.0), 0.03), ("ar", (0.5, 0.5), 0.12)])
def test_ports_between_switches_count_what_crosses_them(pod, engine, parts, uneven):
    """What an RNIC sent goes out of the ports its routes use, *uneven* as those are; the spine has received it."""
    one = pod(engine)
    one.run("gpu000", "gpu002")
    one.to(30.0)
    base = "cat /sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data"
    sent = int(one.ask("gpu000", base, 30.0).stdout)
    assert sent > 0
    out = [counter(one, 1, port, "PortXmitData", 30.0) for port in (3, 4)]
    assert sum(out) == pytest.approx(sent, rel=0.03)
    assert out == pytest.approx([part * sent for part in parts], rel=uneven)
    back = [counter(one, lid, 1, "PortRcvData", 30.0) for lid in (17, 18)]
    assert back == pytest.approx(out, rel=0.03)


@pytest.mark.parametrize(("engine", "hosts", "adaptive"), [("ar", 4, True), ("ar", 3, False), (None, 4, False)])
def test_roce_is_adaptive_only_when_every_rnic_forces_it(pod, engine, hosts, adaptive):
    """The switches must do it, and all RNICs of the job; what was decided at its start stays."""
    one = pod(engine, link_layer="ethernet")
    line = "--set adaptive_routing_forced_en=1,adaptive_routing_forced_en_field_select=1"
    for host in range(hosts):
        for rnic in range(8):
            said = one.ask(f"gpu{host:03d}", f"mlxreg -d mlx5_{rnic} --reg_name ROCE_ACCL --yes {line}", 1.0)
            assert said.exit_status == 0, said.stderr
    pid = one.run("gpu000", "gpu003", at_s=20.0)
    one.ask("gpu000", f"mlxreg -d mlx5_0 --reg_name ROCE_ACCL --yes {line.replace('en=1,', 'en=0,')}", 30.0)
    assert one.world.rack.timeline.alive[pid].work.ring.adaptive is adaptive


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
        ("ecmp", Fault("spine1->u1-leaf0", "grey"), {"status 12", "1.0"}),  # the way back of the answers
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
        routed.append(bool(made.world.rack.above.network.known.routed))
    assert routed == [False, True, True, False]
