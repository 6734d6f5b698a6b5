"""The verdict of a run: probes judged, suspects named, one outcome per component, one for the whole."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from fabric.judge.changes.effects import windows_report
from fabric.judge.changes.expectations import alterations, as_altered, covered, judge_expectations, state_text, unblamed
from fabric.judge.course.rows import rounds_not_run, too_few_rounds
from fabric.judge.locate.candidates import not_above
from fabric.judge.locate.gpus import with_bad_gpus
from fabric.judge.locate.merged import merged, names, names_of, without_mistakes
from fabric.judge.normal.keys import begun, grouped, rnics_of, taking_part
from fabric.judge.normal.kinds import accusing_nobody, congestion_lines
from fabric.judge.ports.congested import excuse_congested
from fabric.judge.ports.verdict import SeenCounters, port_findings
from fabric.judge.training import impact_of
from fabric.judge.verdict.probes import Judge, as_confirmed, confirmed, measured_again
from fabric.model.change import Changes
from fabric.model.outcome import Outcome, Reason, ReasonKind, note
from fabric.model.part import PORT, Part
from fabric.model.probe import CURVE, Probe, Results
from fabric.model.scenario import Expectation, Phase
from fabric.model.text import MOST_SHOWN, fold, gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import (
    CAME_BACK,
    ComponentVerdict,
    ExpectationVerdict,
    ProbeVerdict,
    Recurrence,
    Suspect,
    Verdict,
    Verdicts,
)
from fabric.probes import pairwise, routes
from fabric.probes.loopback import LoopbackSpec

if TYPE_CHECKING:
    from fabric.judge.course.located import Course
    from fabric.judge.locate.pairs.in_verdict import PairFindings


_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def common_reasons(reasons: Iterable[str]) -> list[str]:
    """
    Group reasons that differ only in numbers; return the first of each group and how many more there are.

    The largest groups come first, ``MOST_SHOWN`` at most; one last line counts the probes of all other groups.
    """
    sorts = grouped(reasons, lambda reason: _NUMBER.sub("#", reason))
    frequent = sorted(sorts.values(), key=len, reverse=True)
    lines = []
    for members in frequent[:MOST_SHOWN]:
        # Two identical reasons get no count: there is nothing more to look up.
        others = len(set(members)) - 1 if len(members) == 2 else len(members) - 1
        more = f" … and {others} more probe{'' if others == 1 else 's'} for the same reason" if others else ""
        lines.append(members[0] + more)
    rest = sum(map(len, frequent[MOST_SHOWN:]))
    return lines + ([f"and {rest} more, in verdict.json"] if rest else [])


NOT_REACHED = "not reached"
_MOST_SKIPPED = 3
"""If more kinds of probes were skipped, only their reasons are listed (a choice: the hosts left out say the rest)."""


def conclude(
    probes: Sequence[Probe],
    results: Results,
    *,
    topology: Topology,
    judge: Judge,
    notes: Sequence[Reason] = (),
    phases: Sequence[Phase] = (),
    expect: Sequence[Expectation] = (),
    changes: Changes = (),
    seen: SeenCounters | None = None,
) -> Verdict:
    """
    Judge a run: each probe by itself, then the parts that explain bad probes, then the expectations of the scenario.

    *seen* are the counters that were read; if None, the verdict says nothing of ports or of the impact on training.

    A planned probe without a result is INCONCLUSIVE: the run ended before it, and that is no pass. Each UNPLANNED one
    of *notes* names something that was asked for and could not be planned: it is SKIPPED, and no pass either. *expect*
    is judged over *phases*; ``changes/expectations.py`` says how the probes of altered phases count. A change that was
    not made as asked, or may still be live, makes the run an ERROR.
    """
    judged = judge.judge([(probe, result) for probe in probes if (result := results.get(probe.probe_id)) is not None])
    missing = (probe.probe_id for probe in probes if probe.probe_id not in results)
    judged += (ProbeVerdict(name, Outcome.INCONCLUSIVE, NOT_REACHED) for name in missing)
    verdicts: Verdicts = {one.probe_id: one for one in judged}
    verdicts = with_bad_gpus(probes, without_mistakes(probes, verdicts, topology), topology)

    altered = alterations(changes)
    blameless = unblamed(probes, verdicts, altered) | accusing_nobody(probes, results)
    telling = [probe for probe in probes if probe.probe_id not in blameless] if blameless else probes
    seen = seen or SeenCounters()
    found = _explained(telling, verdicts, results, topology, phases, seen)
    explained = verdicts | found.verdicts
    explained |= {name: one.with_recurrence() for name, one in explained.items() if one.recurrence is not None}
    ports = port_findings(seen, probes, explained, found.suspects, results, topology, changes)
    # A good probe clears no component if the fabric was bad on purpose while it ran.
    of_parts = {**found.verdicts, **{name: ProbeVerdict(name, Outcome.INCONCLUSIVE, "") for name in blameless}}
    components = {one.component: one for one in _components(probes, of_parts, ports.suspects)}

    verdicts = as_altered(probes, dict(ports.probes), results, altered, covered(expect, phases, probes))
    expectations = judge_expectations(expect, phases, probes, results, changes)
    counted, hall = probes, None
    if any(CURVE in probe.params for probe in probes):
        from fabric.judge.hall import hall_of, is_only_shown  # loads numpy: only if there is a curve

        hall = hall_of(probes, verdicts, topology)
        counted = [probe for probe in probes if not is_only_shown(probe, verdicts[probe.probe_id])]
    outcomes = [
        *(verdicts[probe.probe_id].outcome for probe in counted),
        *(found.outcome for found in expectations),
        *(Outcome.SKIPPED for one in notes if one.kind is ReasonKind.UNPLANNED),
        *(outcome for outcome, _ in (found.pairs.open if found.pairs else ())),
        *(Outcome.ERROR for result in changes if result.state != "reverted"),
        *(Outcome.FAIL for _ in found.course.found),
        *ports.outcomes,
        *(() if probes else (Outcome.INCONCLUSIVE,)),  # ports of a run that measures nothing make no pass
    ]
    accused = {host for one in ports.suspects for host in (one.component, Part.of(one.component).host)}
    reasons = [
        *(Reason(f"FAIL: {one.suspect.component}: {one.text}") for one in found.course.found),
        *map(Reason, _change_reasons(changes)),
        *map(Reason, _expectation_reasons(expectations)),
        *map(Reason, _reasons(counted, verdicts, blameless, results)),
        *(found.pairs.lines(looked=ports.links is not None and ports.links.is_whole) if found.pairs else ()),
        *(one if one.kind is ReasonKind.NOTE else Reason(f"SKIPPED: {one.text}") for one in notes),
        *ports.reasons,
        *found.course.lines(accused),
        *map(note, (*rounds_not_run(phases, probes, results), *too_few_rounds(phases))),
        *map(note, (*congestion_lines(probes, results, topology), *found.shared)),
        *map(note, not_above(probes, results, topology)),
    ]
    effects = windows_report(phases, probes, results, changes)
    return Verdict(
        outcome=Outcome.worst(outcomes),
        reasons=tuple(reasons),
        suspects=tuple(ports.suspects),
        components=tuple({**components, **ports.components}.values()),
        probes=tuple(verdicts[probe.probe_id] for probe in probes),
        expectations=expectations,
        changes=tuple(changes),
        effects=effects,
        training=impact_of(seen, probes, results, phases, topology, ports, changes, effects),
        hall=hall,
        links=ports.links,
    )


@dataclass(frozen=True, slots=True)
class _Explained:
    """
    The verdicts of probes in the light of all other probes, the suspects, and the findings of rounds and of pairs.

    *shared*: lines about probes that were slow because others used the same cable, or that were held back.
    """

    verdicts: dict[str, ProbeVerdict]
    suspects: list[Suspect]
    course: Course
    pairs: PairFindings | None
    shared: Sequence[str]


def _explained(
    probes: Sequence[Probe],
    verdicts: Verdicts,
    results: Results,
    topology: Topology,
    phases: Sequence[Phase],
    seen: SeenCounters,
) -> _Explained:
    """
    Find the suspects, the worst outcome first. Each step explains what the steps before it left unexplained.

    The steps: all rounds of repeated phases together; each host by itself; pairs of hosts plane by plane, given the
    suspects of single hosts; then all other probes, given all suspects so far. Last come pairs that missed their limit
    and that nothing explains (few hosts, or all of them slow). A probe that was slow because others sent accuses
    nobody, where counters show that (RoCE).
    """
    # These load numpy: only if something was measured.
    from fabric.judge.course.located import over_time
    from fabric.judge.locate.concurrency import lossy_class, sharing_lines
    from fabric.judge.locate.suspects import locate

    written: dict[str, Hashable] = {phase.name: phase.repeated for phase in phases}
    refined = {probe.probe_id: verdicts[probe.probe_id] for probe in probes}
    locating = partial(locate, results=results, topology=topology, written=written)
    errors = _still_errors(merged(locating(probes, refined, outcome=Outcome.ERROR).suspects), probes, refined, results)
    course = over_time(probes, results, phases, topology, seen.samples)
    over_rounds = course.located(refined)
    refined = as_confirmed(refined, over_rounds)
    left = [one for one in probes if one.probe_id not in told] if (told := course.told) else probes
    measured = [
        p for p in left if p.kind == pairwise.KIND and p.probe_id in results and not results[p.probe_id].outcome
    ]
    pairs, between, rest = None, with_passed_loopbacks(over_rounds.suspects, probes, refined, results), left
    if measured:
        from fabric.judge.locate.pairs.in_verdict import pair_findings

        alone = [probe for probe in left if len(probe.hosts) == 1]
        own, inside = confirmed(alone, refined, results, topology=topology, written=written)
        stale = loopbacks_before_fault(left, refined, results)
        since = [probe for probe in left if probe.probe_id not in stale]
        pairs = pair_findings(since, results, {**refined, **own}, topology=topology, inside=inside.suspects)
        refined |= pairs.verdicts
        known, old = names_of(between), {rnics_of(probe)[0] for probe in left if probe.probe_id in stale}
        named = [_not_told_from_port(one) if one.component in old else one for one in pairs.suspects]
        between += [one for one in named if one.component not in known]
        rest = [probe for probe in left if probe.probe_id not in pairs.lost]
    known = names_of(between)
    again, inside = confirmed(rest, refined, results, topology=topology, written=written, known=known)
    refined |= again
    named = merge_between_and_inside(between, inside.suspects)
    if pairs is not None:
        suspected = {host for suspect in inside.suspects for host in suspect.hosts}
        open_ = [p for p in measured if p.probe_id not in pairs.verdicts and suspected.isdisjoint(p.hosts)]
        named += locating(open_, refined, outcome=Outcome.FAIL, pairs=True).suspects
    named = without_returned_partners(each_once([*named, *not_of_bad_hosts(errors, named)]), probes)
    beside = [one for one in probes if refined[one.probe_id].recurrence is Recurrence.CONGESTED]
    named = [*lossy_class(beside, probes, refined, results, topology), *named]
    named.sort(key=lambda suspect: -suspect.outcome.rank)
    excused = excuse_congested(probes, refined, named, results, seen.samples, seen.links, topology)
    shared = [*sharing_lines(beside, probes, refined), *excused.lines]
    return _Explained(excused.verdicts, excused.suspects, course, pairs, shared)


def _still_errors(
    suspects: Sequence[Suspect], probes: Sequence[Probe], verdicts: Verdicts, results: Results
) -> list[Suspect]:
    """Drop suspects that are likelier well than bad if all their probes were measured when they were run again."""
    if not suspects:
        return []
    again = measured_again(probes, verdicts, results)
    return [
        one
        for one in suspects
        if one.confidence > 1 / 2 or any(again[name].outcome is Outcome.ERROR for name in one.probes)
    ]


def loopbacks_before_fault(probes: Sequence[Probe], verdicts: Verdicts, results: Results) -> set[str]:
    """
    Return the ids of loopbacks that ran before a fault of their RNIC began: they do not clear the RNIC of it.

    A fault began during the run if pairs of the RNIC in one direction were good before the first one failed.
    """
    pairs: dict[str, list[tuple[float, bool, Outcome]]] = defaultdict(list)
    for probe in probes:
        if probe.kind == pairwise.KIND and probe.probe_id in results:
            for sends, end in zip((True, False), rnics_of(probe), strict=False):
                pairs[end].append((results[probe.probe_id].started_s, sends, verdicts[probe.probe_id].outcome))
    came_s: dict[str, float] = {}
    for end, seen in pairs.items():
        first_s, way = min(((at_s, sends) for at_s, sends, one in seen if one is Outcome.FAIL), default=(inf, True))
        if any(at_s < first_s < inf and sends == way and one.is_good for at_s, sends, one in seen):
            came_s[end] = first_s
    loopbacks = begun((probe for probe in probes if probe.kind == LoopbackSpec.kind), results)
    return {one.probe_id for one, result in loopbacks if result.started_s < came_s.get(rnics_of(one)[0], -inf)}


def with_passed_loopbacks(
    suspects: Sequence[Suspect], probes: Sequence[Probe], verdicts: Verdicts, results: Results
) -> list[Suspect]:
    """
    Return the suspects, with a new next step for an RNIC that was always low while all its loopbacks passed.

    This applies to an RNIC that could not be told from its port. Its loopbacks are those among *probes*. A few
    loopbacks say nothing of a part that only dips now and then, or whose fault began later.
    """
    if not suspects:
        return []
    stale = loopbacks_before_fault(probes, verdicts, results)
    kept = (one for one in probes if one.kind == LoopbackSpec.kind and one.probe_id not in stale)
    loopbacks = grouped(kept, lambda one: rnics_of(one)[0])
    found = []
    for one in suspects:
        mine, item = loopbacks.get(one.component, ()), Part.of(one.component).item
        passed = bool(mine) and all(verdicts[probe.probe_id].outcome is Outcome.PASS for probe in mine)
        text = f"loopback on {item} passed in this run: swap the cable first, then look at the module and the leaf port"
        is_cleared = one.course == "low" and f"{one.component}:{PORT}" in one.ambiguous_with and passed
        found.append(replace(one, next_step=text) if is_cleared else one)
    return found


def _not_told_from_port(one: Suspect) -> Suspect:
    """Add the port of an RNIC to its rivals: its loopbacks ran before the fault, so they do not clear the RNIC."""
    text = (
        f"RNIC {Part.of(one.component).item}, its PCIe link, its port, cable or leaf port: its loopback was measured "
        "before it became bad, and says nothing of it since"
    )
    rivals = (f"{one.component}:{PORT}", *one.ambiguous_with)
    return replace(
        one, confidence=round(one.confidence / 2, 2), evidence=(text, *one.evidence[1:]), ambiguous_with=rivals
    )


def merge_between_and_inside(between: Sequence[Suspect], inside: Sequence[Suspect]) -> list[Suspect]:
    """
    Merge the suspects of pairs and rounds (*between*) with those of single hosts (*inside*), located after them.

    A suspect of *inside* that shares a name or a rival with *between* is the same fault: it stays only if *between*
    names the same component. An INCONCLUSIVE suspect of *between* is dropped if a FAIL of *inside* explains it: one of
    its rivals or, if it spans several hosts, a part of one of them. If a port FAILs and is told apart from its RNIC,
    what pairs say of the RNIC counts for the port, and the port comes first. Where a group of hosts is slow as a whole,
    a leaf of some of them is no reason, unless it is likelier bad than well.
    """
    groups = [set(one.hosts) for one in between if one.kind == "group" and one.outcome is Outcome.FAIL]
    own = [one for one in inside if len(one.hosts) < 2 or one.confidence > 1 / 2]
    inside = [one for one in inside if one in own or not any(set(one.hosts) <= group for group in groups)]
    certain = [one for one in inside if one.outcome is Outcome.FAIL]
    bad = {one.component for one in certain}
    possible = [one for one in not_of_bad_hosts(between, certain) if bad.isdisjoint(one.ambiguous_with)]
    between = [one for one in between if one.outcome is not Outcome.INCONCLUSIVE or one in possible]
    alone = {one.component for one in certain if one.component.removesuffix(f":{PORT}") not in one.ambiguous_with}
    ports = [replace(one, component=port) for one in between if (port := f"{one.component}:{PORT}") in alone]
    between = [one for one in between if f"{one.component}:{PORT}" not in alone]
    known, mine = names_of([*between, *ports]), {one.component for one in (*between, *ports)}
    others = [one for one in inside if known.isdisjoint((one.component, *one.ambiguous_with))]
    down = {one.component for one in ports}  # tools themselves name these ports
    found = [*others, *between, *(one for one in inside if one.component in mine), *ports]
    return sorted(found, key=lambda one: one.component not in down)


def not_of_bad_hosts(suspects: Sequence[Suspect], named: Sequence[Suspect]) -> list[Suspect]:
    """Drop the suspects that span several hosts if one of these hosts has a FAIL of its own in *named*."""
    bad = {host for one in named if one.outcome is Outcome.FAIL and len(one.hosts) == 1 for host in one.hosts}
    return [one for one in suspects if len(one.hosts) == 1 or bad.isdisjoint(one.hosts)]


def each_once(found: Iterable[Suspect]) -> list[Suspect]:
    """Merge suspects of the same part into the first, with the evidence of all; a FAIL absorbs an INCONCLUSIVE."""
    kept: dict[tuple[str, Outcome], Suspect] = {}
    for one in sorted(found, key=lambda one: one.outcome is Outcome.INCONCLUSIVE):
        bad = one.outcome is Outcome.INCONCLUSIVE and (one.component, Outcome.FAIL) in kept
        key = (one.component, Outcome.FAIL if bad else one.outcome)
        first = kept.setdefault(key, one)
        if first is not one:
            kept[key] = replace(
                first,
                confidence=max(first.confidence, one.confidence),
                evidence=tuple(dict.fromkeys((*first.evidence, *(one.evidence[1:2] or one.evidence)))),
                hosts=first.hosts or one.hosts,
                probes=first.probes or one.probes,
                course=first.course or one.course,
            )
    return list(kept.values())


def without_returned_partners(found: Sequence[Suspect], probes: Iterable[Probe]) -> list[Suspect]:
    """Drop each suspect that failed and came back if every such probe also involved another accused host."""
    hosts_of = {probe.probe_id: probe.hosts for probe in probes}
    accused = {host for one in found if one.course != CAME_BACK for host in one.hosts}
    return [
        one
        for one in found
        if one.course != CAME_BACK
        or any(accused.difference(one.hosts).isdisjoint(hosts_of[name]) for name in one.probes)
    ]


def _change_reasons(changes: Changes) -> list[str]:
    """Return a line for each change that may still be live, then one for each that was not made as asked."""
    still = [f"a change may still be live: {state_text(result)}" for result in changes if result.state == "open"]
    others = [result for result in changes if result.state not in ("open", "reverted")]
    return still + [f"{Outcome.ERROR.name}: change {state_text(result)}" for result in others]


def _expectation_reasons(expectations: Sequence[ExpectationVerdict]) -> Iterator[str]:
    """Yield a line for each expectation that did not PASS, the worst first; a ratio is shown with its interval."""
    for found in sorted(expectations, key=lambda found: -found.outcome.rank):
        value, interval = found.number
        number = f"{value} (95 % interval {interval}), " if interval else ""
        if found.outcome is not Outcome.PASS:
            yield f"{found.outcome.name}: expected {found.text}: {number}{found.reason}"


def _reasons(
    probes: Sequence[Probe], verdicts: Verdicts, blameless: AbstractSet[str], results: Results
) -> Iterator[str]:
    """
    Yield one line per kind of probe and outcome that is not a PASS, with the hosts folded.

    Probes that no suspect explains get their reasons below that line: those that are SKIPPED, MARGINAL or
    INCONCLUSIVE, and those of which no suspect is made (*blameless*).
    """
    bad = [probe for probe in probes if verdicts[probe.probe_id].outcome is not Outcome.PASS]
    groups = grouped(bad, lambda probe: (verdicts[probe.probe_id].outcome, probe.kind))
    totals = Counter(probe.kind for probe in probes)
    skipped = [key for key in groups if key[0] is Outcome.SKIPPED]
    left = [one for key in skipped for one in groups.pop(key)] if len(skipped) > _MOST_SKIPPED else []
    for (outcome, kind), members in sorted(groups.items(), key=lambda item: (-item[0][0].rank, item[0][1])):
        hosts = fold(dict.fromkeys(host for probe in members for host in probe.hosts))
        yield f"{outcome.name}: {len(members)} of {totals[kind]} {kind} on {hosts}"
        if outcome in (Outcome.SKIPPED, Outcome.MARGINAL, Outcome.INCONCLUSIVE):
            summaries, explained = _without_limit(members, verdicts), members
        else:
            summaries, explained = {}, [probe for probe in members if probe.probe_id in blameless]
        others = (verdicts[probe.probe_id].reason for probe in explained if probe.probe_id not in summaries)
        yield from (f"  {text}" for text in (*dict.fromkeys(summaries.values()), *common_reasons(others)))
    if left:
        because = {name: one.left_out for name, one in results.items() if one.left_out is not None}
        whys = (str(because.get(probe.probe_id, verdicts[probe.probe_id].reason)) for probe in left)
        yield f"SKIPPED: {len(left)} of {len(probes)} probes of {len(skipped)} kinds"
        yield from (f"  {text}" for text in common_reasons(whys))


def _without_limit(probes: Iterable[Probe], verdicts: Verdicts) -> dict[str, str]:
    """
    Return, by probe id, a summary of the measured probes without a limit of one phase, name and missing limit.

    A group of a single number gets none.
    """
    pairs = [(probe, verdicts[probe.probe_id]) for probe in probes]
    measured = [(probe, one) for probe, one in pairs if one.value_gbps is not None and one.limit_gbps is None]
    groups = grouped(measured, lambda pair: (pair[0].phase, pair[0].params.get("name", pair[0].kind), pair[1].missing))
    found: dict[str, str] = {}
    for (phase, name, missing), members in groups.items():
        # All repetitions of a series carry its median: count one number per series.
        series = {(probe.hosts, probe.params.get("series")): one.value_gbps or 0.0 for probe, one in members}
        values = list(series.values())
        if len(values) > 1:
            mean = fmean(values)
            spread = f", CV {pstdev(values) / mean:.3f}" if mean > 0 else ""
            text = f"{len(values)} measured, mean {gbps_text(mean)}, least {gbps_text(min(values))}"
            text = f"{phase}/{name}: {text}, most {gbps_text(max(values))} Gb/s{spread}; {missing}"
            found |= dict.fromkeys((probe.probe_id for probe, _ in members), text)
    return found


def _components(probes: Sequence[Probe], verdicts: Verdicts, named: Sequence[Suspect]) -> list[ComponentVerdict]:
    """
    Return one verdict per host, RNIC, GPU and memory node that was planned, and per suspect.

    A bad probe does not count against the components that took part in it: only suspects are blamed. A component
    without any good probe is INCONCLUSIVE.
    """
    blamed = {name: suspect for suspect in named for name in names(suspect)}
    ended: dict[str, dict[str, set[Outcome]]] = defaultdict(lambda: defaultdict(set))
    for probe in probes:
        outcome, of_phase = verdicts[probe.probe_id].outcome, ended[probe.phase]
        for part in taking_part(probe):
            of_phase[part].add(outcome)
    found = [ComponentVerdict(name, suspect.outcome, suspect.evidence[0]) for name, suspect in blamed.items()]
    parts = dict.fromkeys(part for of_phase in ended.values() for part in of_phase)
    return found + [_component(part, ended, blamed) for part in parts if part not in blamed]


def _component(
    part: str, ended: Mapping[str, Mapping[str, AbstractSet[Outcome]]], blamed: Mapping[str, Suspect]
) -> ComponentVerdict:
    """Return the verdict of a part from the outcomes of its probes; *ended* has them by phase and part."""
    inside = (f"{part}/", f"{part}-", f"{part}:")
    own = [suspect for name, suspect in blamed.items() if name.startswith(inside)]
    if own:
        worst = Outcome.worst(suspect.outcome for suspect in own)
        return ComponentVerdict(part, worst, f"because of {', '.join(s.component for s in own)}")
    by_phase = {phase: of_phase[part] for phase, of_phase in ended.items() if part in of_phase}
    left_out = [phase for phase, outcomes in by_phase.items() if outcomes == {Outcome.SKIPPED}]
    if left_out:
        return ComponentVerdict(part, Outcome.SKIPPED, f"not measured in {', '.join(left_out)}")
    good = [outcome for outcomes in by_phase.values() for outcome in outcomes if outcome.is_good]
    if good:
        return ComponentVerdict(part, Outcome.worst(good), "")
    return ComponentVerdict(part, Outcome.INCONCLUSIVE, "nothing of it was measured well")


def read_elsewhere(probes: Sequence[Probe], results: Results) -> Results:
    """Turn a failed read of a routing table into a PASS if another host read the same table; the reason names it."""
    asked = [probe for probe in probes if probe.kind == routes.KIND and probe.probe_id in results]
    read = {_table(probe): probe.hosts[0] for probe in asked if results[probe.probe_id].outcome is Outcome.PASS}
    made_up = {}
    for probe in asked:
        result, other = results[probe.probe_id], read.get(_table(probe))
        if result.outcome is not Outcome.PASS and other is not None:
            reason = f"{result.reason}; read on {other} instead"
            made_up[probe.probe_id] = replace(result, outcome=Outcome.PASS, reason=reason, error_host=None, named=None)
    return {**results, **made_up} if made_up else results


def _table(probe: Probe) -> tuple[object, ...]:
    """Return a key for the table that a probe reads: phase, plane and LID (LID 0: who is where)."""
    return probe.phase, probe.params["plane"], probe.params["lid"]
