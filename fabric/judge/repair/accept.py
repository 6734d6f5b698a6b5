"""Deciding whether a repaired host or link may go back into service, by measuring again what accused it.

Four things count:

- Its limits, its suite and its ports: anything bad rejects it.
- How often it was bad before (``needs``): too few good tests, or none as warm or as late as then, leave it open.
- Its own past and its peers in this run: with three repetitions or more, an interval of the ratio that lies wholly
  below 1 - margin rejects it, even above the limit (``against_recorded``). A median below 1 - margin that may be chance
  is INCONCLUSIVE.
- The serial numbers: if the named part is still there and another one was replaced, good numbers are no proof (the
  fault may come and go), and the answer is INCONCLUSIVE.

ACCEPT also needs a time without bit errors, NVIDIA's 125 minutes at 400 Gb/s (``clean_s``); a quick validation skips
that, and says so. What is not measured is INCONCLUSIVE. A leaf, a spine or a cable between switches has no suite: only
what accused it is measured again, and its ports are read as all ports are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from fabric.judge.locate.candidates import is_above
from fabric.judge.locate.merged import names_of
from fabric.judge.normal.baseline import RecordedRatio, against_recorded, distribution
from fabric.judge.normal.interval import LEAST_SAMPLES
from fabric.judge.normal.keys import floor_of, grouped, key_of, name_of
from fabric.judge.normal.series import number_of
from fabric.judge.ports.health import PortHealth, known_values
from fabric.judge.repair.identity import Repair, Repaired
from fabric.judge.repair.needs import Measured, PartTest, is_as_warm, part_tests, passes_through, switches_of
from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.recorded import Key
from fabric.model.repair import Acceptance, Because, Decided, Decision, Evidence, Need, Weighed
from fabric.model.text import MOST_SHOWN, duration_text, fold, some
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect

Same = tuple[object, ...]


@dataclass(slots=True)
class _Case:
    """The lines that reject the host or link, those that leave it open, and notes that decide nothing."""

    reject: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def narrowed_to(because: Because, name: str, topology: Topology) -> Because:
    """Reduce what accuses several hosts or links to what accuses *name*: each gets a decision of its own."""
    if len(because.names) == 1:
        return because
    passes = passes_through(name, topology) if because.links else (lambda probe: name in probe.hosts)
    evidence = tuple(one for one in because.evidence if passes(one.probe))
    hosts, links = ((), (name,)) if because.links else ((name,), ())
    suspects = tuple(one for one in because.suspects if because.links or name in one.hosts)
    parts = names_of(suspects)
    needs = tuple(one for one in because.needs if one.part in parts or Part.of(one.part).host == name)
    return replace(because, evidence=evidence, suspects=suspects, needs=needs, hosts=hosts, links=links)


def accept(because: Because, run: Measured, ports: Sequence[PortHealth], repaired: Repaired) -> Acceptance:
    """Decide on one host or link; *ports* are those of the host that could be read."""
    case, is_host = _Case(notes=list(because.notes)), not because.links
    blamed = _beside_links(because, run) if because.links else _blamed(because, run)
    elsewhere = _elsewhere(because, blamed, run.topology)
    own = replace(run, probes=[probe for probe in run.probes if not elsewhere(probe)])
    weighed = tuple(_weighed(because, run, elsewhere))
    _evidence(weighed, case)
    if blamed.others:
        names = fold([one.component for one in blamed.others])
        case.notes.append(f"{names} was found bad, and is not {' or '.join(because.names)}")
    if is_host:
        _suite(because, run, blamed, elsewhere, case)
    _links(because, run, case)
    if is_host:
        _bit_errors(because, run.topology, ports, case)
        _parts(repaired, case)
    _needs(because.needs, own, case)
    if not run.complete:
        case.open.append("the run has not reached its end: what it did not reach is not judged; fabric resume goes on")
    decision = Decision.REJECT if case.reject else Decision.INCONCLUSIVE if case.open else Decision.ACCEPT
    suite = ", and so is its suite" if is_host else ""
    bits = ", and no bit errors in the window that is asked for" if is_host and not because.quick else ""
    good = f"all {len(weighed)} probes that accused it and were measured again are good now{suite}{bits}"
    reasons = tuple([*case.reject, *case.open]) or (good,)
    return Acceptance(
        decision=decision,
        hosts=because.names,
        because=because.run,
        reasons=reasons,
        notes=tuple(case.notes),
        weighed=weighed,
        parts=repaired.lines if is_host else (),
        watched_s=min((port.ber.watched_s for port in ports if port.ber is not None), default=None),
        quick=because.quick,
        each=tuple(Decided(name, decision, reasons) for name in because.names),
    )


_WORST_FIRST = (Decision.REJECT, Decision.INCONCLUSIVE, Decision.ACCEPT)


def together(found: Sequence[Acceptance]) -> Acceptance:
    """Merge the decisions on several hosts or links into one page, the worst first, each reason with its name."""
    if len(found) == 1:
        return found[0]
    ranked = sorted(found, key=lambda one: _WORST_FIRST.index(one.decision))
    return replace(
        ranked[0],
        hosts=tuple(name for one in found for name in one.hosts),
        reasons=tuple(f"{fold(one.hosts)}: {text}" for one in ranked for text in one.reasons),
        notes=tuple(dict.fromkeys(_with_name(text, ranked, one) for one in ranked for text in one.notes)),
        weighed=tuple({row.label: row for one in found for row in one.weighed}.values()),
        parts=tuple(f"{fold(one.hosts)}: {text}" for one in found for text in one.parts),
        watched_s=min((one.watched_s for one in found if one.watched_s is not None), default=None),
        each=tuple(decided for one in ranked for decided in one.each),
    )


def _with_name(note: str, every: Sequence[Acceptance], one: Acceptance) -> str:
    """Return a note with the name that it is said of, unless it is said of all."""
    return note if all(note in other.notes for other in every) else f"{fold(one.hosts)}: {note}"


_Elsewhere = Callable[[Probe], tuple[str, ...]]
"""Returns in words the bad parts on a probe's way that are not of what was repaired; empty: there are none."""


