"""Judging during a run: which hosts may go on to a phase that needs an earlier one, and what is measured again.

- A host is left out if something accuses it: a bad probe inside it, a bad probe that no part elsewhere explains, or
  an error. A bad probe that a leaf, its uplinks or another host explains does not accuse the hosts it ran between.
- The probes of ``again`` were chosen because of the repaired hosts: a bad one says nothing of a neighbour that was
  only their partner.
- If no host at all could be judged, none goes on, and the reason says what to do about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from fabric.judge.course.follow_up import DippedAgain
from fabric.judge.locate.candidates import is_above
from fabric.judge.normal.interval import LEAST_SAMPLES
from fabric.judge.normal.keys import CROSS_LEAF, begun, grouped, link_class, series_key
from fabric.judge.normal.kinds import accusing_nobody
from fabric.judge.verdict.probes import Judge
from fabric.model import gathered
from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome
from fabric.model.probe import AGAIN, FollowUpLimits, Probe, ProbeResult, Results
from fabric.model.scenario import Phase, Scenario
from fabric.model.verdict import OwnFails, ProbeVerdict, Recurrence, Verdicts
from fabric.plan import PhasePlan
from fabric.probes import pairwise
from fabric.probes.again import AgainSpec
from fabric.probes.kinds import REPEATED_KINDS

if TYPE_CHECKING:
    from fabric.judge.locate.pairs.further_rounds import FurtherRounds


_WHAT_TO_DO = (
    "no host could be judged: give its numbers a limit (judge: {baseline: NAME}, docs/baselines.md) or more "
    "repetitions, or take this phase out of needs"
)


def out_after(phase: Phase, probes: Sequence[Probe], results: Results, *, judge: Judge) -> dict[str, str]:
    """Return the hosts that did not pass *phase*, each with a short reason; *probes* are planned and added ones."""
    bad = _failures(probes, results, judge=judge)
    because = [spec.because for spec in phase.probes if isinstance(spec, AgainSpec) and spec.because is not None]
    if because:
        repaired = {host for one in because for host in one.hosts}
        lost = {result.error_host for result in results.values()}
        bad = [one for one in bad if one[0] in repaired or one[0] in lost]
    nobody = {host for probe in probes for host in probe.hosts} == {host for host, *_ in bad}
    undecided = nobody and all(outcome is Outcome.INCONCLUSIVE for *_, outcome in bad)
    return {host: f"{why}; {_WHAT_TO_DO}" if undecided else why for host, why in _counted(bad).items()}


_Failure = tuple[str, str, Outcome]  # (host, kind of probe, outcome)


def _failures(probes: Sequence[Probe], results: Results, *, judge: Judge) -> list[_Failure]:
    """
    Return what accuses each host.

    A host whose probe was bad with some partners and good with others is cleared: the neighbour of a bad host is not
    bad itself.
    """
    verdicts, elsewhere = _judged(probes, results, judge)
    pairs = [probe for probe in probes if len(probe.hosts) > 1 and verdicts[probe.probe_id].outcome.is_good]
    well = {(host, probe.kind, probe.hosts) for probe in pairs for host in probe.hosts}
    partners = Counter((host, kind) for host, kind, _ in well)
    bad, accuses_nobody = list[_Failure](), accusing_nobody(probes, results)
    for probe in probes:
        outcome, lost = verdicts[probe.probe_id].outcome, results[probe.probe_id].error_host
        for host in () if outcome.is_good or probe.probe_id in accuses_nobody else probe.hosts:
            cleared = partners[host, probe.kind] > ((host, probe.kind, probe.hosts) in well)
            if lost == host or not (cleared or (host, probe.probe_id) in elsewhere):
                bad.append((host, probe.kind, outcome))
    return bad


def _judged(probes: Sequence[Probe], results: Results, judge: Judge) -> tuple[Verdicts, set[tuple[str, str]]]:
    """
    Return the verdicts, and (host, probe id) of slow probes over switches whose cause need not be in that host.

    A port that is slow in all cross-rail probes may as well be the cable above its leaf: later phases can tell.
    """
    verdicts, located = judge.confirmed(probes, results)
    topology = judge.topology
    blamed = {
        host
        for one in located.suspects
        if not any(is_above(name, topology) for name in (one.component, *one.ambiguous_with))
        for host in one.hosts
    }
    return verdicts, {
        (host, probe.probe_id)
        for probe in probes
        if probe.probe_id in located.explained and verdicts[probe.probe_id].value_gbps is not None
        if len(probe.hosts) > 1 or link_class(probe, topology) == CROSS_LEAF
        for host in probe.hosts
        if host not in blamed
    }


def _counted(bad: Iterable[_Failure]) -> dict[str, str]:
    """Return by host a text such as ``2 loopback fail, 1 all_to_all error``."""
    counts = sorted(Counter((host, kind, outcome.value) for host, kind, outcome in bad).items())
    hosts = gathered((host, f"{count} {kind} {outcome}") for (host, kind, outcome), count in counts)
    return {host: ", ".join(texts) for host, texts in hosts.items()}


def failing_hosts(probes: Sequence[Probe], results: Results, *, judge: Judge) -> OwnFails:
    """Judge the probes that stay inside one host: which hosts fail, and which are well; unmeasured ones are neither."""
    ran = [probe for probe in probes if probe.probe_id in results]
    verdicts, elsewhere = _judged(ran, results, judge)
    own = [(probe, verdicts[probe.probe_id].outcome) for probe in ran if len(probe.hosts) == 1]
    own = [(probe, outcome) for probe, outcome in own if (probe.hosts[0], probe.probe_id) not in elsewhere]
    measured = {probe.kind for probe, outcome in own if outcome.is_good}
    bad = [
        (probe.hosts[0], probe.kind, outcome)
        for probe, outcome in own
        if outcome is Outcome.FAIL
        or (outcome is Outcome.ERROR and results[probe.probe_id].attempt > 0 and probe.kind in measured)
    ]
    unwell = {probe.hosts[0] for probe, outcome in own if not outcome.is_good}
    return OwnFails(_counted(bad), frozenset(probe.hosts[0] for probe, _ in own) - unwell)


_RUN_AGAIN = REPEATED_KINDS | {pairwise.KIND}
"""
Kinds of which a probe is run once more if it gave no number.

