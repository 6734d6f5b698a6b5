"""Parts warm under load and cool after it, by the clock and not by how often somebody looks."""

from __future__ import annotations

import re
from math import exp

import pytest

from tests.places import CAPTURES

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
        return [line.split(" : ")[0].rstrip(" :") for line in text[text.index("Module Info") :].strip().splitlines()]

    assert [re.sub(r" *:.*", "", name) for name in names(said)] == [
        re.sub(r" *:.*", "", name) for name in names(sample)
    ]


def test_light_is_gone_while_the_other_end_is_closed(kit):
    """-40 dBm, as modules say for none; the own light still shines."""
    world = kit.world()
    lit = rows(kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -m", 1.0).stdout)
    assert all(1.0 < float(lane) < 3.5 for lane in lit["Rx Power Current [dBm]"].split()[0].split(","))
    kit.ask(world, "gpu002", "ibportstate 1 1 disable", 2.0)
    dark = rows(kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -m", 3.0).stdout)
    assert dark["Rx Power Current [dBm]"].startswith("-40,-40,-40,-40 ")
    assert dark["Rx LOS [per lane]"] == "1,1,1,1"
    assert dark["Tx Power Current [dBm]"] == lit["Tx Power Current [dBm]"]
