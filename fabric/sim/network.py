"""What joins the leaves of the simulated hosts: which rings run over it now, and how fast each may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from fabric.model.inventory import Fault
from fabric.model.topology import Topology
from fabric.sim.flows import Flow
from fabric.sim.link_state import link_state
from fabric.sim.named_clos import NamedClos
from fabric.sim.net.arrays import Floats, Links
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.route import pooled, routes
from fabric.sim.net_from_topology import net_from_topology
from fabric.sim.routing import Routing
from fabric.sim.uplink_faults import link_faults
from fabric.sim.what_if import AR_ALPHA, AR_ETA

_SAME = 1e-9  # relative: a limit nearer than this to what the flow can do by itself is none


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """The links of every edge of a ring on every rail, and what each sub-flow carries of its edge."""

    links: Links
    weight: Floats


@dataclass(frozen=True, slots=True)
class Ring:
    """Hosts in the order of the ring and the rails it runs on; *bus_ratio*: bus bandwidth over what an RNIC carries."""

    hosts: tuple[str, ...]
    rails: tuple[int, ...]
    bus_ratio: float


class Network:
    """
    The switches above the leaves under one routing, with the links as faults left them.

    A ring is one job: every edge of it, on every rail, runs at the rate of its slowest. Jobs that run at the same time
    share links by max-min.
    """

    def __init__(self, net: NamedClos, faults: Iterable[Fault], *, link_layer: str, routing: Routing) -> None:
        self._net, self._link_layer = net, link_layer
        self._known: dict[tuple[tuple[str, ...], tuple[int, ...]], Paths] = {}
        self._running: dict[Flow, Ring] = {}
        self.change(faults, routing)

    def change(self, faults: Iterable[Fault], routing: Routing) -> None:
        """Other faults and another routing from now on; whoever shares time must be told to ask for limits anew."""
        self._routing, self._engine = routing, routing.engine or "ftree"
        state = link_state(self._net, link_faults(self._net, faults), link_layer=self._link_layer)
        self._down = frozenset(state.down)
        self._capacity = state.capacity_gbps
        if self._engine == "ar":
            alpha = AR_ALPHA[self._link_layer]
            self._capacity = pooled(self._net.clos, state.capacity_gbps, eta=AR_ETA, alpha=alpha).capacity_gbps
        self._known.clear()

    def ring(self, hosts: tuple[str, ...], rails: tuple[int, ...], *, bus_ratio: float) -> Ring:
        """A ring over some of its hosts."""
        return Ring(hosts, rails, bus_ratio)

    def is_cut(self, ring: Ring) -> bool:
        """Whether some edge of the ring has no way left."""
        return bool((np.append(self._capacity, inf)[self._paths(ring).links] <= 0).any())

    def begin(self, flow: Flow, ring: Ring) -> None:
        """A flow now runs over this ring."""
        self._running[flow] = ring

    def end(self, flow: Flow) -> None:
        """It has ended."""
        self._running.pop(flow, None)

    @property
    def running(self) -> tuple[Flow, ...]:
        """The flows that share it now."""
        return tuple(self._running)

    def limits_gbps(self) -> Iterator[tuple[Flow, float]]:
        """The bus bandwidth that the network leaves to each running flow; infinite where it limits nothing."""
        if not self._running:
            return
        paths = [self._paths(ring) for ring in self._running.values()]
        counts = [len(one.links) for one in paths]
        wanted = np.array([flow.ceiling_gbps / ring.bus_ratio for flow, ring in self._running.items()])
        job = np.repeat(np.arange(len(paths), dtype=np.int64), counts)
        rates = max_min(
            np.concatenate([one.links for one in paths]),
            self._capacity,
            weight=np.concatenate([one.weight for one in paths]),
            limit_gbps=wanted[job],
            job=job,
        )
        for (flow, ring), rate_gbps, most_gbps in zip(self._running.items(), rates, wanted, strict=True):
            free = rate_gbps >= most_gbps * (1 - _SAME)
            yield flow, inf if free else float(rate_gbps) * ring.bus_ratio

    def _paths(self, ring: Ring) -> Paths:
        key = (ring.hosts, ring.rails)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._routed(ring)
        return found

    def _routed(self, ring: Ring) -> Paths:
        ids = np.array([self._net.host_ids[name] for name in ring.hosts], dtype=np.int64)
        rails = np.array(ring.rails, dtype=np.int64)
        clos = self._net.clos
        src = clos.nic(ids[:, np.newaxis], rails).ravel()
        dst = clos.nic(np.roll(ids, -1)[:, np.newaxis], rails).ravel()
        routing = self._routing
        found = routes(clos, src, dst, engine=self._engine, salt=routing.salt, qps=routing.qps, down=self._down)
        return Paths(found.links, found.weight)


def network_of(topology: Topology, faults: Sequence[Fault], routing: Routing) -> Network | None:
    """The network above the leaves; None where the inventory has no regular one: then it never limits anything."""
    layers = {host.platform.link_layer for host in topology.hosts.values()}
    if len(layers) > 1:
        return None
    try:
        net = net_from_topology(topology)
    except ValueError:
        return None
    return Network(net, faults, link_layer=layers.pop(), routing=routing)
