"""``cat`` of sysfs, ``ip link``, ``ethtool`` and ``nvidia-smi`` in the simulated rack."""

from __future__ import annotations

import re

import pytest

from fabric.model.inventory import Fault
from tests.places import CAPTURES


def recorded(name):
    """A recorded output."""
    path = CAPTURES / name
    return path.read_text()


def test_sysfs_has_the_recorded_files(kit):
    """Every file but some hardware counters is there, states and rates in the kernel's words."""
    world = kit.world()
    at_s = 0.0
    for line in recorded("sysfs/01-real-h100-mlx5_0-sysfs.txt").splitlines():
        name, _, value = line.partition(": ")
        if "hw_counters" in name:
            continue
        at_s += 1.0
        said = kit.ask(world, "gpu001", f"cat /sys/class/infiniband/{name}", at_s)
        assert said.exit_status == 0, name
        if "counters" not in name:
            assert said.stdout == f"{value}\n"


def test_ip_link_looks_like_the_recorded_one(kit):
    """The two lines of an interface; a cable that is out shows NO-CARRIER."""
    platform = kit.platform_like(link_layer="ethernet")
    world = kit.world(Fault("gpu001/mlx5_1", "broken"), platform=platform)
    first, second = recorded("ethtool/01-ip-s-link-eth2.txt").splitlines()[:2]
    form = re.sub(r"\d+: \w+(@\w+)?|mtu \d+|qdisc \w+", "", first)
    said = kit.ask(world, "gpu001", "ip link show eth1", 1.0).stdout.splitlines()
    assert re.sub(r"\d+: \w+(@\w+)?|mtu \d+|qdisc \w+", "", said[0]) == form
    assert re.fullmatch(r"    link/ether ([0-9a-f]{2}:){5}[0-9a-f]{2} brd (ff:){5}ff", said[1])
    assert second.startswith("    link/ether ")
    lost = kit.ask(world, "gpu001", "ip link show dev eth2", 2.0).stdout
    assert "<NO-CARRIER,BROADCAST,MULTICAST,UP>" in lost
    assert "state DOWN" in lost
    missing = kit.ask(world, "gpu001", "ip link set eth77 down", 3.0)
    assert (missing.stderr, missing.exit_status) == ('Cannot find device "eth77"\n', 1)


def test_ethtool_counts_corrected_bits_by_lane(kit):
    """The sum of the lanes is the whole, and what was received shows."""
    platform = kit.platform_like(link_layer="ethernet")
    world = kit.world(platform=platform)
    server, client = kit.pair(0.0, "gpu001", "mlx5_0", port=18600)
    ended = kit.played(world, [server, (1.0, "gpu002", client[2].replace("localhost", "10.0.0.1"))])
    said = kit.ask(world, "gpu001", "ethtool -S eth1", 60.0).stdout
    found = {name: int(value) for name, value in re.findall(r"^     (\w+): (\d+)$", said, re.MULTILINE)}
    assert found["rx_corrected_bits_phy"] == sum(found[f"rx_err_lane_{lane}_phy"] for lane in range(4)) > 0
    assert found["rx_crc_errors_phy"] == found["rx_symbol_err_phy"] == 0
    assert found["rx_bytes_phy"] == pytest.approx(kit.bandwidth_gbps(ended[1].stdout) * 5e9 / 8, rel=1e-3)


def test_a_gpu_that_fell_off_the_bus_is_not_listed(kit):
    """The others move up, as with the real tool."""
    world = kit.world(Fault("gpu001/gpu2", "absent"))
    assert kit.ask(world, "gpu001", "nvidia-smi --query-gpu=uuid --format=csv,noheader", 1.0).stdout.count("GPU-") == 7
