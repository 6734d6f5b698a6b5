"""What the failures of a fleet mean for a training job: mean time to failure, effective training time, longer steps.

The formulas are those of Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters"
(arXiv 2410.21680, HPCA 2025). They claim to be within 5 % of a Monte Carlo simulation up to about 8,000 GPUs.

Nothing is assumed: a rate is a count divided by the time in which hosts were watched. If no failure was seen, only a
bound of the rate is known, and so only a bound of everything that follows from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, inf, log, sqrt

from fabric.judge.course.rows import repeated
from fabric.judge.normal.interval import CONFIDENCE
from fabric.judge.normal.keys import begun, gave_up, grouped
from fabric.judge.ports.health import steps_of, windows_of
from fabric.judge.ports.verdict import PortFindings, SeenCounters
from fabric.model.change import Changes
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult, Results
from fabric.model.sampling import LINK_DOWNED, Samples
from fabric.model.scenario import Phase
from fabric.model.text import counted
from fabric.model.topology import Topology
from fabric.model.verdict import ChangeEffect, TrainingImpact
from fabric.runs.samples import End, LinkSamples

DAY_S = 86_400.0

RESTART_S, WRITE_S = 300.0, 300.0
"""How long a job takes to restart, and to write a checkpoint: the paper's 5 minutes each."""


@dataclass(frozen=True, slots=True)
class Observed:
    """How often a fleet's hosts failed: *count* times in *host_days* of watching; *hosts* are those that failed."""

    count: int
    host_days: float
    hosts: frozenset[str] = frozenset()

    @property
    def per_host_day(self) -> float:
        """
        Return failures per host and day; if none was seen, the upper bound of the rate with 95 % confidence.

        The probability of no event in a time T is exp(-rate T) (Poisson): 5 % at rate 3 / T ("rule of three", Hanley
        and Lippman-Hand, JAMA 1983; exactly -ln 0.05 = 2.996).
        """
        return self.count / self.host_days if self.count else -log(1 - CONFIDENCE) / self.host_days

    @property
    def is_bound(self) -> bool:
        """Return whether ``per_host_day`` is only an upper bound."""
        return self.count == 0


def mttf_s(hosts: float, per_host_day: float) -> float:
    """Return the mean time to failure of a job, seconds: 1 / (hosts x rate), for independent failures."""
    return DAY_S / (hosts * per_host_day)


def best_interval_s(mttf: float, write_s: float) -> float:
    """Return the checkpoint interval that loses least: sqrt(2 x write x MTTF) (Young 1974, Daly 2006), seconds."""
    return sqrt(2 * write_s * mttf)


def expected_ettr(mttf: float, *, restart_s: float, every_s: float, write_s: float = 0.0) -> float:
    """
    Return the expected effective training time ratio: (1 - (restart + interval / 2) / MTTF) / (1 + write / interval).

    Each failure costs the restart and half an interval of work. The formula is of first order; below 0 it returns 0.
    """
    return max(0.0, (1 - (restart_s + every_s / 2) / mttf) / (1 + write_s / every_s))


def training_impact(
    gpus: int, hosts: int, failures: Observed | None, *, retained: float | None = None
) -> TrainingImpact:
    """
    Work out the impact on a job over *gpus* GPUs and *hosts* hosts from the failures that were measured.

    *retained* is the share of bandwidth that the worst fault left, None if there was none. The job writes checkpoints
    at the best interval. Flaps that a job survives are no failures: they cost a stall.
    """
    stretched = [] if retained is None else [_stretched(retained)]
    if failures is None or failures.host_days <= 0:
        notes = ("no failure rate was measured: mean time to failure and ETTR are not known", *stretched)
        return TrainingImpact(gpus, None, None, notes=notes)
    looked, rate = f"{failures.host_days:,.1f} host-days", f"{failures.per_host_day:.2g} per host-day"
    if failures.is_bound:
        summary = f"no failure in {looked}: rate at most {rate} (95 %)"
    else:
        summary = f"{counted(failures.count, 'failure')} in {looked}: {rate}"
    mttf = mttf_s(hosts, failures.per_host_day)
    return TrainingImpact(
        gpus,
        mttf,
        expected_ettr(mttf, restart_s=RESTART_S, every_s=best_interval_s(mttf, WRITE_S), write_s=WRITE_S),
        failures.is_bound,
        notes=(*stretched, summary),
        failures=failures.count,
        host_days=failures.host_days,
    )


