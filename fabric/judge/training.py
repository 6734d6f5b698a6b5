"""
What the failures of a fleet mean for a training job: mean time to failure, time that counts, longer steps.

Formulas of Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters" (arXiv
2410.21680, HPCA 2025). They claim 5 % of a Monte Carlo simulation up to about 8,000 GPUs.

Nothing is made up: a rate is a count over a time in which somebody looked. Where no failure was seen, the rate is only
known to be below a bound, and so is everything that follows from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, log, sqrt

from fabric.judge.course.rows import LEAST_ROUNDS
from fabric.judge.normal.samples import gave_up
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import Samples, growth
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import TrainingImpact, Verdict

DAY_S = 86_400.0
CONFIDENCE = 0.95
"""Of a bound where nothing was seen."""


@dataclass(frozen=True, slots=True)
class Observed:
    """How often something happened to a fleet's hosts: *count* times in *host_days* of looking."""

    count: int
    host_days: float

    @property
    def per_host_day(self) -> float:
        """
        Events per host and day; with none seen, the rate that is not exceeded with 95 % confidence.

        No event in T has probability exp(-rate T) (Poisson): at rate 3 / T that is 5 % ("rule of three", Hanley and
        Lippman-Hand, JAMA 1983; exactly -ln 0.05 = 2.996).
        """
        return self.count / self.host_days if self.count else -log(1 - CONFIDENCE) / self.host_days

    @property
    def is_bound(self) -> bool:
        """Whether the rate is only known to be no more than that."""
        return self.count == 0

    def __add__(self, other: Observed) -> Observed:
        """Two kinds of event that were looked for in the same time; ValueError when the times differ."""
        if self.host_days != other.host_days:
            raise ValueError(f"{self.host_days:g} and {other.host_days:g} host-days: not the same time of looking")
        return Observed(self.count + other.count, self.host_days)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training job and its checkpoints. *communication* is the part of a step spent waiting for the network."""

    gpus: int
    gpus_per_host: float = 8  # a fraction where hosts differ
    restart_s: float = 300.0  # the paper's 5 minutes
    checkpoint_every_s: float | None = None  # None: as often as is best, see best_interval_s
    checkpoint_write_s: float = 300.0  # the paper's 5 minutes; 0: it blocks nobody
    communication: float | None = None  # measured; None: not known

    @property
    def hosts(self) -> float:
        """Hosts; a fraction where they are not full, as in the paper."""
        return self.gpus / self.gpus_per_host


def mttf_s(hosts: float, per_host_day: float) -> float:
    """Mean time to failure of a job, seconds: 1 / (hosts x rate), for failures that are independent."""
    if hosts <= 0 or per_host_day <= 0:
        raise ValueError(f"{hosts:g} hosts with {per_host_day:g} failures per host-day: both must be above 0")
    return DAY_S / (hosts * per_host_day)


def best_interval_s(mttf: float, write_s: float) -> float:
    """The checkpoint interval that loses least: sqrt(2 x write x MTTF) (Young 1974, Daly 2006)."""
    return sqrt(2 * write_s * mttf)


def expected_ettr(mttf: float, *, restart_s: float, every_s: float, write_s: float = 0.0) -> float:
    """
    Expected effective training time ratio: (1 - (restart + interval / 2) / MTTF) / (1 + write / interval).

    Each failure costs the restart and half an interval of work. 0 where the formula, a first-order one, falls below.
    """
    return max(0.0, (1 - (restart_s + every_s / 2) / mttf) / (1 + write_s / every_s))


def step_stretch(retained: float, communication: float) -> float:
    """
    How many times as long a step takes when bandwidth falls to *retained* (0 to 1, above 0).

    The *communication* part of a step (0 to 1, what is not hidden behind computation) grows in inverse proportion, the
    rest stays: 1 - c + c / retained (Amdahl). What was hidden may come to light, so it can be worse.
    """
    if not 0 < retained <= 1 or not 0 <= communication <= 1:
        raise ValueError(f"retained {retained:g} must be above 0 to 1, communication {communication:g} from 0 to 1")
    return 1 - communication + communication / retained


def training_impact(
    job: TrainingJob, failures: Observed | None, *, flaps: Observed | None = None, retained: float | None = None
) -> TrainingImpact:
    """
    What follows for a job from measured failures, from *flaps* that end a job, and from the bandwidth *retained*.

    Flaps that a job survives do not belong here: they cost a stall, not a restart.
    """
    notes = []
    total = failures
    if failures is None or failures.host_days <= 0:
        notes.append("no failure rate was measured: mean time to failure and ETTR are not known")
        total = None
    elif flaps is not None:
        total = failures + flaps
    stretch = None
    if retained is not None and job.communication is not None:
        stretch = step_stretch(retained, job.communication)
    elif retained is not None:
        notes.append(_stretched(retained))
    if total is None:
        return TrainingImpact(job.gpus, None, None, step_stretch=stretch, notes=tuple(notes))
    looked = f"{total.host_days:,.1f} host-days"
    if total.is_bound:
        notes.append(f"no failure in {looked}: rate at most {total.per_host_day:.2g} per host-day (95 %)")
    else:
        many = f"{total.count} failure{'s' if total.count != 1 else ''}"
        notes.append(f"{many} in {looked}: {total.per_host_day:.2g} per host-day")
    mttf = mttf_s(job.hosts, total.per_host_day)
    return TrainingImpact(
        job.gpus,
        mttf,
        _ettr(job, mttf),
        total.is_bound,
        stretch,
        tuple(notes),
        failures=total.count,
        host_days=total.host_days,
    )


def _stretched(retained: float) -> str:
    """With nothing known of the steps: from 1 (they never wait for the network) to 1 / retained (they only do)."""
    text = f"the worst fault made here left {retained:.0%} of the bandwidth"
    if retained <= 0:
        return f"{text}: jobs that use it stand still"
    most = f"steps take up to {1 / retained:.1f} times as long"
    return f"{text}; how much of a step waits for the network is not known: {most}"


def _ettr(job: TrainingJob, mttf: float) -> float | None:
    every_s = job.checkpoint_every_s
    if every_s is None:
        if job.checkpoint_write_s <= 0:
            return None  # checkpoints that cost nothing have no best interval
        every_s = best_interval_s(mttf, job.checkpoint_write_s)
    return expected_ettr(mttf, restart_s=job.restart_s, every_s=every_s, write_s=job.checkpoint_write_s)


DOWNED = "link_downed"
"""The counter of links that went down."""


_Spans = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class WatchedTime:
    """
    *count* failures, and when each host was watched, as times from and until (seconds).

    *calm* are those of these times that ended without a failure of the host.
    """

    count: int
    when: Mapping[str, Sequence[tuple[float, float]]]
    calm: Mapping[str, Sequence[tuple[float, float]]]

    @property
    def failures(self) -> Observed:
        """As a rate; no rate at all (0 host-days) where nobody was watched."""
        return Observed(self.count, fsum(end - start for spans in self.when.values() for start, end in spans) / DAY_S)


@dataclass(slots=True)
class _Round:
    """Who did well in a round, what went badly, and when its last probe had ended."""

    well: set[str] = field(default_factory=set)
    bad: list[tuple[Probe, ProbeResult]] = field(default_factory=list)
    ended_s: float = 0.0


def watched(
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    phases: Sequence[Phase],
    shared: Mapping[str, Collection[str]] | None = None,
) -> WatchedTime | None:
    """
    From every phase that ran often enough and altered nothing; None where there is no such phase.

    *shared*: by parts that failed the hosts behind each. Of those that fail in one round it is the part that failed.
    """
    series: dict[tuple[str, object], dict[str, _Round]] = {}
    for phase in phases:
        series.setdefault((phase.written, phase.where), {})[phase.name] = _Round()
    altered = {(phase.written, phase.where) for phase in phases if phase.changes}
    kept = [rounds for key, rounds in series.items() if len(rounds) >= LEAST_ROUNDS and key not in altered]
    if not kept:
        return None
    by_phase = {name: found for rounds in kept for name, found in rounds.items()}
    last_well = _fill(by_phase, probes, results)
    count = 0
    when: _Spans = {}
    calm: _Spans = {}
    for rounds in kept:
        run = [one for one in rounds.values() if one.ended_s > 0]
        count += _watch(run, last_well, shared or {}, when, calm)
    return WatchedTime(count, when, calm) if when else None


def flaps(found: WatchedTime, samples: Samples) -> int | None:
    """
    How many links went down, and came back without a failure, on hosts that were watched then.

    What goes down in a round in which its host failed is that failure. None where that counter was not sampled.
    """
    courses = {reading: course for reading, course in samples.courses.items() if reading.name == DOWNED}
    if not courses:
        return None
    count = 0
    for reading, course in courses.items():
        spans = found.calm.get(reading.host, ())
        for before, after, at_s in zip(course.values, course.values[1:], course.at_s[1:], strict=False):
            if before is not None and after is not None and any(start < at_s <= end for start, end in spans):
                count += growth(DOWNED, int(before), int(after)).by
    return count


def downs(samples: Samples) -> int | None:
    """How many times a link went down at all, whatever came of it; None where that counter was not sampled."""
    courses = [course for reading, course in samples.courses.items() if reading.name == DOWNED]
    if not courses:
        return None
    steps = (pair for course in courses for pair in zip(course.values, course.values[1:], strict=False))
    return sum(
        growth(DOWNED, int(before), int(after)).by
        for before, after in steps
        if before is not None and after is not None
    )


def _fill(
    by_phase: Mapping[str, _Round], probes: Sequence[Probe], results: Mapping[str, ProbeResult]
) -> Mapping[str, float]:
    """Sort the results into their rounds; when each host last measured well, seconds."""
    last_well: dict[str, float] = {}
    for probe in probes:
        into, result = by_phase.get(probe.phase), results.get(probe.probe_id)
        if into is None or result is None or result.attempt == 0:
            continue
        into.ended_s = max(into.ended_s, result.ended_s)
        if result.outcome is None:
            into.well.update(probe.hosts)
            for host in probe.hosts:
                last_well[host] = max(result.ended_s, last_well.get(host, 0.0))
        else:
            into.bad.append((probe, result))
    return last_well


def _watch(
    rounds: Sequence[_Round],
    last_well: Mapping[str, float],
    shared: Mapping[str, Collection[str]],
    when: _Spans,
    calm: _Spans,
) -> int:
    """Add the times that hosts were watched; how many failures these rounds saw."""
    count = 0
    well_since: dict[str, float] = {}
    for one in rounds:
        failed = _failed(one.bad, last_well)
        parts = {host: part for part, hosts in shared.items() if not failed.isdisjoint(hosts) for host in hosts}
        failed |= parts.keys()
        began: set[str] = set()
        for host in (one.well | failed) & well_since.keys():
            if host not in failed:
                for spans in (when, calm):
                    spans.setdefault(host, []).append((well_since[host], one.ended_s))
                continue
            part = parts.get(host, host)
            mine = set(shared[part]) if host in parts else {host}
            failed_s = [result.started_s for probe, result in one.bad if not mine.isdisjoint(probe.hosts)]
            until_s = max(min(failed_s, default=one.ended_s), well_since[host])
            when.setdefault(host, []).append((well_since[host], until_s))
            began.add(part)
        count += len(began)
        well_since = dict.fromkeys(one.well - failed, one.ended_s)
    return count


def _failed(bad: Iterable[tuple[Probe, ProbeResult]], last_well: Mapping[str, float]) -> set[str]:
    """The fewest hosts that explain what went badly: of several that explain as much the first by name."""
    failed: set[str] = set()
    open_: list[tuple[str, ...]] = []
    for probe, result in bad:
        host = _named(probe, result, last_well)
        if host:
            failed.add(host)
        elif result.outcome is Outcome.FAIL or gave_up(result):
            open_.append(probe.hosts)
    while open_ := [hosts for hosts in open_ if failed.isdisjoint(hosts)]:
        seen = Counter(host for hosts in open_ for host in hosts)
        failed.add(min(seen, key=lambda host: (-seen[host], host)))
    return failed


def _named(probe: Probe, result: ProbeResult, last_well: Mapping[str, float]) -> str:
    """The host that certainly failed; empty where that is not certain, or where we could not measure for once."""
    if result.outcome is Outcome.FAIL:
        if result.named is not None:
            return Part.of(result.named.component).host
        return probe.hosts[0] if len(probe.hosts) == 1 else ""
    host = result.error_host or ""
    gone = result.outcome is Outcome.ERROR and last_well.get(host, 0.0) <= result.started_s
    return host if gone else ""  # a host that measures well later was not lost


def with_training(
    verdict: Verdict,
    samples: Samples,
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    *,
    phases: Sequence[Phase],
    topology: Topology,
    hosts: Sequence[str],
) -> Verdict:
    """The verdict with what its run means for a job over all GPUs of *hosts*; the same where they have none."""
    gpus = sum(len(topology.hosts[host].platform.gpus) for host in hosts)
    if not gpus:
        return verdict
    job = TrainingJob(gpus, gpus_per_host=gpus / len(hosts))
    seen = watched(probes, results, phases, _shared(verdict))
    impact = training_impact(job, seen.failures if seen else None, retained=_retained(verdict))
    if seen is not None and impact.mttf_s is not None:
        impact = _with_flaps(impact, job, seen.failures, flaps(seen, samples), downs(samples))
    return replace(verdict, training=impact)


def _shared(verdict: Verdict) -> dict[str, tuple[str, ...]]:
    """The leaves that FAIL, with the hosts that showed it."""
    return {one.component: one.hosts for one in verdict.suspects if one.kind == "leaf" and one.outcome is Outcome.FAIL}


def _retained(verdict: Verdict) -> float | None:
    """The least bandwidth that a fault made on purpose left; None where none was made, or nothing measured."""
    faults = {one.change.change_id for one in verdict.changes if one.change.is_fault}
    shares = [one.retained for one in verdict.effects if one.change_id in faults and one.retained is not None]
    return min(min(shares), 1.0) if shares else None


def _with_flaps(
    impact: TrainingImpact, job: TrainingJob, failures: Observed, count: int | None, downed: int | None
) -> TrainingImpact:
    """Those that no probe died of are no failures; what they would cost a job that dies of each is said beside it."""
    if count is None:
        return replace(impact, notes=(*impact.notes, "links that went down were not counted: without sample:"))
    if count == 0:
        return replace(impact, flaps=0, notes=(*impact.notes, _none_besides(downed or 0)))
    each = training_impact(job, failures, flaps=Observed(count, failures.host_days))
    ettr = "" if each.ettr is None else f", ETTR {each.ettr:.2f}"
    hours = "" if each.mttf_s is None else f"MTTF {each.mttf_s / 3600:.1f} h"
    many = f"{count} link{'s' if count != 1 else ''} went down besides and no probe died of it"
    return replace(impact, flaps=count, notes=(*impact.notes, f"{many}; a job that does: {hours}{ettr}"))


def _none_besides(downed: int) -> str:
    """A link that went down with a failure is that failure, and no second one."""
    if not downed:
        return "no link went down meanwhile"
    times = "once" if downed == 1 else f"{downed} times"
    return f"a link went down {times}, with a failure or where hosts were not watched: none is counted besides"
