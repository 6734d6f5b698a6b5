"""``nvidia-smi``: the GPUs of a host, and the processes on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fabric.model.topology import Gpu
from fabric.sim.hashing import mix64, word
from fabric.sim.hosts.hosts import VBIOS, gpu_model, gpu_pci_address, is_replaced, serial_of_gpu
from fabric.sim.hosts.temperature import GPU, GPU_MEMORY, Warmth
from fabric.sim.life.passing import THROTTLED
from fabric.sim.tools.call import Asked, Said
from fabric.sim.tools.nccl_tests.program import Running


def nvidia_smi(asked: Asked) -> Said:
    """One call: ``nvidia-smi --query-gpu=...`` or ``--query-compute-apps=...``."""
    site = asked.site
    gpus = list(site.present_gpus())
    if not gpus:
        return Said("No devices were found\n", status=6)
    apps = compute_apps(asked)
    if apps is not None:
        return apps
    queried = gpu_query(asked, [(gpu, _uuid(asked, gpu)) for gpu in gpus])
    if queried is not None:
        return queried
    stderr = "nvidia-smi: simulated rack: only `--query-gpu` and `--query-compute-apps=pid` are simulated\n"
    return Said(stderr=stderr, status=2)


def _uuid(asked: Asked, gpu: Gpu) -> str:
    bits = mix64(asked.site.name_hash ^ gpu.index ^ (1 << 32 if is_replaced(asked.site, gpu.name) else 0))
    text = f"{word(bits, 0):016x}{word(bits, 1):016x}"
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


_POWER_W = {"a100": (60.0, 400.0), "h100": (75.0, 700.0), "b200": (140.0, 1000.0)}  # idle: choice; most: data sheets
_MEMORY_MIB = {"a100": 81920, "h100": 81559, "b200": 183359}
_CLOCKS_MHZ = {"a100": (210, 1410), "h100": (345, 1980), "b200": (120, 1965)}  # idle: choice; most: data sheets
_BUSY = 0.05  # of full load: above it a GPU runs at its highest clock; choice
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


FORMAT = "--format=csv,noheader"
WORDS, NAMES = (frozenset({f"--query-compute-apps={what}", FORMAT}) for what in ("pid", "pid,process_name"))


def compute_apps(asked: Asked) -> Said | None:
    """One pid a line, and its program's path, of every collective that runs here; None when something else is asked."""
    if frozenset(asked.words) not in (WORDS, NAMES):
        return None
    busy = {flow.process.pid: flow.job.operation for flow in asked.site.flows if isinstance(flow, Running)}
    named = frozenset(asked.words) == NAMES
    return Said("".join(f"{pid}{f', /usr/bin/{busy[pid]}_perf' if named else ''}\n" for pid in sorted(busy)))
