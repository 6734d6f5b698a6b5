"""Which port of the rack is plugged into which, with GUIDs and LIDs, and what is wrong with a cable for ever."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from fabric.model.inventory import MISSET_KINDS, Fault
from fabric.model.part import Part
from fabric.model.topology import Topology
from fabric.sim.faults import PORT, cable_ends
from fabric.sim.hashing import text_hash
from fabric.sim.phy.quality import UNWORN, Wear

End = tuple[str, int]
"""A port: the node (``gpu001/mlx5_0`` or a switch) and the port's number on it."""

# Vendor prefixes of real devices (recorded): ConnectX adapters, Quantum switches.
_ADAPTER_GUID = 0xB8599F0300000000
_SWITCH_GUID = 0xE41D2D0300000000


@dataclass(frozen=True, slots=True)
class Node:
    """One RNIC or switch; *description* is what the tools print for it, *host* is None for a switch."""

    name: str
    description: str
    guid: int
    lid: int
    host: str | None
    device: str
    ethernet: bool


class Cabling:
    """
    All nodes and cables. Leaf ports count hosts in inventory order, then the links to other switches.

    Of *faults* it uses those that say which cables are exchanged.
    """

    def __init__(self, topology: Topology, faults: Iterable[Fault] = ()) -> None:
        self.nodes: dict[str, Node] = {}
        self.by_lid: dict[int, Node] = {}
        self.peers: dict[End, End] = {}
        self.rates_gbps: dict[End, float] = {}
        self.port_counts: dict[str, int] = {}
        for number, name in enumerate(topology.switches, 1):
            self._add(Node(name, name, _SWITCH_GUID + (number << 8), number, None, "", topology.ethernet))
        self._add_adapters(topology)
        for link in topology.links():
            a, b = self._plug(link.a), self._plug(link.b)
            self.peers[a], self.peers[b] = b, a
            self.rates_gbps[a] = self.rates_gbps[b] = link.line_rate_gbps
        # Switches that are joined by a network that the inventory does not describe.
        self._joined = () if topology.uplinks or topology.apart else tuple(topology.parts)
        for fault in faults:
            if fault.kind == "swapped":
                self._swap(topology, fault.component)

    def _swap(self, topology: Topology, component: str) -> None:
        """
        Exchange a cable with the next one.

        For an RNIC that is the cable of the host's next RNIC. Between switches it is a cable of the next switch that
        has cables up, to the switch after the one that this cable leads to.
        """
        part = Part.of(component)
        if part.is_port:
            devices = [rnic.device for rnic in topology.hosts[part.host].platform.rnics]
            other = devices[(devices.index(part.item) + 1) % len(devices)]
            one, two = self.adapter_end(part.host, part.item), self.adapter_end(part.host, other)
        else:
            lower, _, upper = component.partition("--")
            below = list(topology.above)
            next_lower = below[(below.index(lower) + 1) % len(below)]
            uppers = list(topology.above[next_lower])
            next_upper = uppers[(uppers.index(upper) + 1) % len(uppers)] if upper in uppers else uppers[0]
            one, two = self.ends_to(lower, upper)[0], self.ends_to(next_lower, next_upper)[0]
        far_one, far_two = self.peers[one], self.peers[two]
        for a, b in ((one, far_two), (two, far_one)):
            self.peers[a], self.peers[b] = b, a

    def ends_to(self, one: str, other: str) -> list[End]:
        """
        Return the ports of one node that lead to another; parallel cables are plugged in in the same order at both.
        """
        return [end for end in self.ends(self.nodes[one]) if self.peers.get(end, ("", 0))[0] == other]

    @cached_property
    def place_among(self) -> Mapping[End, int]:
        """Return which of the parallel cables to the same node an end has, from 0."""
        seen, found = Counter[tuple[str, str]](), dict[End, int]()
        for end in (end for node in self.nodes.values() for end in self.ends(node) if end in self.peers):
            both = end[0], self.peers[end][0]
            found[end] = seen[both]
            seen[both] += 1
        return found

    def _add_adapters(self, topology: Topology) -> None:
        lid = len(topology.switches)
        for number, host in enumerate(topology.hosts.values(), 1):
            ethernet = host.platform.link_layer == "ethernet"
            for place, rnic in enumerate(host.platform.rnics):
                lid += 1
                name = f"{host.name}/{rnic.device}"
                guid = _ADAPTER_GUID + (number << 12) + (place << 4)
                description = f"{host.name} {rnic.device}"
                self._add(Node(name, description, guid, lid, host.name, rnic.device, ethernet))
                self.port_counts[name] = rnic.port
                self.rates_gbps[name, rnic.port] = rnic.line_rate_gbps

    def _add(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.by_lid[node.lid] = node
        self.port_counts.setdefault(node.name, 0)

    def _plug(self, name: str) -> End:
        """Return the next free port of a switch, or the port of an RNIC."""
        if self.nodes[name].host is None:
            self.port_counts[name] += 1
        return (name, self.port_counts[name])

    def is_trunk(self, end: End) -> bool:
        """Return whether a port has a cable between switches."""
        peer = self.peers.get(end)
        return peer is not None and self.nodes[end[0]].host is None and self.nodes[peer[0]].host is None

    def adapter_end(self, host: str, device: str) -> End:
        """Return the port of an RNIC."""
        name = f"{host}/{device}"
        return (name, self.port_counts[name])

    def ends(self, node: Node) -> list[End]:
        """Return all ports of a node that a cable can be in."""
        count = self.port_counts[node.name]
        return [(node.name, count)] if node.host is not None else [(node.name, port) for port in range(1, count + 1)]

    def reached(self, start: End, passes: Callable[[End], bool]) -> list[Node]:
        """
        Return the nodes found from a port, its own first and nearest first, over cables whose ports *passes* lets
        through.
        """
        seen = {start[0]}
        found = deque([self.nodes[start[0]]])
        order = []
        while found:
            node = found.popleft()
            order.append(node)
            if node.host is not None and node.name != start[0]:
                continue  # an adapter forwards nothing
            far = [peer[0] for end in self.ends(node) if (peer := self.peers.get(end)) is not None and passes(end)]
            for name in (*far, *(self._joined if node.name in self._joined else ())):
                if name not in seen:
                    seen.add(name)
                    found.append(self.nodes[name])
        return order


DIM_DB, DIM_DRIFT_DB = 4.0, 0.5
"""The light that a dirty fibre of a ribbon takes from its lane, and what it takes in addition each day (choice)."""

DIM = Wear(raw=3e-6)
"""The errors that one lane with little light adds before the FEC, which corrects all of them (choice)."""

BATCH = Wear(symbol=1.5e-15)
"""The errors of a cable of a bad batch: hardly above the allowed ratio, so that only many together show it (choice)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """
    What is wrong with one end: the *lane* with too little light (None: none), the number of lanes up, the errors it
    sends.

    *batch*: its module is one of a bad batch. *cut*: its cable between switches never comes up. *misset*: the kinds of
    wrong settings (qos.py).
    """

    lane: int | None = None
    width: int = 4
    wear: Wear = UNWORN
    batch: bool = False
    cut: bool = False
    misset: tuple[str, ...] = ()


UNMARKED = Mark()


def marks(cabling: Cabling, faults: Iterable[Fault]) -> Mapping[End, Mark]:
    """
    Return the mark of every end that has one; a lemon between switches is a cable with a dirty lane.

    Wrong settings are at the host's end for ``gpu003/mlx5_2``, at the leaf's with ``:port``, at leaf1's for
    ``leaf1--spine2``.
    """
    found = defaultdict[End, Mark](Mark)
    for fault in faults:
        for near in ends_named(cabling, fault.component):
            far = cabling.peers[near]
            bits = text_hash(f"{fault.component} mark")
            if fault.kind == "dark_lane" or (fault.kind == "lemon" and cable_ends(fault.component, cabling.nodes)):
                sends, receives = (near, far) if "->" in fault.component or bits % 2 else (far, near)
                found[receives] = replace(found[receives], lane=bits // 2 % 4)
                found[sends] = replace(found[sends], wear=DIM)
            elif fault.kind in MISSET_KINDS:
                end = far if fault.component.endswith(PORT) else near
                found[end] = replace(found[end], misset=(*found[end].misset, fault.kind))
            for end in (near, far):
                if fault.kind == "half_width":
                    found[end] = replace(found[end], width=2)
                elif fault.kind == "batch":
                    found[end] = replace(found[end], wear=BATCH, batch=True)
                elif fault.kind == "broken" and "->" not in fault.component and cabling.is_trunk(near):
                    found[end] = replace(found[end], cut=True)
    return found


def ends_named(cabling: Cabling, component: str) -> list[End]:
    """Return one port of every cable that a switch, ``leaf--spine`` or ``gpu001/mlx5_0:port`` names."""
    node = cabling.nodes.get(component.removesuffix(PORT))
    if node is not None:
        return [end for end in cabling.ends(node) if end in cabling.peers]
    ends = cable_ends(component, cabling.nodes)
    return [] if ends is None or ends.one not in cabling.nodes else cabling.ends_to(ends.one, ends.other)
