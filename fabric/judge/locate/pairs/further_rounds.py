"""A phase that localises: after its planned rounds of pairs come further ones, until every suspect is certain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fabric.judge.locate.pairs.fitted import Fitted
from fabric.judge.locate.pairs.rounds import FIRST_ROUNDS, further_round, targeted, verifying
from fabric.judge.locate.pairs.run_planes import Measured, RunPlane, fitted_planes, lids_of, measured_in, run_planes
from fabric.judge.normal.interval import tests_that_tell
from fabric.model.change import ChangeSettings
from fabric.model.diagnosis import PairTest
from fabric.model.outcome import Outcome
from fabric.model.probe import FollowUpLimits, Probe, ProbeResult
from fabric.model.scenario import LocaliseSettings
from fabric.model.topology import Topology
from fabric.plan import PhasePlan
from fabric.probes import pairwise, routes
from fabric.probes.pairwise import NO_LEAF, PairwiseSpec, Plane, across_leaves, planes_of
from fabric.probes.routes import RouteAsker

ASKERS_MOST = 3
"""The most hosts that are asked for the same table (a choice: what three cannot read is not a host's trouble)."""

ROUTE_ROUNDS = 2 * ASKERS_MOST
"""Rounds that read routes before the first further round: who is where, then the tables of the leaves."""


def route_probes(phase: str, measured: Measured, topology: Topology, settings: ChangeSettings) -> list[Probe]:
    """
    Return probes that read who is where in each plane; once that is known, the table of each switch with a known LID.

    What could not be read is asked for on another host: ``via`` before all others, then one of each leaf. Empty: all is
    read, or nobody is left to ask.
    """
    asked: list[Probe] = []
    for plane in _planes(measured, topology):
        askers = _askers(plane, settings.via, topology)
        links = [(probe.hosts[0], good) for probe, good in _asked(measured, plane, 0)]
        if not any(good for _, good in links):
            asker = _next(askers, [host for host, _ in links])
            if asker is not None:
                asked.append(routes.links_probe(RouteAsker(plane, phase, asker, topology, settings)))
            continue
        lids = lids_of(measured, plane.name)
        ends = [lid for name, lid in lids.items() if "/" in name]
        # A host that could say who is where is asked first for the tables, too.
        askers = sorted(askers, key=lambda host: (host, True) not in links)
        switches = sorted((name for name in lids if "/" not in name), key=lambda name: name not in plane.leaves)
        for leaf in switches:
            tables = _asked(measured, plane, lids[leaf])
            asker = _next(askers, [probe.hosts[0] for probe, _ in tables])
            if asker is not None and not any(good for _, good in tables):
                by = RouteAsker(plane, phase, asker, topology, settings)
                asked.append(routes.table_probe(by, leaf, lids[leaf], ends))
    return asked


def _planes(measured: Measured, topology: Topology) -> list[Plane]:
    """Return planes of InfiniBand hosts under two leaves or more, each with the hosts measured on its rail."""
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
    """Return the probes that asked a plane for one LID (0: who is where), and whether each could read it."""
    return [
        (probe, result.outcome is Outcome.PASS)
        for probe, result in measured
        if probe.kind == routes.KIND and probe.params["plane"] == plane.name and probe.params["lid"] == lid
    ]


def _askers(plane: Plane, first: str | None, topology: Topology) -> list[str]:
    """Return the hosts to ask: *first*, if it has an RNIC on this rail, then one host of each leaf, then all others."""
    via = topology.hosts.get(first or "")
    named = [via.name] if via is not None and plane.rail in via.platform.rnic_by_rail else []
    return list(dict.fromkeys([*named, *(hosts[0] for hosts in plane.leaves.values()), *plane.hosts]))


def _next(askers: Sequence[str], tried: Sequence[str]) -> str | None:
    if len(tried) >= ASKERS_MOST:
        return None
    return next((host for host in askers if host not in tried), None)


DRAWS = 7
"""
The fewest ways that ECMP draws from each leaf, and to it, before all its uplinks count as crossed.

A choice: of two uplinks one stays undrawn in 1 of 128. In the box of twelve hosts, where the first rounds draw four per
leaf, one direction of an uplink stayed unseen in 1 of 16, and the run passed. More uplinks take more draws.
"""


def draws_of(plane: Plane, topology: Topology) -> int:
    """Return how many ways to draw from each leaf: after as many, any one of its uplinks was crossed with 95 %."""
    leaves = set(plane.leaves)
    uplinks = max((len(up.upper) * up.count for up in topology.uplinks if leaves & set(up.lower)), default=1)
    return max(DRAWS, tests_that_tell(1 / uplinks)) if uplinks > 1 else DRAWS


PROBES_MOST = 100_000
"""The most probes in all further rounds of a phase (a choice: eight rounds of 2,048 hosts with 8 RNICs are 65,536)."""


@dataclass(frozen=True, slots=True)
class FurtherRounds:
    """
    The follow-up that asks the scheduler of pair tests for the next round of every plane.

    Tables of switches are read on ``via`` of *changes* if it was measured, else on other hosts that were.
    """

    topology: Topology
    changes: ChangeSettings = field(default_factory=ChangeSettings)

    @property
    def name(self) -> str:
        """Its name in the run's history."""
        return "localise"

    def limits(self, phase_plan: PhasePlan) -> FollowUpLimits | None:
        """Return the limits that the phase sets; None where it does not localise."""
        settings = phase_plan.phase.localise
        if settings is None:
            return None
        return FollowUpLimits(settings.rounds + ROUTE_ROUNDS, PROBES_MOST, settings.budget_s)

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """Return probes that read the routes, if these are static; then a round for each plane that is not settled."""
        phase, settings = phase_plan.phase, phase_plan.phase.localise
        if settings is None:
            return ()
        planned = [slot.probe for slot in phase_plan.schedule.slots]
        measured = measured_in(phase.name, [*planned, *added], {result.probe_id: result for result in results})
        if settings.paths == "static":
            asked = route_probes(phase.name, measured, self.topology, self.changes)
            if asked:
                return asked
        specs = {spec.name: spec for spec in phase.probes if isinstance(spec, PairwiseSpec)}
        planes = run_planes(phase.name, measured, self.topology)
        first = all(one.rounds < FIRST_ROUNDS for one in planes)
        fits = [None] * len(planes) if first else fitted_planes(planes)
        return [
            probe
            for found, fitted in zip(planes, fits, strict=True)
            for test in _tests(found, fitted, settings, self._draws(found, planes))
            for probe in self._probes(test, found, specs[found.name])
        ]

    def _draws(self, found: RunPlane, planes: Sequence[RunPlane]) -> int:
        """
        Return how many ways to draw if switches draw one per connection; else 0: adaptive routing takes them all.

        Rails that hang on the same leaves draw from the same ways, so they divide the number.
        """
        if not self.topology.paths_are_random:
            return 0
        alike = sum(one.plane.leaves.keys() == found.plane.leaves.keys() for one in planes)
        return -(-draws_of(found.plane, self.topology) // alike)

    def _probes(self, test: PairTest, found: RunPlane, spec: PairwiseSpec) -> Iterator[Probe]:
        """
        Return one test as probes.

        In the first rounds the direction under a leaf is ours to choose; across leaves it decides the path. In later
        rounds the first host is to send.
        """
        leaf = {host: leaf for leaf, hosts in found.plane.leaves.items() for host in hosts}
        number = found.rounds
        reverse = number < FIRST_ROUNDS and number % 2 == 1 and leaf[test.a] == leaf[test.b]
        return spec.probes_of(
            test, found.plane, phase=found.phase, topology=self.topology, number=number, reverse=reverse
        )


def _tests(found: RunPlane, fitted: Fitted | None, settings: LocaliseSettings, draws: int) -> Sequence[PairTest]:
    """
    Return the next round of a plane; at the end, tests of blamed parts once more. The last round is kept for that.

    If that round finds something or leaves it open, tests go on while rounds are left. If nobody is blamed, the last
    round tests what is open.
    """
    if found.rounds >= settings.rounds:
        return ()
    if found.rounds < FIRST_ROUNDS or fitted is None:
        return across_leaves(found.plane.leaves, (), found.rounds - 1)
    left = settings.rounds - found.rounds - (0 if found.verified else 1)
    tests = further_round(fitted, left=left, draws=draws)
    if tests or found.verified:
        return tests
    return verifying(fitted) if fitted.blamed else targeted(fitted)
