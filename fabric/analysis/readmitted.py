"""
Hosts that were repaired and let in again while the run went on: they are judged by what was measured from then on.

What was measured with them before speaks of parts that may have been replaced. It is SKIPPED in the verdict, which says
so, and stays in the run's files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabric.model.names import fold
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import Course, Samples
from fabric.model.units import duration_text
from fabric.model.verdict import ProbeVerdict, Verdict


def before_repair(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], readmitted: Mapping[str, float]
) -> dict[str, str]:
    """The ids of the probes that ended before a host of theirs was readmitted (by host, seconds), and that host."""
    found: dict[str, str] = {}
    for probe in probes if readmitted else ():
        result = results.get(probe.probe_id)
        if result is not None:
            hosts = [host for host in probe.hosts if result.ended_s <= readmitted.get(host, -1.0)]
            found.update((probe.probe_id, host) for host in hosts[:1])
    return found


def with_repairs(
    verdict: Verdict, probes: Sequence[Probe], old: Mapping[str, str], readmitted: Mapping[str, float], began_s: float
) -> Verdict:
    """The verdict over all *probes*, of which the *old* (id to host) were not judged; *began_s*: when the run began."""
    if not readmitted:
        return verdict
    judged = {one.probe_id: one for one in verdict.probes}
    for probe_id, host in old.items():
        judged[probe_id] = ProbeVerdict(probe_id, Outcome.SKIPPED, f"before {host} was repaired and readmitted")
    lines = []
    for host, at_s in readmitted.items():
        number = sum(name == host for name in old.values())
        after = duration_text(max(0.0, at_s - began_s))
        lines.append(
            f"{fold([host])} was readmitted after {after} and is judged from then on: "
            f"{number:,} probe{'' if number == 1 else 's'} of before SKIPPED"
        )
    return replace(
        verdict,
        outcome=Outcome.worst([verdict.outcome, *(Outcome.SKIPPED for _ in old)]),
        reasons=(*verdict.reasons, *lines),
        probes=tuple(judged[probe.probe_id] for probe in probes),
    )


def samples_since(samples: Samples, readmitted: Mapping[str, float]) -> Samples:
    """What was sampled, of a readmitted host only from then on."""
    if not readmitted:
        return samples
    courses = {
        reading: _since(course, readmitted[reading.host]) if reading.host in readmitted else course
        for reading, course in samples.courses.items()
    }
    return Samples(samples.every_s, courses)


def _since(course: Course, at_s: float) -> Course:
    place = bisect_right(course.at_s, at_s)
    if place == 0:
        return course
    first = max(at_s, course.at_s[place - 1])
    return Course([first, *course.at_s[place:]], [course.values[place - 1], *course.values[place:]], course.until_s)
