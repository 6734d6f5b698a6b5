"""The network above the leaves: which rings run over it, by which paths, how fast; and a switch's forwarding table."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np

from fabric.model.inventory import ADDRESSES, POLARISED, MockSettings
from fabric.model.topology import Topology
from fabric.sim.faults import LinkFault, happens
from fabric.sim.hosts.site import Flow, Ring
from fabric.sim.net.clos import Bools, Floats, Ints, Links
from fabric.sim.net.links import LinkState, LinkTraffic, link_faults, link_state, port_faults, sending_link
from fabric.sim.net.managers import Forwarding
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.named_clos import NamedClos, net_from_topology
from fabric.sim.net.route import AR_ALPHA, DRAWN, Paths, pooled, resources, routes, trunk_of
from fabric.sim.net.tenants import Tenants
from fabric.sim.phy.cabling import Cabling, End, Node
from fabric.sim.phy.port import Port, Traffic


@dataclass(frozen=True, slots=True)
class KnownDown:
    """
    The links whose failure the static routes know.

    *routed*: the subnet manager computed its routes without these. *shielded*: switches moved the routes over these.
    """

    routed: frozenset[int] = frozenset()
    shielded: frozenset[int] = frozenset()


def ends_of(net: NamedClos, ring: Ring) -> tuple[Ints, Ints]:
    """Return source and destination RNICs of every edge, rail by rail within each host, turn by turn."""
    ids = np.array([net.host_ids[name] for name in ring.hosts], dtype=np.int64)
    turns = [np.roll(ids, -step) for step in _steps(ring)]
    src = net.clos.nic_at[np.tile(ids, len(turns))[:, np.newaxis], np.array(ring.rails)].ravel()
    dst = net.clos.nic_at[np.concatenate(turns)[:, np.newaxis], np.array(ring.to_rails or ring.rails)].ravel()
    edges = len(ring.rails) if ring.one_way else len(src)
    return src[:edges], dst[:edges]


_MOST_EDGES = 200_000  # of an all-to-all that are simulated; with more hosts each sends to some others, evenly spaced


def _steps(ring: Ring) -> list[int]:
    """Return the distances in the ring to the hosts that each host sends to."""
    if not ring.every:
        return [1]
    others = len(ring.hosts) - 1
    count = min(others, max(1, _MOST_EDGES // (len(ring.hosts) * len(ring.rails))))
    return [1 + turn * others // count for turn in range(count)]


_SAME = 1e-9  # relative: a limit this near to the flow's own ceiling does not count as a limit


_PathKey = tuple[object, ...]
"""Everything that the paths of a ring depend on; looked up for each ring whenever shares are computed."""


class Network:
    """
    The switches above the leaves: what each link carries now, and by which routes.

    A ring is one job: every edge of it, on every rail, runs at the rate of its slowest. Jobs that run at the same time
    share links by max-min. A link that is down carries nothing, whether or not the routes know it: until they do, the
    rings that are sent over it stand still.
    """

    def __init__(
        self, net: NamedClos, mock: MockSettings, forwarding: Forwarding, *, link_layer: str, seed: int
    ) -> None:
        self.net, self._mock, self._link_layer = net, mock, link_layer
        self._is_one = len(np.unique(net.part)) == 1
        self._port_faults: tuple[LinkFault, ...] = ()
        self._paths: dict[_PathKey, Paths] = {}
        self._running: dict[Flow, Ring] = {}
        self._traffic, self._counted_s = LinkTraffic(net.clos, seed=seed), 0.0
        self._faults = tuple(link_faults(net, (one for one in mock.faults if not happens(one))))
        self.tenants = Tenants(net.clos, self._faults)
        self._health = self._links()
        self._pool: Floats | None = None
        self._shut: dict[bool, Bools | None] = {}
        self.program(forwarding, self._health.down, 0.0)

    def set_ports(self, cabling: Cabling, ports: Iterable[Port], at_s: float) -> None:
        """Set the state of ports between switches; routes stay as they are."""
        self._port_faults = tuple(port_faults(cabling, self.net, ports))
        self._count(at_s)
        self._traffic.deal_out(self._health.capacity_gbps, at_s)
        self._health = self._links()
        self._pool = None
        self._shut.clear()

    def _links(self) -> LinkState:
        """Return the links with the inventory's faults and with the present state of their ports."""
        return link_state(self.net, (*self._faults, *self._port_faults), link_layer=self._link_layer)

    def traffic(self, cabling: Cabling, ends: tuple[End, End], at_s: float) -> Traffic:
        """Return what a port between switches (the first of *ends*, then its partner) has sent and received."""
        out, into = (sending_link(cabling, self.net, end) for end in ends)
        if out is None or into is None:
            return Traffic()
        (sent_gb, waited_s), (received_gb, _) = (self.carried_gb(link, at_s) for link in (out, into))
        return Traffic(sent_gb, received_gb, waited_s)

    def program(self, forwarding: Forwarding, routed: frozenset[int], at_s: float) -> None:
        """Set new routes from the subnet manager, around the links that it knows to be down."""
        self._count(at_s)
        self.forwarding = forwarding
        shielded = self._health.down - routed if forwarding.shield else frozenset()
        self.known = KnownDown(routed, shielded)
        self._paths.clear()

    def shield(self, gone: frozenset[int], at_s: float) -> None:
        """Move the routes over links of *gone* that are still down, if the switches use SHIELD."""
        moved = gone & self._health.down - self.known.routed
        if self.forwarding.shield and moved - self.known.shielded:
            self._count(at_s)
            self.known = KnownDown(self.known.routed, self.known.shielded | moved)
            self._paths.clear()

    @property
    def down(self) -> frozenset[int]:
        """Return the directed links that are down now."""
        return self._health.down

    def is_cut(self, ring: Ring) -> bool:
        """Return whether some edge of the ring has no way left, with whatever routes."""
        if self._apart(ring) is not None:
            return True
        if self.forwarding.adapts(ring):
            return bool((np.append(self._trunks(), inf)[self._found(ring).links] <= 0).any())
        best = KnownDown(self._health.down)
        found = self.static_paths(*ends_of(self.net, ring), best, draw=ring.draw, qps=ring.qps)
        return bool((np.append(self._health.capacity_gbps, inf)[found.links] <= 0).any())

    def dead_edge(self, ring: Ring) -> tuple[str, str, int] | None:
        """
        Return sender, receiver and rail of the first edge of a ring that carries nothing now; None when all carry.
        """
        shut = self._shut_links(adaptive=self.forwarding.adapts(ring))
        edge = self._apart(ring)
        if edge is None and shut is not None:  # mostly no link is shut, which is quick to see
            found = self._found(ring)
            edge = next(iter(found.flow[shut[found.links].any(axis=1)].tolist()), None)
        if edge is None:
            return None
        host, receiver = (self.net.ends[int(ends[edge])][0] for ends in ends_of(self.net, ring))
        return host, receiver, ring.rails[edge % len(ring.rails)]

    def _apart(self, ring: Ring) -> int | None:
        """Return the first edge of a ring between leaves that nothing joins."""
        if self._is_one:
            return None
        src, dst = (self.net.part[self.net.clos.leaf_at[ends]] for ends in ends_of(self.net, ring))
        return next(iter(np.flatnonzero(src != dst).tolist()), None)

    def begin(self, flow: Flow, ring: Ring) -> None:
        """Add a flow that now runs over this ring."""
        self._running[flow] = ring

    def end(self, flow: Flow, carried_gb: float) -> None:
        """
        Remove a flow that has ended and carried *carried_gb* in its life.

        The paths of a pair are forgotten, since the next flow of this kind is another pair.
        """
        ring = self._running.pop(flow, None)
        if ring is not None:
            self._add(flow, ring, carried_gb)
            if ring.one_way or self.forwarding.engine == DRAWN:
                self._paths.pop(self._key(ring, adaptive=self.forwarding.adapts(ring)), None)

    def static_paths(self, src: Ints, dst: Ints, known: KnownDown, *, draw: int = 0, qps: int = 0) -> Paths:
        """
        Return the static routes in force: those of the subnet manager, with SHIELD's changes over them.

        A hash also uses the ports of *qps* connections, which *draw* decides, unless it hashes addresses only.
        """
        mock = self._mock
        looks = mock.hashing != ADDRESSES
        salt = mock.salt ^ draw if self.forwarding.engine == DRAWN and looks else mock.salt
        routed = partial(
            routes,
            self.net.clos,
            src,
            dst,
            engine=self.forwarding.engine,
            salt=salt,
            qps=(qps or mock.qps) if looks else 1,
            alike=mock.hashing == POLARISED,
        )
        found = routed(down=known.routed, healing="sm")
        hit = np.isin(found.links, np.fromiter(known.shielded, dtype=np.int64)).any(axis=1)
        if known.shielded and hit.any():
            found.links[hit] = routed(down=known.routed | known.shielded, healing="shield").links[hit]
        return found

    @property
    def running(self) -> tuple[Flow, ...]:
        """Return the flows that share the network now."""
        return tuple(self._running)

    def limits_gbps(self, at_s: float) -> Iterator[tuple[Flow, float]]:
        """
        Yield the bus bandwidth that the network leaves to each running flow; infinite where it limits nothing.

        A silent flow uses no capacity; for it, 0 means that nothing would get through either.
        """
        loud = {flow: ring for flow, ring in self._running.items() if not flow.silent}
        yield from self._silent()
        if not loud:
            self.tenants.set_rates(self.tenants.wants, at_s)
            return
        rings = list(loud.values())
        links, capacity = self._loads(rings)
        others = self._others(rings, links[0].shape[1], pad=len(capacity)).astype(links[0].dtype)
        weight = [self._found(ring).weight for ring in rings]
        wanted = np.array([flow.ceiling_gbps / ring.bus_ratio for flow, ring in loud.items()])
        job = np.repeat(np.arange(len(rings), dtype=np.int64), [len(one) for one in weight])
        rates = max_min(
            np.concatenate([*links, others]),
            capacity,
            weight=np.concatenate([*weight, np.ones(len(others))]),
            limit_gbps=np.concatenate([wanted[job], self.tenants.wants]),
            job=np.concatenate([job, len(rings) + np.arange(len(others))]),
        )
        self.tenants.set_rates(rates[len(rings) :], at_s)
        for (flow, ring), rate_gbps, most_gbps in zip(loud.items(), rates[: len(rings)], wanted, strict=True):
            free = rate_gbps >= most_gbps * (1 - _SAME)
            yield flow, inf if free else float(rate_gbps) * ring.bus_ratio

    def _silent(self) -> Iterator[tuple[Flow, float]]:
        """Yield for each silent flow whether anything would get through."""
        for flow, ring in self._running.items():
            if flow.silent:
                yield flow, 0.0 if self.dead_edge(ring) else inf

    def _loads(self, rings: Sequence[Ring]) -> tuple[list[Links], Floats]:
        """
        Return what each ring loads, and the capacities of that: links, trunks, or both where only some rings are
        adaptive.
        """
        ways = [self.forwarding.adapts(ring) for ring in rings]
        found = [self._found(ring) for ring in rings]
        if not any(ways):
            return [one.links for one in found], self._health.capacity_gbps
        if all(ways):
            return [one.links for one in found], self._trunks()
        count = self.net.clos.links
        dummy = count + resources(self.net.clos)
        loads = []
        for ring, one, adaptive in zip(rings, found, ways, strict=True):  # static rings load trunks, too
            own = np.full_like(one.links, dummy) if adaptive else np.where(one.links == count, dummy, one.links)
            trunks = one.links if adaptive else self._paths_of(ring, adaptive=True).links[one.flow]
            loads.append(np.concatenate([own, trunks + count], axis=1).astype(np.int32))
        return loads, np.concatenate([self._health.capacity_gbps, self._trunks()])

    def _others(self, rings: Sequence[Ring], width: int, *, pad: int) -> Ints:
        """Return what flows of tenants load besides these rings, as rows filled up with the padding id."""
        ways = {self.forwarding.adapts(ring) for ring in rings}
        links, count = self.tenants.links, self.net.clos.links
        rows = np.full((len(links), width), pad)
        trunks = trunk_of(self.net.clos)[links] + (count if len(ways) > 1 else 0)
        for column, ids in enumerate([links, trunks] if len(ways) > 1 else [trunks] if True in ways else [links]):
            rows[:, column] = ids
        return rows

    def counted(self, host: str, device: str, name: str, at_s: float) -> int:
        """Return a counter of an RNIC's port that congestion raises; without queues it is always 0."""
        del host, device, name, at_s
        return 0

    def carried_gb(self, link: int, at_s: float) -> tuple[float, float]:
        """Return what a directed link has carried until now, and for how long (s) it waited to send."""
        self._count(at_s)
        self._traffic.deal_out(self._health.capacity_gbps, at_s)
        carried_gb, waited_s = self._traffic.of(link)
        return carried_gb + self.tenants.carried_gb(link, at_s), waited_s

    def _count(self, at_s: float) -> None:
        """Add what the running flows carried until now to the links of their present paths; at most once an instant."""
        for flow, ring in self._running.items() if at_s != self._counted_s else ():
            self._add(flow, ring, flow.carried_gb(at_s))
        self._counted_s = at_s

    def _add(self, flow: Flow, ring: Ring, carried_gb: float) -> None:
        fresh = (carried_gb - flow.counted_gb) / ring.bus_ratio
        if fresh > 0.0:
            held = max(0.0, flow.ceiling_gbps / flow.limit_gbps - 1.0) * fresh if flow.limit_gbps > 0.0 else 0.0
            self._traffic.add(self._found(ring), fresh, held_gb=held, adaptive=self.forwarding.adapts(ring))
        flow.counted_gb = carried_gb

    def _trunks(self) -> Floats:
        if self._pool is None:
            self._pool = pooled(self.net.clos, self._health.capacity_gbps, alpha=AR_ALPHA[self._link_layer])
            grey = np.fromiter(self._health.grey, dtype=np.int64)  # a link that drops all has the shortest queue
            self._pool[trunk_of(self.net.clos)[grey]] = 0.0
        return self._pool

    def _shut_links(self, *, adaptive: bool) -> Bools | None:
        """Return for each link (adaptive: each trunk) and the padding whether nothing passes; None: all pass."""
        if adaptive not in self._shut:
            shut = np.append(self._trunks() if adaptive else self._health.capacity_gbps, inf) <= 0
            self._shut[adaptive] = shut if shut.any() else None
        return self._shut[adaptive]

    def _found(self, ring: Ring) -> Paths:
        return self._paths_of(ring, adaptive=self.forwarding.adapts(ring))

    def _key(self, ring: Ring, *, adaptive: bool) -> _PathKey:
        draw = ring.draw if self.forwarding.engine == DRAWN else 0
        return ring.hosts, ring.rails, ring.to_rails, ring.one_way, ring.every, adaptive, draw, ring.qps

    def _paths_of(self, ring: Ring, *, adaptive: bool) -> Paths:
        key = self._key(ring, adaptive=adaptive)
        found = self._paths.get(key)
        if found is None:
            src, dst = ends_of(self.net, ring)
            if adaptive:
                found = routes(self.net.clos, src, dst, engine="ar")
            else:
                found = self.static_paths(src, dst, self.known, draw=ring.draw, qps=ring.qps)
            if ring.every:
                found = replace(found, weight=found.weight / len(_steps(ring)))
            self._paths[key] = found
        return found


