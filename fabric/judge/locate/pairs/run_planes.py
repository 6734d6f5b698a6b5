"""The pair tests of a run by plane, and the routes that were read from its switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fabric.judge.locate.concurrency import slowest_beside
from fabric.judge.locate.pairs.fitted import Fitted, fit_together
from fabric.judge.locate.pairs.rounds import VERIFY
from fabric.judge.locate.pairs.samples import OVER, PairSamples, Routes, pods_of, samples_under, shares_above
from fabric.judge.normal.keys import ends_of, grouped, leaf_of
from fabric.model.diagnosis import PairTest
from fabric.model.part import Part
from fabric.model.probe import AGAIN, FailureKind, Measurement, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes import pairwise, routes
from fabric.probes.pairwise import Plane, planes_of
from fabric.probes.perftest_pair import FLOW_LABEL
from fabric.probes.shapes import int_param

_HIGHEST = 2  # most switches on the way up from a leaf: three levels

Measured = Sequence[tuple[Probe, ProbeResult]]
"""Probes that have a result, in planned order."""


@dataclass(frozen=True)
class RunPlane:
    """
    The tests of one name on one plane of one phase.

    *samples* are the tests that measured something and, with 0 Gb/s, those whose packets were lost. *rounds* is how
    many rounds were run; *verified*: the verifying round at the end was, too.
    """

    phase: str
    name: str
    plane: Plane
    samples: PairSamples
    rounds: int
    verified: bool


def measured_in(phase: str, probes: Iterable[Probe], results: Mapping[str, ProbeResult]) -> Measured:
    """Return the pair tests and routes of a phase that have a result, without those run because one part had dipped."""
    kinds = (pairwise.KIND, routes.KIND)
    return [
        (probe, results[probe.probe_id])
        for probe in probes
        if probe.phase == phase and probe.kind in kinds and probe.probe_id in results and AGAIN not in probe.params
    ]


def run_planes(phase: str, measured: Measured, topology: Topology) -> list[RunPlane]:
    """Return every plane of every pairwise probe of a phase on which something was measured, with the hosts of that."""
    pairs = [(probe, result) for probe, result in measured if probe.kind == pairwise.KIND]
    known = routes_of(measured, topology)
    planes = planes_of(dict.fromkeys(host for probe, _ in pairs for host in probe.hosts), topology)
    at = {(host, one.rail, one.line_rate_gbps): n for n, one in enumerate(planes) for host in one.hosts}

    def of_test(pair: tuple[Probe, ProbeResult]) -> tuple[str, int]:
        host, device = ends_of(pair[0])[0]
        rnic = topology.hosts[host].platform.rnic_by_device[device]
        return str(pair[0].params["name"]), at[host, rnic.rail, rnic.line_rate_gbps]

    tests = {key: mine for key, mine in grouped(pairs, of_test).items() if any(_gbps(one) > 0.0 for _, one in mine)}
    rates = Counter(key[:2] for key in {(name, planes[n].rail, planes[n].line_rate_gbps) for name, n in tests})
    ways = {
        probe.probe_id: way
        for (_, n), mine in tests.items()
        for probe, _ in mine
        if (way := _switches(probe, planes[n], known))
    }
    slowest = slowest_beside([probe for probe, _ in pairs], {one.probe_id: one for _, one in pairs}, topology, ways)
    beside = {probe.probe_id: gbps for (probe, _), gbps in zip(pairs, slowest.tolist(), strict=True)}
    return [
        _plane(
            phase,
            name,
            f"{name} {plane.line_rate_gbps:g}G" if rates[name, plane.rail] > 1 else name,
            plane,
            tests[name, n],
            known.get(plane.name, {}),
            ways,
            beside,
            topology,
        )
        for name in dict.fromkeys(name for name, _ in tests)
        for n, plane in enumerate(planes)
        if (name, n) in tests
    ]


def fitted_planes(planes: Sequence[RunPlane]) -> list[Fitted]:
    """Return the fit of each plane, made together with the planes of its phase, kind of test and line rate."""
    alike = grouped(enumerate(planes), lambda each: (each[1].phase, each[1].name, each[1].plane.line_rate_gbps))
    found = {
        number: fitted
        for mine in alike.values()
        for (number, _), fitted in zip(mine, fit_together([one.samples for _, one in mine]), strict=True)
    }
    return [found[number] for number in range(len(planes))]


def _switches(probe: Probe, plane: Plane, known: Mapping[str, Routes]) -> tuple[str, ...]:
    """Return all switches on the way of a pair across leaves, in order; empty where tables do not say it."""
    up, down = (next((leaf for leaf, hosts in plane.leaves.items() if host in hosts), "") for host in probe.hosts)
    via = known.get(plane.name, {}).get((up, probe.hosts[1])) if up != down else None
    return (up, *via.split(OVER), down) if via else ()


def _plane(
    phase: str,
    name: str,
    kind: str,
    plane: Plane,
    measured: Measured,
    known: Routes,
    ways: Mapping[str, Sequence[str]],
    beside: Mapping[str, float],
    topology: Topology,
) -> RunPlane:
    good = [(probe, _gbps(result)) for probe, result in measured if _gbps(result) > 0.0 or is_lost(result)]
    plane = plane.only(host for probe, _ in good for host in probe.hosts)
    vias = (OVER.join(ways.get(probe.probe_id, ())[1:-1]) or None for probe, _ in good)
    tests = [PairTest(probe.hosts[0], probe.hosts[-1], via) for (probe, _), via in zip(good, vias, strict=True)]
    # Several queue pairs take different ways at once, so what they reach tells nothing of a single way.
    one_way = all(probe.params.get("queue_pairs") == 1 for probe, _ in measured)
    samples = replace(
        samples_under(plane.leaves, tuple(sorted(set(known.values()))), tests, [gbps for _, gbps in good]),
        kind=kind,
        rail=str(good[0][0].params["rnic"]),
        directed=True,
        one_way=True,
        routes=known,
        probe_ids=tuple(probe.probe_id for probe, _ in good),
        slowest_beside_gbps=np.array([beside[probe.probe_id] for probe, _ in good]),
        shares=shares_above(plane.leaves, topology) if one_way else {},
        pods=pods_of(plane.leaves, topology),
        label=np.array([probe.params.get(FLOW_LABEL, 0) for probe, _ in good], dtype=np.int64),
    )
    verified = any(probe.params.get("why") == VERIFY for probe, _ in measured)
    rounds = 1 + max(int_param(probe, "round") for probe, _ in measured)
    return RunPlane(phase, name, plane, samples, rounds, verified)


def _gbps(result: ProbeResult) -> float:
    """Return what was measured, Gb/s; 0 where nothing was, or where the tool says not to judge it as a number."""
    return result.measurements[0].value if result.outcome is None and result.measurements else 0.0


def is_lost(result: ProbeResult) -> bool:
    """Return whether packets vanished on the way and no tool says which part is bad: a sample of 0 Gb/s."""
    return result.failure is FailureKind.RETRIES_EXCEEDED and result.named is None


def _read(measured: Measured, plane: str) -> Iterator[tuple[Probe, Measurement]]:
    """Yield what was read of the switches of a plane."""
    for probe, result in measured:
        if probe.kind == routes.KIND and probe.params["plane"] == plane:
            yield from ((probe, one) for one in result.measurements)


def lids_of(measured: Measured, plane: str) -> dict[str, int]:
    """Return the LIDs of switches and RNICs (``gpu001/mlx5_0``) of a plane, as far as they were read."""
    read = (m for _, m in _read(measured, plane) if m.metric.startswith(f"{routes.LID} "))
    return {m.metric.split(" ", 1)[1]: int(m.value) for m in read}


def routes_of(measured: Measured, topology: Topology) -> dict[str, dict[tuple[str, str], str]]:
    """
    Return by plane over which spine (or switches, with three levels) a leaf sends to a host.

    Tables that were not read are missing. Where a hash draws the way of each connection (ECMP), tables do not say it.
    """
    found: dict[str, dict[tuple[str, str], str]] = {}
    read = measured if topology.routing != "ecmp" else ()
    tables = [(probe, result) for probe, result in read if probe.kind == routes.KIND and probe.params["lid"]]
    for plane in dict.fromkeys(str(probe.params["plane"]) for probe, _ in tables):
        ends = {lid: Part.of(name).place for name, lid in lids_of(measured, plane).items() if "/" in name}
        under = {host: leaf_of(topology.hosts[host], device) or "" for host, device in ends.values()}
        peers = peers_of(measured, plane)
        above: dict[str, set[str]] = {}
        for (switch, _), peer in peers.items():
            above.setdefault(switch, set()).add(peer)
        sends: dict[tuple[str, str], str] = {}
        for probe, m in _read(tables, plane):
            switch = str(probe.params["leaf"])
            lid, port = int(m.metric.split(" ")[1]), (switch, int(m.value))
            if lid in ends and port in peers:
                sends[switch, ends[lid][0]] = peers[port]
        ways = {key: _way(*key, under[key[1]], sends, above) for key in sends if key[0] in under.values()}
        found[plane] = {key: OVER.join(way) for key, way in ways.items() if way}
    return found


def _way(
    leaf: str, host: str, there: str, sends: Mapping[tuple[str, str], str], above: Mapping[str, set[str]]
) -> tuple[str, ...]:
    """
    Return the switches above the leaves on the way from *leaf* to a host; empty where they are not known to the end.

    The way goes up as the tables say, and down over the one switch that joins the highest with *there*, the host's
    leaf.
    """
    way: tuple[str, ...] = ()
    while (leaf, host) in sends and len(way) < _HIGHEST:
        leaf = sends[leaf, host]
        way += (leaf,)
    if leaf in above.get(there, set()) or (there not in above and leaf not in above):
        return way
    down = [switch for switch in above.get(there, set()) if leaf in above.get(switch, set())]
    return (*way, down[0]) if len(down) == 1 else ()


def peers_of(measured: Measured, plane: str) -> dict[tuple[str, int], str]:
    """Return the switch above each port of each switch."""
    found = {}
    for _, m in _read(measured, plane):
        if m.metric.startswith(f"{routes.PEER} "):
            _, end, peer = m.metric.split(" ", 2)
            found[end.rpartition(":")[0], int(m.value)] = peer
    return found
