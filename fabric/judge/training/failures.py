"""
How often hosts failed while a run looked at them again and again: what a job's mean time to failure follows from.

Time is cut into the rounds of a repeated phase. A host that did well in one round is watched until the end of the next;
when it fails there, that is one failure, however many probes it ends and for however many rounds it lasts. What was bad
from the beginning is a defect and no rate, and a host that is not well is not watched until it is well again. A part
that many hosts share (a leaf) and that failed is one failure of all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum

from fabric.judge.course.tracks import LEAST_ROUNDS
from fabric.judge.normal.samples import gave_up
from fabric.judge.training.training import DAY_S, Observed, TrainingJob, training_impact
from fabric.model.counters import growth
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import Samples
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.training import TrainingImpact
from fabric.model.verdict import Verdict

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
