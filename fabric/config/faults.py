"""Faults of the simulated rack: read from the file or from ``--fault``, and checked against what is there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic_core import PydanticCustomError

from fabric.config.problems import KeyPath, Problems
from fabric.model.fields.scalars import refusal
from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.inventory import COMPONENT, FACTOR, FAULT_KIND, PARTIAL, WHOLE, Fault
from fabric.model.topology import Host, Platform, Topology
from fabric.sim.faults import KINDS, PORT, WAYS, CableEnds, cable_ends, faults_by_host, is_above_leaves, require_passing

if TYPE_CHECKING:
    from fabric.sim.net.named_clos import NamedClos

_ABOVE = tuple(name for name, kind in KINDS.items() if "above" in kind.parts.split())

_TEXT = re.compile(r"(?P<component>.{1,256}):(?P<kind>[^:=]+)(?:=(?P<factor>[^:=]+))?", re.DOTALL)


def factor_problem(fault: Fault) -> tuple[KeyPath, str] | None:
    """What is wrong with its factor, and where: kinds that leave a part of the bandwidth have one, and no other."""
    if fault.kind in PARTIAL and fault.factor == WHOLE:
        return (), f"'factor' is required with kind {fault.kind}: the fraction of its bandwidth that is left"
    if fault.kind not in PARTIAL and fault.factor != WHOLE:
        return ("factor",), f"'factor' goes with kind slow, not with {fault.kind}"
    return None


def fault_from_text(text: str, problems: Problems) -> Fault | None:
    """``gpu003/mlx5_2:slow=0.5`` as given with ``--fault``."""
    try:
        found = _fault(text)
    except PydanticCustomError as exc:
        problems.at_line(0, exc.message())
        return None
    wrong = factor_problem(found)
    if wrong:
        problems.at_line(0, wrong[1])
    return found


def _fault(text: str) -> Fault:
    """What the file would say; PydanticCustomError for the first thing that is wrong."""
    match = _TEXT.fullmatch(text)
    if not match:
        raise refusal("COMPONENT:KIND or COMPONENT:slow=FACTOR, such as gpu003/mlx5_2:slow=0.5", text)
    component, kind, factor = match.groups()
    return Fault(COMPONENT.parse(component), FAULT_KIND.parse(kind), WHOLE if factor is None else FACTOR.parse(factor))


def component_problem(component: str, kind: str, topology: Topology) -> str | None:
    """Why a component does not exist or cannot have that kind of fault, or None when all is well."""
    if kind in ("replaced", "outdated", "misset"):
        return _other_part_problem(component, kind, topology)
    if kind in KINDS and KINDS[kind].comes:
        return component_problem(component, "slow", topology) or passing_problem(component, kind, topology)
    return _fault_problem(component, kind, topology) or _kind_problem(component, kind, topology)


def _fault_problem(component: str, kind: str, topology: Topology) -> str | None:
    """The same of a fault that is there all the time."""
    name, slash, part = component.partition("/")
    host = topology.hosts.get(name)
    if kind == "garbage" and (slash or host is None):
        return f"only a host can print garbage, got {quoted(component)}"
    if component.endswith(PORT) and "cable" not in KINDS[kind].parts.split():
        return f"a cable cannot be {kind}: make its RNIC {kind} instead, got {quoted(component)}"
    if kind == "absent" and component.endswith(":nvlink"):
        return f"NVLink is part of its GPU: make it slow or broken, or the GPU absent, got {quoted(component)}"
    if not slash:
        if is_above_leaves(Fault(component, kind), topology):
            return _uplink_problem(component, kind, topology)
        if host or name in topology.switches:
            return None
        return f"no host or switch {quoted(name)}{nearest(name, [*topology.hosts, *topology.switches])}"
    if host is None:
        return f"no host {quoted(name)}{nearest(name, topology.hosts)}"
    parts = _parts(host.platform)
    device, arrow, end = part.partition("->")
    if not arrow:
        return None if part in parts else f"{quoted(part)} is not a part of {name}{nearest(part, parts)}"
    return _path_problem(host, device, end)


def _kind_problem(component: str, kind: str, topology: Topology) -> str | None:
    """Why what is there cannot have that kind of fault, and which it can have."""
    try:
        faults_by_host(topology, (Fault(component, kind),))
    except ValueError as exc:
        return f"{quoted(component)}: {str(exc).partition(': ')[2]}"
    return None


def _other_part_problem(component: str, kind: str, topology: Topology) -> str | None:
    """What has a serial number can be replaced, what has firmware and settings of its own can be outdated or misset."""
    name, _, part = component.partition("/")
    host = topology.hosts.get(name)
    if host is None:
        return f"no host {quoted(name)}{nearest(name, topology.hosts)}"
    devices = tuple(host.platform.rnic_by_device)
    more = (*(f"{device}{PORT}" for device in devices), *host.platform.gpu_by_name)
    those = devices if kind in ("outdated", "misset") else (*devices, *more)
    return None if part in those else f"{quoted(part)} of {name} cannot be {kind}{nearest(part, those)}"


def _parts(platform: Platform) -> tuple[str, ...]:
    """Every part of a host that can be bad by itself."""
    gpus = tuple(platform.gpu_by_name)
    nvlinks = tuple(f"{gpu}:nvlink" for gpu in gpus)
    numas = tuple(f"numa{number}" for number in range(platform.numa_nodes))
    ports = tuple(f"{device}{way}" for device in platform.rnic_by_device for way in (PORT, *WAYS.values()))
    return (
        *platform.rnic_by_device,
        *ports,
        *gpus,
        *nvlinks,
        *numas,
        *(switch.name for switch in platform.pcie_switches),
    )


def _path_problem(host: Host, device: str, end: str) -> str | None:
    """Why ``mlx5_2->numa1-gpus`` is no path of the host."""
    platform = host.platform
    if device not in platform.rnic_by_device:
        return f"{quoted(device)} is not an RNIC of {host.name}{nearest(device, platform.rnic_by_device)}"
    groups = tuple(f"numa{number}-gpus" for number in sorted({gpu.numa for gpu in platform.gpus}))
    ends = (*platform.endpoints, *groups)
    return None if end in ends else f"{quoted(end)} is no end of a path in {host.name}{nearest(end, ends)}"


def passing_problem(component: str, kind: str, topology: Topology) -> str | None:
    """Why a component that is there cannot have a fault for a while; None when it can."""
    try:
        require_passing(Fault(component, kind), topology)
    except ValueError as exc:
        return f"{quoted(component)}: {str(exc).partition(': ')[2]}"
    return None


def _uplink_problem(component: str, kind: str, topology: Topology) -> str | None:
    """Why a switch above the leaves, or a cable between switches, cannot have that fault; None when all is well."""
    ends = None if component in topology.switches else cable_ends(component, topology.switches)
    if ends is not None:
        text = _ends_problem(ends, topology)
        if text is not None:
            return f"{quoted(component)}: {text}"
    if kind not in _ABOVE:
        what = "a cable between switches" if ends else f"a {topology.switches[component].tier} switch"
        return f"{quoted(component)}: {what} can be {one_of(_ABOVE)}, not {kind}"
    if kind == "swapped" and (ends is None or not ends.both):
        return f"{quoted(component)}: only a cable is swapped: write su0-leaf3--spine02, or gpu003/mlx5_2:port"
    if ends is not None and not ends.both and kind == "broken":
        return f"{quoted(component)}: a cable breaks in both directions: write {ends.one}--{ends.other}"
    irregular = network_problem(topology)
    return None if irregular is None else f"{quoted(component)} cannot be simulated: {irregular}"


def regular_net(topology: Topology) -> NamedClos:
    """The network above the leaves; ValueError where it is none that can be simulated."""
    from fabric.sim.net.named_clos import net_from_topology  # numpy: only where it is needed

    layers = sorted({host.platform.link_layer for host in topology.hosts.values()})
    if len(layers) > 1:
        raise ValueError(f"hosts have different link layers: {', '.join(layers)}")
    return net_from_topology(topology)


def network_problem(topology: Topology) -> str | None:
    """Why the inventory has no network above its leaves that can be simulated, or None when it has one."""
    try:
        regular_net(topology)
    except ValueError as exc:
        return f"the switches are no regular Clos network: {exc} (docs/simulate.md says what can be simulated)"
    return None


def _ends_problem(ends: CableEnds, topology: Topology) -> str | None:
    for name in (ends.one, ends.other):
        if name not in topology.switches:
            return f"no switch {quoted(name)}{nearest(name, topology.switches)}"
    joined = any(
        (ends.one in uplinks.lower and ends.other in uplinks.upper)
        or (ends.other in uplinks.lower and ends.one in uplinks.upper)
        for uplinks in topology.uplinks
    )
    return None if joined else f"no cable between {ends.one} and {ends.other}"
