"""Faults of the simulated rack: read from the file or from ``--fault``, and checked against what is there."""

from __future__ import annotations

import re

from pydantic_core import PydanticCustomError

from fabric.config.inventory_file import COMPONENT, FACTOR, FAULT_KIND, PARTIAL, FaultEntry
from fabric.config.lively_faults import is_lively, passing_problem
from fabric.config.problems import KeyPath, Problems
from fabric.config.uplink_faults import uplink_problem
from fabric.model.fields.scalars import refusal
from fabric.model.fields.wording import nearest, quoted
from fabric.model.inventory import Fault
from fabric.model.topology import Host, Platform, Topology
from fabric.sim.faults import PORT, is_above_leaves

_TEXT = re.compile(r"(?P<component>.{1,256}):(?P<kind>[^:=]+)(?:=(?P<factor>[^:=]+))?", re.DOTALL)


def fault(entry: FaultEntry, path: KeyPath, problems: Problems) -> Fault:
    """The fault; a factor belongs to kinds that leave a part of the bandwidth, and to no other."""
    if entry.kind in PARTIAL and entry.factor is None:
        problems.add(path, f"'factor' is required with kind {entry.kind}: the fraction of its bandwidth that is left")
    if entry.kind not in PARTIAL and entry.factor is not None:
        problems.add((*path, "factor"), f"'factor' goes with kind slow, not with {entry.kind}")
    return Fault(entry.component, entry.kind, 1.0 if entry.factor is None else entry.factor)


def fault_from_text(text: str, problems: Problems) -> Fault | None:
    """``gpu003/mlx5_2:slow=0.5`` as given with ``--fault``."""
    try:
        return fault(_entry(text), (), problems)
    except PydanticCustomError as exc:
        problems.at_line(0, exc.message())
        return None


def _entry(text: str) -> FaultEntry:
    """What the file would say; PydanticCustomError for the first thing that is wrong."""
    match = _TEXT.fullmatch(text)
    if not match:
        raise refusal("COMPONENT:KIND or COMPONENT:slow=FACTOR, such as gpu003/mlx5_2:slow=0.5", text)
    factor = match["factor"]
    return FaultEntry.model_construct(
        component=COMPONENT.parse(match["component"]),
        kind=FAULT_KIND.parse(match["kind"]),
        factor=None if factor is None else FACTOR.parse(factor),
    )


def component_problem(component: str, kind: str, topology: Topology) -> str | None:
    """Why a component does not exist or cannot have that kind of fault, or None when all is well."""
    if kind in ("replaced", "outdated"):
        return _other_part_problem(component, kind, topology)
    if is_lively(kind):
        return component_problem(component, "slow", topology) or passing_problem(component, kind, topology)
    return _fault_problem(component, kind, topology)


def _fault_problem(component: str, kind: str, topology: Topology) -> str | None:
    """The same of a fault that is there all the time."""
    name, slash, part = component.partition("/")
    host = topology.hosts.get(name)
    if kind == "garbage" and (slash or host is None):
        return f"only a host can print garbage, got {quoted(component)}"
    if component.endswith(PORT) and kind != "slow":
        return f"a cable can be slow; make its RNIC {kind} instead, got {quoted(component)}"
    if kind == "absent" and component.endswith(":nvlink"):
        return f"NVLink is part of its GPU: make it slow or broken, or the GPU absent, got {quoted(component)}"
    if not slash:
        if is_above_leaves(Fault(component, kind), topology):
            return uplink_problem(component, kind, topology)
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


def _other_part_problem(component: str, kind: str, topology: Topology) -> str | None:
    """What has a serial number can be replaced, what has a firmware of its own can be outdated."""
    name, _, part = component.partition("/")
    host = topology.hosts.get(name)
    if host is None:
        return f"no host {quoted(name)}{nearest(name, topology.hosts)}"
    devices = tuple(host.platform.rnic_by_device)
    more = (*(f"{device}{PORT}" for device in devices), *host.platform.gpu_by_name)
    those = devices if kind == "outdated" else (*devices, *more)
    return None if part in those else f"{quoted(part)} of {name} cannot be {kind}{nearest(part, those)}"


def _parts(platform: Platform) -> tuple[str, ...]:
    """Every part of a host that can be bad by itself."""
    gpus = tuple(platform.gpu_by_name)
    nvlinks = tuple(f"{gpu}:nvlink" for gpu in gpus)
    numas = tuple(f"numa{number}" for number in range(platform.numa_nodes))
    ports = tuple(f"{device}{PORT}" for device in platform.rnic_by_device)
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
