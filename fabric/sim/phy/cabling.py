"""Which port of the rack is plugged into which, with its GUID and LID, and what is wrong with a cable for ever."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

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
    """One RNIC or switch; *description* is what the tools print for it, *host* None for a switch."""

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

    Of *faults* those that say which cables were plugged in the wrong way round.
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
        self._joined = () if topology.uplinks or topology.apart else tuple(topology.parts)  # by what is not described
        for fault in faults:
            if fault.kind == "swapped":
                self._swap(topology, fault.component)

    def _swap(self, topology: Topology, component: str) -> None:
        """
        Exchange a cable with the next one.

        Of an RNIC: with that of the host's next RNIC. Between switches: with one of the next switch that has cables
        up, to the switch after the one that this cable leads to.
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
        """The ports of one node that lead to another; parallel cables are plugged in one after the other at both."""
        return [end for end in self.ends(self.nodes[one]) if self.peers.get(end, ("", 0))[0] == other]

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
        """The next free port of a switch, the port of an RNIC."""
        if self.nodes[name].host is None:
            self.port_counts[name] += 1
        return (name, self.port_counts[name])

    def is_trunk(self, end: End) -> bool:
        """Whether it is of a cable between switches."""
        peer = self.peers.get(end)
        return peer is not None and self.nodes[end[0]].host is None and self.nodes[peer[0]].host is None

    def adapter_end(self, host: str, device: str) -> End:
        """The port of an RNIC."""
        name = f"{host}/{device}"
        return (name, self.port_counts[name])

    def ends(self, node: Node) -> list[End]:
        """All ports of a node that a cable can be in."""
        count = self.port_counts[node.name]
        return [(node.name, count)] if node.host is not None else [(node.name, port) for port in range(1, count + 1)]

    def reached(self, start: End, passes: Callable[[End], bool]) -> list[Node]:
        """Nodes found from a port, itself first, over cables whose ports *passes* lets through; nearest first."""
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
"""A dirty fibre of a ribbon takes so much of its lane's light, and so much more each day (choice)."""

DIM = Wear(raw=3e-6)
"""What one lane with little light adds before the FEC, which mends all of it (choice)."""

BATCH = Wear(symbol=1.5e-15)
"""One of a bad batch is hardly worse than the ratio that is allowed: only all of them together show it (choice)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """
    Of one end: the *lane* that receives too little light (None: none does), how many lanes are up, what it sends wrong.

    *batch*: its module is one of a bad batch. *cut*: of a cable between switches that never comes up. *misset*: the
    kinds of what is set wrong (qos.py).
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
    Every end that has one; a lemon between switches is a cable with a dirty lane.

    Set wrong is the host's end of ``gpu003/mlx5_2``, with ``:port`` the leaf's, and leaf1's of ``leaf1--spine2``.
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
    """One port of every cable that a switch, ``leaf--spine`` or ``gpu001/mlx5_0:port`` names."""
    node = cabling.nodes.get(component.removesuffix(PORT))
    if node is not None:
        return [end for end in cabling.ends(node) if end in cabling.peers]
    ends = cable_ends(component, cabling.nodes)
    return [] if ends is None or ends.one not in cabling.nodes else cabling.ends_to(ends.one, ends.other)