def _stretched(retained: float) -> str:
    """
    Return a line about longer steps: up to 1 / *retained* times as long.

    How much of a step waits for the network is not known: anything from none of it to all of it.
    """
    text = f"the worst fault made here left {retained:.0%} of the bandwidth"
    if retained <= 0:
        return f"{text}: jobs that use it stand still"
    most = f"steps take up to {1 / retained:.1f} times as long"
    return f"{text}; how much of a step waits for the network is not known: {most}"


_Ran = tuple[Probe, ProbeResult]


def watched(
    probes: Sequence[Probe],
    results: Results,
    phases: Sequence[Phase],
    shared: Mapping[str, Collection[str]],
) -> Observed | None:
    """
    Count the failures of hosts while they were watched, in every phase that ran often enough and altered nothing.

    Return None if there is no such phase. *shared* gives, by part that failed, the hosts behind it: if these fail in
    one round, that counts as one failure, of the part.
    """
    phase_rounds = repeated((), phases)
    ran = begun((probe for probe in probes if probe.phase in phase_rounds), results)
    last_well: dict[str, float] = {}  # when each host last measured well, seconds
    for probe, result in ran:
        for host in probe.hosts if result.outcome is None else ():
            last_well[host] = max(result.ended_s, last_well.get(host, 0.0))
    of_round = grouped(ran, lambda one: one[0].phase)
    spans = [
        span
        for rounds in grouped(phase_rounds, phase_rounds.__getitem__).values()
        for span in _watch([of_round[name] for name in rounds if name in of_round], last_well, shared)
    ]
    failures = {failure for _, _, failure in spans if failure is not None}
    failed = frozenset(host for host, _, failure in spans if failure is not None)
    return Observed(len(failures), fsum(lasted_s for _, lasted_s, _ in spans) / DAY_S, failed) if spans else None


def downs(samples: Samples, links: LinkSamples | None = None, changes: Changes = ()) -> dict[frozenset[End], int]:
    """
    Return how often each link went down, without what our own changes explain, by the ends of the link.

    Links are ports of hosts and cables between switches. Each counts once: its ends see the same flaps, so the larger
    count is taken.
    """
    links = links or LinkSamples()
    own, partners = windows_of(changes), dict(links.both_ways)
    most: dict[frozenset[End], int] = {}
    for reading, course in (*samples.courses.items(), *links.samples.courses.items()):
        if reading.name == LINK_DOWNED:
            end = (reading.host, reading.part)
            cable = frozenset((end, partners.get(end, end)))
            grown = sum(step.by for step in steps_of(LINK_DOWNED, course, own, 0.0)[0] if not step.ours)
            most[cable] = max(grown, most.get(cable, 0))
    return most


