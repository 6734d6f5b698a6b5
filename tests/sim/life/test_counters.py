"""Counters that grow: every tool that shows one shows the same."""

from __future__ import annotations

import re

import pytest

from fabric.model.inventory import Fault, MockSettings, TimedFault
from fabric.sim.phy.port import TICK_S
from fabric.sim.world import World


def values(text):
    """Names and numbers of ``name: 12``, ``name:....12`` and ``name  : 12``."""
    return {name: int(value) for name, value in re.findall(r"^ *([A-Za-z_0-9 ]+?) *:[ .]*(\d+) *$", text, re.MULTILINE)}


def across(kit, world, at_s, *, clients=("gpu001",), server="gpu002", seconds=10):
    """Transfers into one RNIC of a host, which must share it; their bandwidths."""
    lines = []
    for number, client in enumerate(clients):
        serve, ask = kit.pair(at_s, server, "mlx5_0", port=18600 + number)
        lines += [serve, (ask[0], client, ask[2].replace("localhost", "10.0.0.2"))]
    lines = [(when, host, text.replace("--duration=5", f"--duration={seconds}")) for when, host, text in lines]
    ended = kit.played(world, [*lines[0::2], *lines[1::2]])
    return [kit.bandwidth_gbps(one.stdout) for one in ended[len(clients) :]]


def counter(kit, world, name, at_s, host="gpu001", where="counters"):
    """One of the kernel's."""
    return int(kit.ask(world, host, f"cat /sys/class/infiniband/mlx5_0/ports/1/{where}/{name}", at_s).stdout)


def test_two_into_one_wait_and_all_tools_say_how_long(kit):
    """Each gets half, so half its time it waits; alone nobody waits."""
    world = kit.world()
    across(kit, world, 0.0)
    assert counter(kit, world, "port_xmit_wait", 50.0) == 0
    both = across(kit, world, 100.0, clients=("gpu001", "gpu003"))
    assert both == pytest.approx([kit.alone_gbps / 2] * 2, rel=0.01)
    waited = counter(kit, world, "port_xmit_wait", 200.0)
    assert waited * TICK_S == pytest.approx(5.0, rel=0.01)
    said = values(kit.ask(world, "gpu001", "perfquery -x", 201.0).stdout)
    assert said["PortXmitWait"] == waited
    assert said["PortXmitData"] == counter(kit, world, "port_xmit_data", 202.0)
    assert values(kit.ask(world, "gpu001", "perfquery", 203.0).stdout)["PortXmitWait"] == min(waited, 2**32 - 1)


def test_on_ethernet_waiting_is_pfc_pause(kit):
    """Microseconds in ethtool, ticks in the kernel's file."""
    world = kit.world(platform=kit.platform_like(link_layer="ethernet"))
    across(kit, world, 0.0, clients=("gpu001", "gpu003"))
    said = values(kit.ask(world, "gpu001", "ethtool -S eth1", 100.0).stdout)
    assert said["rx_prio3_pause_duration"] == pytest.approx(5e6, rel=0.01)
    assert said["rx_prio3_pause"] == said["rx_pause_ctrl_phy"] > 1000
    waited_s = counter(kit, world, "port_xmit_wait", 101.0) * TICK_S
    assert said["rx_prio3_pause_duration"] == pytest.approx(waited_s * 1e6, rel=1e-6)


def lossy(kit, link_layer):
    """A cable of gpu002 with bit errors that the FEC leaves; from 5 s to 15 s."""
    fault = TimedFault(0.0, 50.0, Fault("gpu002/mlx5_0", "bit_errors", 1e-9))
    topology = kit.topology_of(4, kit.platform_like(link_layer=link_layer))
    return World(topology, MockSettings(noise_cv=0.0, timed_faults=(fault,)), seed=1)