def network_of(
    topology: Topology, mock: MockSettings, forwarding: Forwarding, *, seed: int, made: Callable[..., Network] = Network
) -> Network | None:
    """
    Return the network above the leaves; None where the inventory has no regular one: then it never limits anything.
    """
    layers = {host.platform.link_layer for host in topology.hosts.values()}
    if len(layers) > 1:
        return None
    try:
        net = net_from_topology(topology)
    except ValueError:
        return None
    return made(net, mock, forwarding, link_layer=layers.pop(), seed=seed)


def forwarding_table(cabling: Cabling, network: Network | None, switch: Node) -> dict[int, int]:
    """
    Return the forwarding table of a switch, LID to port; port 0 is the switch itself, unreachable LIDs are missing.

    A leaf uses the static routes (with adaptive routing these are what it deviates from). Above the leaves the table
    has the shortest way; of several, a spine of three levels takes that of its own leaves' routes, else the first.
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
    """Return the first hop to every node."""
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
    """Return what the routing engine makes a leaf send to its spines, or a spine to its cores."""
    net = network.net
    clos = net.clos
    column = 1 if switch.name in net.leaf_ids else 2
    links = {link: end[1] for end in cabling.ends(switch) if (link := sending_link(cabling, net, end)) is not None}
    nodes = [node for node in cabling.nodes.values() if node.host in net.host_ids]
    if not nodes or not clos.spec.up or (column == 2 and not clos.spec.core_up):
        return {}
    nics = np.array([net.nics[str(node.host), node.device] for node in nodes])
    table = {}
    for source in _sources(net, switch, nics):
        found = network.static_paths(np.full(len(nics), source), nics, network.known)
        chosen = found.links[np.searchsorted(found.flow, np.arange(len(nics))), column]
        for node, link in zip(nodes, chosen.tolist(), strict=True):
            if link in links:
                table[node.lid] = links[link]
    return table


def _sources(net: NamedClos, switch: Node, nics: Ints) -> list[int]:
    """Return one RNIC under the switch; for a spine one under each of its leaves."""
    leaves = net.clos.leaf_at[nics]
    own = net.leaf_ids.get(switch.name)
    below = [leaf for leaf, block in enumerate(net.block) if leaf == own or switch.name in net.spines[block]]
    return [int(nics[leaves == leaf][0]) for leaf in below if (leaves == leaf).any()]