def same(probe: Probe) -> Same:
    """Return a key that is equal for probes of the same thing on the same hosts, in any phase and repetition."""
    sizes = probe.params.get("sizes_bytes", probe.params.get("size_bytes"))
    return probe.kind, name_of(probe), probe.hosts, str(probe.params.get("series")), sizes


def _weighed(because: Because, run: Measured, elsewhere: _Elsewhere) -> Iterator[Weighed]:
    verdicts = run.verdicts
    again = grouped((probe for probe in run.probes if probe.phase in run.again), same)
    beside = (one for one in run.probes if one.phase not in run.again and run.repaired.isdisjoint(one.hosts))
    numbers = ((probe, number_of(run.results.get(probe.probe_id))) for probe in beside)
    # Peers: what hosts that were not repaired measured in this run.
    peers = gathered((key_of(probe, one[1], run.topology), one[0]) for probe, one in numbers if one is not None)
    for one in because.evidence:
        members = (member.probe_id for member in again.get(same(one.probe), ()))
        found = _weigh_one(one, [(verdicts[name], run.results.get(name)) for name in members], peers, run)
        if (others := elsewhere(one.probe)) and not found.outcome.is_good:
            reason = f"not counted: {', '.join(others)}; validate again when it is well"
            found = replace(found, outcome=Outcome.INCONCLUSIVE, reason=reason)
        yield found


def _weigh_one(
    one: Evidence,
    again: Sequence[tuple[ProbeVerdict, ProbeResult | None]],
    peers: Mapping[Key, Sequence[float]],
    run: Measured,
) -> Weighed:
    measured = [number for _, result in again if (number := number_of(result)) is not None]
    values = [value for value, _ in measured]
    none = ProbeVerdict(one.probe.probe_id, Outcome.INCONCLUSIVE, "not repeated")
    worst = max((verdict for verdict, _ in again), key=lambda verdict: verdict.outcome.rank, default=none)
    outcome, reason = worst.outcome, worst.reason
    limits = [verdict.limit_gbps for verdict, _ in again if verdict.limit_gbps is not None]
    low = [value for value in values if limits and value < limits[0]]
    if low and outcome.is_good:  # the median of the repetitions was good, but single ones dip
        outcome = Outcome.FAIL
        reason = f"{len(low)} of {len(values)} below {limits[0]:.1f} Gb/s, the least {min(low):.1f}"
    if outcome.is_good and len(values) < LEAST_SAMPLES:
        outcome, reason = Outcome.INCONCLUSIVE, f"{len(values)} of {LEAST_SAMPLES} samples that are needed"
    key = key_of(one.probe, measured[0][1] if measured else None, run.topology)
    past, beside = (_against(values, others, key) for others in (one.past_gbps, peers.get(key, ())))
    for found, what in ((past, "its own past"), (beside, "its peers")):
        if found is None or not outcome.is_good or found.ratio >= 1 - floor_of(key.kind):
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
        past=f"{past.ratio - 1:+.1%}" if past else "",
        peers=f"{beside.ratio - 1:+.1%}" if beside else "",
    )


