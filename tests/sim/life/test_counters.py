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
