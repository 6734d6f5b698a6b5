"""All that may be measured beyond the plan of a run, in the order in which it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fabric.judge.course.dips.follow_up import DippedAgain
from fabric.judge.normal.samples import name_of
from fabric.judge.normal.series import LEAST_FOR_CV
from fabric.judge.verdict.probes import Judge
from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome
from fabric.model.probe import FollowUpLimits, Probe, ProbeResult
from fabric.model.scenario import LEAST_SAMPLES, MOST_SAMPLES, Scenario
from fabric.plan.plan import PhasePlan
from fabric.probes.kinds import REPEATED_KINDS

if TYPE_CHECKING:
    from fabric.judge.locate.pairs.further_rounds import FurtherRounds


def localising(scenario: Scenario, inventory: Inventory) -> tuple[FurtherRounds, ...]:
    """The follow-up of phases that localise; none where no phase does."""
    if not any(phase.localise for phase in scenario.phases):
        return ()
    from fabric.judge.locate.pairs.further_rounds import FurtherRounds  # numpy: only where it is asked for

    return (FurtherRounds(inventory.topology, inventory.changes),)


MOST_TIMES = 4.0
"""In all at most so many times the planned duration of the phase is spent on further samples (a choice: at a CV of 3 %
thirteen samples are needed on average, where three were planned)."""

LEAST_BUDGET_S = 600.0
"""And always so much (a choice): a phase of one probe may need ten times what was planned."""


class MoreSamples:
    """Of phases without changes: what is measured while the fabric is bad on purpose is not judged against peers."""

    name = "samples"

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def limits(self, phase_plan: PhasePlan) -> FollowUpLimits | None:
        """As many rounds as samples may be added to one probe; a budget that follows the plan."""
        repeated = sum(probe.kind in REPEATED_KINDS for probe in _planned(phase_plan))
        if phase_plan.changes or not repeated:
            return None
        rounds = MOST_SAMPLES - LEAST_SAMPLES if self._judge.sequential else LEAST_FOR_CV - 1
        budget_s = max(LEAST_BUDGET_S, MOST_TIMES * phase_plan.schedule.makespan_s)
        return FollowUpLimits(rounds=rounds, probes=rounds * repeated, budget_s=budget_s)

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """One further repetition of each probe that is not settled."""
        by_id = {result.probe_id: result for result in results}
        series: dict[object, list[Probe]] = {}
        for probe in (*_planned(phase_plan), *added):
            if probe.kind in REPEATED_KINDS:
                series.setdefault(_series(probe), []).append(probe)
        whole = {name: members for name, members in series.items() if _all_measured(members, by_id)}
        pairs = [(probe, by_id[probe.probe_id]) for members in whole.values() for probe in members]
        wanted = [whole[_series(probe)] for probe in self._judge.unsettled(pairs)]
        return [_repetition(members) for members in (*wanted, *_failed_once(series, by_id))]


MOST_ERRORS = 0.1
"""Of the probes of a host: so few that could not be measured are run once more (a choice: more is a bad host)."""


def _failed_once(
    series: Mapping[object, Sequence[Probe]], by_id: Mapping[str, ProbeResult]
) -> Iterator[Sequence[Probe]]:
    """Series of one probe that ended with an error, where nearly all else of its hosts was measured."""
    ran: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for members in series.values():
        for probe in members:
            result = by_id.get(probe.probe_id)
            if result is not None and result.attempt > 0:
                ran.update(probe.hosts)
                errors.update(probe.hosts if result.outcome is Outcome.ERROR else ())
    for members in series.values():
        alone = by_id.get(members[0].probe_id) if len(members) == 1 else None
        if alone is None or alone.outcome is not Outcome.ERROR or not alone.attempt:
            continue
        if all(errors[host] <= max(1.0, MOST_ERRORS * ran[host]) < ran[host] for host in members[0].hosts):
            yield members


def _planned(phase_plan: PhasePlan) -> Iterable[Probe]:
    return (slot.probe for component in phase_plan.schedule.components for slot in component)


def _series(probe: Probe) -> object:
    return probe.kind, name_of(probe), probe.hosts, probe.params.get("series")


def _all_measured(members: Iterable[Probe], by_id: dict[str, ProbeResult]) -> bool:
    return all(probe.probe_id in by_id and by_id[probe.probe_id].outcome is None for probe in members)


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
    return (MoreSamples(judge), *localising(scenario, inventory), DippedAgain(inventory.topology))
