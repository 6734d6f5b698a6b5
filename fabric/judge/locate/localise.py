"""
From bad probes to the parts that explain them: one slow RNIC seen by ten probes is one suspect, not ten.

``cover.py`` holds the method: which components explain the bad probes, and which others would do so equally well.

Where a tool itself named the part (port down, no such device), that counts first and alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from fabric.judge.locate.candidates import Component, are_about, components_of, named_components_of
from fabric.judge.locate.cover import Explanation, candidates_for, evidence_lines, greedy, rivals_of
from fabric.judge.locate.hosts import by_class, inside_as_a_whole, peer_shares
from fabric.judge.locate.steps import next_step
from fabric.model.outcome import Outcome
from fabric.model.probe import AGAIN, Probe
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect
from fabric.probes import pairwise

_MOST_PROBES = 20

_Judged = tuple[Probe, ProbeVerdict]
_Components = Callable[[Probe, ProbeVerdict], Iterator[Component]]


def suspects(
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    *,
    topology: Topology,
    outcome: Outcome,
    well: Sequence[Probe] = (),
) -> list[Suspect]:
    """
    The components that explain every probe whose outcome is *outcome* (FAIL, or ERROR), most telling first.

    Probes that were skipped, or that ended in the other kind of trouble, count neither for nor against. *well* are
    further probes that went well: they clear what they passed through where a tool named a part as absent or down (a
    leaf is not, if hosts passed through it), or where nothing was measured at all, and say nothing of how fast a part
    is. What was run because one part had dipped is for ``over_time/again.py``: most of it goes through that part, and
    each pair is measured a few times.
    """
    if not any(verdict.outcome is outcome for verdict in verdicts.values()):  # nearly always, and quickly seen
        return []
    probes = [probe for probe in probes if AGAIN not in probe.params]
    bad_hosts = {host for probe in probes if verdicts[probe.probe_id].outcome is outcome for host in probe.hosts}
    if not bad_hosts:
        return []
    uncounted = {Outcome.SKIPPED, Outcome.INCONCLUSIVE, Outcome.ERROR, Outcome.FAIL} - {outcome}
    about = are_about(bad_hosts, topology)
    judged = [
        (probe, verdict)
        for probe in probes
        if about(probe) and (verdict := verdicts[probe.probe_id]).outcome not in uncounted and verdict.ran
    ]
    named = {probe.probe_id for probe, verdict in judged if verdict.outcome is outcome and verdict.named}
    rest = [pair for pair in judged if pair[0].probe_id not in named]
    bad = {probe.probe_id for probe, verdict in rest if verdict.outcome is outcome}
    cleared = [(probe, verdicts[probe.probe_id]) for probe in well if about(probe)] if named or bad else []
    found = _cover(
        [*judged, *cleared], named, lambda probe, verdict: named_components_of(probe, verdict, topology), outcome
    )
    shares: dict[str, float] = {}
    if bad and outcome is Outcome.FAIL:
        classes = by_class(probes, verdicts, topology)
        whole = inside_as_a_whole(classes, topology, bad)
        found += whole.suspects
        bad -= whole.explains
        shares = peer_shares(classes, bad_hosts)
    return found + _cover(rest, bad, lambda probe, _: components_of(probe, topology), outcome, shares, cleared)


def _cover(
    judged: Sequence[_Judged],
    bad: set[str],
    components: _Components,
    outcome: Outcome,
    shares: Mapping[str, float] | None = None,
    cleared: Sequence[_Judged] = (),
) -> list[Suspect]:
    """Suspects until every *bad* probe is explained."""
    if not bad:
        return []
    candidates = candidates_for(judged, bad, components, shares=shares, cleared=cleared)
    by_id = {probe.probe_id: (probe, verdict) for probe, verdict in judged}
    chosen = greedy(candidates, bad)
    rivals = rivals_of(chosen, candidates, bad)
    left = bad - frozenset().union(*(best.bad for best in chosen))
    between = [_between(by_id[name][0]) for name in sorted(left) if _is_failed_pair(*by_id[name])]
    return [
        _suspect(best, others, [by_id[i] for i in sorted(best.bad)], outcome)
        for best, others in zip([*chosen, *between], [*rivals, *([] for _ in between)], strict=True)
    ]


def _is_failed_pair(probe: Probe, verdict: ProbeVerdict) -> bool:
    return probe.kind == pairwise.KIND and verdict.value_gbps is None


def _between(probe: Probe) -> Explanation:
    """A pair test that failed, though others passed through each of its parts: whatever it was is between its ends."""
    a, b = probe.hosts[0], probe.hosts[-1]
    own, other = probe.params["rnic"], probe.params["peer_rnic"]
    text = f"{own} of {a} or {other} of {b}, or what is between them: other pair tests of each went well"
    failed = frozenset({probe.probe_id})
    return Explanation(Component(f"{a}+{b}", "pair", text), bad=failed, own=failed, telling=1, passing_through=1)


def _suspect(best: Explanation, rivals: Sequence[Component], bad: Sequence[_Judged], outcome: Outcome) -> Suspect:
    component = best.component
    said = "failed" if outcome is Outcome.FAIL else "had errors"
    worst_first = sorted(bad, key=lambda pair: (pair[1].value_gbps or 0.0) / (pair[1].required_gbps or 1.0))
    return Suspect(
        component=component.name,
        kind=component.kind,
        outcome=outcome,
        confidence=round((len(best.bad) + 1) / (best.telling + 2) / (1 + len(rivals)), 2),
        evidence=(
            component.text,
            f"{len(best.bad)} of {best.telling} probes that could show it {said}",
            *evidence_lines([(probe.kind, verdict) for probe, verdict in bad]),
        ),
        ambiguous_with=tuple(rival.name for rival in rivals),
        next_step=next_step(
            component.kind,
            outcome,
            bad[0][1].named.condition if bad[0][1].named else None,
            alone=all(len(probe.hosts) == 1 for probe, _ in bad),
        ),
        hosts=tuple(dict.fromkeys(host for probe, _ in bad for host in probe.hosts)),
        probes=tuple(probe.probe_id for probe, _ in worst_first[:_MOST_PROBES]),
    )
