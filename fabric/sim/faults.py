"""What is wrong with which host of the simulated rack, looked up by component name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fabric.model.inventory import Fault
from fabric.model.topology import Host, Platform, Topology
from fabric.sim.life.whims import WHIMS
from fabric.sim.uplink_faults import is_above_leaves

_KINDS = {
    "host": ("slow", "broken", "hanging", "absent", "garbage"),
    "rnic": (
        "slow",
        "broken",
        "hanging",
        "absent",
        "hot",
        "bit_errors",
        "symbol_errors",
        "replaced",
        "outdated",
        *WHIMS,
    ),
    "gpu": ("slow", "broken", "hanging", "absent", "hot", "replaced"),
    "part": ("slow", "broken", "hanging", "absent"),  # a part or path that is not there carries nothing: broken
    "cable of an RNIC": ("slow", "replaced", *WHIMS),
    "leaf": ("slow", "broken", "hanging", "absent"),
    "switch or cable above the leaves": ("slow", "broken"),
}

PORT = ":port"
"""Behind the name of an RNIC: its cable, which a loopback inside the host does not use."""


@dataclass(slots=True)
class HostFaults:
    """
    The faults of one host.

    *factors* holds what is slow, *troubles* what is broken, hanging or absent, by component name inside the host;
    ``mlx5_0:leaf`` is the leaf's side of that RNIC's cable. *host_kind* is set when the host itself is at fault. *hot*
    are parts that run hot, *errors* bit error ratios behind the FEC of the cables of RNICs, *symbols* behind retries.
    *replaced* are parts with
    another serial number than they were delivered with, *outdated* RNICs with an older firmware: neither is slow.
    """

    factors: dict[str, float] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    host_kind: str | None = None
    hot: set[str] = field(default_factory=set)
    errors: dict[str, float] = field(default_factory=dict)
    symbols: dict[str, float] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    outdated: set[str] = field(default_factory=set)

    @property
    def stuck(self) -> set[str]:
        """Parts, and ways of parts, through which nothing passes."""
        return {name for name in self.troubles if "->" not in name}

    def add(self, component: str, kind: str, *, factor: float) -> None:
        """Note one fault; of several slow ones on the same component the slowest counts."""
        if kind == "slow":
            self.factors[component] = min(factor, self.factors.get(component, factor))
        elif kind == "hot":
            self.hot.add(component)
        elif kind == "replaced":
            self.replaced.add(component)
        elif kind == "outdated":
            self.outdated.add(component)
        elif kind == "symbol_errors":
            self.symbols[component] = max(factor, self.symbols.get(component, 0.0))
        elif kind == "bit_errors":
            self.errors[component] = max(factor, self.errors.get(component, 0.0))
        elif kind not in WHIMS:  # those are felt by each transfer by itself
            self.troubles[component] = kind


def faults_by_host(topology: Topology, faults: Iterable[Fault]) -> dict[str, HostFaults]:
    """Host name to what is wrong with it; raises ValueError for a component or kind that the rack cannot have."""
    found: dict[str, HostFaults] = {}
    for fault in faults:
        if fault.kind in ("slow", "bit_errors", "symbol_errors", *WHIMS) and not 0.0 < fault.factor <= 1.0:
            raise ValueError(f"{fault.component}: factor {fault.factor} is not above 0 and at most 1")
        if is_above_leaves(fault, topology):
            _require(fault, "switch or cable above the leaves")
            continue  # no host sees it: fabric.sim.network does
        if fault.component in topology.switches:
            _add_switch(found, topology, fault)
            continue
        name, _, part = fault.component.partition("/")
        host = topology.hosts.get(name)
        if host is None:
            raise ValueError(f"{fault.component}: there is no such host or switch")
        _require(fault, _what(host.platform, part, fault))
        held = found.setdefault(name, HostFaults())
        if part.endswith(PORT):
            held.add(f"{part.removesuffix(PORT)}:leaf", fault.kind, factor=fault.factor)
        elif part or fault.kind == "slow":
            held.add(part, fault.kind, factor=fault.factor)
        else:
            held.host_kind = fault.kind
    return found


def _add_switch(found: dict[str, HostFaults], topology: Topology, fault: Fault) -> None:
    """A leaf's fault is seen by every RNIC on it."""
    _require(fault, "leaf")
    for host in topology.hosts.values():
        for device in _devices_on(host, fault.component):
            held = found.setdefault(host.name, HostFaults())
            if fault.kind == "slow":
                held.add(f"{device}:leaf", "slow", factor=fault.factor)
            else:
                held.add(device, "hanging" if fault.kind == "hanging" else "broken", factor=1.0)


def _devices_on(host: Host, leaf: str) -> list[str]:
    return [
        rnic.device for rnic in host.platform.rnics if rnic.rail < len(host.leaves) and host.leaves[rnic.rail] == leaf
    ]


def _what(platform: Platform, part: str, fault: Fault) -> str:
    """Which row of _KINDS the component belongs to."""
    if not part:
        return "host"
    if part in platform.rnic_by_device:
        return "rnic"
    if part.endswith(PORT) and part.removesuffix(PORT) in platform.rnic_by_device:
        return "cable of an RNIC"
    if part in platform.gpu_by_name:
        return "gpu"
    if part in _other_parts(platform):
        return "part"
    raise ValueError(f"{fault.component}: there is no such component")


def _other_parts(platform: Platform) -> set[str]:
    numas = [f"numa{number}" for number in range(platform.numa_nodes)]
    parts = {*numas, *(switch.name for switch in platform.pcie_switches)}
    parts.update(f"{gpu.name}:nvlink" for gpu in platform.gpus)
    ends = (*platform.endpoints, *(f"{numa}-gpus" for numa in numas))
    parts.update(f"{rnic.device}->{end}" for rnic in platform.rnics for end in ends)
    return parts


def _require(fault: Fault, what: str) -> None:
    if fault.kind not in _KINDS[what]:
        raise ValueError(f"{fault.component}: a {what} cannot be {fault.kind!r}; it can be {', '.join(_KINDS[what])}")
