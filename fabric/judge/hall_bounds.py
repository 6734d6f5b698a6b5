"""The most that a collective could carry on the network of an inventory, whatever the routing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.probes.group_all_to_all import GroupAllToAllSpec
from fabric.probes.shapes import int_param
from fabric.sim.net.clos import Floats, Ints
from fabric.sim.net.named_clos import NamedClos, net_from_topology
from fabric.sim.net.route import pooled, resources, routes

ALL_TO_ALL = GroupAllToAllSpec.kind


class HallBounds:
    """What collectives could reach at most on the network of a topology; nothing where it cannot be worked out."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._net: NamedClos | None = None
        try:
            self._net = net_from_topology(topology, above_leaves=bool(topology.uplinks))
        except ValueError:
            return
        self._most = pooled(self._net.clos, self._net.clos.capacity_gbps, eta=1.0)

    def bus_gbps(self, probe: Probe) -> float | None:
        """The most that its bus bandwidth can be; None where leaves are joined by what is not described."""
        hosts = probe.hosts
        if self._net is None or not self._described(hosts):
            return None
        rails, gpus = self._rails(hosts), int_param(probe, "ranks")
        each = gpus // len(hosts)
        nics = self._nics(hosts, rails)
        if probe.kind == ALL_TO_ALL:
            return self._least(self._every(nics)) * rails / each * (gpus - 1) / (gpus - each)
        return self._least(self._of_rings(nics[np.newaxis])) * rails

    def halves_gbps(self, pairs: Sequence[Probe]) -> float | None:
        """The most that rings of two hosts, all at once, can carry together."""
        hosts = [name for probe in pairs for name in probe.hosts]
        if self._net is None or not self._described(hosts):
            return None
        rails = self._rails(hosts)
        nics = np.stack([self._nics(probe.hosts, rails) for probe in pairs])
        return self._least(self._of_rings(nics)) * rails * len(pairs)

    def _described(self, hosts: Iterable[str]) -> bool:
        of = self._topology.hosts
        return bool(self._topology.uplinks) or len({of[name].leaves for name in hosts}) == 1

    def _rails(self, hosts: Iterable[str]) -> int:
        return min(len(self._topology.hosts[name].platform.rnics) for name in hosts)

    def _nics(self, hosts: Sequence[str], rails: int) -> Ints:
        assert self._net is not None
        return self._net.clos.nic(
            np.array([self._net.host_ids[name] for name in hosts])[:, np.newaxis], np.arange(rails)
        )

    def _least(self, load: Floats) -> float:
        busy = load[:-1] > 0
        return float((self._most[busy] / load[:-1][busy]).min())

    def _of_rings(self, nics: Ints) -> Floats:
        """Load of [ring, host, rail]: each host sends to the next of its ring."""
        assert self._net is not None
        clos = self._net.clos
        used = routes(clos, nics.ravel(), np.roll(nics, -1, axis=1).ravel(), engine="ar").links
        return np.bincount(used.ravel(), minlength=resources(clos) + 1).astype(np.float64)

    def _every(self, nics: Ints) -> Floats:
        """Load of [host, rail] where each sends to every other as much, one line rate in all."""
        assert self._net is not None
        clos, hosts = self._net.clos, len(nics)
        load = np.zeros(resources(clos) + 1)
        load[nics], load[nics + clos.nics] = 1.0, 1.0
        leaf = clos.leaf_of(nics)
        tiers = [(2 * clos.nics, clos.leaves, leaf)]
        if clos.cores_up:
            tiers.append((2 * (clos.nics + clos.leaves), clos.pods, clos.pod_of(leaf)))
        for first, count, where in tiers:
            inside = np.stack([np.bincount(rail, minlength=count) for rail in where.T])
            across = (inside * (hosts - inside)).sum(axis=0) / (hosts - 1)
            load[first : first + count] = load[first + count : first + 2 * count] = across
        return load
