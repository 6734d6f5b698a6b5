"""
Which RNICs dipped in one round of a phase without an explanation, and the pair tests that measure them again.

What is slow most of the time or failed explains its partners. Partners of further tests are RNICs that are well,
another one each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fabric.judge.course.rows import measured_gbps, rows_of
from fabric.judge.normal.keys import rnics_of
from fabric.model.diagnosis import PairTest
from fabric.model.part import Part
from fabric.model.probe import AGAIN, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes import pairwise
from fabric.probes.pairs import Plane, planes_of
from fabric.probes.pairwise import PairwiseSpec

MOST_DIPS = 16
"""More probes that dip in one round, of which nothing is explained, are no single parts (a choice: a part that dips in
one of fifty probes is seen once in ten rounds; sixteen such parts in one fleet at once are something in common)."""

MOST_SHARE = 0.1
"""So is a greater share of all, of four probes or more (a choice)."""

LEAST_PARTNERS = 3
"""Fewer good partners under its leaf are not enough: then those beyond it are asked (a choice)."""


@dataclass(frozen=True, slots=True)
class RoundDips:
    """
    *parts*: RNICs and in how many probes of the round they may have dipped. *well*: RNICs of which every probe was
    good. *able*: RNICs with which a further test would measure something: they took part in pair tests of the round,
    nothing of them or of a collective of their host failed, and they are not low most of the time. Where too many
    probes dipped without an explanation, no part is accused.
    """

    parts: Mapping[str, int]
    well: frozenset[str]
    able: frozenset[str]


def dips_in_round(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], topology: Topology, *, known_bad: Collection[str]
) -> RoundDips:
    """
    What the planned probes of a round say: pair tests accuse both ends, collectives of two hosts all their RNICs.

    *known_bad* are sure already, and explain others.
    """
    begun = [p for p in probes if len(p.hosts) == 2 and p.probe_id in results and results[p.probe_id].attempt > 0]
    measured = [probe for probe in begun if measured_gbps(results[probe.probe_id]) is not None]
    rows = rows_of(measured, results, dict.fromkeys({probe.phase for probe in measured}, ""), topology).rows
    seen = Counter(end for probe in begun for end in _ends(probe))
    low = [row.probe for row in rows if row.low]
    bad = Counter(end for probe in low for end in _ends(probe))
    gone = {end for probe in begun if measured_gbps(results[probe.probe_id]) is None for end in _ends(probe)}
    gone |= {end for end, count in bad.items() if seen[end] > 1 and 2 * count > seen[end]}
    left = [probe for probe in low if not _is_explained(probe, {*gone, *known_bad})]
    able = frozenset(end for end in seen if "/" in end and gone.isdisjoint((end, Part.of(end).host)))
    well = frozenset(end for end in able if not bad[end] and end not in known_bad)
    accused: Counter[str] = Counter()
    for probe in left:
        of_hosts = (end for end in able if Part.of(end).host in probe.hosts)
        accused.update(able.intersection(_ends(probe)) if probe.kind == pairwise.KIND else of_hosts)
    return RoundDips({} if are_too_many(len(left), len(rows)) else accused, well - accused.keys(), able)


def are_too_many(dips: int, compared: int) -> bool:
    """Whether so many probes that dip, of so many that were *compared*, are no single parts."""
    return dips > MOST_DIPS or (dips >= 4 and dips > MOST_SHARE * compared)


def answers_of(
    added: Sequence[Probe], by_id: Mapping[str, ProbeResult], topology: Topology
) -> dict[str, tuple[int, int]]:
    """
    Of each part the tests of this round that told something of it, and in how many of them it dipped.

    That a transport gave up tells as much as a dip; an ERROR of ours says nothing.
    """
    own = [probe for probe in added if AGAIN in probe.params]
    rows = rows_of(own, by_id, dict.fromkeys({probe.phase for probe in own}, ""), topology).rows
    tests = Counter(str(row.probe.params[AGAIN]) for row in rows)
    low = Counter(str(row.probe.params[AGAIN]) for row in rows if row.low)
    return {part: (count, low[part]) for part, count in tests.items()}


def unanswered(added: Sequence[Probe], by_id: Mapping[str, ProbeResult]) -> Counter[str]:
    """How many tests of this round measured nothing, by the parts that they were run for and by their partners."""
    own = [probe for probe in added if AGAIN in probe.params and probe.probe_id in by_id]
    return Counter(end for probe in own if measured_gbps(by_id[probe.probe_id]) is None for end in _ends(probe))


def further_tests(
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
    most = max(wanted.values(), default=0)
    left: dict[object, int] = {}
    made: list[Probe] = []
    for place, (part, count) in enumerate(wanted.items()):
        for plane in planes:
            leaf, partners = _partners(part, plane, well, topology)
            if partners:
                shared = None if leaf is None else (plane.rail, plane.line_rate_gbps, leaf)
                count = min(count, left.setdefault(shared, most * (1 if leaf is None else len(partners))))
                left[shared] -= count
                first = place * max(1, len(partners) // 2)  # parts seldom wait for the same partner
                numbers = range(done.get(part, 0), done.get(part, 0) + count)
                made += _tests(
                    spec,
                    phase,
                    part,
                    plane,
                    [*partners[first % len(partners) :], *partners][: len(partners)],
                    numbers,
                    topology,
                )
    return made


def _tests(
    spec: PairwiseSpec,
    phase: str,
    part: str,
    plane: Plane,
    partners: Sequence[str],
    numbers: range,
    topology: Topology,
) -> Iterator[Probe]:
    host, device = Part.of(part).place
    once = spec.changed(name=f"{spec.name}-again", repeat=1)
    for number in numbers:
        test = PairTest(host, partners[number % len(partners)], why=f"{part} dipped")
        reverse = (number + number // len(partners)) % 2 == 1
        for probe in once.probes_of(
            test, plane, phase=phase, topology=topology, number=spec.first + spec.rounds + number, reverse=reverse
        ):
            label, pair = f"{device}.{host}.n{number + 1}", "+".join(probe.hosts)
            params = {**probe.params, AGAIN: part, "series": f"{pair}/{label}"}
            yield replace(probe, probe_id=f"{phase}/{pair}/{once.name}.{label}", params=params)


def _partners(part: str, plane: Plane, well: Collection[str], topology: Topology) -> tuple[str | None, list[str]]:
    """Its own leaf if they are under it, and the hosts; none where it is not of this plane."""
    host, device = Part.of(part).place
    rnic = topology.hosts[host].platform.rnic_by_device[device]
    if (rnic.rail, rnic.line_rate_gbps) != (plane.rail, plane.line_rate_gbps):
        return None, []
    of_rail = {
        one: next(rnic.device for rnic in topology.hosts[one].platform.rnics if rnic.rail == plane.rail)
        for one in plane.hosts
    }
    good = [one for one in plane.hosts if one != host and f"{one}/{of_rail[one]}" in well]
    for leaf, hosts in plane.leaves.items():
        near = [one for one in good if one in hosts] if host in hosts else []
        if len(near) >= LEAST_PARTNERS:
            return leaf, near
    return None, good


def _ends(probe: Probe) -> tuple[str, ...]:
    """The RNICs of a pair test, the hosts of a collective."""
    return rnics_of(probe) or probe.hosts


def _is_explained(probe: Probe, explaining: Collection[str]) -> bool:
    """By one of its ends, by the host of one, or, of a collective, by an RNIC of its hosts."""
    if probe.kind != pairwise.KIND:
        return any(Part.of(name).host in probe.hosts for name in explaining)
    return not {*_ends(probe), *probe.hosts}.isdisjoint(explaining)
