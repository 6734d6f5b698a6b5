"""How much each part of a host carries, and which parts a transfer runs through.

Every number has its source beside it; "choice" means that no number was published.
"""

from dataclasses import dataclass
from functools import cache

from fabric.model.topology import Endpoint, Gpu, Platform, Rnic

RNIC_EFFICIENCY = 0.994
"""Payload share of the line: what IB headers leave of 4 KiB packets (computed); RoCE shows 392 (nccl issue 2409)."""

PCIE_RATIO = 1.075
"""A PCIe x16 slot over its RNIC's line rate: 427 Gb/s were measured through Gen5 (llm-d rhaii); Gen4 likewise."""

MEMORY_RATIO = 6.0
"""A memory node over the line rate, per direction: 8 channels DDR5-4800 are 2,458 Gb/s, i.e. 6 x 400."""

UPI_RATIO = 8.0
"""The socket interconnect over the line rate, per direction; a choice: wide enough for 8 RNICs at once."""

CLASS_RATIO = {"mem_remote": 0.93, "node": 0.92, "sys": 0.62}
"""Ceilings over the line rate for paths through the CPU; a choice: only their order was published, no numbers."""

MESSAGES_PER_QP_MPPS = 2.64
"""Small messages that one queue pair posts, millions a second (perftest issue 132, 2 to 8 bytes, 1 QP)."""

GENERATIONS = {"a100": 2400.0, "h100": 3600.0, "b200": 7200.0, "mi300x": 3584.0}
"""
NVLink per GPU and direction, Gb/s: 12 x 25, 18 x 25 and 18 x 50 GB/s (NVIDIA's data sheets); MI300X: Infinity Fabric to
seven other GPUs, 64 GB/s each (AMD's data sheet).
"""


def generation(platform: Platform) -> str:
    """
    Return the NVLink generation of a platform: from its names where they contain it, else from its RNICs' line rate.
    """
    named = f"{platform.baseline} {platform.name}".lower()
    alike = {"mi300x": "mi300x", "b200": "b200", "b300": "b200", "h200": "h100", "h100": "h100", "a100": "a100"}
    for text, found in alike.items():
        if text in named:
            return found
    line_gbps = max((rnic.line_rate_gbps for rnic in platform.rnics), default=400.0)
    return "b200" if line_gbps >= 800.0 else "h100" if line_gbps >= 400.0 else "a100"


@dataclass(frozen=True, slots=True)
class Path:
    """
    The way of a transfer inside one host.

    *resources* index the capacities that it shares with others. *ceiling_gbps* is what it gets alone in a healthy host,
    *rnic_gbps* what its RNIC could carry. *parts* are its components and paths, by the names that faults use.
    """

    resources: tuple[int, ...]
    ceiling_gbps: float
    rnic_gbps: float
    parts: tuple[str, ...]


