"""Pair tests of one part with partners that are well, another one each time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from fabric.model.diagnosis import PairTest
from fabric.model.follow_up import AGAIN
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.probes.pair_planes import Plane, planes_of
from fabric.probes.pairwise import PairwiseSpec

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

    Partners are RNICs of the same rail and line rate that are *well*. Who sends changes from test to test. What would
    take longer than the tests of one part is left for the next time: a partner has one test at once, so parts of one
    leaf get so many times what one may have as there are partners; beyond a leaf tests wait for each other, so that
    there all parts together get what one may have. None for a part that has no such partner.
    """
    hosts = {name.partition("/")[0] for name in (*wanted, *well)}
    planes = planes_of((name for name in topology.hosts if name in hosts), topology)
    most = across_left = max(wanted.values(), default=0)
    near_left: dict[tuple[int, float, str], int] = {}
    made: list[Probe] = []
    for place, (part, count) in enumerate(wanted.items()):
        for plane in planes:
            if _is_on(part, plane, topology):
                leaf, partners = _partners(part, plane, well, topology)
                if not partners:
                    continue
                if leaf is None:
                    count = min(count, across_left)
                    across_left -= count
                else:
                    key = (plane.rail, plane.line_rate_gbps, leaf)
                    count = min(count, near_left.setdefault(key, most * len(partners)))
                    near_left[key] -= count
                made += _of_part(spec, phase, part, plane, partners, done.get(part, 0), count, place, topology)
    return made


def partner_of(probe: Probe) -> str:
    """The RNIC at the other end of a test that was begun because of one."""
    ends = (f"{probe.hosts[0]}/{probe.params['rnic']}", f"{probe.hosts[-1]}/{probe.params['peer_rnic']}")
    return next(end for end in ends if end != probe.params[AGAIN])


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
    once = spec.changed(name=f"{spec.name}-again", repeat=1)
    for number in range(done, done + count):
        other = partners[(number + place * max(1, len(partners) // 2)) % len(partners)]
        reverse = (number + number // len(partners)) % 2 == 1
        test = PairTest(host, other, why=f"{part} dipped")
        for probe in once.probes_of(
            test, plane, phase=phase, topology=topology, number=spec.first + spec.rounds + number, reverse=reverse
        ):
            label = f"{part.partition('/')[2]}.{host}.n{number + 1}"
            pair = "+".join(probe.hosts)
            params = {**probe.params, AGAIN: part, "series": f"{pair}/{label}"}
            yield replace(probe, probe_id=f"{phase}/{pair}/{once.name}.{label}", params=params)


def _is_on(part: str, plane: Plane, topology: Topology) -> bool:
    host, _, device = part.partition("/")
    rnic = topology.hosts[host].platform.rnic_by_device[device]
    return rnic.rail == plane.rail and rnic.line_rate_gbps == plane.line_rate_gbps


def _partners(part: str, plane: Plane, well: Collection[str], topology: Topology) -> tuple[str | None, list[str]]:
    """Its own leaf if they are under it, and the hosts."""
    host = part.partition("/")[0]
    of_rail = {
        one: next(rnic.device for rnic in topology.hosts[one].platform.rnics if rnic.rail == plane.rail)
        for one in plane.hosts
    }
    good = [one for one in plane.hosts if one != host and f"{one}/{of_rail[one]}" in well]
    for leaf, hosts in plane.leaves.items():
        under = frozenset(hosts)
        near = [one for one in good if one in under] if host in under else []
        if len(near) >= LEAST_PARTNERS:
            return leaf, near
    return None, good
