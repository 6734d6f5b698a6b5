"""Pair tests of one part with partners that are well, another one each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from fabric.judge.course.dips.in_round import low_among
from fabric.judge.course.rows import measured_gbps
from fabric.judge.normal.samples import gave_up
from fabric.model.diagnosis import PairTest
from fabric.model.part import Part
from fabric.model.probe import AGAIN, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes.pairs import Plane, planes_of
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
    hosts = {Part.of(name).host for name in (*wanted, *well)}
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
    host = Part.of(part).host
    once = spec.changed(name=f"{spec.name}-again", repeat=1)
    for number in range(done, done + count):
        other = partners[(number + place * max(1, len(partners) // 2)) % len(partners)]
        reverse = (number + number // len(partners)) % 2 == 1
        test = PairTest(host, other, why=f"{part} dipped")
        for probe in once.probes_of(
            test, plane, phase=phase, topology=topology, number=spec.first + spec.rounds + number, reverse=reverse
        ):
            label = f"{Part.of(part).item}.{host}.n{number + 1}"
            pair = "+".join(probe.hosts)
            params = {**probe.params, AGAIN: part, "series": f"{pair}/{label}"}
            yield replace(probe, probe_id=f"{phase}/{pair}/{once.name}.{label}", params=params)


def _is_on(part: str, plane: Plane, topology: Topology) -> bool:
    host, device = Part.of(part).place
    rnic = topology.hosts[host].platform.rnic_by_device[device]
    return rnic.rail == plane.rail and rnic.line_rate_gbps == plane.line_rate_gbps


def _partners(part: str, plane: Plane, well: Collection[str], topology: Topology) -> tuple[str | None, list[str]]:
    """Its own leaf if they are under it, and the hosts."""
    host = Part.of(part).host
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


LEAST_WITH_PARTNER = 2
"""A partner with which so many of a part's further tests in a round dip, and none with another, is measured again
itself (a choice: it may be the one)."""


def counted(added: Sequence[Probe]) -> Counter[str]:
    """How many tests each part was given in this round."""
    return Counter(str(probe.params[AGAIN]) for probe in added if AGAIN in probe.params)


def answers_of(
    added: Sequence[Probe], by_id: Mapping[str, ProbeResult], topology: Topology
) -> dict[str, tuple[int, int]]:
    """Of each part the tests of this round that told something of it, and in how many of them it dipped."""
    own = [probe for probe in added if AGAIN in probe.params and _tells(by_id.get(probe.probe_id))]
    low = _low(own, by_id, topology)
    found: dict[str, tuple[int, int]] = {}
    for probe in own:
        tests, again = found.get(str(probe.params[AGAIN]), (0, 0))
        found[str(probe.params[AGAIN])] = tests + 1, again + (probe.probe_id in low)
    return found


def doubtful_partners(added: Sequence[Probe], by_id: Mapping[str, ProbeResult], topology: Topology) -> list[str]:
    """
    Those with which alone the further tests of a part in this round dip, though it was tested with others, too.

    A part that has one partner only is told from it by what others measure with that partner.
    """
    own = [probe for probe in added if AGAIN in probe.params and _tells(by_id.get(probe.probe_id))]
    low = _low(own, by_id, topology)
    partners: dict[str, set[str]] = {}
    dipped: dict[str, list[str]] = {}
    for probe in own:
        part = str(probe.params[AGAIN])
        partners.setdefault(part, set()).add(partner_of(probe))
        if probe.probe_id in low:
            dipped.setdefault(part, []).append(partner_of(probe))
    found = {
        others[0]
        for part, others in dipped.items()
        if len(others) >= LEAST_WITH_PARTNER and len(set(others)) == 1 and len(partners[part]) > 1
    }
    return sorted(found)


def _low(own: Sequence[Probe], by_id: Mapping[str, ProbeResult], topology: Topology) -> set[str]:
    """The ids of those that are low among their like, or of which the transport gave up, as for the verdict."""
    low, _ = low_among(own, by_id, topology)
    return low | {probe.probe_id for probe in own if gave_up(by_id[probe.probe_id])}


def _tells(result: ProbeResult | None) -> bool:
    """Something was measured, or the transport gave up: an ERROR of ours says nothing of a part."""
    return result is not None and (measured_gbps(result) is not None or gave_up(result))


def unanswered_by(added: Sequence[Probe], by_id: Mapping[str, ProbeResult]) -> tuple[Counter[str], set[str]]:
    """How many tests of each part in this round told nothing, and with which partners."""
    own = [probe for probe in added if AGAIN in probe.params and probe.probe_id in by_id]
    lost = [probe for probe in own if measured_gbps(by_id[probe.probe_id]) is None]
    return Counter(str(probe.params[AGAIN]) for probe in lost), {partner_of(probe) for probe in lost}
