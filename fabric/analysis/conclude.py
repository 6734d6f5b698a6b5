"""The verdict of a run: probes judged, suspects named, one outcome per component, one for the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fabric.analysis.judge import Judge
from fabric.analysis.localise import suspects
from fabric.analysis.together import merged, names, without_mistakes
from fabric.analysis.unjudged import unjudged
from fabric.model.names import fold
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.model.verdict import ComponentVerdict, ProbeVerdict, Suspect, Verdict

NOT_REACHED = "not reached: the run ended before it"

_REASONS = 4  # of one kind and outcome, in the verdict's reasons


def conclude(
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    *,
    topology: Topology,
    judge: Judge,
    notes: Sequence[str] = (),
) -> Verdict:
    """
    Judge everything that was planned.

    A planned probe without a result is INCONCLUSIVE: the run ended before it, and that is no pass. Each of *notes*
    says what was asked for and could not be planned: that is SKIPPED, and no pass either.
    """
    judged = judge.judge((probe, results[probe.probe_id]) for probe in probes if probe.probe_id in results)
    verdicts = {verdict.probe_id: verdict for verdict in judged}
    for probe in probes:
        if probe.probe_id not in verdicts:
            verdicts[probe.probe_id] = ProbeVerdict(probe.probe_id, Outcome.INCONCLUSIVE, NOT_REACHED)
    verdicts = without_mistakes(probes, verdicts, topology)
    named: list[Suspect] = []
    for outcome in (Outcome.FAIL, Outcome.ERROR):
        named += merged(suspects(probes, verdicts, topology=topology, outcome=outcome))
    unplanned = [Outcome.SKIPPED for _ in notes]
    return Verdict(
        outcome=Outcome.worst([verdict.outcome for verdict in verdicts.values()] + unplanned),
        reasons=(*_reasons(probes, verdicts), *(f"SKIPPED: {note}" for note in notes)),
        suspects=tuple(named),
        components=tuple(_components(probes, verdicts, named)),
        probes=tuple(verdicts[probe.probe_id] for probe in probes),
    )


def failed_hosts(probes: Sequence[Probe], results: Mapping[str, ProbeResult], *, judge: Judge) -> dict[str, str]:
    """The gate between phases: hosts that did not pass, and why in a few words."""
    judged = judge.judge((probe, results[probe.probe_id]) for probe in probes)
    bad: dict[str, Counter[tuple[str, str]]] = {}
    for probe, verdict in zip(probes, judged, strict=True):
        if verdict.outcome not in (Outcome.PASS, Outcome.MARGINAL):
            for host in probe.hosts:
                bad.setdefault(host, Counter())[probe.kind, verdict.outcome.value] += 1
    return {
        host: ", ".join(f"{count} {kind} {outcome}" for (kind, outcome), count in sorted(counts.items()))
        for host, counts in bad.items()
    }


def _reasons(probes: Sequence[Probe], verdicts: Mapping[str, ProbeVerdict]) -> list[str]:
    """One line per kind and outcome that is not a pass, with the hosts folded."""
    groups: dict[tuple[int, str, Outcome], list[Probe]] = {}
    for probe in probes:
        outcome = verdicts[probe.probe_id].outcome
        if outcome is not Outcome.PASS:
            groups.setdefault((-outcome.rank, probe.kind, outcome), []).append(probe)
    totals = Counter(probe.kind for probe in probes)
    lines = []
    for (_, kind, outcome), members in sorted(groups.items(), key=lambda item: item[0][:2]):
        hosts = fold(dict.fromkeys(host for probe in members for host in probe.hosts))
        lines.append(f"{outcome.name}: {len(members)} of {totals[kind]} {kind} on {hosts}")
        if outcome in (Outcome.SKIPPED, Outcome.INCONCLUSIVE):
            measured = unjudged(members, verdicts)
            told = {id(probe) for group in measured for probe in group.probes}
            others = (verdicts[probe.probe_id].reason for probe in members if id(probe) not in told)
            lines += [f"  {text}" for text in (*(group.text for group in measured), *_common_reasons(others))]
    return lines


def _common_reasons(reasons: Iterable[str]) -> list[str]:
    """Each reason once, the most frequent first; what no suspect speaks for must be explained here."""
    counted = Counter(reasons).most_common()
    rest = sum(number for _, number in counted[_REASONS:])
    return [text for text, _ in counted[:_REASONS]] + ([f"and {rest} more, in verdict.json"] if rest else [])


def _components(
    probes: Sequence[Probe], verdicts: Mapping[str, ProbeVerdict], named: Sequence[Suspect]
) -> list[ComponentVerdict]:
    """
    One verdict per host, RNIC, GPU and memory node that was planned, and per suspect.

    A component that takes part in a bad probe which a suspect explains is not blamed itself; one of which nothing
    was measured well is INCONCLUSIVE.
    """
    blamed = {name: suspect for suspect in named for name in names(suspect)}
    tally: dict[str, dict[str, set[Outcome]]] = {}
    for probe in probes:
        outcome = verdicts[probe.probe_id].outcome
        for part in _parts(probe):
            tally.setdefault(part, {}).setdefault(probe.phase, set()).add(outcome)
    found = [ComponentVerdict(name, suspect.outcome, suspect.evidence[0]) for name, suspect in blamed.items()]
    for part, by_phase in tally.items():
        if part not in blamed:
            found.append(_component(part, by_phase, blamed))
    return found


def _component(part: str, by_phase: Mapping[str, set[Outcome]], blamed: Mapping[str, Suspect]) -> ComponentVerdict:
    own = [s for name, s in blamed.items() if name.startswith((f"{part}/", f"{part}-", f"{part}:"))]
    if own:
        worst = Outcome.worst(suspect.outcome for suspect in own)
        return ComponentVerdict(part, worst, f"because of {', '.join(s.component for s in own)}")
    left_out = [phase for phase, outcomes in by_phase.items() if outcomes == {Outcome.SKIPPED}]
    if left_out:
        return ComponentVerdict(part, Outcome.SKIPPED, f"not measured in {', '.join(left_out)}")
    good = frozenset().union(*by_phase.values()) & {Outcome.PASS, Outcome.MARGINAL}
    if good:
        return ComponentVerdict(part, Outcome.worst(good), "")
    return ComponentVerdict(part, Outcome.INCONCLUSIVE, "nothing of it was measured well")


def _parts(probe: Probe) -> Iterable[str]:
    yield from probe.hosts
    if probe.kind == "loopback":
        yield f"{probe.hosts[0]}/{probe.params['rnic']}"
        yield f"{probe.hosts[0]}/{probe.params['endpoint']}"
    elif probe.kind == "rnic_to_rnic":
        yield f"{probe.hosts[0]}/{probe.params['rnic']}"
        yield f"{probe.hosts[0]}/{probe.params['peer_rnic']}"