class Layout:
    """The capacities and paths of one platform, computed once for all its hosts."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.generation = generation(platform)
        self.index: dict[str, int] = {}
        self.capacities: list[float] = []
        self.inside, self._half, self._copied = cache(self._inside), cache(self._found), cache(self._with_copy)
        top_gbps = max((rnic.line_rate_gbps for rnic in platform.rnics), default=400.0)
        self.top_rnic_gbps = top_gbps * RNIC_EFFICIENCY
        for rnic in platform.rnics:
            self._add(rnic.device, ("tx", "rx", "out", "in"), rnic.line_rate_gbps * RNIC_EFFICIENCY)
        for gpu in platform.gpus:
            self._add(gpu.name, ("rd", "wr"), top_gbps * PCIE_RATIO)
            self._add(gpu.name, ("nvlink",), GENERATIONS[self.generation])
        for number in range(platform.numa_nodes):
            self._add(f"numa{number}", ("rd", "wr"), top_gbps * MEMORY_RATIO)
            for other in range(platform.numa_nodes):
                self._add(f"upi{number}", (str(other),), top_gbps * UPI_RATIO)
        for switch in platform.pcie_switches:
            on_it = [rnic.line_rate_gbps for rnic in platform.rnics if rnic.pcie_switch == switch.name]
            self._add(switch.name, ("up", "down"), max(on_it, default=top_gbps) * PCIE_RATIO)

    def _add(self, component: str, ways: tuple[str, ...], capacity_gbps: float) -> None:
        for way in ways:
            self.index[f"{component}:{way}"] = len(self.capacities)
            self.capacities.append(capacity_gbps)

    def _inside(self, sender: str, source: Endpoint, receiver: str, sink: Endpoint) -> Path:
        """Return the path from an endpoint through one RNIC to another (or the same) RNIC and into an endpoint."""
        first = self.sending(sender, source, leaving=sender != receiver)
        second = self.receiving(receiver, sink, leaving=sender != receiver)
        return Path(
            first.resources + second.resources,
            min(first.ceiling_gbps, second.ceiling_gbps),
            min(first.rnic_gbps, second.rnic_gbps),
            tuple(dict.fromkeys(first.parts + second.parts)),
        )

    def for_collective(self, device: str, gpu: Gpu) -> tuple[Path, Path]:
        """
        Return the paths out of a GPU to the leaf and back, as NCCL moves bytes.

        The path is direct only below one PCIe switch (NCCL src/graph/paths.cc: netGdrLevel = PATH_PXB); else it goes
        through buffers in the memory next to the GPU, which the GPU then copies. The copies hit the last-level cache (a
        few MiB a channel; choice) and cost the memory node nothing.
        """
        rnic = self.platform.rnic_by_device[device]
        straight = rnic.pcie_switch is not None and rnic.pcie_switch == gpu.pcie_switch
        end = gpu.name if straight else f"numa{gpu.numa}"
        out, back = self.sending(device, end, leaving=True), self.receiving(device, end, leaving=True)
        return (out, back) if straight else (self._copied(out, gpu, "rd", "up"), self._copied(back, gpu, "wr", "down"))

    def _with_copy(self, half: Path, gpu: Gpu, at_gpu: str, at_switch: str) -> Path:
        """Return a half path that ends in memory, with the GPU's copy between that memory and its own added."""
        switch = [] if gpu.pcie_switch is None else [gpu.pcie_switch]
        added = tuple(self.index[name] for name in (f"{gpu.name}:{at_gpu}", *(f"{one}:{at_switch}" for one in switch)))
        ceiling_gbps = min(half.ceiling_gbps, *(self.capacities[index] for index in added))
        parts = dict.fromkeys((*half.parts, gpu.name, *switch))
        return Path(half.resources + added, ceiling_gbps, half.rnic_gbps, tuple(parts))

    def sending(self, device: str, endpoint: Endpoint, *, leaving: bool) -> Path:
        """Return the path from an endpoint into an RNIC, and with *leaving* out to its leaf."""
        ways = ("rd", "up", "down", "tx", "out") if leaving else ("rd", "up", "down", "tx")
        return self._half(device, endpoint, ways)

    def receiving(self, device: str, endpoint: Endpoint, *, leaving: bool) -> Path:
        """Return the path from an RNIC into an endpoint, and with *leaving* in from its leaf."""
        ways = ("wr", "down", "up", "rx", "in") if leaving else ("wr", "down", "up", "rx")
        return self._half(device, endpoint, ways)

    def _found(self, device: str, endpoint: Endpoint, ways: tuple[str, ...]) -> Path:
        """Return half a path. *ways*: at the endpoint, at its switch, at the RNIC's switch, then on the RNIC."""
        platform = self.platform
        rnic = platform.rnic_by_device[device]
        gpu = platform.gpu_by_name.get(endpoint)
        numa = int(endpoint[4:]) if gpu is None else gpu.numa
        names = [f"{endpoint}:{ways[0]}"]
        parts = [device, endpoint, f"{device}->{endpoint}"]
        if gpu is not None:
            parts.append(f"{device}->numa{numa}-gpus")
        parts.extend(name for name in dict.fromkeys((rnic.pcie_switch, gpu.pcie_switch if gpu else None)) if name)
        if gpu is None or rnic.pcie_switch is None or gpu.pcie_switch != rnic.pcie_switch:
            names.extend(_through_cpu(rnic, gpu, numa, ways))
        names.extend(f"{device}:{way}" for way in ways[3:])
        resources = tuple(self.index[name] for name in names)
        rnic_gbps = rnic.line_rate_gbps * RNIC_EFFICIENCY
        class_gbps = rnic.line_rate_gbps * CLASS_RATIO.get(platform.link_class(rnic, endpoint), PCIE_RATIO)
        ceiling_gbps = min(class_gbps, *(self.capacities[index] for index in resources))
        return Path(resources, ceiling_gbps, rnic_gbps, tuple(sorted(parts)))


def _through_cpu(rnic: Rnic, gpu: Gpu | None, numa: int, ways: tuple[str, ...]) -> list[str]:
    """Return the shared parts between an endpoint and an RNIC that are not on the same PCIe switch."""
    names = []
    if gpu is not None and gpu.pcie_switch is not None:
        names.append(f"{gpu.pcie_switch}:{ways[1]}")
    if numa != rnic.numa:
        a, b = (numa, rnic.numa) if ways[0] == "rd" else (rnic.numa, numa)
        names.append(f"upi{a}:{b}")
    if rnic.pcie_switch is not None:
        names.append(f"{rnic.pcie_switch}:{ways[2]}")
    return names
