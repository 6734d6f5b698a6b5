"""
Which pairs to measure next, round by round, until the bad part is named or no more can be learnt.

``next_round(state)`` is a pure function: whoever measures (an engine, a person, the benchmark) runs the tests it
returns, adds the results with ``State.with_results`` and asks again. No tests: it is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fabric.judge.locate.pairs.fitted import EFFECT_FLOOR, Fitted, fit, fit_together
from fabric.judge.locate.pairs.samples import OVER, PairSamples, Routes
from fabric.judge.locate.pairs.targeted import VERIFY, accused, covering
from fabric.judge.locate.structure import UNKNOWN
from fabric.model.diagnosis import PairTest
from fabric.model.part import Part
from fabric.model.probe import AGAIN, FailureKind, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes import pairwise, routes
from fabric.probes.pairs import Plane, across_leaves, planes_of, under_leaves

FIRST_ROUNDS = 3
"""One under the leaves, two across them; the rest goes after suspects."""

MOST_ROUNDS = 9
"""Then what is not localised is reported as ambiguous (a choice; 300 simulated runs need 4 in the mean)."""

FURTHER_ROUNDS = 10
"""
As many more for parts that are blamed and not certain, and for nothing else (a choice).

The trade, of 100 simulated fleets with hosts that lost 3 % at a noise of 2 %: one in ten such hosts is blamed and stays
just below certainty after nine rounds. Going on with those alone finds them with a few tests a round, so the mean
number of samples a host hardly grows, but a run with such a host lasts up to twice as many rounds.
"""


@dataclass(frozen=True)
class PairState:
    """
    Hosts by leaf, the spines that a test can be sent over (none: paths cannot be chosen), and what was measured.

    *results* holds one bandwidth a sample, Gb/s; a test that was repeated is there as often. A test that gave no number
    is left out, for it is evidence for nothing, unless packets were lost between its hosts: that is 0 Gb/s. *routes*:
    paths are static, and this is the spine that a leaf sends over to a host; then a test names the spine that it will
    cross.
    """

    leaves: Mapping[str, Sequence[str]]
    spines: tuple[str, ...] = ()
    rounds: int = 0
    results: tuple[tuple[PairTest, float], ...] = ()
    floor: float = EFFECT_FLOOR
    routes: Routes = field(default_factory=dict)
    rail: str | None = None
    directed: bool = False
    most_rounds: int = MOST_ROUNDS
    further_rounds: int = FURTHER_ROUNDS

    def with_results(self, results: Iterable[tuple[PairTest, float]]) -> PairState:
        """After one more round."""
        return replace(self, rounds=self.rounds + 1, results=(*self.results, *results))

    def samples(self) -> PairSamples:
        """What was measured, as arrays."""
        hosts = tuple(host for group in self.leaves.values() for host in group)
        at = {host: number for number, host in enumerate(hosts)}
        spine = {name: number for number, name in enumerate(self.spines)}
        names = tuple(self.leaves)
        return PairSamples(
            hosts=hosts,
            a=np.array([at[test.a] for test, _ in self.results], dtype=np.int64),
            b=np.array([at[test.b] for test, _ in self.results], dtype=np.int64),
            gbps=np.array([gbps for _, gbps in self.results]),
            leaves=names if len(names) > 1 else (),
            leaf=np.array([n for n, group in enumerate(self.leaves.values()) for _ in group], dtype=np.int64),
            spines=self.spines,
            via=np.array([spine[test.via] if test.via else UNKNOWN for test, _ in self.results], dtype=np.int64),
            directed=self.directed,
            one_way=self.directed,
            placed=True,
            rail=self.rail,
            routes=self.routes,
        )

    def fitted(self) -> Fitted:
        """What the results say so far; at least one must be above 0."""
        return fit(self.samples(), floor=self.floor)


def next_round(state: PairState, fitted: Fitted | None = None) -> tuple[PairTest, ...]:
    """
    The host-disjoint tests of the next round; none when the verdict stands or *most_rounds* were run.

    After those *further_rounds* are for what is blamed and not certain yet. No round is without limit.
    Until everything was measured no verdict stands: a direction that no test went through is not cleared.
    *fitted* is what the results say beside those of other planes; without it, by themselves.
    """
    if state.rounds == 0:
        return tuple(under_leaves(state.leaves))
    if state.rounds < FIRST_ROUNDS:
        return tuple(across_leaves(state.leaves, () if state.routes else state.spines, state.rounds - 1))
    over = state.rounds >= state.most_rounds
    if state.rounds >= state.most_rounds + state.further_rounds or not any(gbps > 0 for _, gbps in state.results):
        return ()
    if over:
        return tuple(accused(fitted or state.fitted()))
    return tuple(covering(fitted or state.fitted()))


_HIGHEST = 2  # switches on the way up from a leaf: three levels

Measured = Sequence[tuple[Probe, ProbeResult]]
"""Probes that have a result, in planned order."""


@dataclass(frozen=True)
class RunPlane:
    """
    The tests of one name on one plane of one phase.

    *state* holds those that measured something, and with 0 Gb/s those whose packets were lost; *probe_ids* are theirs,
    in the same order. *verified*: the last round was run.
    """

    phase: str
    name: str
    plane: Plane
    state: PairState
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
    known = routes_of(measured, topology)
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


def fitted_planes(planes: Sequence[RunPlane]) -> list[Fitted | None]:
    """What each plane says beside those of its kind of test and line rate; None where nothing was measured."""
    alike: dict[tuple[str, str, float], list[int]] = {}
    for number, one in enumerate(planes):
        if one.state.results:
            alike.setdefault((one.phase, one.name, one.plane.line_rate_gbps), []).append(number)
    found: list[Fitted | None] = [None] * len(planes)
    for numbers in alike.values():
        states = [planes[number].state for number in numbers]
        floor = min(state.floor for state in states)
        for number, fitted in zip(numbers, fit_together([s.samples() for s in states], floor=floor), strict=True):
            found[number] = fitted
    return found


def _plane(phase: str, name: str, plane: Plane, measured: Measured, known: Routes) -> RunPlane:
    told = [(probe, _gbps(result)) for probe, result in measured if _gbps(result) > 0.0 or is_lost(result)]
    good = told if any(gbps > 0.0 for _, gbps in told) else []
    plane = plane.only(host for probe, _ in good for host in probe.hosts)
    leaf = {host: leaf for leaf, hosts in plane.leaves.items() for host in hosts}
    tests = []
    for probe, gbps in good:
        a, b = probe.hosts
        via = known.get((leaf[a], b)) if leaf[a] != leaf[b] else None
        tests.append((PairTest(a, b, via, str(probe.params.get("why", ""))), gbps))
    state = PairState(
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


def is_lost(result: ProbeResult) -> bool:
    """Whether packets vanished on the way, and no tool says which part is bad: a sample of nothing."""
    return result.failure is FailureKind.RETRIES_EXCEEDED and result.named is None


def lids_of(measured: Measured, plane: str) -> dict[str, int]:
    """The LIDs of switches and RNICs (``gpu001/mlx5_0``) of a plane, as far as they were read."""
    return {
        m.metric.split(" ", 1)[1]: int(m.value)
        for probe, result in measured
        if probe.kind == routes.KIND and probe.params["plane"] == plane
        for m in result.measurements
        if m.metric.startswith(f"{routes.LID} ")
    }


def routes_of(measured: Measured, topology: Topology) -> dict[str, dict[tuple[str, str], str]]:
    """By plane: over which spine (or switches, of three levels) a leaf sends to a host, as far as tables were read."""
    found: dict[str, dict[tuple[str, str], str]] = {}
    tables = [(probe, result) for probe, result in measured if probe.kind == routes.KIND and probe.params["lid"]]
    for plane in dict.fromkeys(str(probe.params["plane"]) for probe, _ in tables):
        ends = {lid: Part.of(name).place for name, lid in lids_of(measured, plane).items() if "/" in name}
        leaf_of = {host: _leaf_of(host, device, topology) for host, device in ends.values()}
        peers = peers_of(measured, plane)
        above: dict[str, set[str]] = {}
        for (switch, _), peer in peers.items():
            above.setdefault(switch, set()).add(peer)
        sends: dict[tuple[str, str], str] = {}
        for probe, result in tables:
            switch = str(probe.params["leaf"])
            for m in result.measurements if probe.params["plane"] == plane else ():
                lid, port = int(m.metric.split(" ")[1]), (switch, int(m.value))
                if lid in ends and port in peers:
                    sends[switch, ends[lid][0]] = peers[port]
        ways = {key: _way(*key, leaf_of[key[1]], sends, above) for key in sends if key[0] in leaf_of.values()}
        found[plane] = {key: OVER.join(way) for key, way in ways.items() if way}
    return found


def _leaf_of(name: str, device: str, topology: Topology) -> str:
    """The leaf of an RNIC; empty where the inventory does not say."""
    host = topology.hosts[name]
    rail = host.platform.rnic_by_device[device].rail
    return host.leaves[rail] if rail < len(host.leaves) else ""


def _way(
    leaf: str, host: str, there: str, sends: Mapping[tuple[str, str], str], above: Mapping[str, set[str]]
) -> tuple[str, ...]:
    """
    The switches above the leaves from one to a host under another; empty where they are not known to the end.

    Up as the tables say, and down over the one switch that joins the highest with the leaf *there*.
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
    """The switch above each port of each switch."""
    found = {}
    for probe, result in measured:
        if probe.kind == routes.KIND and probe.params["plane"] == plane:
            for m in result.measurements:
                if m.metric.startswith(f"{routes.PEER} "):
                    _, end, peer = m.metric.split(" ", 2)
                    found[end.rpartition(":")[0], int(m.value)] = peer
    return found
