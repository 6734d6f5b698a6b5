"""``nvidia-smi --query-gpu``: one row a GPU, the fields that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fabric.model.topology import Gpu
from fabric.sim.life.temperature import GPU, GPU_MEMORY, Warmth
from fabric.sim.nvidia import gpu_model
from fabric.sim.port_tool import Asked, Said, gpu_pci_address
from fabric.sim.serials import VBIOS, serial_of_gpu

_POWER_W = {"a100": (60.0, 400.0), "h100": (75.0, 700.0), "b200": (140.0, 1000.0)}  # idle: choice; most: data sheets
_MEMORY_MIB = {"a100": 81920, "h100": 81559, "b200": 183359}
_CLOCKS_MHZ = {"a100": (210, 1410), "h100": (345, 1980), "b200": (120, 1965)}  # idle: choice; most: data sheets
_BUSY = 0.05  # of full load: above it a GPU runs at its highest clock; choice
THROTTLED = 0.8
"""Of its clock a GPU keeps when it runs hot; choice, the same as of its bandwidth (``passing.THROTTLED``)."""
_THERMAL_SLOWDOWN = 0x20  # SW thermal slowdown, by NVML's bits
_IDLE = 0x1


@dataclass(frozen=True, slots=True)
class Seen:
    """One GPU at one moment."""

    asked: Asked
    number: int
    gpu: Gpu
    uuid: str
    warmth: Warmth

    @property
    def _load(self) -> float:
        return self.warmth.loaded(self.gpu.name, GPU.constant_s)

    @property
    def _hot(self) -> bool:
        heat = self.asked.site.heat.get(self.gpu.name)
        return heat is not None and heat.target > 0.0

    def megahertz(self) -> str:
        """Its clock: lowest when idle, highest under load, and so much less when it runs hot."""
        idle, most = _CLOCKS_MHZ[self.asked.site.layout.generation]
        mhz = most if self._load > _BUSY else idle
        return f"{mhz * (THROTTLED if self._hot and mhz == most else 1.0):.0f}"

    def celsius(self) -> str:
        """The chip."""
        return f"{self.warmth.of(self.gpu.name, GPU):.0f}"

    def memory_celsius(self) -> str:
        """The stacked memory beside it."""
        return f"{self.warmth.of(self.gpu.name, GPU_MEMORY):.0f}"

    def watts(self) -> str:
        """Between idle and its limit, as its load."""
        least, most = _POWER_W[self.asked.site.layout.generation]
        return f"{least + (most - least) * self._load:.2f}"

    def throttled(self) -> str:
        """Why its clocks are low, as a mask."""
        return f"0x{_THERMAL_SLOWDOWN if self._hot else 0 if self._load > 0.0 else _IDLE:016x}"

    def busy(self) -> str:
        """Whether anything runs on it."""
        index = self.asked.site.layout.index
        ways = [index[f"{self.gpu.name}:{way}"] for way in ("nvlink", "rd", "wr")]
        return "100" if any(self.asked.site.users[way] for way in ways) else "0"


# Header, unit, and how to find the value.
_FIELDS: Mapping[str, tuple[str, str, Callable[[Seen], str]]] = MappingProxyType(
    {
        "index": ("index", "", lambda seen: str(seen.number)),
        "name": ("name", "", lambda seen: gpu_model(seen.asked.site.layout.generation)),
        "uuid": ("uuid", "", lambda seen: seen.uuid),
        "serial": ("serial", "", lambda seen: serial_of_gpu(seen.asked.site, seen.gpu.name)),
        "vbios_version": ("vbios_version", "", lambda _: VBIOS),
        "pci.bus_id": ("pci.bus_id", "", lambda seen: "0000" + gpu_pci_address(seen.gpu.index).upper()),
        "temperature.gpu": ("temperature.gpu", "", Seen.celsius),
        "temperature.memory": ("temperature.memory", "", Seen.memory_celsius),
        "power.draw": ("power.draw [W]", " W", Seen.watts),
        "clocks.sm": ("clocks.current.sm [MHz]", " MHz", Seen.megahertz),
        "clocks.current.sm": ("clocks.current.sm [MHz]", " MHz", Seen.megahertz),
        "utilization.gpu": ("utilization.gpu [%]", " %", Seen.busy),
        "memory.total": (
            "memory.total [MiB]",
            " MiB",
            lambda seen: str(_MEMORY_MIB[seen.asked.site.layout.generation]),
        ),
        "clocks_throttle_reasons.active": ("clocks_event_reasons.active", "", Seen.throttled),
        "clocks_event_reasons.active": ("clocks_event_reasons.active", "", Seen.throttled),
    }
)
_FORMATS = ("csv", "noheader", "nounits")


def gpu_query(asked: Asked, gpus: Sequence[tuple[Gpu, str]]) -> Said | None:
    """The table for ``--query-gpu=... --format=...  [-i N]``; None when the words ask for something else."""
    words = list(asked.words)
    fields = next((word.partition("=")[2] for word in words if word.startswith("--query-gpu=")), None)
    if fields is None:
        return None
    formats = next((word.partition("=")[2] for word in words if word.startswith("--format=")), "").split(",")
    if "csv" not in formats or not set(formats) <= set(_FORMATS):
        return Said('"--format=" switch is missing. A query requires "--format=csv".\n', status=2)
    names = [name.strip() for name in fields.split(",")]
    for name in names:
        if name not in _FIELDS:
            return Said(f'Field "{name}" is not a valid field to query.\n\n', status=2)
    chosen = _chosen(words, gpus)
    if not chosen:
        return Said("No devices were found\n", status=6)
    warmth = Warmth(asked.site, asked.at_s)
    seen = [Seen(asked, number, gpu, uuid, warmth) for number, (gpu, uuid) in chosen]
    rows = [] if "noheader" in formats else [", ".join(_FIELDS[name][0] for name in names)]
    rows += [", ".join(_value(one, name, units="nounits" not in formats) for name in names) for one in seen]
    return Said("".join(f"{row}\n" for row in rows))


def _value(seen: Seen, name: str, *, units: bool) -> str:
    _, unit, found = _FIELDS[name]
    return found(seen) + (unit if units else "")


def _chosen(words: Sequence[str], gpus: Sequence[tuple[Gpu, str]]) -> list[tuple[int, tuple[Gpu, str]]]:
    """All, or those after ``-i``."""
    numbered = list(enumerate(gpus))
    text = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-i", "--id")), None)
    text = next((word.partition("=")[2] for word in words if word.startswith(("-i=", "--id="))), text)
    return numbered if text is None else [one for one in numbered if str(one[0]) in text.split(",")]
