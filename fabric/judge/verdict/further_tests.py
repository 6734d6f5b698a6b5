"""All that may be measured beyond the plan of a run, in the order in which it is asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from fabric.judge.course.follow_up import DippedAgain
from fabric.judge.normal.samples import series_key
from fabric.judge.normal.series import LEAST_FOR_CV
from fabric.judge.verdict.probes import Judge
from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome
from fabric.model.probe import FollowUpLimits, Probe, ProbeResult
from fabric.model.scenario import Scenario
from fabric.model.verdict import Recurrence
from fabric.plan.plan import PhasePlan
from fabric.probes.kinds import REPEATED_KINDS

if TYPE_CHECKING:
    from fabric.judge.locate.pairs.further_rounds import FurtherRounds


class MoreSamples:
    """Of phases without changes: what is measured while the fabric is bad on purpose is not judged against peers."""

    name = "samples"

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def limits(self, phase_plan: PhasePlan) -> FollowUpLimits | None:
        """As many rounds as samples may be added to one probe: those few end by themselves, so they have no budget."""
        repeated = sum(probe.kind in REPEATED_KINDS for probe in phase_plan.planned)
        if phase_plan.changes or not repeated:
            return None
        rounds = LEAST_FOR_CV - 1
        return FollowUpLimits(rounds, rounds * repeated, budget_s=inf)

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """One further repetition of each probe that is low and unexplained, or that could not be measured once."""
        by_id = {result.probe_id: result for result in results}
        probes = [probe for probe in (*phase_plan.planned, *added) if probe.probe_id in by_id]
        again = [*self._seen_once(probes, by_id), *_failed_once(probes, by_id)]
        return [_repetition(members) for members in again]

    def _seen_once(self, probes: Sequence[Probe], by_id: Mapping[str, ProbeResult]) -> list[Sequence[Probe]]:
        """Those that are low, and that nothing explains; not those that were measured often enough to tell."""
        verdicts, _ = self._judge.confirmed(probes, by_id)
        low = {series_key(probe) for probe in probes if verdicts[probe.probe_id].recurrence is Recurrence.SEEN_ONCE}
        series: dict[Hashable, list[Probe]] = defaultdict(list)
        for probe in probes if low else ():
            if probe.kind in REPEATED_KINDS and series_key(probe) in low:
                series[series_key(probe)].append(probe)
        return [
            members
            for members in series.values()
            if len(members) < LEAST_FOR_CV and all(by_id[probe.probe_id].outcome is None for probe in members)
        ]


MOST_ERRORS = 0.1
"""Of the probes of a host: so few that could not be measured are run once more (a choice: more is a bad host)."""


def _failed_once(probes: Sequence[Probe], by_id: Mapping[str, ProbeResult]) -> list[Sequence[Probe]]:
    """Series of one probe that ended with an error, where nearly all else of its hosts was measured."""
    ran = [(probe, by_id[probe.probe_id]) for probe in probes if probe.kind in REPEATED_KINDS]
    ran = [(probe, result) for probe, result in ran if result.attempt > 0]
    failed = [probe for probe, result in ran if result.outcome is Outcome.ERROR]
    if not failed:
        return []
    counted = Counter(host for probe, _ in ran for host in probe.hosts)
    errors = Counter(host for probe in failed for host in probe.hosts)
    few = {host for host, count in errors.items() if count <= max(1.0, MOST_ERRORS * counted[host]) < counted[host]}
    times = Counter(series_key(probe) for probe in probes if not few.isdisjoint(probe.hosts))
    return [[probe] for probe in failed if few.issuperset(probe.hosts) and times[series_key(probe)] == 1]


def _repetition(members: Sequence[Probe]) -> Probe:
    """The next one, named as the plan names repetitions: ``intra-host/gpu001/loopback.mlx5_0.numa1.r4``."""
    first = members[0]
    # What is repeated is named last in its id; of hosts that measure together its series says them too.
    label = str(first.params["series"]).rpartition("/")[2]
    head, found, _ = first.probe_id.rpartition(label)
    if not found:
        raise ValueError(f"{first.probe_id}: expected {label!r} in the id of a probe of that series")
    return replace(first, probe_id=f"{head}{label}.r{len(members) + 1}")


def follow_ups(
    scenario: Scenario, inventory: Inventory, judge: Judge
) -> tuple[MoreSamples | FurtherRounds | DippedAgain, ...]:
    """New ones, for one run: what they learn of its rounds is its own."""
    localising: tuple[FurtherRounds, ...] = ()
    if any(phase.localise for phase in scenario.phases):
        from fabric.judge.locate.pairs.further_rounds import FurtherRounds  # numpy: only where it is asked for

        localising = (FurtherRounds(inventory.topology, inventory.changes),)
    return (MoreSamples(judge), *localising, DippedAgain(inventory.topology))
