"""What ports between switches do to their cables, by the links of the network above the leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fabric.model.inventory import Fault
from fabric.sim.cabling import Cabling, End
from fabric.sim.port_counters import Traffic
from fabric.sim.uplink_faults import CableEnds, cable_ends

if TYPE_CHECKING:
    from fabric.sim.named_clos import NamedClos
    from fabric.sim.network import Network
    from fabric.sim.port import Port
    from fabric.sim.subnet.link_health import PortEffects


def uplink_effects(cabling: Cabling, net: NamedClos, ports: Iterable[Port]) -> PortEffects:
    """Links that are down, and those whose errors leave less of them."""
    from fabric.sim.subnet.link_health import PortEffects  # numpy: only once there is a network

    down, factors = set(), {}
    for port in ports:
        if port.active and not port.errs:
            continue
        link = sending_link(cabling, net, port.end)
        if link is None:
            continue
        if not port.active:
            down.add(link)
        elif port.errs:
            factors[link] = port.quality().goodput_factor
    return PortEffects(frozenset(down), factors)


def broken_ends(cabling: Cabling, faults: Iterable[Fault]) -> frozenset[End]:
    """Both ends of every cable between switches that a fault says is broken, in both directions."""
    found: set[End] = set()
    for fault in faults:
        if fault.kind == "broken":
            ends = cable_ends(fault.component, cabling.nodes)
            found.update(end for end in cabling.peers if _names(cabling, fault.component, ends, end))
    return frozenset(found)


def _names(cabling: Cabling, component: str, ends: CableEnds | None, end: End) -> bool:
    one, other = end[0], cabling.peers[end][0]
    if cabling.nodes[one].host is not None or cabling.nodes[other].host is not None:
        return False
    if ends is None:
        return component in (one, other)
    return ends.both and {ends.one, ends.other} == {one, other}


def sending_link(cabling: Cabling, net: NamedClos, end: End) -> int | None:
    """The directed link that a port between switches sends on; None for any other port."""
    peer = cabling.peers.get(end)
    if peer is None or cabling.nodes[end[0]].host is not None or cabling.nodes[peer[0]].host is not None:
        return None
    # Parallel cables are numbered alike at both ends: plugged in one after the other.
    nth = sum(cabling.peers.get((end[0], number), ("", 0))[0] == peer[0] for number in range(1, end[1]))
    cables = net.cables(end[0], peer[0])
    return cables[nth][0] if nth < len(cables) else None


def uplink_traffic(cabling: Cabling, network: Network, ends: tuple[End, End], at_s: float) -> Traffic:
    """What a port between switches (the first of *ends*, then its partner) has sent and received."""
    out, into = (sending_link(cabling, network.net, end) for end in ends)
    if out is None or into is None:
        return Traffic()
    return Traffic(network.carried_gb(out, at_s), network.carried_gb(into, at_s))