Low pairs are not repeated here: rounds of localisation and tests of parts that dipped go after them.
"""


class MoreSamples:
    """
    The follow-up ``samples``: further repetitions of probes that are low, or that failed once.

    Phases with changes get none: what is measured while the fabric is bad on purpose is not judged against peers.
    """

    name = "samples"

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._settled = frozenset[str]()

    def limits(self, phase_plan: PhasePlan) -> FollowUpLimits | None:
        """
        Return one round per sample that a probe may still get, and one per round of localisation.

        There is no time budget, as so few end soon.
        """
        repeated = sum(probe.kind in _RUN_AGAIN for probe in phase_plan.planned)
        if phase_plan.changes or not repeated:
            return None
        localise = phase_plan.phase.localise
        rounds = LEAST_SAMPLES - 1 + (localise.rounds if localise else 0)
        return FollowUpLimits(rounds, rounds * repeated, budget_s=inf)

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """
        Return one more repetition of each probe that is low and unexplained, or that could not be measured once.

        It is not asked again because of further tests of parts that dipped.
        """
        by_id = {result.probe_id: result for result in results}
        probes = [probe for probe in (*phase_plan.planned, *added) if probe.probe_id in by_id]
        own = frozenset(probe.probe_id for probe in probes if AGAIN not in probe.params)
        if own == self._settled:
            return ()
        again = [*self._seen_once(probes, by_id), *_failed_once(probes, by_id)]
        self._settled = frozenset() if again else own
        return [_repetition(members) for members in again]

    def _seen_once(self, probes: Sequence[Probe], by_id: Results) -> list[Sequence[Probe]]:
        """
        Return the series that are low without an explanation and have too few samples to tell.

        So is a series whose two samples lie on either side of the limit, if its hosts are otherwise well.
        """
        verdicts, located = self._judge.confirmed(probes, by_id)
        bad = {host for one in located.suspects for host in one.hosts}
        lost = (probe for probe in probes if by_id[probe.probe_id].outcome not in (None, Outcome.SKIPPED))
        bad |= {host for probe in lost if not verdicts[probe.probe_id].outcome.is_good for host in probe.hosts}
        low = {
            series_key(probe)
            for probe in probes
            for one in (verdicts[probe.probe_id],)
            if one.recurrence is Recurrence.SEEN_ONCE or (_straddles_limit(one) and bad.isdisjoint(probe.hosts))
        }
        able = (probe for probe in probes if low and probe.kind in REPEATED_KINDS and series_key(probe) in low)
        return [
            members
            for members in grouped(able, series_key).values()
            if len(members) < LEAST_SAMPLES and all(by_id[probe.probe_id].outcome is None for probe in members)
        ]


def _straddles_limit(one: ProbeVerdict) -> bool:
    """Return whether samples lie on either side of the limit: value and limit are known, yet it is INCONCLUSIVE."""
    has_both = one.value_gbps is not None and one.limit_gbps is not None
    return has_both and one.outcome is Outcome.INCONCLUSIVE and one.recurrence is None


MOST_ERRORS = 0.1
"""Errors are run once more up to this share of the probes of a host (a choice: with more, the host is bad)."""


def _failed_once(probes: Sequence[Probe], by_id: Results) -> list[Sequence[Probe]]:
    """Return the probes that ran once and ended with an ERROR while nearly all else of their hosts was measured."""
    kinds = (probe for probe in probes if probe.kind in _RUN_AGAIN and AGAIN not in probe.params)
    ran = begun(kinds, by_id)
    failed = [probe for probe, result in ran if result.outcome is Outcome.ERROR]
    counted = Counter(host for probe, _ in ran for host in probe.hosts)
    errors = Counter(host for probe in failed for host in probe.hosts)
    few = {host for host, count in errors.items() if count <= max(1.0, MOST_ERRORS * counted[host]) < counted[host]}
    times = Counter(series_key(probe) for probe in probes if not few.isdisjoint(probe.hosts))
    return [[probe] for probe in failed if few.issuperset(probe.hosts) and times[series_key(probe)] == 1]


def _repetition(members: Sequence[Probe]) -> Probe:
    """Return the next repetition, with an id like those of the plan: ``intra-host/gpu001/loopback.mlx5_0.numa1.r4``."""
    first = members[0]
    # The id ends with the last part of the series; a series of several hosts has their names before that part.
    label = str(first.params["series"]).rpartition("/")[2]
    head, found, _ = first.probe_id.rpartition(label)
    if not found:
        raise ValueError(f"{first.probe_id}: expected {label!r} in the id of a probe of that series")
    return replace(first, probe_id=f"{head}{label}.r{len(members) + 1}")


def follow_ups(
    scenario: Scenario, inventory: Inventory, judge: Judge
) -> tuple[MoreSamples | FurtherRounds | DippedAgain, ...]:
    """Return new follow-ups for one run: they remember what they learn in its rounds."""
    localising: tuple[FurtherRounds, ...] = ()
    if any(phase.localise for phase in scenario.phases):
        from fabric.judge.locate.pairs.further_rounds import FurtherRounds  # loads numpy: only if it is asked for

        localising = (FurtherRounds(inventory.topology, inventory.changes),)
    return (MoreSamples(judge), *localising, DippedAgain(inventory.topology))
