"""From what a phase asks for to the changes that will be made, one for each link, host or fabric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from fabric.changes.ports import parts
from fabric.model.change import (
    AdaptiveRoutingSpec,
    BerSpec,
    Change,
    ChangeSettings,
    ChangeSpec,
    LinkDownSpec,
    ParamValue,
    PortFlapSpec,
    ShieldSpec,
)
from fabric.model.scenario import Phase
from fabric.model.topology import Topology

FABRIC = "fabric"
"""The component that a fabric-wide change is said to touch."""


def expand_changes(
    phase: Phase, topology: Topology, settings: ChangeSettings, hosts: Sequence[str]
) -> tuple[Change, ...]:
    """
    The changes of a phase, in the order written; the same in every run.

    *hosts* are those of the scenario: the ones whose RNICs a change of scope ``host`` touches, and the ones that a
    fabric-wide change is known to touch. Scope ``job`` makes no change.
    """
    names: set[str] = set()
    found = []
    for spec in phase.changes:
        for kind, component, scope, params in _wanted(spec, topology, settings, hosts):
            name = change_id = f"{phase.name}/{kind}.{component}"
            number = 1
            while change_id in names:
                number += 1
                change_id = f"{name}.{number}"
            names.add(change_id)
            switches, touched = _touched(component, topology, hosts)
            is_fault = isinstance(spec, BerSpec | LinkDownSpec | PortFlapSpec)
            found.append(
                Change(change_id, kind, phase.name, component, scope, spec.when, params, switches, touched, is_fault)
            )
    return tuple(found)


_Wanted = tuple[str, str, str, Mapping[str, ParamValue]]
"""Kind, component, scope, params."""


def _wanted(spec: ChangeSpec, topology: Topology, settings: ChangeSettings, hosts: Sequence[str]) -> Iterator[_Wanted]:
    if isinstance(spec, AdaptiveRoutingSpec | ShieldSpec):
        kind = "adaptive_routing" if isinstance(spec, AdaptiveRoutingSpec) else "shield"
        if spec.scope == "fabric":
            yield kind, FABRIC, "fabric", {"on": int(spec.on)}
        elif spec.scope == "host":
            for host in hosts:
                yield kind, host, "host", {"on": int(spec.on)}
        return
    for link in spec.link_names:
        if isinstance(spec, BerSpec):
            yield "ber", link, "port", _ber_params(spec)
        elif isinstance(spec, LinkDownSpec):
            yield "link_down", link, "port", {"by": spec.by or _usual(link, topology, settings)}
        else:
            yield "port_flap", link, "port", _flap_params(spec, link, topology, settings)


def _ber_params(spec: BerSpec) -> dict[str, ParamValue]:
    return {
        "errors": spec.errors,
        "mantissa": spec.mantissa,
        "exponent": spec.exponent,
        "direction": spec.direction,
    }


def _usual(link: str, topology: Topology, settings: ChangeSettings) -> str:
    """What closes a port where the scenario does not say: ``ibportstate`` knows nothing of Ethernet, mlxlink does."""
    host = topology.hosts.get(link.partition("/")[0])
    ethernet = host is not None and host.platform.link_layer == "ethernet"
    return "mlxlink" if ethernet and settings.port_state == "ibportstate" else settings.port_state


def _flap_params(spec: PortFlapSpec, link: str, topology: Topology, settings: ChangeSettings) -> dict[str, ParamValue]:
    """``jitter_<n>_s``: by how much the n-th period is longer, drawn from the seed and the link's name."""
    params: dict[str, ParamValue] = {
        "by": spec.by or _usual(link, topology, settings),
        "down_s": spec.down_s,
        "count": spec.count,
        "period_s": spec.period_s,
    }
    if spec.jitter_s > 0:
        for number in range(spec.count - 1):
            params[f"jitter_{number}_s"] = round(spec.jitter_s * _drawn(f"{spec.seed}:{link}:{number}"), 3)
    return params


def _drawn(text: str) -> float:
    """Between -1 and 1, the same for the same text on every machine: the first 64 bits of its SHA-256."""
    return int.from_bytes(sha256(text.encode()).digest()[:8]) / 2**63 - 1.0


def _touched(component: str, topology: Topology, hosts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The switches and hosts at the ends of a cable; all hosts for the whole fabric."""
    if component == FABRIC:
        return (), tuple(hosts)
    if "--" in component and "/" not in component:
        one, other, _ = parts(component)
        return (one, other), ()
    name, _, device = component.partition("/")
    host = topology.hosts.get(name)
    if host is None:
        return (), ()
    rnic = host.platform.rnic_by_device.get(device)
    leaf = host.leaves[rnic.rail : rnic.rail + 1] if rnic is not None else ()
    return tuple(leaf), (name,)