def _against(values: Sequence[float], others: Sequence[float], key: Key) -> RecordedRatio | None:
    """Compare *values* with the distribution of *others*; return None if either are too few to tell."""
    if min(len(values), len(others)) < LEAST_SAMPLES:
        return None
    return against_recorded(values, distribution(key, others))


def _evidence(weighed: Sequence[Weighed], case: _Case) -> None:
    if not weighed:
        case.open.append("nothing that accused it could be measured again")
    left = {one.outcome for one in weighed if not one.outcome.is_good} - {Outcome.FAIL}
    for outcomes, lines, what in (
        ({Outcome.FAIL}, case.reject, "still bad"),
        ({Outcome.MARGINAL}, case.notes, "good, but near a limit or unsteady"),
        (left, case.open, "not told"),
    ):
        if found := [one for one in weighed if one.outcome in outcomes]:
            lines.append(f"{what}: {len(found)} of {len(weighed)} probes that accused it, such as {_example(found)}")


def _example(found: Sequence[Weighed]) -> str:
    """Return a text about the slowest probe: its number before and now."""
    one = min(found, key=lambda one: -1.0 if one.now_gbps is None else one.now_gbps)
    now = "nothing" if one.now_gbps is None else f"{one.now_gbps:.1f} Gb/s"
    reason = one.reason.removeprefix(f"{now}, ") or "good"
    return f"{one.label}: {one.before} before, {now} now: {reason}"


@dataclass(frozen=True, slots=True)
class _Blamed:
    """
    The bad parts: the repaired hosts' *own*, those that they share with others, and *others*, *unsure* ones too.

    Shared is a switch or what is above it, and a pair of hosts of which nobody knows which one it is, unless a part of
    a repaired host is as likely.
    """

    own: Sequence[Suspect] = ()
    shared: Sequence[Suspect] = ()
    others: Sequence[Suspect] = ()
    unsure: Sequence[Suspect] = ()


def _beside_links(because: Because, run: Measured) -> _Blamed:
    """Return the parts of hosts that are bad, or may be, where no switch or cable that was repaired is as likely."""
    topology, ends = run.topology, {end for name in because.links for end in switches_of(name)}
    found = [
        one
        for one in run.verdict.suspects
        if Part.of(one.component).host in topology.hosts
        and not is_above(one.component, topology)
        and ends.isdisjoint(end for name in one.ambiguous_with for end in switches_of(name))
    ]
    bad = [one for one in found if one.outcome is Outcome.FAIL]
    return _Blamed(others=bad, unsure=[one for one in found if one not in bad])


def _blamed(because: Because, run: Measured) -> _Blamed:
    own: list[Suspect] = []
    shared: list[Suspect] = []
    others: list[Suspect] = []
    for one in (suspect for suspect in run.verdict.suspects if suspect.outcome is Outcome.FAIL):
        is_shared = "+" in one.component or is_above(one.component, run.topology)
        mine = not is_shared or _of_its_own(one, because, run.topology)
        (others if set(because.hosts).isdisjoint(one.hosts) else own if mine else shared).append(one)
    return _Blamed(own, shared, others)


def _of_its_own(suspect: Suspect, because: Because, topology: Topology) -> list[str]:
    """Return the parts of the repaired hosts that may be bad just as well."""
    names = suspect.ambiguous_with
    return [name for name in names if Part.of(name).host in because.hosts and not is_above(name, topology)]


