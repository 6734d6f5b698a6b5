"""Counters that grow and parts that warm: every tool shows the same, by the clock."""

import json
import re
from math import exp

import pytest

from fabric.model.inventory import Fault, MockSettings, TimedFault
from fabric.sim.phy.port import TICK_BITS
from fabric.sim.world import World
from tests.places import CAPTURES


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
    said = values(kit.ask(world, "gpu001", "perfquery -x", 200.0).stdout)
    waited = said["PortXmitWait"]
    assert waited * TICK_BITS / 400e9 == pytest.approx(5.0, rel=0.01)
    assert counter(kit, world, "port_xmit_wait", 201.0) == 2**32 - 1
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
    asked = ("mlxlink -d mlx5_0 -c --json", "ethtool -S eth1")
    by_lane, statistics = (one.stdout for one in kit.played(world, [(60.0, "gpu001", text) for text in asked]))
    counted = json.loads(by_lane)["result"]["output"]["Physical Counters and BER Info"]
    lanes = [int(part) for part in counted["Raw Physical Errors Per Lane"]["values"]]
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


ALL = "alltoall_perf -b 8G -e 8G -f 2 -g 8 -n 20000"


def gpu_c(kit, world, at_s, field="temperature.gpu", host="gpu001"):
    """What nvidia-smi says of every GPU."""
    text = f"nvidia-smi --query-gpu={field} --format=csv,noheader,nounits"
    return [float(line) for line in kit.ask(world, host, text, at_s).stdout.splitlines()]


def rnic_c(kit, world, at_s, sensor=1, device="mlx5_0"):
    """What the kernel says of one RNIC."""
    path = f"/sys/class/infiniband/{device}/device/hwmon/hwmon{device[5:]}/temp{sensor}_input"
    return int(kit.ask(world, "gpu001", f"cat {path}", at_s).stdout) / 1000


def rows(text):
    """Every ``name : value``."""
    return {name: value.strip() for name, value in re.findall(r"^(\S.*?) +: (.*)$", text, re.MULTILINE)}


def test_gpus_warm_under_load_and_cool_after(kit):
    """First-order: two thirds of the way after one time constant, all of it after many; parts differ a little."""
    world = kit.world()
    idle = gpu_c(kit, world, 1.0)
    assert 1 <= max(idle) - min(idle) <= 14
    assert 24 <= min(idle) <= max(idle) <= 40
    world.start("gpu001", tuple(ALL.split()), {}, 2.0)
    world.advance(5.0)  # three seconds of set-up
    after_one = gpu_c(kit, world, 44.95)
    steady = gpu_c(kit, world, 600.0)
    rise = [hot - cold for hot, cold in zip(steady, idle, strict=True)]
    assert min(rise) > 20
    part = [(some - cold) / full for some, cold, full in zip(after_one, idle, rise, strict=True)]
    assert sum(part) / 8 == pytest.approx(1 - exp(-1), abs=0.03)
    ended_s = next(event.at_s for event in world.advance(1e6))
    assert gpu_c(kit, world, 1e6 + 1) == idle
    assert ended_s > 600.0


def test_heat_is_remembered_after_a_transfer_has_ended(kit):
    """An RNIC that just carried 60 s of traffic is warm, and colder with every minute; its idle neighbour is not."""
    world = kit.world()
    cold, neighbour = rnic_c(kit, world, 1.0), rnic_c(kit, world, 1.5, device="mlx5_5")
    lines = [
        (at, host, text.replace("--duration=5", "--duration=60"))
        for at, host, text in kit.pair(2.0, "gpu001", "mlx5_0", port=18600)
    ]
    ended = kit.played(world, lines)[1]
    at_s = ended.at_s
    felt = [rnic_c(kit, world, at_s + wait_s) - cold for wait_s in (0.0, 150.0, 300.0)]
    assert felt[0] == pytest.approx(18.0 * (1 - exp(-60 / 150)), rel=0.05)
    assert felt[1] / felt[0] == pytest.approx(exp(-1), abs=0.05)
    assert felt[2] / felt[1] == pytest.approx(exp(-1), abs=0.08)
    assert rnic_c(kit, world, at_s + 301.0, device="mlx5_5") == neighbour


def test_the_module_section_has_the_recorded_rows(kit):
    """Same names in the same order."""
    sample = (CAPTURES / "mlxlink" / "01-cx7-ndr-show-module-4.35.txt").read_text()
    said = kit.ask(kit.world(), "gpu001", "mlxlink -d mlx5_0 --show_module", 1.0).stdout

    def names(text):
        return [re.sub(r" *:.*", "", line) for line in text[text.index("Module Info") :].strip().splitlines()]

    assert names(said) == names(sample)


def test_light_is_gone_while_the_other_end_is_closed(kit):
    """-40 dBm, as modules say for none; the own light still shines."""
    world = kit.world()
    lit = kit.mlxlink(world, "gpu001", "-m", 1.0)["Module Info"]
    assert all(1.0 < float(lane) < 3.5 for lane in lit["Rx Power Current [dBm]"].split()[0].split(","))
    kit.ask(world, "gpu002", "ibportstate 1 1 disable", 2.0)
    dark = kit.mlxlink(world, "gpu001", "-m", 3.0)["Module Info"]
    assert dark["Rx Power Current [dBm]"].startswith("-40,-40,-40,-40 ")
    assert dark["Rx LOS [per lane]"] == "1,1,1,1"
    assert dark["Tx Power Current [dBm]"] == lit["Tx Power Current [dBm]"]
