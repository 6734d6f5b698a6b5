"""Faults that have come over a running rack and will leave it: what they do to what runs, and to what starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fabric.model.inventory import Fault
from fabric.model.topology import Topology
from fabric.sim.faults import KINDS, PORT, HostFaults, faults_by_host, is_above_leaves, require_passing
from fabric.sim.hashing import between, text_hash, uniform, word
from fabric.sim.hosts.heat import SWING_C, Swing
from fabric.sim.hosts.hosts import Hosts
from fabric.sim.hosts.site import Site
from fabric.sim.hosts.temperature import warm
from fabric.sim.hosts.timeline import Timeline
from fabric.sim.phy.lines import UNWORN, Wear
from fabric.sim.phy.marks import ends_named
from fabric.sim.phy.ports import Ports

ONE_IN = 50
ERRS = (0.5, 0.75)
"""In this part of its tests a bad host of a real cluster was slow (11 of 15, 4 of 8)."""

FADES_S = 86400.0
LEAST = 0.05  # a link that has faded for long


@dataclass(frozen=True, slots=True)
class _Whim:
    fault: Fault
    since_s: float

    def left(self, bits: int, at_s: float) -> float:
        """The share of its bandwidth that a transfer has which begins now."""
        lost, lasted_s = 1.0 - self.fault.factor, at_s - self.since_s
        if self.fault.kind == "fading":
            return max(LEAST, 1.0 - lost * lasted_s / FADES_S)
        if self.fault.kind == "heat_sick":
            return 1.0 - lost * Swing(self.since_s).at(at_s) / SWING_C
        name = text_hash(self.fault.component)
        chance = word(bits ^ name, 0)
        comes = chance % ONE_IN == 0 if self.fault.kind == "dipping" else uniform(chance) < between(*ERRS, name)
        return self.fault.factor if comes else 1.0


class Whims:
    """Those of a whole rack, by component."""

    def __init__(self) -> None:
        self._here: dict[str, _Whim] = {}

    def set(self, site: Site, fault: Fault, at_s: float, *, comes: bool) -> None:
        """From now on a part of *site* has this whim, or has it no more."""
        device = fault.component.partition("/")[2].removesuffix(PORT)
        if comes:
            self._here[fault.component] = _Whim(fault, at_s)
        else:
            self._here.pop(fault.component, None)
        if fault.kind == "heat_sick":
            site.swings.pop(device, None)
            if comes:
                site.swings[device] = Swing(at_s)

    def left(self, ends: Iterable[tuple[str, str]], bits: int, at_s: float, *, inside: bool = False) -> float:
        """What the worst of these RNICs (host, device), and of their hosts, leaves; *inside* no cable is crossed."""
        if not self._here:
            return 1.0
        least = 1.0
        for host, device in ends:
            parts = (host, f"{host}/{device}", *(() if inside else (f"{host}/{device}{PORT}",)))
            for part in parts:
                whim = self._here.get(part)
                if whim is not None:
                    least = min(least, whim.left(bits, at_s))
        return least


HOT_RAW_BER = 1.4e-3
"""What a hot module adds before the FEC: link-level retry then costs a tenth of the bandwidth; choice."""

THROTTLED = 0.8
"""Of its bandwidth, and of its clock, a GPU keeps when it runs hot; choice."""

_SICK = ("broken", "absent")


class Passing:
    """The passing faults of a rack, one a component, beside those that it always had (*given*)."""

    def __init__(self, hosts: Hosts, ports: Ports, timeline: Timeline, whims: Whims, *, given: Iterable[Fault]) -> None:
        self._hosts, self._ports, self._timeline, self._whims = hosts, ports, timeline, whims
        self._given = tuple(given)
        self._now: dict[str, Fault] = {}

    @property
    def topology(self) -> Topology:
        """Where they come over."""
        return self._hosts.topology

    def set(self, component: str, fault: Fault | None, at_s: float) -> None:
        """
        From now on a component has this fault beside those it always had; None: it is over.

        ValueError for what the rack cannot have. Slow paths (``mlx5_0->gpu4``) are felt by what starts after it.
        """
        if fault is not None:
            if fault.component != component:
                raise ValueError(f"{component} is not {fault.component}")
            require_passing(fault, self.topology)
        one = fault or self._now.get(component)
        self._now.pop(component, None)
        if fault is not None:
            self._now[component] = fault
        if one is None:
            return
        name = component.partition("/")[0]
        if KINDS[one.kind].each:
            self._whims.set(self._hosts.site(name), one, at_s, comes=fault is not None)
        elif is_above_leaves(one, self.topology):
            self._turn_cables(component, fault, at_s)
        elif name in self.topology.hosts:
            self._turn(name, at_s)
        else:
            for host in self.topology.hosts.values():
                if component in host.leaves:
                    self._turn(host.name, at_s)

    def _turn_cables(self, component: str, fault: Fault | None, at_s: float) -> None:
        """Cables between switches live and die with their ports; who routes around them sees those."""
        kind = None if fault is None else fault.kind
        wear = UNWORN
        if fault is not None and kind in ("bit_errors", "symbol_errors"):
            wear = Wear(0.0, fault.factor) if kind == "bit_errors" else Wear(0.0, 0.0, fault.factor)
        broken = kind == "broken"
        for end in ends_named(self._ports.cabling, component):
            self._ports.befall(end, at_s, broken=broken, wear=wear)

    def _turn(self, name: str, at_s: float) -> None:
        """Work out a host anew, and tell all who care."""
        hosts = self._hosts
        host = self.topology.hosts[name]
        places = {name, *host.leaves}
        here = [one for one in self._now.values() if one.component.partition("/")[0] in places]
        given = [one for one in self._given if one.component.partition("/")[0] in places]
        before, kind_before = hosts.faults_of(name), hosts.kind(name)
        sick_before = self._sick(name, before)
        after = faults_by_host(self.topology, [*given, *(one for one in here if not _bends(one))]).get(name)
        hosts.now_has(name, after)
        bent = [*(one for one in here if _bends(one)), *_throttled(name, after)]
        site = hosts.site(name)
        site.turn(after, faults_by_host(self.topology, bent).get(name))
        warm(site, frozenset() if after is None else after.felt["hot"].keys(), at_s)
        for device, state in self._sick(name, after).items():
            if state != sick_before[device]:
                self._ports.befall(self._ports.cabling.adapter_end(name, device), at_s, broken=state[0], wear=state[1])
        gpus = {gpu.name for gpu in host.platform.gpus}
        lost = {part for part in gpus if site.trouble_of(part) in _SICK or site.trouble_of(f"{part}:nvlink") in _SICK}
        if lost:
            _lose_gpus(site, lost, at_s)
        if hosts.kind(name) not in (kind_before, None):
            self._timeline.silence(site, at_s)
        self._timeline.sharing.dirty[site] = None

    def _sick(self, name: str, faults: HostFaults | None) -> dict[str, tuple[bool, Wear]]:
        """For every RNIC whether its port is dead, and how worn its cable is."""
        rnics = self.topology.hosts[name].platform.rnics
        if faults is None:
            return {rnic.device: (False, UNWORN) for rnic in rnics}
        dead = faults.host_kind in _SICK
        return {
            rnic.device: (dead or faults.troubles.get(rnic.device) in _SICK, _wear(faults, rnic.device))
            for rnic in rnics
        }


def _lose_gpus(site: Site, gpus: Collection[str], at_s: float) -> None:
    """Programs that use one of these GPUs end as their tool ends then."""
    gone = {place for name, place in site.layout.index.items() if name.partition(":")[0] in gpus}
    for flow in site.running:
        if flow.live and any(where is site and gone.intersection(has) for where, has, _ in flow.shares):
            flow.lost_gpu(site, at_s)


def _bends(fault: Fault) -> bool:
    """Whether it takes from capacities, which what runs already feels; a slow path has none of its own."""
    return fault.kind == "slow" and "->" not in fault.component


def _throttled(host: str, faults: HostFaults | None) -> list[Fault]:
    hot = () if faults is None else sorted(part for part in faults.felt["hot"] if part.startswith("gpu"))
    return [Fault(f"{host}/{part}{way}", "slow", THROTTLED) for part in hot for way in ("", ":nvlink")]


def _wear(faults: HostFaults, device: str) -> Wear:
    raw = HOT_RAW_BER if device in faults.felt["hot"] else 0.0
    effective, symbol = (faults.felt[kind].get(device, 0.0) for kind in ("bit_errors", "symbol_errors"))
    return Wear(raw, effective, symbol) if raw or effective or symbol else UNWORN
