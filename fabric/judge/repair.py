"""
May a repaired host go back into service? What accused it is weighed again, against three things.

- Its limits, its suite and its ports: anything bad rejects it.
- Its own past and its peers in this run: with three repetitions or more, an interval of the ratio that lies wholly
  below 1 - margin rejects it, even above the limit (``against_recorded``). A median below it that may be chance is
  INCONCLUSIVE.
- The serial numbers: where the part that was named is still there and another one was replaced, good numbers are no
  proof (the fault may come and go), and the answer is INCONCLUSIVE.

ACCEPT also takes a time without bit errors, NVIDIA's 125 minutes at 400 Gb/s (``clean_s``); a quick validation leaves
that out, and says so. What is not measured is INCONCLUSIVE.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import median

from fabric.judge.compare.identity import Repair, Repaired
from fabric.judge.normal.keys import bandwidths, floor_of, key_of
from fabric.judge.normal.peers import SCALE
from fabric.judge.normal.recorded import LEAST_SAMPLES, RecordedRatio, against_recorded
from fabric.judge.normal.samples import name_of
from fabric.judge.normal.series import representative
from fabric.judge.ports.health import PortHealth, ports_of_run
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.recorded import Key, Recorded
from fabric.model.repair import Acceptance, Because, Decision, Evidence, Readmission, Weighed
from fabric.model.sampling import CounterCourse, Samples
from fabric.model.text import duration_text, fold
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Verdict


@dataclass(frozen=True, slots=True)
class WatchedPorts:
    """The ports that could be read; *watched_s* is the shortest time of them all, None where none was read."""

    ports: tuple[PortHealth, ...] = ()
    watched_s: float | None = None


def watched_ports(
    samples: Samples, topology: Topology, hosts: Sequence[str], changes: Sequence[ChangeResult]
) -> WatchedPorts:  # fmt: skip
    """Every port of *hosts*, judged as in the verdict of a run."""
    found = ports_of_run(samples, topology, hosts, changes)
    times_s = (port.ber.watched_s for port in found if port.ber is not None)
    return WatchedPorts(tuple(found), min(times_s, default=None))


GOOD = (Outcome.PASS, Outcome.MARGINAL)
_MOST = 4  # lines of one kind on the page

Same = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A whole run: its probes, what came of them, and how they were judged; *complete*: it was not interrupted."""

    probes: Sequence[Probe]
    results: Mapping[str, ProbeResult]
    verdict: Verdict
    topology: Topology
    complete: bool = True


@dataclass(slots=True)
class _Case:
    """What speaks against the hosts, what leaves it open, and what else there is to say."""

    reject: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def accept(
    because: Because, run: Measured, watched: WatchedPorts, repaired: Repaired, phase: str
) -> Acceptance:  # fmt: skip
    """Weigh everything; *phase* is where the evidence was measured again, *watched* the ports of the hosts."""
    case = _Case(notes=list(because.notes))
    weighed = tuple(_weighed(because, run, phase))
    _evidence(weighed, case)
    _suite(because, run, phase, case)
    _bit_errors(because, run.topology, watched.ports, case)
    _parts(repaired, case)
    if not run.complete:
        case.open.append("the run has not reached its end: what it did not reach is not judged")
    decision = Decision.REJECT if case.reject else Decision.INCONCLUSIVE if case.open else Decision.ACCEPT
    return Acceptance(
        decision=decision,
        hosts=because.hosts,
        because=because.run,
        reasons=tuple([*case.reject, *case.open]) or (_all_good(weighed, because),),
        notes=tuple(case.notes),
        weighed=weighed,
        parts=repaired.lines,
        watched_s=watched.watched_s,
        quick=because.quick,
    )


def same(probe: Probe) -> Same:
    """What two probes share that measure the same thing on the same hosts, in whichever phase and repetition."""
    sizes = probe.params.get("sizes_bytes", probe.params.get("size_bytes"))
    return probe.kind, name_of(probe), probe.hosts, str(probe.params.get("series")), sizes


def _weighed(because: Because, run: Measured, phase: str) -> Iterator[Weighed]:
    verdicts = {one.probe_id: one for one in run.verdict.probes}
    again: dict[Same, list[Probe]] = {}
    for probe in run.probes:
        if probe.phase == phase:
            again.setdefault(same(probe), []).append(probe)
    peers = _peers(because, run, phase)
    for one in because.evidence:
        members = again.get(same(one.probe), [])
        yield _one(one, [verdicts[probe.probe_id] for probe in members], run, members, peers)


