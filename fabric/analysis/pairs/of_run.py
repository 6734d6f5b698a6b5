"""The pair tests of a run's phase: by plane, as the decoder and the scheduler take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fabric.analysis.pairs.schedule import State
from fabric.analysis.pairs.settle import Routes
from fabric.analysis.pairs.targeted import VERIFY
from fabric.model.diagnosis import PairTest
from fabric.model.follow_up import AGAIN
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes import pairwise, routes
from fabric.probes.pair_planes import Plane, planes_of

Measured = Sequence[tuple[Probe, ProbeResult]]
"""Probes that have a result, in planned order."""


@dataclass(frozen=True)
class RunPlane:
    """
    The tests of one name on one plane of one phase.

    *state* holds those that measured something; *probe_ids* are theirs, in the same order. *verified*: the last round
    was run.
    """

    phase: str
    name: str
    plane: Plane
    state: State
    probe_ids: tuple[str, ...]
    verified: bool


def measured_in(phase: str, probes: Iterable[Probe], results: Mapping[str, ProbeResult]) -> Measured:
    """What of the pair tests and routes of a phase has a result; not what was run because one part had dipped."""
    kinds = (pairwise.KIND, routes.KIND)
    return [
        (probe, results[probe.probe_id])
        for probe in probes
        if probe.phase == phase and probe.kind in kinds and probe.probe_id in results and AGAIN not in probe.params
    ]


def run_planes(phase: str, measured: Measured, topology: Topology) -> list[RunPlane]:
    """Every plane of every pairwise probe of a phase; only hosts of which something was measured are in it."""
    pairs = [(probe, result) for probe, result in measured if probe.kind == pairwise.KIND]
    known = routes_of(measured)
    planes = planes_of(dict.fromkeys(host for probe, _ in pairs for host in probe.hosts), topology)
    by_key: dict[tuple[object, object, float], list[tuple[Probe, ProbeResult]]] = {}
    for probe, result in pairs:
        rnic = topology.hosts[probe.hosts[0]].platform.rnic_by_device[str(probe.params["rnic"])]
        by_key.setdefault((probe.params["name"], rnic.rail, rnic.line_rate_gbps), []).append((probe, result))
    names = dict.fromkeys(str(name) for name, _, _ in by_key)
    return [
        _plane(phase, name, plane, by_key[name, plane.rail, plane.line_rate_gbps], known.get(plane.name, {}))
        for name in names
        for plane in planes
        if (name, plane.rail, plane.line_rate_gbps) in by_key
    ]


def _plane(phase: str, name: str, plane: Plane, measured: Measured, known: Routes) -> RunPlane:
    good = [(probe, _gbps(result)) for probe, result in measured if _gbps(result) > 0.0]
    plane = plane.only(host for probe, _ in good for host in probe.hosts)
    leaf = {host: leaf for leaf, hosts in plane.leaves.items() for host in hosts}
    tests = []
    for probe, gbps in good:
        a, b = probe.hosts
        via = known.get((leaf[a], b)) if leaf[a] != leaf[b] else None
        tests.append((PairTest(a, b, via, str(probe.params.get("why", ""))), gbps))
    state = State(
        leaves=plane.leaves,
        spines=tuple(sorted(set(known.values()))),
        rounds=1 + max((pairwise.round_of(probe) for probe, _ in measured), default=-1),
        results=tuple(tests),
        routes=known,
        rail=str(good[0][0].params["rnic"]) if good else f"rail{plane.rail}",
        directed=True,
    )
    verified = any(probe.params.get("why") == VERIFY for probe, _ in measured)
    return RunPlane(phase, name, plane, state, tuple(probe.probe_id for probe, _ in good), verified)


def _gbps(result: ProbeResult) -> float:
    """What was measured; 0 where nothing was, or where the tool says that it is not to be judged as a number."""
    return result.measurements[0].value if result.outcome is None and result.measurements else 0.0


def lids_of(measured: Measured, plane: str) -> dict[str, int]:
    """The LIDs of leaves and RNICs (``gpu001/mlx5_0``) of a plane, as far as they were read."""
    return {
        m.metric.split(" ", 1)[1]: int(m.value)
        for probe, result in measured
        if probe.kind == routes.KIND and probe.params["plane"] == plane
        for m in result.measurements
        if m.metric.startswith(f"{routes.LID} ")
    }


def routes_of(measured: Measured) -> dict[str, dict[tuple[str, str], str]]:
    """By plane: over which spine a leaf sends to a host, as far as tables were read."""
    found: dict[str, dict[tuple[str, str], str]] = {}
    tables = [(probe, result) for probe, result in measured if probe.kind == routes.KIND and probe.params["lid"]]
    for plane in dict.fromkeys(str(probe.params["plane"]) for probe, _ in tables):
        host_of = {lid: name.split("/")[0] for name, lid in lids_of(measured, plane).items() if "/" in name}
        peers = peers_of(measured, plane)
        for probe, result in tables:
            if probe.params["plane"] != plane:
                continue
            leaf = str(probe.params["leaf"])
            for m in result.measurements:
                host = host_of.get(int(m.metric.split(" ")[1]))
                spine = peers.get((leaf, int(m.value)))
                if host is not None and spine is not None:
                    found.setdefault(plane, {})[leaf, host] = spine
    return found


def peers_of(measured: Measured, plane: str) -> dict[tuple[str, int], str]:
    """The switch behind each port of each leaf."""
    found = {}
    for probe, result in measured:
        if probe.kind == routes.KIND and probe.params["plane"] == plane:
            for m in result.measurements:
                if m.metric.startswith(f"{routes.PEER} "):
                    _, end, peer = m.metric.split(" ", 2)
                    found[end.rpartition(":")[0], int(m.value)] = peer
    return found
