"""How warm the parts of a host are: it depends on recent load, present load, and the part itself."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from math import log

from fabric.sim.hashing import mix64, noise_factor, text_hash
from fabric.sim.hosts.capacity import Layout
from fabric.sim.hosts.site import QUICK_S, SLOW_S, Drift, Site, swung_c

HOT_C = 25.0
"""How much warmer a part becomes that runs hot; a choice: enough to pass the 70 C at which NVIDIA's UFM isolates."""

_SPREAD_C = 2.0  # standard deviation between equal parts; choice


@dataclass(frozen=True, slots=True)
class Nature:
    """
    Temperatures of a kind of part, in C: *idle_c* without load, *rise_c* more at full load, after a lag of
    *constant_s*.
    """

    idle_c: float
    rise_c: float
    constant_s: float


# Choices, in the range of what such parts show in air-cooled hosts (a recorded 400G module: 54 C).
GPU = Nature(32.0, 30.0, QUICK_S)
ASIC = Nature(46.0, 18.0, SLOW_S)
MODULE = Nature(40.0, 16.0, SLOW_S)


class Warmth:
    """The temperatures of all parts of a host at one moment; ended and running flows are read once for all parts."""

    def __init__(self, site: Site, at_s: float) -> None:
        self._site, self.at_s = site, at_s
        self._rates: dict[float, list[float]] = {}  # felt Gb/s of each capacity, by time constant

    def of(self, part: str, nature: Nature) -> float:
        """Return the temperature, in C, of a GPU (``gpu3``) or an RNIC (``mlx5_3``, also for its module)."""
        heat = self._site.heat.get(part)
        hot_c = 0.0 if heat is None else heat.at(self.at_s)
        hot_c += swung_c(self._site.swings.get(part, self.at_s), self.at_s)
        own_c = _SPREAD_C * _deviation(self._site.name_hash, part, nature.idle_c)
        return nature.idle_c + own_c + hot_c + nature.rise_c * self.loaded(part, nature.constant_s)

    def loaded(self, part: str, constant_s: float) -> float:
        """Return how busy a part has been of late, 0 to 1: its busiest way, seen through the lag of a warming part."""
        if constant_s not in self._rates:
            self._rates[constant_s] = self._felt(constant_s)
        rates = self._rates[constant_s]
        return min(1.0, max(rates[index] / capacity_gbps for index, capacity_gbps in _ways(self._site.layout, part)))

    def _felt(self, constant_s: float) -> list[float]:
        site, at_s = self._site, self.at_s
        rates = [0.0] * len(site.layout.capacities)
        for resources, load in site.loads(at_s):
            rate_gbps = load.felt_gbps(at_s, constant_s)
            for index in resources:
                rates[index] += rate_gbps
        return rates


def warm(site: Site, hot: Collection[str], at_s: float) -> None:
    """Make exactly these parts run hot from now on; they warm, and others cool, by the same law as under load."""
    for part in dict.fromkeys((*hot, *site.heat)):
        target_c = HOT_C if part in hot else 0.0
        now = site.heat.get(part)
        if now is None or now.target != target_c:
            constant_s = GPU.constant_s if part.startswith("gpu") else MODULE.constant_s
            site.heat[part] = Drift(0.0 if now is None else now.at(at_s), target_c, at_s, constant_s)


@lru_cache(maxsize=1 << 12)
def _ways(layout: Layout, part: str) -> tuple[tuple[int, float], ...]:
    """Return the ways through a part, by number, with what each can carry (Gb/s)."""
    ways = ("nvlink", "rd", "wr") if part.startswith("gpu") else ("tx", "rx", "out", "in")
    indexes = [layout.index[f"{part}:{way}"] for way in ways]
    return tuple((index, layout.capacities[index]) for index in indexes)


@lru_cache(maxsize=1 << 17)
def _deviation(name_hash: int, part: str, idle_c: float) -> float:
    """Return how many standard deviations this part differs from others; the same at every call."""
    bits = mix64(name_hash ^ text_hash(f"{part} {idle_c}"))
    return log(noise_factor(bits, 1.0))