def _one(
    one: Evidence,
    verdicts: Sequence[ProbeVerdict],
    run: Measured,
    members: Sequence[Probe],
    peers: Mapping[Key, Sequence[float]],
) -> Weighed:
    measured = [value for probe in members for value in _value(run.results.get(probe.probe_id))]
    values = [value for value, _ in measured]
    worst = max(verdicts, key=lambda verdict: verdict.outcome.rank, default=None)
    outcome = worst.outcome if worst else Outcome.INCONCLUSIVE
    reason = worst.reason if worst else "not repeated"
    limits = [verdict.limit_gbps for verdict in verdicts if verdict.limit_gbps is not None]
    if outcome in GOOD and len(values) < LEAST_SAMPLES:
        outcome, reason = Outcome.INCONCLUSIVE, f"{len(values)} of {LEAST_SAMPLES} samples that are needed"
    key = key_of(one.probe, measured[0][1], run.topology) if measured else None
    margin = floor_of(one.probe.kind)
    past = _against(values, one.past_gbps, margin)
    beside = _against(values, peers.get(key, ()), margin) if key else None
    for found, what in ((past, "its own past"), (beside, "its peers")):
        if found is None or outcome not in GOOD or found.ratio >= 1 - margin:
            continue  # a loss below the margin is not acted upon
        slower = found.outcome is Outcome.FAIL
        outcome = Outcome.FAIL if slower else Outcome.INCONCLUSIVE
        reason = f"{'slower than' if slower else 'perhaps slower than'} {what}: {found.reason}"
    return Weighed(
        label=one.probe.probe_id,
        outcome=outcome,
        reason=reason,
        before_gbps=one.value_gbps,
        before=one.outcome.name if one.value_gbps is None else f"{one.value_gbps:.1f}",
        now_gbps=median(values) if values else None,
        n=len(values),
        limit_gbps=limits[0] if limits else one.limit_gbps,
        past=_said(past),
        peers=_said(beside),
    )


def _peers(because: Because, run: Measured, phase: str) -> dict[Key, list[float]]:
    """What hosts that were not repaired measured in this run, by key."""
    found: dict[Key, list[float]] = {}
    repaired = set(because.hosts)
    for probe in run.probes:
        if probe.phase != phase and repaired.isdisjoint(probe.hosts):
            for value, size_bytes in _value(run.results.get(probe.probe_id)):
                found.setdefault(key_of(probe, size_bytes, run.topology), []).append(value)
    return found


def _value(result: ProbeResult | None) -> list[tuple[float, int | None]]:
    """Its number, as limits are judged, and the message size; empty where nothing was measured."""
    if result is None or result.outcome is not None or not bandwidths(result):
        return []
    return [representative(result)]


def _against(values: Sequence[float], others: Sequence[float], margin: float) -> RecordedRatio | None:
    """How *values* lie to *others*; None where either is too few to tell."""
    if min(len(values), len(others)) < LEAST_SAMPLES:
        return None
    middle = median(others)
    mad = median(abs(value - middle) for value in others)
    recorded = Recorded(Key("", ""), middle, mad, len(others), SCALE * mad / middle, ())
    return against_recorded(values, recorded, margin=margin)


def _said(found: RecordedRatio | None) -> str:
    return "" if found is None else f"{found.ratio - 1:+.1%}"


def _evidence(weighed: Sequence[Weighed], case: _Case) -> None:
    if not weighed:
        case.open.append("nothing that accused it could be measured again")
    for outcome, lines in ((Outcome.FAIL, case.reject), (Outcome.MARGINAL, case.notes)):
        found = [one for one in weighed if one.outcome is outcome]
        if found:
            what = "still bad" if outcome is Outcome.FAIL else "good, but near a limit or unsteady"
            lines.append(f"{what}: {len(found)} of {len(weighed)} probes that accused it, such as {_example(found)}")
    left = [one for one in weighed if one.outcome not in (*GOOD, Outcome.FAIL)]
    if left:
        case.open.append(
            f"not told: {len(left)} of {len(weighed)} probes that accused it, such as {_example(left)}"
        )  # fmt: skip


def _example(found: Sequence[Weighed]) -> str:
    """The slowest, as it was and is."""
    one = min(found, key=lambda one: -1.0 if one.now_gbps is None else one.now_gbps)
    now = "nothing" if one.now_gbps is None else f"{one.now_gbps:.1f} Gb/s"
    reason = one.reason.removeprefix(f"{now}, ") or "good"
    return f"{one.label}: {one.before} before, {now} now: {reason}"


