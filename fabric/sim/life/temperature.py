"""How warm the parts of a host are: what ran lately, what runs, and where the part sits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import log

from fabric.sim.hashing import mix64, noise_factor, text_hash
from fabric.sim.life.drift import Drift
from fabric.sim.life.load import QUICK_S, SLOW_S, felt
from fabric.sim.site import Site

HOT_C = 25.0
"""How much warmer a part becomes that runs hot; choice: enough to pass the 70 C at which NVIDIA's UFM isolates."""

_SPREAD_C = 2.0  # standard deviation between parts that are alike; choice


@dataclass(frozen=True, slots=True)
class Nature:
    """Degrees Celsius of a part: *idle_c* without load, *rise_c* more at full load, after a lag of *constant_s*."""

    idle_c: float
    rise_c: float
    constant_s: float


# Choices, in the range of what such parts show in air-cooled hosts (a recorded 400G module: 54 C).
GPU = Nature(32.0, 30.0, QUICK_S)
GPU_MEMORY = Nature(38.0, 35.0, QUICK_S)
ASIC = Nature(46.0, 18.0, SLOW_S)
MODULE = Nature(40.0, 16.0, SLOW_S)


def temperature_c(site: Site, part: str, nature: Nature, at_s: float) -> float:
    """The temperature of a GPU (``gpu3``) or RNIC (``mlx5_3``, also for its module) now."""
    heat = site.heat.get(part)
    own_c = _SPREAD_C * _deviation(site, part, nature)
    hot_c = 0.0 if heat is None else heat.at(at_s)
    return nature.idle_c + own_c + hot_c + nature.rise_c * loaded(site, part, at_s, constant_s=nature.constant_s)


def loaded(site: Site, part: str, at_s: float, *, constant_s: float) -> float:
    """How busy a part has been of late, 0 to 1: the busiest of its ways, seen through the lag of a warming part."""
    ways = ("nvlink", "rd", "wr") if part.startswith("gpu") else ("tx", "rx", "out", "in")
    indexes = [site.layout.index[f"{part}:{way}"] for way in ways]
    rates_gbps = dict.fromkeys(indexes, 0.0)
    for resources, load in site.carried.items():
        for index in indexes:
            rates_gbps[index] += load.felt_gbps(at_s, constant_s) * resources.count(index)
    for flow in site.running:
        lasted_s = at_s - flow.began_s
        if lasted_s > 0.0:
            mean_gbps = flow.carried_gb(at_s) / lasted_s
            for where, resources, weight in flow.shares:
                for index in indexes if where is site else ():
                    rates_gbps[index] += felt(mean_gbps / weight, lasted_s, constant_s) * resources.count(index)
    return min(1.0, max(rate / site.layout.capacities[index] for index, rate in rates_gbps.items()))


def warm(site: Site, hot: Collection[str], at_s: float) -> None:
    """From now on exactly these parts run hot; they warm, and others cool, by the same law as under load."""
    for part in {*hot, *site.heat}:
        target_c = HOT_C if part in hot else 0.0
        now = site.heat.get(part)
        if now is None:
            constant_s = GPU.constant_s if part.startswith("gpu") else MODULE.constant_s
            now = Drift(0.0, 0.0, at_s, constant_s)
        if now.target != target_c:
            site.heat[part] = now.turned(target_c, at_s)


def _deviation(site: Site, part: str, nature: Nature) -> float:
    """How many standard deviations this very part is from others; the same every time."""
    bits = mix64(site.name_hash ^ text_hash(f"{part} {nature.idle_c}"))
    return log(noise_factor(bits, 1.0))
