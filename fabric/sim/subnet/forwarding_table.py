"""The linear forwarding table of one switch: out of which port packets to each LID go, by the routes in force."""

from __future__ import annotations

from collections import deque

import numpy as np

from fabric.sim.net.named_clos import NamedClos
from fabric.sim.phy.cabling import Cabling, End, Node
from fabric.sim.subnet.links import sending_link
from fabric.sim.subnet.network import Network, static_paths


def forwarding_table(cabling: Cabling, network: Network | None, switch: Node) -> dict[int, int]:
    """
    LID to port; 0 is the switch itself, and what it has no way to is missing.

    A leaf goes by the static routes (with adaptive routing those are what it deviates from). Above the leaves it is the
    shortest way; of several, a spine of three levels takes the one of its own leaves' routes, else the first.
    """
    gone = frozenset() if network is None else network.known.routed | network.known.shielded
    dead = frozenset[End]()
    if network is not None and gone:
        dead = frozenset(end for end in cabling.peers if sending_link(cabling, network.net, end) in gone)
    table = {node.lid: port for node, port in _shortest(cabling, switch, dead).items()}
    table[switch.lid] = 0
    if network is not None:
        table |= _dealt(cabling, network, switch)
    return dict(sorted(table.items()))


def _shortest(cabling: Cabling, switch: Node, dead: frozenset[End]) -> dict[Node, int]:
    """The first hop to every node."""
    first: dict[Node, int] = {}
    left = deque([switch])
    while left:
        node = left.popleft()
        if node.host is not None:
            continue
        for end in cabling.ends(node):
            peer = cabling.peers.get(end)
            if peer is None or end in dead or peer in dead or peer[0] == switch.name:
                continue
            there = cabling.nodes[peer[0]]
            if there not in first:
                first[there] = end[1] if node is switch else first[node]
                left.append(there)
    return first


def _dealt(cabling: Cabling, network: Network, switch: Node) -> dict[int, int]:
    """What a leaf sends up, or a spine to its cores, by the routing engine."""
    net = network.net
    clos = net.clos
    column = 1 if switch.name in net.leaf_ids else 2
    links = {link: end[1] for end in cabling.ends(switch) if (link := sending_link(cabling, net, end)) is not None}
    nodes = [node for node in cabling.nodes.values() if node.host is not None and node.host in net.host_ids]
    if not nodes or not clos.links or (column == 2 and not clos.cores_up):
        return {}
    nics = np.array(
        [int(clos.nic(net.host_ids[str(node.host)], net.devices[str(node.host)].index(node.device))) for node in nodes]
    )
    leaves = clos.leaf_of(nics)
    sources = _sources(net, switch, nics, leaves)
    table = {}
    for source in sources:
        found = static_paths(net, np.full(len(nics), source), nics, network.routing, network.known)
        chosen = found.links[np.searchsorted(found.flow, np.arange(len(nics))), column]
        for node, link in zip(nodes, chosen.tolist(), strict=True):
            if link in links:
                table[node.lid] = links[link]
    return table


def _sources(net: NamedClos, switch: Node, nics: np.ndarray, leaves: np.ndarray) -> list[int]:
    """One RNIC under the switch; for a spine one under each of its leaves."""
    if switch.name in net.leaf_ids:
        here = nics[leaves == net.leaf_ids[switch.name]]
        return [int(nic) for nic in here[:1]]
    below = [leaf for leaf, block in enumerate(net.block) if switch.name in net.spines[block]]
    return [int(nics[leaves == leaf][0]) for leaf in below if (leaves == leaf).any()]