def _suite(because: Because, run: Measured, phase: str, case: _Case) -> None:
    """Everything else that was measured of the hosts in this run."""
    repaired = set(because.hosts)
    named = [suspect for suspect in run.verdict.suspects if suspect.outcome is Outcome.FAIL]
    own = [suspect for suspect in named if repaired & set(suspect.hosts)]
    others = [suspect for suspect in named if not repaired & set(suspect.hosts)]
    case.reject += [f"named: {one.component} ({one.kind}): {'; '.join(one.evidence[:1])}" for one in own[:_MOST]]
    if others:
        text = f"{fold([one.component for one in others])} was found bad, and is not what was repaired"
        case.notes.append(text)
    theirs = {host for suspect in others for host in suspect.hosts}
    verdicts = {one.probe_id: one for one in run.verdict.probes}
    left: dict[tuple[str, Outcome], list[ProbeVerdict]] = {}
    for probe in run.probes:
        verdict = verdicts[probe.probe_id]
        if probe.phase == phase or not repaired & set(probe.hosts) or verdict.outcome in GOOD:
            continue
        left.setdefault((f"{probe.kind} of {probe.phase}", verdict.outcome), []).append(verdict)
        if verdict.outcome is Outcome.FAIL and not theirs & set(probe.hosts) and not own:
            case.reject.append(f"bad: {probe.probe_id}: {verdict.reason}")
    for (what, outcome), found in left.items():
        if outcome is not Outcome.FAIL or not case.reject:
            case.open.append(f"{outcome.name}: {len(found)} {what}, such as {found[0].probe_id}: {found[0].reason}")
    del case.reject[2 * _MOST :]


def _bit_errors(because: Because, topology: Topology, ports: Sequence[PortHealth], case: _Case) -> None:
    bad = [port for port in ports if port.outcome is Outcome.FAIL]
    case.reject += [f"{port.component}: {'; '.join(port.words)}" for port in bad[:_MOST]]
    case.notes += [
        f"{port.component}: {'; '.join(port.words)}" for port in ports if port.outcome is Outcome.MARGINAL
    ][:_MOST]  # fmt: skip
    if because.quick:
        case.notes.append("bit errors are not covered by a quick validation: 125 minutes without --quick tell of them")
        return
    planned = sum(len(topology.hosts[host].platform.rnics) for host in because.hosts)
    unread = planned - sum(port.ber is not None for port in ports)
    if unread:
        case.open.append(f"bit errors: {unread} of {planned} ports could not be watched")
    short = [port.ber for port in ports if port.ber is not None and port.ber.outcome is Outcome.INCONCLUSIVE]
    if short:
        left_s = max(ber.left_s for ber in short)
        text = f"{len(short)} of {planned} ports were not watched long enough: {duration_text(left_s)} more"
        case.open.append(f"bit errors: {text}")


def _parts(repaired: Repaired, case: _Case) -> None:
    if repaired.what is Repair.WRONG_PART:
        if case.reject:
            case.reject.insert(0, repaired.lines[0])
        else:
            case.open.append(f"{repaired.lines[0]}; the numbers are good now, and what was named may fail again")
    elif repaired.what is Repair.NOTHING:
        if case.reject:
            case.reject.insert(0, repaired.lines[0])
        else:
            case.notes.append(f"{repaired.lines[0]}: if nothing was cleaned or reseated, the fault may come back")
    elif repaired.what is Repair.UNKNOWN:
        case.notes.append(repaired.lines[0])
    case.notes += [
        f"{one.host}/{one.part}: firmware {one.after.firmware}, peers have {one.peers_firmware}"
        for one in repaired.changes
        if one.odd_firmware and one.after is not None
    ]


def _all_good(weighed: Sequence[Weighed], because: Because) -> str:
    covered = "" if because.quick else ", and no bit errors in the window that is asked for"
    return f"all {len(weighed)} probes that accused it are good now, and so is its suite{covered}"


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
    found: set[str] = set()
    for probe in probes if readmitted else ():
        result = results.get(probe.probe_id)
        if result is not None and result.attempt > 0 and result.outcome not in _TELLS_NOTHING:
            found.update(host for host in probe.hosts if result.ended_s > readmitted.get(host, inf))
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
    courses = {
        reading: _since(course, readmitted[reading.host]) if reading.host in readmitted else course
        for reading, course in samples.courses.items()
    }
    return Samples(samples.every_s, courses)


def _since(course: CounterCourse, at_s: float) -> CounterCourse:
    place = bisect_right(course.at_s, at_s)
    if place in (0, len(course.at_s)):
        return course
    first = max(at_s, course.at_s[place - 1])
    return CounterCourse(
        [first, *course.at_s[place:]], [course.values[place - 1], *course.values[place:]], course.until_s
    )
