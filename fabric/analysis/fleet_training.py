"""What a run says of a training job over all its hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabric.analysis.fleet_failures import downs, flaps, watched
from fabric.analysis.training import Job, Observed, training_impact
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import Samples
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.training import TrainingImpact
from fabric.model.verdict import Verdict


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
    job = Job(gpus, gpus_per_host=gpus / len(hosts))
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
    impact: TrainingImpact, job: Job, failures: Observed, count: int | None, downed: int | None
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
