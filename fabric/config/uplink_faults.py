"""Faults above the leaves of the simulated network: checked against the switches and cables that are there."""

from __future__ import annotations

from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.topology import Topology
from fabric.sim.faults import KINDS, CableEnds, cable_ends

_ABOVE = tuple(name for name, kind in KINDS.items() if "above" in kind.parts.split())


def uplink_problem(component: str, kind: str, topology: Topology) -> str | None:
    """Why a switch above the leaves, or a cable between switches, cannot have that fault; None when all is well."""
    ends = None if component in topology.switches else cable_ends(component, topology.switches)
    if ends is not None:
        text = _ends_problem(ends, topology)
        if text is not None:
            return f"{quoted(component)}: {text}"
    if kind not in _ABOVE:
        what = "a cable between switches" if ends else f"a {topology.switches[component].tier} switch"
        return f"{quoted(component)}: {what} can be {one_of(_ABOVE)}, not {kind}"
    if ends is not None and not ends.both and kind == "broken":
        return f"{quoted(component)}: a cable breaks in both directions: write {ends.one}--{ends.other}"
    irregular = network_problem(topology)
    return None if irregular is None else f"{quoted(component)} cannot be simulated: {irregular}"


def network_problem(topology: Topology) -> str | None:
    """Why the inventory has no network above its leaves that can be simulated, or None when it has one."""
    from fabric.sim.net.named_clos import net_from_topology  # numpy: only where it is needed

    layers = sorted({host.platform.link_layer for host in topology.hosts.values()})
    if len(layers) > 1:
        return f"hosts have different link layers: {', '.join(layers)}"
    try:
        net_from_topology(topology)
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
