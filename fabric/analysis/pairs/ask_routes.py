"""
Which tables of switches a run asks for next, and on which host: where one cannot say, the next is asked, a few at most.

Hosts that measured pairs of the plane are asked: their port is up and they answer. How fast they are says nothing about
what they read; so the host that the inventory names is asked first though it may not measure pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric.analysis.pairs.of_run import Measured, lids_of
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.probes import pairwise, routes
from fabric.probes.pair_planes import NO_LEAF, Plane, planes_of

ASKERS_MOST = 3
"""Hosts that are asked for the same table (a choice: what three hosts cannot read is not the host's trouble)."""

ROUTE_ROUNDS = 2 * ASKERS_MOST
"""Before the first further round: who is where, then the tables of the leaves."""


def route_probes(phase: str, measured: Measured, topology: Topology, *, first: str | None, sudo: bool) -> list[Probe]:
    """
    Who is where, for each plane; once that is known, the table of each leaf of which the LID is known.

    What could not be read is asked for on another host: *first* before all others, then one of each leaf. None: all is
    read, or nobody is left to ask.
    """
    asked: list[Probe] = []
    for plane in _planes(measured, topology):
        askers = _askers(plane, first, topology)
        links = [(probe.hosts[0], good) for probe, good in _asked(measured, plane, 0)]
        if not any(good for _, good in links):
            asker = _next(askers, [host for host, _ in links])
            if asker is not None:
                asked.append(routes.links_probe(plane, phase=phase, asker=asker, topology=topology, sudo=sudo))
            continue
        lids = lids_of(measured, plane.name)
        ends = [lid for name, lid in lids.items() if "/" in name]
        # Who could say who is where is asked first for the tables too.
        askers = sorted(askers, key=lambda host: (host, True) not in links)
        for leaf in (leaf for leaf in plane.leaves if leaf in lids):
            tables = _asked(measured, plane, lids[leaf])
            asker = _next(askers, [probe.hosts[0] for probe, _ in tables])
            if asker is not None and not any(good for _, good in tables):
                asked.append(
                    routes.table_probe(
                        plane, leaf, lids[leaf], ends, phase=phase, asker=asker, topology=topology, sudo=sudo
                    )
                )
    return asked


def _planes(measured: Measured, topology: Topology) -> list[Plane]:
    """Planes of InfiniBand hosts under two leaves or more, each with the hosts that measured something on its rail."""
    rails: dict[int, set[str]] = {}
    for probe, result in measured:
        if probe.kind == pairwise.KIND and result.outcome is None:
            rails.setdefault(int(str(probe.params["rail"])), set()).update(probe.hosts)
    infiniband = [name for name, host in topology.hosts.items() if host.platform.link_layer == "infiniband"]
    found = [
        plane
        for rail, hosts in sorted(rails.items())
        for plane in planes_of([name for name in infiniband if name in hosts], topology)
        if plane.rail == rail
    ]
    return [plane for plane in found if len(plane.leaves) >= 2 and NO_LEAF not in plane.leaves]


def _asked(measured: Measured, plane: Plane, lid: int) -> list[tuple[Probe, bool]]:
    """What was asked of a plane for one LID (0: who is where), and whether it was read."""
    return [
        (probe, result.outcome is Outcome.PASS)
        for probe, result in measured
        if probe.kind == routes.KIND and probe.params["plane"] == plane.name and probe.params["lid"] == lid
    ]


def _askers(plane: Plane, first: str | None, topology: Topology) -> list[str]:
    """The one that the inventory names, if it has an RNIC on this rail, then hosts of one leaf after the other."""
    there = (
        first is not None
        and first in topology.hosts
        and any(r.rail == plane.rail for r in topology.hosts[first].platform.rnics)
    )
    named = [first] if first is not None and there else []
    return list(dict.fromkeys([*named, *(hosts[0] for hosts in plane.leaves.values()), *plane.hosts]))


def _next(askers: Sequence[str], tried: Sequence[str]) -> str | None:
    if len(tried) >= ASKERS_MOST:
        return None
    return next((host for host in askers if host not in tried), None)
