"""Pair tests of one part with partners that are well, another one each time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from fabric.model.diagnosis import PairTest
from fabric.model.follow_up import AGAIN
from fabric.model.probe import Probe
from fabric.model.scenario import PairwiseSpec
from fabric.model.topology import Topology
from fabric.probes import pairwise
from fabric.probes.pair_planes import Plane, planes_of

LEAST_PARTNERS = 3
"""Fewer good partners under its leaf are not enough: then those beyond it are asked (a choice)."""


def tests(
    spec: PairwiseSpec,
    phase: str,
    wanted: Mapping[str, int],
    *,
    done: Mapping[str, int],
    well: Collection[str],
    topology: Topology,
) -> list[Probe]:
    """
    For each part (``gpu001/mlx5_3``) the *wanted* number of tests, after those *done* in this *phase*.

    Partners are RNICs of the same rail and line rate that are *well*. Who sends changes from test to test. Beyond a
    leaf tests wait for each other, so that there all parts together get what one part may have. None for a part that
    has no such partner.
    """
    hosts = {name.partition("/")[0] for name in (*wanted, *well)}
    planes = planes_of((name for name in topology.hosts if name in hosts), topology)
    across_left = max(wanted.values(), default=0)
    made: list[Probe] = []
    for place, (part, count) in enumerate(wanted.items()):
        for plane in planes:
            if _is_on(part, plane, topology):
                near, partners = _partners(part, plane, well, topology)
                count = count if near else min(count, across_left)
                across_left -= 0 if near else count
                made += _of_part(spec, phase, part, plane, partners, done.get(part, 0), count, place, topology)
    return made


def _of_part(
    spec: PairwiseSpec,
    phase: str,
    part: str,
    plane: Plane,
    partners: list[str],
    done: int,
    count: int,
    place: int,
    topology: Topology,
) -> Iterator[Probe]:
    """Several parts of one plane begin with other partners, so that they seldom wait for the same."""
    host = part.partition("/")[0]
    once = replace(spec, name=f"{spec.name}-again", repeat=1)
    for number in range(done, done + count) if partners else ():
        other = partners[(number + place * max(1, len(partners) // 2)) % len(partners)]
        reverse = (number + number // len(partners)) % 2 == 1
        test = PairTest(host, other, why=f"{part} dipped")
        for probe in pairwise.probes_of(
            once, test, plane, phase=phase, topology=topology, number=spec.first + spec.rounds + number, reverse=reverse
        ):
            label = f"{part.partition('/')[2]}.{host}.n{number + 1}"
            pair = "+".join(probe.hosts)
            params = {**probe.params, AGAIN: part, "series": f"{pair}/{label}"}
            yield replace(probe, probe_id=f"{phase}/{pair}/{once.name}.{label}", params=params)


def _is_on(part: str, plane: Plane, topology: Topology) -> bool:
    host, _, device = part.partition("/")
    rnic = topology.hosts[host].platform.rnic_by_device[device]
    return rnic.rail == plane.rail and rnic.line_rate_gbps == plane.line_rate_gbps


def _partners(part: str, plane: Plane, well: Collection[str], topology: Topology) -> tuple[bool, list[str]]:
    """Whether they are under its own leaf, and the hosts."""
    host = part.partition("/")[0]
    of_rail = {one: rnic.device for one in plane.hosts for rnic in topology.hosts[one].platform.rnics
               if rnic.rail == plane.rail}  # fmt: skip
    good = [one for one in plane.hosts if one != host and f"{one}/{of_rail[one]}" in well]
    leaf = next((frozenset(hosts) for hosts in plane.leaves.values() if host in hosts), frozenset[str]())
    near = [one for one in good if one in leaf]
    return (True, near) if len(near) >= LEAST_PARTNERS else (False, good)