def _watch(
    rounds: Sequence[Sequence[_Ran]], last_well: Mapping[str, float], shared: Mapping[str, Collection[str]]
) -> Iterator[tuple[str, float, tuple[float, str] | None]]:
    """
    Yield, for each host and round, how long it was watched (seconds) and the failure that ended that, or None.

    A failure is the time at which its round ended, and the part that failed.
    """
    well_since: dict[str, float] = {}
    for ran in rounds:
        well = {host for probe, result in ran if result.outcome is None for host in probe.hosts}
        bad = [(probe, result) for probe, result in ran if result.outcome is not None]
        failed, ended_s = _failed(bad, last_well), max(result.ended_s for _, result in ran)
        parts = {host: part for part, hosts in shared.items() if not failed.isdisjoint(hosts) for host in hosts}
        failed |= parts.keys()
        for host in (well | failed) & well_since.keys():
            until_s, part = ended_s, parts.get(host, host)
            if host in failed:
                mine = set(shared.get(part, (host,)))
                failed_s = [result.started_s for probe, result in bad if not mine.isdisjoint(probe.hosts)]
                until_s = max(min(failed_s, default=until_s), well_since[host])
            yield host, until_s - well_since[host], (ended_s, part) if host in failed else None
        well_since = dict.fromkeys(well - failed, ended_s)


def _failed(bad: Iterable[_Ran], last_well: Mapping[str, float]) -> set[str]:
    """Return the fewest hosts that explain the bad probes, found greedily; among equals the first by name wins."""
    open_ = [_accused(probe, result, last_well) for probe, result in bad]
    failed = {hosts[0] for hosts in open_ if len(hosts) == 1}
    while open_ := [hosts for hosts in open_ if hosts and failed.isdisjoint(hosts)]:
        seen = Counter(host for hosts in open_ for host in hosts)
        failed.add(min(seen, key=lambda host: (-seen[host], host)))
    return failed


def _accused(probe: Probe, result: ProbeResult, last_well: Mapping[str, float]) -> tuple[str, ...]:
    """Return the hosts of which one failed; none if the probe only could not be measured this once."""
    if result.outcome is Outcome.FAIL and result.named is not None:
        return (Part.of(result.named.component).host,)
    lost = result.error_host if result.outcome is Outcome.ERROR else None
    if lost and last_well.get(lost, 0.0) <= result.started_s:  # a host that measures well later was not lost
        return (lost,)
    return probe.hosts if result.outcome is Outcome.FAIL or gave_up(result) else ()


def impact_of(
    seen: SeenCounters,
    probes: Sequence[Probe],
    results: Results,
    phases: Sequence[Phase],
    topology: Topology,
    ports: PortFindings,
    changes: Changes,
    effects: Sequence[ChangeEffect],
) -> TrainingImpact | None:
    """Work out what a run means for a job over all GPUs of its hosts; None if they have no GPUs."""
    gpus = sum(len(topology.hosts[host].platform.gpus) for host in seen.hosts)
    if not gpus:
        return None
    faults = {one.change.change_id for one in changes if one.change.is_fault}
    left = [min(one.retained, 1.0) for one in effects if one.change_id in faults and one.retained is not None]
    leaves = {one.component: one.hosts for one in ports.suspects if one.kind == "leaf" and one.outcome is Outcome.FAIL}
    failures = watched(probes, results, phases, leaves)
    impact = training_impact(gpus, len(seen.hosts), failures, retained=min(left, default=None))
    if failures is None or impact.mttf_s is None:
        return impact
    found = downs(seen.samples, seen.links, changes)
    # A host that fails takes its links down: do not count those flaps again.
    besides = sum(count for ends, count in found.items() if failures.hosts.isdisjoint(host for host, _ in ends))
    if not found:
        note = "links that went down were not counted: without sample:"
    elif besides:  # no probe died of these flaps: show what they cost a job that dies of each
        died = training_impact(gpus, len(seen.hosts), Observed(failures.count + besides, failures.host_days))
        many = f"links went down {counted(besides, 'time')} besides and no probe died of it"
        note = f"{many}; a job that does: MTTF {(died.mttf_s or inf) / 3600:.1f} h, ETTR {died.ettr or 0.0:.2f}"
    elif any(found.values()):
        note = "links went down on hosts that failed alone: none is counted besides"
    else:
        all_seen = ports.links is not None and ports.links.is_whole
        note = f"no link {'' if all_seen else 'that was looked at '}went down meanwhile"
    return replace(impact, flaps=besides if found else None, notes=(*impact.notes, note))
