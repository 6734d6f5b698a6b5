"""``nvidia-smi``: the GPUs of a host, and how far they are from each other and from the RNICs."""

from __future__ import annotations

from fabric.model.topology import Gpu, Rnic
from fabric.sim.compute_apps import compute_apps
from fabric.sim.hashing import mix64, word
from fabric.sim.life.gpu_query import gpu_query
from fabric.sim.nvidia import gpu_model
from fabric.sim.port_tool import Asked, Said
from fabric.sim.serials import is_replaced

_LINKS = {"a100": 12, "h100": 18, "b200": 18}  # NVLinks of one GPU (NVIDIA's data sheets)
_CORES = 56  # a socket; choice
_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def nvidia_smi(asked: Asked) -> Said:
    """One call: ``nvidia-smi topo -m``, ``nvidia-smi -L``, ``nvidia-smi --query-gpu=...`` and so on."""
    site = asked.site
    gpus = list(site.present_gpus())
    if not gpus:
        return Said("No devices were found\n", status=6)
    if asked.words in (("topo", "-m"), ("topo", "--matrix")):
        return Said(_matrix(asked, gpus))
    if asked.words in (("-L",), ("--list-gpus",)):
        return Said("".join(_listed(asked, number, gpu) for number, gpu in enumerate(gpus)))
    apps = compute_apps(asked)
    if apps is not None:
        return apps
    queried = gpu_query(asked, [(gpu, _uuid(asked, gpu)) for gpu in gpus])
    if queried is not None:
        return queried
    stderr = (
        "nvidia-smi: simulated rack: only `topo -m`, `-L`, `--query-gpu` and `--query-compute-apps=pid` are simulated\n"
    )
    return Said(stderr=stderr, status=2)


def _listed(asked: Asked, number: int, gpu: Gpu) -> str:
    return f"GPU {number}: {gpu_model(asked.site.layout.generation)} (UUID: {_uuid(asked, gpu)})\n"


def _uuid(asked: Asked, gpu: Gpu) -> str:
    bits = mix64(asked.site.name_hash ^ gpu.index ^ (1 << 32 if is_replaced(asked.site, gpu.name) else 0))
    text = f"{word(bits, 0):016x}{word(bits, 1):016x}"
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _matrix(asked: Asked, gpus: list[Gpu]) -> str:
    """Tabs between columns, the header underlined, as the tool does it even into a file."""
    rnics = asked.rnics
    names = [f"GPU{number}" for number in range(len(gpus))] + [f"NIC{number}" for number in range(len(rnics))]
    parts: list[Gpu | Rnic] = [*gpus, *rnics]
    head = "\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    lines = [f"\x1b[4m{head}\x1b[0m"]
    for name, part in zip(names, parts, strict=True):
        cells = [" X " if other is part else _distance(asked, part, other) for other in parts]
        if isinstance(part, Gpu):
            cells += [f"{part.numa * _CORES}-{(part.numa + 1) * _CORES - 1}", str(part.numa), "N/A"]
        lines.append("\t".join([name, *cells]))
    legend = "".join(f"  NIC{number}: {rnic.device}\n" for number, rnic in enumerate(rnics))
    return "\n".join(lines) + "\n" + _LEGEND + (f"\nNIC Legend:\n\n{legend}\n" if rnics else "\n")


def _distance(asked: Asked, one: Gpu | Rnic, other: Gpu | Rnic) -> str:
    if isinstance(one, Gpu) and isinstance(other, Gpu):
        return f"NV{_LINKS[asked.site.layout.generation]}"
    if one.pcie_switch is not None and one.pcie_switch == other.pcie_switch:
        return "PIX"
    return "NODE" if one.numa == other.numa else "SYS"