def _elsewhere(because: Because, blamed: _Blamed, topology: Topology) -> _Elsewhere:
    """Return what names the bad parts on a probe's way that are not of the repaired hosts: it cannot accuse these."""
    mine = {*because.hosts, *(host for one in blamed.own for host in one.hosts)}
    ways = [
        (_words(one), set(one.hosts) - mine, is_above(one.component, topology), passes_through(one.component, topology))
        for one in (*blamed.shared, *blamed.others, *blamed.unsure)
    ]
    return lambda probe: tuple(
        text for text, hosts, above, passes in ways if not hosts.isdisjoint(probe.hosts) or (above and passes(probe))
    )


def _words(one: Suspect) -> str:
    if one.outcome is Outcome.FAIL:
        return f"{one.component} is bad"
    likely_too = f" (or {some(one.ambiguous_with)})" if one.ambiguous_with else ""
    return f"{one.component} may be bad{likely_too}"


def _suite(because: Because, run: Measured, blamed: _Blamed, elsewhere: _Elsewhere, case: _Case) -> None:
    """Add to *case* what else this run measured on the hosts: their suite."""
    repaired, own = set(because.hosts), blamed.own
    for named in own[:MOST_SHOWN]:
        also = "".join(f" or {name}" for name in _of_its_own(named, because, run.topology)[:1])
        case.reject.append(f"named: {named.component} ({named.kind}){also}: {'; '.join(named.evidence[:1])}")
    for named in blamed.shared[:MOST_SHOWN]:
        what = f"{named.component} ({named.kind}) was found bad: {'; '.join(named.evidence[:1])}"
        case.open.append(f"not told while it is so: {what}; {named.next_step}".removesuffix("; "))
    for silent in run.verdict.suspects:
        if silent.outcome is Outcome.ERROR and not repaired.isdisjoint(silent.hosts):
            what = f"{silent.component} ({silent.kind}): {'; '.join(silent.evidence[:1])}"
            case.open.append(f"not measured: {what}; {silent.next_step}".removesuffix("; "))
    verdicts = run.verdicts
    mine = [probe for probe in run.probes if probe.phase not in run.again and repaired & set(probe.hosts)]
    every = [(probe, verdicts[probe.probe_id]) for probe in mine if not verdicts[probe.probe_id].outcome.is_good]
    instead = _measured_instead(every, mine, run)
    bad = [(probe, one) for probe, one in every if probe.probe_id not in instead]
    case.notes += [f"measured with another neighbour instead: {some(instead)}" for _ in instead[:1]]
    for probe, one in bad if not own else ():
        if one.outcome is Outcome.FAIL and not elsewhere(probe):
            case.reject.append(f"bad: {probe.probe_id}: {one.reason}")
    for (kind, phase, outcome), found in grouped(bad, lambda b: (b[0].kind, b[0].phase, b[1].outcome)).items():
        if outcome is not Outcome.FAIL or not case.reject:
            first = found[0][1]
            text = f"{len(found)} {kind} of {phase}, such as {first.probe_id}: {first.reason}"
            case.open.append(f"{outcome.name}: {text}")
    unwell = {host for one in run.verdict.suspects if one.outcome.rank >= Outcome.ERROR.rank for host in one.hosts}
    if beside := unwell.intersection(host for probe, _ in bad for host in probe.hosts) - repaired:
        case.open.append(f"{fold(sorted(beside))} beside it is bad or does not answer: validate again when it is well")
    del case.reject[2 * MOST_SHOWN :]


def _measured_instead(bad: Sequence[tuple[Probe, ProbeVerdict]], mine: Sequence[Probe], run: Measured) -> Sequence[str]:
    """Return the probes that were not run, and in place of which as many were planned again and measured."""
    verdicts = run.verdicts
    lost = grouped(
        (probe for probe, one in bad if not one.ran and len(probe.hosts) > 1), lambda one: (one.kind, one.phase)
    )
    ran = Counter((one.kind, one.phase) for one in mine if one.probe_id in run.added and verdicts[one.probe_id].ran)
    return [one.probe_id for key, probes in lost.items() if len(probes) <= ran[key] for one in probes]


