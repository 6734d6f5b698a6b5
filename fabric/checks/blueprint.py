"""The cables that were found against a plan of every one of them, port by port."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from fabric.checks.kind import problem, unknown
from fabric.model.finding import Finding
from fabric.model.found import FoundCable, FoundEnd, FoundFabric
from fabric.model.topology import Topology

_WHY = "what is found bad at one end of a cable is looked for at the other end that the plan names"
_MOST = 6
"""So many of a kind are named in one finding (a choice)."""


@dataclass(frozen=True)
class Planned:
    """
    A plan of cables in the words of an inventory: *ends* leads from each end of a cable to its other one.

    The end of a host is its RNIC (``gpu001/mlx5_0``, without a port). *foreign*: cables of which one end is known here
    and the other is not; *unlike*: switches whose ports have other names in the plan than here. *twice*: RNICs with two
    cables in the plan, once by device and once by interface; none of them is believed.
    """

    ends: Mapping[FoundEnd, FoundEnd]
    foreign: tuple[FoundCable, ...]
    unlike: tuple[str, ...]
    twice: tuple[str, ...] = ()

    @property
    def rnics(self) -> Mapping[str, FoundEnd]:
        """Where each RNIC belongs."""
        return {end.node: other for end, other in self.ends.items() if _is_rnic(end)}

    @property
    def has_uplinks(self) -> bool:
        """Whether it says which switch is plugged into which."""
        return any(not _is_rnic(end) and not _is_rnic(other) for end, other in self.ends.items())


def planned(cables: Sequence[FoundCable], found: FoundFabric, topology: Topology, hosts: Sequence[str]) -> Planned:
    """
    What of a plan can be compared with what was found on *hosts* and between switches.

    An RNIC goes by its RDMA device or by its network interface. Where no port of a switch is called as one that was
    found, its labels are others (``1/1/1`` for port 1), and nothing is guessed of them.
    """
    told = {name: found.hosts[name] for name in hosts if name in found.hosts and found.hosts[name].rnics}
    rnics = {
        (host.name, name): FoundEnd(f"{host.name}/{rnic.device}", "")
        for host in told.values()
        for rnic in host.rnics
        for name in (rnic.device, rnic.netdev)
    }
    switches = {*topology.switches, *found.switches}

    def known(end: FoundEnd) -> FoundEnd | None:
        return rnics.get((end.node, end.port)) or (end if end.node in switches else None)

    ports, seen = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for end in (end for cable in cables for end in (cable.a, cable.b)):
        ports[end.node].add(end.port)
    for end in (end for cable in found.cables for end in (cable.a, cable.b)):
        seen[end.node].add(end.port)
    unlike = {name for name in switches & ports.keys() & seen.keys() if seen[name].isdisjoint(ports[name])}
    ends: dict[FoundEnd, FoundEnd] = {}
    foreign: list[FoundCable] = []
    both = [(cable, known(cable.a), known(cable.b)) for cable in cables]
    often = Counter(end for _, *two in both for end in two if end is not None)
    for cable, a, b in both:
        if a is not None and b is not None and unlike.isdisjoint((a.node, b.node)):
            ends |= {a: b, b: a} if often[a] == often[b] == 1 else {}
        elif (a is None) != (b is None):
            other = (cable.a if a is None else cable.b).node
            # A host that was not asked, or told nothing, is no matter of the plan.
            foreign += [cable] if other in told or other not in topology.hosts else []
    twice = sorted(end.node for end, times in often.items() if times > 1)
    return Planned(ends, tuple(foreign), tuple(sorted(unlike)), tuple(twice))


def against_plan(plan: Planned, found: FoundFabric, topology: Topology) -> Iterator[Finding]:
    """
    Cables exchanged, moved, not planned and missing, both ends named with their ports; and what is not compared.

    Each cable that is not as planned is told once, two that are exchanged together.
    """
    nodes = {end.node for end in plan.ends}
    there: dict[FoundEnd, FoundEnd] = {}
    for cable in found.cables:
        a, b = (FoundEnd(end.node, "") if "/" in end.node else end for end in (cable.a, cable.b))
        there |= {a: b, b: a} if nodes & {a.node, b.node} else {}
    wrong = {end: other for end, other in there.items() if plan.ends.get(end) != other}
    yield from _exchanged(plan, wrong, topology)
    yield from _misplaced(plan, wrong, nodes, topology)
    listed = any(not _is_rnic(end) and not _is_rnic(other) for end, other in there.items())
    for a, b in plan.ends.items() if listed else ():
        dark = a not in there and b not in there and not _is_rnic(a) and not _is_rnic(b)
        if dark and (a.node, a.port) < (b.node, b.port):  # of an RNIC it is told by its host
            what = f"the cable from {a} to {b} is missing or down"
            yield problem(what, _WHY, "plug it, or mend cable and modules", *_about(a, b))
    yield from _not_compared(plan, listed=listed)


def _exchanged(plan: Planned, wrong: dict[FoundEnd, FoundEnd], topology: Topology) -> Iterator[Finding]:
    """Two cables whose ends are in each other's place; taken out of *wrong*."""
    for one, place in list(wrong.items()):
        home, other = plan.ends.get(one), plan.ends.get(place)
        if one not in wrong or home is None or other is None or wrong.get(other) != home:
            continue
        first, second = (_called(end, topology) for end in (one, other))
        what = f"the cables of {first} (in {place}) and {second} (in {home}) are exchanged"
        advice = f"swap them: {one} belongs in {home}, {other} in {place}"
        yield problem(what, _WHY, advice, *_about(one, other, home, place))
        for end in (one, other, home, place):
            del wrong[end]


