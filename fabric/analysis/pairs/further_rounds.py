"""A phase that localises: after its planned rounds of pairs, further ones until every suspect is certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fabric.analysis.pairs.ask_routes import ROUTE_ROUNDS, route_probes
from fabric.analysis.pairs.of_run import RunPlane, measured_in, run_planes
from fabric.analysis.pairs.schedule import FIRST_ROUNDS, next_round
from fabric.analysis.pairs.targeted import verifying
from fabric.model.diagnosis import PairTest
from fabric.model.follow_up import Limits
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import LocaliseSettings
from fabric.model.topology import Topology
from fabric.plan.plan import PhasePlan
from fabric.probes.pairwise import PairwiseSpec

PROBES_MOST = 100_000
"""In all further rounds of a phase (a choice: eight rounds of 2,048 hosts with 8 RNICs are 65,536)."""


@dataclass(frozen=True, slots=True)
class FurtherRounds:
    """
    Asks the scheduler of pair tests for the next round of every plane.

    Tables of switches are read on *asker* if it was measured, else on others that were; as root with *sudo*.
    """

    topology: Topology
    asker: str | None = None
    sudo: bool = False

    @property
    def name(self) -> str:
        """As it stands in the run's history."""
        return "localise"

    def limits(self, phase_plan: PhasePlan) -> Limits | None:
        """As the phase says; None where it does not localise."""
        settings = phase_plan.phase.localise
        if settings is None:
            return None
        return Limits(settings.rounds + ROUTE_ROUNDS, PROBES_MOST, settings.budget_s)

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """First what the routes are, where they are static; then a round for each plane that is not settled."""
        phase, settings = phase_plan.phase, phase_plan.phase.localise
        if settings is None:
            return ()
        planned = [slot.probe for component in phase_plan.schedule.components for slot in component]
        measured = measured_in(phase.name, [*planned, *added], {result.probe_id: result for result in results})
        if settings.paths == "static":
            asked = route_probes(phase.name, measured, self.topology, first=self.asker, sudo=self.sudo)
            if asked:
                return asked
        specs = {spec.name: spec for spec in phase.probes if isinstance(spec, PairwiseSpec)}
        return [
            probe
            for found in run_planes(phase.name, measured, self.topology)
            for probe in self._round(found, specs[found.name], settings)
        ]

    def _round(self, found: RunPlane, spec: PairwiseSpec, settings: LocaliseSettings) -> list[Probe]:
        leaf = {host: leaf for leaf, hosts in found.plane.leaves.items() for host in hosts}
        number = found.state.rounds
        made: list[Probe] = []
        for test in _tests(found, settings):
            # Of the first rounds the direction is ours to choose under a leaf; across leaves it decides the path, and
            # of those after them the first host is to send.
            reverse = number < FIRST_ROUNDS and number % 2 == 1 and leaf[test.a] == leaf[test.b]
            made += spec.probes_of(
                test, found.plane, phase=found.phase, topology=self.topology, number=number, reverse=reverse
            )
        return made


def _tests(found: RunPlane, settings: LocaliseSettings) -> Sequence[PairTest]:
    """
    The next round of a plane; at the end those that are blamed once more. The last round is kept for that.

    What that round brought up, or left open, is gone after while rounds are left.
    """
    if not found.state.results or found.state.rounds >= settings.rounds:
        return ()
    # The scenario says how many rounds there are at most.
    state = replace(found.state, most_rounds=settings.rounds - (0 if found.verified else 1), further_rounds=0)
    tests = next_round(state)
    if tests or found.verified:
        return tests
    fitted = state.fitted()
    return verifying(fitted, state.routes) if fitted.decoded.blamed else ()