def _needs(needs: Sequence[Need], run: Measured, case: _Case) -> None:
    """Add to *case* whether the parts have shown enough; equal lacks of several parts become one line."""
    lacking: list[tuple[str, str]] = []
    for need in needs:
        errors = {one.probe_id for one in run.verdict.probes if one.outcome is Outcome.ERROR}  # tell nothing of it
        tests = [one for one in part_tests(need.part, run, lost=need.lost) if one.probe.probe_id not in errors]
        bad = [one.probe.probe_id for one in tests if one.bad]
        if not bad:
            lacking += ((text, need.part) for text in _lacking(need, tests, run))
        elif not case.reject:
            case.reject.append(f"{need.part}: bad in {len(bad)} of {len(tests)} tests, such as {bad[0]}")
    parts_lacking = gathered(lacking)
    case.open += [f"{' or '.join(parts[:MOST_SHOWN])} {text}" for text, parts in parts_lacking.items()]
    cleared = [one.part for one in needs if one.tests > LEAST_SAMPLES]
    if cleared and not (parts_lacking or case.reject):
        case.notes.append(f"{' and '.join(cleared[:MOST_SHOWN])}: as many good tests as tell (95 %) that it is well")


def _lacking(need: Need, good: Sequence[PartTest], run: Measured) -> Iterator[str]:
    """Yield what a part that is good now has not shown yet, with the time that it takes."""
    if len(good) < need.tests:
        each_s = [one.probe.duration_s for one in good if one.probe.phase in run.again]
        takes = f": {duration_text(fmean(each_s) * (need.tests - len(good)))} more" if each_s else ""
        text = f"{need.tests:,} good ones would tell that it is not so any more, {len(good):,} were measured"
        yield f"was bad in {need.bad} of {need.of} tests: {text}{takes}"
    if need.warm_c is None and not need.after_s:
        return
    began_s = min((one.at_s for one in good), default=0.0)
    telling = [one for one in good if one.at_s - began_s >= need.after_s]
    what = "it had become worse gradually"
    if need.warm_c is not None:
        module = run.module(Part.of(need.part))
        telling = [one for one in good if is_as_warm(module, one.at_s, need.warm_c)]
        known = known_values(module)
        now = f"{max(known):.0f} C at most now" if known else "not read now"
        what = f"its module was at {need.warm_c:.0f} C, which was {now}"
    if len(telling) < LEAST_SAMPLES:
        least = f"{LEAST_SAMPLES} good tests then; {len(telling)} were measured"
        yield f"was bad when {what}: that takes {duration_text(need.after_s)}, and {least}"


def _bit_errors(because: Because, topology: Topology, ports: Sequence[PortHealth], case: _Case) -> None:
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


def _links(because: Because, run: Measured, case: _Case) -> None:
    """Add to *case* what hosts and switches counted at both ends of the repaired links; unread ends leave it open."""
    own = (*because.links, *(f"{name}/" for name in because.hosts))
    theirs = [
        one
        for one in run.verdict.components
        if one.component in own or (one.component.startswith(own) and Part.of(one.component).is_port)
    ]
    for outcome, lines in ((Outcome.FAIL, case.reject), (Outcome.MARGINAL, case.notes)):
        texts = [f"{one.component}: {one.reason}" for one in theirs if one.outcome is outcome and one.reason]
        lines += texts[:MOST_SHOWN]
    covered = run.verdict.links
    if covered is None or covered.whole < covered.cables:
        text = "nobody looked at both ends of its cables" if covered is None else str(covered)
        (case.notes if because.quick else case.open).append(f"links: {text}")


_MAY_COME_BACK = {
    Repair.WRONG_PART: "; the numbers are good now, and what was named may fail again",
    Repair.NOTHING: ": if nothing was cleaned or reseated, the fault may come back",
}


def _parts(repaired: Repaired, case: _Case) -> None:
    again = _MAY_COME_BACK.get(repaired.what)
    if again and case.reject:
        case.reject.insert(0, repaired.lines[0])
    elif again:
        (case.open if repaired.what is Repair.WRONG_PART else case.notes).append(f"{repaired.lines[0]}{again}")
    elif repaired.what is Repair.UNKNOWN:
        case.notes.append(repaired.lines[0])
    case.notes += [
        f"{one.host}/{one.part}: firmware {one.after.firmware}, peers have {one.peers_firmware}"
        for one in repaired.changes
        if one.odd_firmware and one.after is not None
    ]
