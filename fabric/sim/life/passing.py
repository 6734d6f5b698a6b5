"""Faults that have come over a running rack and will leave it: what they do to what runs, and to what starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fabric.model.inventory import Fault
from fabric.model.topology import Topology
from fabric.sim.cabling import Cabling, End
from fabric.sim.faults import HostFaults, faults_by_host
from fabric.sim.injection import UNWORN, Wear
from fabric.sim.life.effects import fall_silent, lose_gpus
from fabric.sim.life.temperature import warm
from fabric.sim.life.whims import WHIMS
from fabric.sim.uplink_faults import cable_ends, is_above_leaves

if TYPE_CHECKING:
    from fabric.sim.rack import Rack

HOT_RAW_BER = 1.4e-3
"""What a hot module adds before the FEC: link-level retry then costs a tenth of the bandwidth; choice."""

THROTTLED = 0.8
"""Of its bandwidth a GPU keeps when it runs hot; choice."""

_SICK = ("broken", "absent")


class Passing:
    """The passing faults of a rack, one a component."""

    def __init__(self, rack: Rack, given: Iterable[Fault]) -> None:
        self._rack = rack
        self._given = tuple(given)
        self._now: dict[str, Fault] = {}

    def set(self, component: str, fault: Fault | None, at_s: float) -> None:
        """
        From now on a component has this fault beside those it always had; None: it is over.

        ValueError for what the rack cannot have. Slow paths (``mlx5_0->gpu4``) are felt by what starts after it.
        """
        topology = self._rack.topology
        if fault is not None:
            if fault.component != component:
                raise ValueError(f"{component} is not {fault.component}")
            require_passing(fault, topology)
        old = self._now.pop(component, None)
        if fault is not None:
            self._now[component] = fault
        one = fault or old
        if one is None:
            return
        if one.kind in WHIMS:
            site = self._rack.site(component.partition("/")[0])
            self._rack.whims.set(site, one, at_s, comes=fault is not None)
            return
        if is_above_leaves(one, topology):
            self._turn_cables(component, fault, at_s)
            return
        name = component.partition("/")[0]
        hosts = (name,) if name in topology.hosts else [
            host.name for host in topology.hosts.values() if component in host.leaves
        ]  # fmt: skip
        for host in hosts:
            self._turn(host, at_s)

    def _turn_cables(self, component: str, fault: Fault | None, at_s: float) -> None:
        """Cables between switches live and die with their ports; who routes around them sees those."""
        ports = self._rack.ports
        wear = Wear(0.0, fault.factor) if fault is not None and fault.kind == "bit_errors" else UNWORN
        broken = fault is not None and fault.kind == "broken"
        for end in _ends(ports.cabling, component):
            ports.befall(end, at_s, broken=broken, wear=wear)

    def _turn(self, name: str, at_s: float) -> None:
        """Work out a host anew, and tell all who care."""
        rack = self._rack
        host = rack.topology.hosts[name]
        places = {name, *host.leaves}
        here = [one for one in self._now.values() if one.component.partition("/")[0] in places]
        given = [one for one in self._given if one.component.partition("/")[0] in places]
        before, kind_before = rack.faults_of(name), rack.host_kind(name)
        sick_before = self._sick(name, before)
        after = faults_by_host(rack.topology, [*given, *(one for one in here if not _bends(one))]).get(name)
        rack.now_has(name, after)
        slow = faults_by_host(rack.topology, [*(one for one in here if _bends(one)), *_throttled(name, after)]).get(
            name
        )
        site = rack.site(name)
        site.turn(after, slow)
        warm(site, frozenset() if after is None else after.hot, at_s)
        for device, state in self._sick(name, after).items():
            if state != sick_before[device]:
                rack.ports.befall(rack.ports.cabling.adapter_end(name, device), at_s, broken=state[0], wear=state[1])
        gpus = {gpu.name for gpu in host.platform.gpus}
        lost = {part for part in gpus if site.trouble_of(part) in _SICK or site.trouble_of(f"{part}:nvlink") in _SICK}
        if lost:
            lose_gpus(rack, site, lost, at_s)
        if rack.host_kind(name) not in (kind_before, None):
            fall_silent(rack, site, at_s)
        rack.timeline.sharing.dirty[site] = None

    def _sick(self, name: str, faults: HostFaults | None) -> dict[str, tuple[bool, Wear]]:
        """For every RNIC whether its port is dead, and how worn its cable is."""
        dead = faults is not None and faults.host_kind in _SICK
        rnics = self._rack.topology.hosts[name].platform.rnics
        if faults is None:
            return {rnic.device: (False, UNWORN) for rnic in rnics}
        return {
            rnic.device: (dead or faults.troubles.get(rnic.device) in _SICK, _wear(faults, rnic.device))
            for rnic in rnics
        }


def require_passing(fault: Fault, topology: Topology) -> None:
    """Raise ValueError for what cannot come over a running rack."""
    if not is_above_leaves(fault, topology):
        faults_by_host(topology, (fault,))
    elif fault.kind not in ("broken", "bit_errors") or not 0.0 < fault.factor <= 1.0:
        raise ValueError(f"{fault.component}: what is above the leaves can be broken for a while, not {fault.kind}")


def _ends(cabling: Cabling, component: str) -> list[End]:
    """One port of every cable that a switch or ``leaf--spine`` names."""
    node = cabling.nodes.get(component)
    if node is not None:
        return [end for end in cabling.ends(node) if end in cabling.peers]
    ends = cable_ends(component, cabling.nodes)
    if ends is None or ends.one not in cabling.nodes:
        return []
    return [end for end in cabling.ends(cabling.nodes[ends.one]) if cabling.peers.get(end, ("", 0))[0] == ends.other]


def _bends(fault: Fault) -> bool:
    """Whether it takes from capacities, which what runs already feels; a slow path has none of its own."""
    return fault.kind == "slow" and "->" not in fault.component


def _throttled(host: str, faults: HostFaults | None) -> list[Fault]:
    parts = () if faults is None else sorted(faults.hot)
    found = []
    for part in parts:
        if part.startswith("gpu"):
            found += [Fault(f"{host}/{part}", "slow", THROTTLED), Fault(f"{host}/{part}:nvlink", "slow", THROTTLED)]
    return found


def _wear(faults: HostFaults, device: str) -> Wear:
    raw = HOT_RAW_BER if device in faults.hot else 0.0
    effective = faults.errors.get(device, 0.0)
    symbol = faults.symbols.get(device, 0.0)
    return Wear(raw, effective, symbol) if raw or effective or symbol else UNWORN