def _misplaced(
    plan: Planned, wrong: Mapping[FoundEnd, FoundEnd], nodes: AbstractSet[str], topology: Topology
) -> Iterator[Finding]:
    """Every other cable that is not as planned, seen from the end that is planned, from its RNIC where it has one."""
    told: set[FoundEnd] = set()
    for one in sorted(wrong, key=lambda end: (end not in plan.ends, not _is_rnic(end))):
        place, home = wrong[one], plan.ends.get(one)
        if one in told or (home is None and not nodes >= {one.node, place.node}):
            continue
        told |= {one, place}
        if home is None:
            what, advice = f"the cable from {_called(one, topology)} to {place} is not planned", "remove it, or plan it"
        else:
            what = f"{_called(one, topology)} is in {_called(place, topology)}, and belongs in {home}"
            advice = f"move the cable of {one} to {home}"
        yield problem(what, _WHY, advice, *_about(one, place))


def _is_rnic(end: FoundEnd) -> bool:
    return "/" in end.node


def _called(end: FoundEnd, topology: Topology) -> str:
    """With the rack, where the inventory has it."""
    host = topology.hosts.get(end.node.partition("/")[0])
    return f"{end} (rack {host.rack})" if host is not None and host.rack else str(end)


def _about(*ends: FoundEnd) -> Iterator[str]:
    """Hosts and switches, each once."""
    return iter(dict.fromkeys(end.node.partition("/")[0] for end in ends))


def _not_compared(plan: Planned, *, listed: bool) -> Iterator[Finding]:
    """What no look here can say of the plan."""
    if not plan.ends and not plan.unlike and not plan.twice:
        yield unknown("no cable of the blueprint is between hosts and switches of the inventory", _WHY, "use its names")
    if plan.unlike:
        names = f"{', '.join(plan.unlike[:_MOST])}{', ...' if plan.unlike[_MOST:] else ''}"
        what = f"no port of {names} is called in the blueprint as here: its cables are compared with the inventory only"
        yield unknown(what, _WHY, "call ports there as iblinkinfo or LLDP does")
    for name in plan.twice:
        what = (
            f"{name} has two cables in the blueprint, one by its device and one by its interface: neither is compared"
        )
        yield unknown(what, _WHY, "take one of them out", name.partition("/")[0])
    if plan.has_uplinks and not listed:
        what = "nobody listed the cables between switches: those of the blueprint are not compared"
        yield unknown(what, _WHY, "InfiniBand: see fabric check; Ethernet: hosts hear their own cables only")
    if plan.foreign:
        each = [f"{one.a.node} {one.a.port} to {one.b.node} {one.b.port}" for one in plan.foreign]
        what = f"{len(each)} cables of the blueprint have one end that is not known here: {'; '.join(each[:_MOST])}"
        yield unknown(what, _WHY, "use the names of the inventory, its RNICs and its switches")
