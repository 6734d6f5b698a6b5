"""How a hall scales: collectives over 2, 4, 8 ... hosts, and the most that its lines and cables could carry.

The bound follows from the inventory alone, whatever the routing: the least ratio of line rate to load over all RNICs'
lines and, taken together, the cables between switches (headers and NCCL's own overhead are not subtracted). The bus
bandwidth of a ring is that of all rails. In an all-to-all, bytes between GPUs of one host stay on NVLink. The bisection
is what rings of two hosts, one from each half, carry when all run at once: the sum of their bus bandwidths crosses the
middle, each way. Nobody publishes a limit for such numbers, so they are only shown; if the baseline has a limit, it
judges them (``verdict/probes.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import numpy as np

from fabric.model.outcome import Outcome
from fabric.model.probe import CURVE, Probe
from fabric.model.topology import Topology
from fabric.model.verdict import Hall, HallPairs, HallPoint, ProbeVerdict, Verdicts
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.group_all_reduce import GroupAllToAllSpec
from fabric.probes.shapes import int_param
from fabric.sim.net.clos import Floats, Ints
from fabric.sim.net.named_clos import net_from_topology
from fabric.sim.net.route import pooled, resources, routes

BISECTION = "bisection, one way"
_BESIDE = ("rnic_to_rnic", "pairwise")  # kinds whose numbers are shown beside the curve


def is_only_shown(probe: Probe, verdict: ProbeVerdict) -> bool:
    """Return whether the number of a probe is only shown in the curve, because it has no limit to judge it."""
    judged = verdict.limit_gbps is not None or verdict.outcome is not Outcome.INCONCLUSIVE
    return CURVE in probe.params and verdict.value_gbps is not None and not judged


def hall_of(probes: Sequence[Probe], verdicts: Verdicts, topology: Topology) -> Hall:
    """Return the curve of a run that has one, with the pairs that are shown beside it."""
    asked = [probe for probe in probes if CURVE in probe.params]
    try:
        bounds = HallBounds(topology)
    except ValueError:
        bounds = None  # the network cannot be worked out
    halves = [probe for probe in asked if probe.kind == ConcurrentRingsSpec.kind]
    points = [_point(probe, verdicts[probe.probe_id], bounds) for probe in asked if probe not in halves]
    if pairs := [probe for probe in halves if len(probe.hosts) == 2]:
        points.append(_bisection(pairs, verdicts, bounds))
    return Hall(tuple(points), tuple(_beside(probes, verdicts)))


def _point(probe: Probe, verdict: ProbeVerdict, bounds: HallBounds | None) -> HallPoint:
    return HallPoint(
        kind=probe.kind,
        hosts=len(probe.hosts),
        gpus=int_param(probe, "ranks"),
        gbps=verdict.value_gbps,
        bound_gbps=None if bounds is None else bounds.bus_gbps(probe),
        limit_gbps=verdict.limit_gbps,
        outcome=verdict.outcome,
        reason="" if is_only_shown(probe, verdict) else verdict.reason,
    )


def _bisection(pairs: Sequence[Probe], verdicts: Verdicts, bounds: HallBounds | None) -> HallPoint:
    """Return the sum of what all pairs carry at once; without a number if one of them was not measured."""
    values = [verdicts[probe.probe_id].value_gbps for probe in pairs]
    known = [value for value in values if value is not None]
    whole = len(known) == len(values)
    return HallPoint(
        kind=BISECTION,
        hosts=2 * len(pairs),
        gpus=sum(int_param(probe, "ranks") for probe in pairs),
        gbps=sum(known) if whole else None,
        bound_gbps=None if bounds is None else bounds.rings_gbps([probe.hosts for probe in pairs]),
        limit_gbps=None,
        outcome=Outcome.worst(verdicts[probe.probe_id].outcome for probe in pairs),
        reason="" if whole else f"{len(values) - len(known)} of {len(values)} pairs were not measured",
    )


def _beside(probes: Iterable[Probe], verdicts: Verdicts) -> Iterable[HallPairs]:
    for kind in _BESIDE:
        judged = [verdicts[probe.probe_id] for probe in probes if probe.kind == kind]
        values = [one.value_gbps for one in judged if one.value_gbps is not None]
        if values:
            limits = [one.limit_gbps for one in judged if one.limit_gbps is not None]
            yield HallPairs(kind, len(values), min(values), median(values), max(limits, default=None))


ALL_TO_ALL = GroupAllToAllSpec.kind


class HallBounds:
    """
    The most that collectives could reach on the network of a topology.

    Bounds are None if the inventory does not describe what joins the leaves. Raises ValueError if the network cannot
    be worked out.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._net = net_from_topology(topology, above_leaves=bool(topology.uplinks))
        self._most = pooled(self._net.clos, self._net.clos.capacity_gbps, eta=1.0)

    def bus_gbps(self, probe: Probe) -> float | None:
        """Return the most that the bus bandwidth of a probe can be, Gb/s."""
        hosts = probe.hosts
        if probe.kind != ALL_TO_ALL:
            return self.rings_gbps([hosts])
        if not self._described(hosts):
            return None
        rails, gpus = self._rails(hosts), int_param(probe, "ranks")
        each = gpus // len(hosts)
        return self._least(self._every(self._nics(hosts, rails))) * rails / each * (gpus - 1) / (gpus - each)

    def rings_gbps(self, rings: Sequence[Sequence[str]]) -> float | None:
        """Return the most that rings of equally many hosts, all at once, can carry together, Gb/s."""
        hosts = [name for ring in rings for name in ring]
        if not self._described(hosts):
            return None
        rails = self._rails(hosts)
        nics = np.stack([self._nics(ring, rails) for ring in rings])
        clos = self._net.clos  # each host sends to the next of its ring
        used = routes(clos, nics.ravel(), np.roll(nics, -1, axis=1).ravel(), engine="ar").links
        load = np.bincount(used.ravel(), minlength=resources(clos) + 1).astype(np.float64)
        return self._least(load) * rails * len(rings)

    def _described(self, hosts: Iterable[str]) -> bool:
        of = self._topology.hosts
        return bool(self._topology.uplinks) or len({of[name].leaves for name in hosts}) == 1

    def _rails(self, hosts: Iterable[str]) -> int:
        return min(len(self._topology.hosts[name].platform.rnics) for name in hosts)

    def _nics(self, hosts: Sequence[str], rails: int) -> Ints:
        numbers = np.array([self._net.host_ids[name] for name in hosts])
        nics: Ints = self._net.clos.nic_at[numbers[:, np.newaxis], np.arange(rails)]
        return nics

    def _least(self, load: Floats) -> float:
        busy = load[:-1] > 0
        return float((self._most[busy] / load[:-1][busy]).min())

    def _every(self, nics: Ints) -> Floats:
        """Return the load by resource if each NIC, as [host, rail], sends one line rate evenly to all other hosts."""
        clos, hosts = self._net.clos, len(nics)
        load = np.zeros(resources(clos) + 1)
        load[nics], load[nics + clos.nics] = 1.0, 1.0
        leaf = clos.leaf_at[nics]
        tiers = [(2 * clos.nics, clos.leaves, leaf)]
        if clos.spec.core_up:
            tiers.append((2 * (clos.nics + clos.leaves), clos.pods, clos.pod_of(leaf)))
        for first, count, where in tiers:
            inside = np.stack([np.bincount(rail, minlength=count) for rail in where.T])
            across = (inside * (hosts - inside)).sum(axis=0) / (hosts - 1)
            load[first : first + count] = load[first + count : first + 2 * count] = across
        return load
