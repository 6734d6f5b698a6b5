"""What counts of a host that was repaired while a run went on: what was measured of it since it was let in again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.repair import Readmission
from fabric.model.sampling import CounterCourse, Samples
from fabric.model.text import duration_text, fold
from fabric.model.verdict import ProbeVerdict, Verdict

_TELLS_NOTHING = (Outcome.SKIPPED, Outcome.ERROR, Outcome.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class SetAside:
    """*hosts*: each probe that is not judged (by its id), and because of which host; *since*: hosts measured again."""

    hosts: Mapping[str, str]
    since: frozenset[str] = frozenset()

    def __contains__(self, probe_id: str) -> bool:
        """Whether this probe is not judged."""
        return probe_id in self.hosts

    def __bool__(self) -> bool:
        """Whether any probe is not judged."""
        return bool(self.hosts)


def measured_again(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], readmitted: Mapping[str, float]
) -> dict[str, float]:
    """
    Of the *readmitted* hosts (by host, seconds) those with which a probe was begun and told something afterwards.

    A probe that was SKIPPED, an ERROR of ours or an INCONCLUSIVE one tells nothing of the host.
    """
    told = (
        (probe, result)
        for probe in (probes if readmitted else ())
        if (result := results.get(probe.probe_id)) and result.attempt > 0 and result.outcome not in _TELLS_NOTHING
    )
    found = {host for probe, result in told for host in probe.hosts if result.ended_s > readmitted.get(host, inf)}
    return {host: at_s for host, at_s in readmitted.items() if host in found}


def before_repair(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], readmitted: Mapping[str, float]
) -> SetAside:
    """The probes that ended before a host of theirs was readmitted (by host, seconds), and measured again since."""
    again = measured_again(probes, results, readmitted)
    found: dict[str, str] = {}
    for probe in probes if again else ():
        result = results.get(probe.probe_id)
        if result is not None:
            hosts = [host for host in probe.hosts if result.ended_s <= again.get(host, -1.0)]
            found.update((probe.probe_id, host) for host in hosts[:1])
    return SetAside(found, frozenset(again))


def with_repairs(
    verdict: Verdict, probes: Sequence[Probe], old: SetAside, readmitted: Sequence[Readmission], began_s: float
) -> Verdict:
    """The verdict over all *probes*, of which the *old* were not judged; *began_s*: when the run began."""
    if not readmitted:
        return verdict
    judged = {one.probe_id: one for one in verdict.probes}
    for probe_id, host in old.hosts.items():
        judged[probe_id] = ProbeVerdict(probe_id, Outcome.SKIPPED, f"before {host} was repaired and readmitted")
    last = {one.host: one for one in readmitted}
    lines = [_line(one, max(0.0, one.at_s - began_s), old, last=last[one.host] is one) for one in readmitted]
    return replace(
        verdict,
        outcome=Outcome.worst([verdict.outcome, *(Outcome.SKIPPED for _ in old.hosts)]),
        reasons=(*verdict.reasons, *lines),
        probes=tuple(judged[probe.probe_id] for probe in probes),
    )


def _line(one: Readmission, after_s: float, old: SetAside, *, last: bool) -> str:
    """Each time that a host was let in again, why it had been out, and what it came to."""
    host, why = one.host, f"; it had been out: {one.reason}" if one.reason else ""
    said = f"{fold([host])} was readmitted after {duration_text(after_s)}"
    if one.still_bad:
        stands = ", so what was measured before stands" if last else ""
        return f"{said} and was still bad{stands}: {one.still_bad}"
    if not last:
        return f"{said}, and again later{why}"
    if host not in old.since:
        return f"{said} and was not measured since: what was measured before stands{why}"
    number = sum(name == host for name in old.hosts.values())
    return f"{said} and is judged from then on: {number:,} probe{'' if number == 1 else 's'} of before SKIPPED{why}"


def samples_since(samples: Samples, readmitted: Mapping[str, float]) -> Samples:
    """What was sampled, of a readmitted host only from then on; what was not read since stands."""
    if not readmitted:
        return samples
    return Samples(
        samples.every_s,
        {at: _since(course, readmitted.get(at.host, -inf)) for at, course in samples.courses.items()},
    )


def _since(course: CounterCourse, at_s: float) -> CounterCourse:
    place = bisect_right(course.at_s, at_s)
    if place in (0, len(course.at_s)):
        return course
    first = max(at_s, course.at_s[place - 1])
    return CounterCourse(
        [first, *course.at_s[place:]], [course.values[place - 1], *course.values[place:]], course.until_s
    )