def test_lost_packets_are_out_of_sequence_at_the_receiver_on_ethernet_only(kit):
    """InfiniBand links resend by themselves; RoCE's RNICs must."""
    world = lossy(kit, "ethernet")
    (gbps,) = across(kit, world, 0.0)
    packets = gbps * 10e9 / 8 / 4096
    lost = counter(kit, world, "out_of_sequence", 100.0, host="gpu002", where="hw_counters")
    assert lost == pytest.approx(packets * (1 - (1 - 1e-9) ** ((4096 + 62) * 8)), rel=0.01)
    assert lost > 1000
    assert counter(kit, world, "out_of_sequence", 101.0, host="gpu003", where="hw_counters") == 0
    infiniband = lossy(kit, "infiniband")
    across(kit, infiniband, 0.0)
    assert counter(kit, infiniband, "out_of_sequence", 100.0, host="gpu002", where="hw_counters") == 0


def test_raw_errors_agree_between_mlxlink_mlxreg_and_ethtool(kit):
    """The background of a healthy port, corrected by the FEC."""
    world = kit.world(platform=kit.platform_like(link_layer="ethernet"))
    asked = ("mlxlink -d mlx5_0 -c", "ethtool -S eth1")
    by_lane, statistics = (one.stdout for one in kit.played(world, [(60.0, "gpu001", text) for text in asked]))
    lanes = [int(part) for part in re.search(r"Errors Per Lane +: ([\d,]+)", by_lane)[1].split(",")]
    assert sum(lanes) == pytest.approx(400e9 * 2e-9 * 60.05, rel=1e-3)
    assert values(statistics)["rx_corrected_bits_phy"] == sum(lanes)


def test_counters_never_fall(kit):
    """Read every second, through contention, a flap and its end."""
    fault = TimedFault(4.0, 3.0, Fault("gpu001/mlx5_0", "broken"))
    world = World(kit.topology_of(4, kit.platform_like()), MockSettings(noise_cv=0.0, timed_faults=(fault,)), seed=1)
    for at_s, host, text in kit.pair(0.0, "gpu001", "mlx5_0", port=18600):
        world.start(host, tuple(text.split()), {}, at_s)
    last = {}
    for second in range(2, 20):
        now = values(kit.ask(world, "gpu001", "perfquery -x", float(second)).stdout)
        del now["PortSelect"]
        assert all(now[name] >= value for name, value in last.items())
        last = now


def test_a_collective_is_counted_once_while_it_runs(kit):
    """It uses several sets of capacities of a host; what it sent does not fall when it ends."""
    world = kit.world()
    ring = "mpirun -np 16 -H gpu001:8,gpu002:8 -x NCCL_ALGO=RING all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n 200"
    world.start("gpu001", tuple(ring.split()), {}, 0.0)
    ended_s = None
    while ended_s is None:
        last_s = world.next_s()
        ended_s = next((event.at_s for event in world.advance(last_s)), None)
    again = kit.world()
    again.start("gpu001", tuple(ring.split()), {}, 0.0)
    before = counter(kit, again, "port_xmit_data", ended_s - 0.2)
    after = counter(kit, again, "port_xmit_data", ended_s + 1.0)
    assert before <= after == pytest.approx(before, rel=0.1)


def test_waiting_is_counted_while_it_lasts(kit):
    """Half-way through a shared transfer half of the waiting is there."""
    world = kit.world()
    pairs = [kit.pair(0.0, "gpu002", "mlx5_0", port=18600 + number) for number in range(2)]
    lines = [("gpu002", serve[2]) for serve, _ in pairs]
    lines += [(f"gpu00{3 - 2 * n}", ask[2].replace("localhost", "10.0.0.2")) for n, (_, ask) in enumerate(pairs)]
    for number, (host, text) in enumerate(lines):
        world.start(host, tuple(text.replace("--duration=5", "--duration=100").split()), {}, number // 2 * 1.0)
    world.next_s()
    assert counter(kit, world, "port_xmit_wait", 52.0) * TICK_S == pytest.approx(25.0, abs=0.5)
